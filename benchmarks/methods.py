"""Seconds and peak memory of every method, beside yardsticks of the same run.

50,000 x 512 float32 rows in 10 classes at keep 10 %, one process and one JSON row per method:

- ``read_passes``: time as a multiple of reading the file into memory once, from the system's cache;
- ``sum_passes``: time as a multiple of one float32 sum over rows that are in memory already, the least
  that any code can do with every value;
- ``product_bounds``: time as a multiple of one matrix-vector product over the class per pick, which any
  greedy method without a table of all pairs must spend.

Yardsticks and method take turns in one process, and the median of several rounds counts, so that other
load on the machine disturbs both alike. Run with ``python -m benchmarks.methods``; ``--rows 5000`` makes a
quick one, ``--methods easy hard`` a narrow one.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import numpy as np

import gmmatch
from gmmatch.matching.budgets import class_budgets, split
from gmmatch.selectors import METHODS

KEEP = 0.1
ENOUGH_SECONDS = 3.0  # what has taken longer in all is not measured again


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def make(folder: Path, n_rows: int, n_features: int, n_classes: int) -> None:
    """Write clusters of rows, their labels and scores."""
    rng = np.random.default_rng(0)
    labels = rng.integers(n_classes, size=n_rows)
    centers = rng.standard_normal((n_classes, n_features), dtype=np.float32)
    rows = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    rows += centers[labels]
    np.save(folder / "rows.npy", rows)
    np.save(folder / "labels.npy", labels)
    np.save(folder / "scores.npy", rng.random(n_rows))


def products(groups: list[np.ndarray], budgets: np.ndarray, share: float) -> None:
    """Do a share of the matrix-vector products, one over the class per pick."""
    for rows, budget in zip(groups, budgets, strict=True):
        for pick in range(max(1, int(budget * share))):
            rows @ rows[pick]


def measure(folder: Path, method: str, rounds: int) -> dict[str, object]:
    """Run one method and both yardsticks in turns; return the row to print."""
    rows, labels = np.load(folder / "rows.npy"), np.load(folder / "labels.npy")
    params = {"scores": np.load(folder / "scores.npy")} if METHODS[method].needs_scores else {}
    before = peak_mb()
    times = [seconds(lambda: gmmatch.select(rows, KEEP, labels, method, **params))]
    peak = peak_mb()
    groups = [rows[members] for members in split(labels, labels.max() + 1)]
    budgets = class_budgets([len(group) for group in groups], round(KEEP * len(rows)))
    share, reads, sums, bounds = 0.1, [], [], []
    for _ in range(rounds):
        reads.append(seconds(lambda: np.load(folder / "rows.npy")))
        sums.append(seconds(rows.sum))
        if sum(bounds) * share < ENOUGH_SECONDS:
            bounds.append(seconds(lambda: products(groups, budgets, share)) / share)
        if sum(times) < ENOUGH_SECONDS:
            times.append(seconds(lambda: gmmatch.select(rows, KEEP, labels, method, **params)))
    return {
        "method": method,
        "rows": len(rows),
        "features": rows.shape[1],
        "classes": len(groups),
        "keep": KEEP,
        "seconds": round(median(times), 4),
        "extra_peak_mb": round(peak - before, 1),
        "rows_mb": round(rows.nbytes / 2**20, 1),
        "read_pass_seconds": round(median(reads), 4),
        "read_passes": round(median(times) / median(reads), 2),
        "sum_pass_seconds": round(median(sums), 4),
        "sum_passes": round(median(times) / median(sums), 2),
        "product_bound_seconds": round(median(bounds), 3),
        "product_bounds": round(median(times) / median(bounds), 2),
    }


def main() -> None:
    untrained = [name for name, method in METHODS.items() if not method.needs_training]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--methods", nargs="+", default=untrained)
    arguments = parser.parse_args()
    # A fresh process each: peak memory is that of one method alone.
    workers = ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1)
    with tempfile.TemporaryDirectory() as folder, workers as pool:
        data = Path(folder)
        pool.submit(make, data, arguments.rows, arguments.features, arguments.classes).result()
        for method in arguments.methods:
            print(json.dumps(pool.submit(measure, data, method, arguments.rounds).result()), flush=True)


if __name__ == "__main__":
    main()
