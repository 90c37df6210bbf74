"""One-pass selection from disk: time against a plain read pass, memory, quality, growth.

``python -m benchmarks.streaming`` makes 1,000,000 x 512 float32 on disk and keeps 10 %, then 250k, 500k
and 2M rows. Prints one JSON document. ``--sizes 100000,200000`` makes a quick one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

FEATURES = 512


def make(path: Path, n_rows: int) -> None:
    """Write rows of moderate rank to a .npy file, piece by piece."""
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((64, FEATURES), dtype=np.float32)
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, FEATURES))
    for start in range(0, n_rows, 50_000):
        stop = min(start + 50_000, n_rows)
        latent = rng.standard_normal((stop - start, 64), dtype=np.float32)
        noise = rng.standard_normal((stop - start, FEATURES), dtype=np.float32)
        rows[start:stop] = latent @ mixing / 8 + noise
    rows.flush()


def read_pass(path: Path) -> float:
    """Return the seconds of reading the file once and adding everything up, the best of three."""
    seconds = []
    for _ in range(3):
        rows = np.load(path, mmap_mode="r")
        started = time.perf_counter()
        for start in range(0, len(rows), 8192):
            rows[start : start + 8192].sum()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def anonymous_memory() -> int:
    """Return the bytes of memory of this process that are not a file's."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


def measure(path: Path) -> dict[str, float]:
    """Select from the file in this process, watching its memory."""
    import gmmatch

    rows = np.load(path, mmap_mode="r")
    one_pass = read_pass(path)
    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], anonymous_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    selection = gmmatch.select(gmmatch.open(path), keep=0.1, guard="off", batch_size="auto")
    seconds = time.perf_counter() - started
    done.set()
    watcher.join()
    median = gmmatch.geometric_median(rows, epsilon=1e-3, sample=100_000).point
    drawn = np.sort(np.random.default_rng(1).choice(len(rows), len(selection), replace=False))
    random = float(np.linalg.norm(rows[drawn].mean(axis=0, dtype=float) - median))
    return {
        "rows": len(rows),
        "kept": len(selection),
        "read_pass_seconds": round(one_pass, 3),
        "seconds": round(seconds, 3),
        "read_passes": round(seconds / one_pass, 1),
        "anonymous_megabytes": round(peak[0] / 1e6),
        "objective": selection.objective,
        "random_objective": random,
        "times_closer_than_random": round(random / selection.objective, 1),
        "epsilon": selection.epsilon,
        "passes": selection.facts.reads,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000000,250000,500000,2000000")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    results = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        for size in map(int, arguments.sizes.split(",")):
            make(path, size)
            command = [sys.executable, "-m", "benchmarks.streaming", "--measure", str(path)]
            results.append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
            path.unlink()
    sizes, seconds = (np.log([result[name] for result in results]) for name in ("rows", "seconds"))
    growth = float(np.polyfit(sizes, seconds, 1)[0]) if len(results) > 1 else None
    print(json.dumps({"runs": results, "growth_exponent": growth and round(growth, 3)}))


if __name__ == "__main__":
    main()
