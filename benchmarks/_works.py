"""What `benchmarks.performance` measures: each work is prepared once, and then done once per turn.

``python -m benchmarks._works WORK FOLDER OPTIONS`` is a process of its own that answers every line of its
input by doing the work and writing a line of JSON. It runs with the sources of version 0.2.0 as well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

Work = Callable[[], Any]


def select(
    folder: Path, keep: float = 0.1, labelled: bool = True, loaded: bool = False, **params: Any
) -> Work:
    """Select with the defaults, from the file or from memory."""
    import gmmatch

    rows, labels = folder / "rows.npy", folder / "labels.npy" if labelled else None
    if loaded:
        x, y = np.load(rows), None if labels is None else np.load(labels)
        return lambda: gmmatch.select(x, keep=keep, labels=y, **params)
    return lambda: gmmatch.select(gmmatch.open(rows, labels=labels), keep=keep, **params)


def report(folder: Path) -> Work:
    """Write the page about a selection that is made before."""
    import gmmatch

    try:
        from gmmatch.reporting import summarise, write_report
    except ImportError:  # its name in version 0.2.0
        from gmmatch.report import summarise, write_report
    source = gmmatch.open(folder / "rows.npy", labels=folder / "labels.npy")
    selection = gmmatch.select(source, keep=0.1)
    return lambda: write_report(summarise(selection, source), folder / f"{os.getpid()}.html")


def suspects(folder: Path) -> Work:
    import gmmatch

    rows, labels = _loaded(folder)
    return lambda: gmmatch.suspects(rows, labels)


def cleanlab(folder: Path) -> Work:
    """The workflow of its documentation: probabilities of five folds of a linear model, then the issues."""
    from cleanlab.filter import find_label_issues
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    rows, labels = _loaded(folder)

    def work() -> None:
        guessed = cross_val_predict(LogisticRegression(), rows, labels, cv=5, method="predict_proba")
        find_label_issues(labels, guessed, return_indices_ranked_by="self_confidence")

    return work


def median(folder: Path) -> Work:
    import gmmatch

    rows, _ = _loaded(folder)
    return lambda: gmmatch.geometric_median(rows)


def weiszfeld(folder: Path) -> Work:
    """Plain NumPy, until a step gains less than a millionth of the objective."""
    rows, _ = _loaded(folder)

    def work() -> None:
        point, before = rows.mean(axis=0), np.inf
        while True:
            distances = np.maximum(np.linalg.norm(rows - point, axis=1), 1e-12)
            total = distances.sum(dtype=float)
            if before - total <= 1e-6 * total:
                return
            before = total
            point = (1 / distances) @ rows / (1 / distances).sum()

    return work


def geom_median(folder: Path) -> Work:
    from geom_median.numpy import compute_geometric_median

    rows, _ = _loaded(folder)
    return lambda: compute_geometric_median(rows, skip_typechecks=True)


def blas_loop(folder: Path, keep: float, table: bool) -> Work:
    """Greedy matching by class without any judging: a product per pick, or a table of all products first."""
    rows, labels = _loaded(folder)

    def work() -> None:
        for code in range(labels.max() + 1):
            members = rows[labels == code]
            members -= members.mean(axis=0)
            (_match_by_table if table else _match_by_products)(members, round(keep * len(members)))

    return work


def _match_by_products(offsets: np.ndarray, k: int) -> None:
    penalty = np.einsum("ij,ij->i", offsets, offsets) / 2
    theta = np.zeros(offsets.shape[1], dtype=offsets.dtype)
    for _ in range(k):
        pick = (offsets @ theta - penalty).argmax()
        penalty[pick] = np.inf
        theta -= offsets[pick]


def _match_by_table(offsets: np.ndarray, k: int) -> None:
    products = offsets @ offsets.T
    scores = -np.diagonal(products) / 2
    for _ in range(k):
        pick = scores.argmax()
        scores -= products[pick]
        scores[pick] = -np.inf


def coreax(folder: Path, keep: float) -> Work:
    """Kernel herding with a Gaussian kernel as wide as the median of some distances."""
    import coreax as library
    import jax
    from coreax.kernels import SquaredExponentialKernel, median_heuristic
    from coreax.solvers import KernelHerding

    rows, _ = _loaded(folder)
    width = float(median_heuristic(jax.numpy.asarray(rows[:500])))
    kernel = SquaredExponentialKernel(length_scale=width)
    solver = KernelHerding(round(keep * len(rows)), kernel=kernel, block_size=1024)

    def work() -> None:
        subset, _ = solver.reduce(library.Data(jax.numpy.asarray(rows)))
        jax.block_until_ready(subset.indices.data)

    return work


def apricot(folder: Path, keep: float) -> Work:
    from apricot import FacilityLocationSelection

    rows, _ = _loaded(folder)
    k = round(keep * len(rows))
    return lambda: FacilityLocationSelection(k, "euclidean", optimizer="lazy").fit(rows)


def submodlib(folder: Path, keep: float) -> Work:
    from submodlib import FacilityLocationFunction

    rows, _ = _loaded(folder)

    def work() -> None:
        objective = FacilityLocationFunction(n=len(rows), mode="dense", data=rows, metric="euclidean")
        objective.maximize(round(keep * len(rows)), optimizer="LazyGreedy", show_progress=False)

    return work


def k_means(folder: Path, keep: float) -> Work:
    """The rows nearest to the centres of scikit-learn's k-means."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import pairwise_distances_argmin

    rows, _ = _loaded(folder)
    k = round(keep * len(rows))

    def work() -> None:
        found = MiniBatchKMeans(k, n_init=1, random_state=0).fit(rows)
        pairwise_distances_argmin(found.cluster_centers_, rows)

    return work


def read_pass(folder: Path) -> Work:
    """Add up the mapped file."""
    rows = np.load(folder / "rows.npy", mmap_mode="r")

    def work() -> None:
        for start in range(0, len(rows), 8192):
            rows[start : start + 8192].sum()

    return work


def limit(folder: Path, moved: int, flops: int) -> Work:
    """The seconds of so many bytes at the bandwidth, or operations at the matrix rate, that there is now."""
    cores = len(os.sched_getaffinity(0))
    source = np.ones((cores, 1 << 24), dtype=np.float32)
    target, square = np.empty_like(source), np.ones((2048, 2048), dtype=np.float32)

    def copy() -> None:
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(np.copyto, target, source))

    def work() -> dict[str, float]:
        bandwidth = 2 * source.nbytes / min(_seconds(copy) for _ in range(3))
        rate = 2 * 2048**3 / min(_seconds(lambda: square @ square) for _ in range(3))
        return {
            "seconds": max(moved / bandwidth, flops / rate),
            "bytes_per_second": bandwidth,
            "flops_per_second": rate,
        }

    return work


def python(folder: Path, arguments: list[str]) -> Work:
    """Start Python anew."""
    return lambda: subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


WORKS: dict[str, Callable[..., Work]] = {
    work.__name__: work
    for work in (
        select, report, suspects, cleanlab, median, weiszfeld, geom_median, blas_loop, coreax, apricot,
        submodlib, k_means, read_pass, limit, python,
    )
}  # fmt: skip


def _loaded(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    return np.load(folder / "rows.npy"), np.load(folder / "labels.npy")


def _seconds(work: Work) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def answer(work: Work) -> dict[str, Any]:
    """Do the work once; return its seconds and what else it tells."""
    started = time.perf_counter()
    found = work()
    told: dict[str, Any] = {"seconds": time.perf_counter() - started}
    reads = getattr(getattr(found, "facts", None), "reads", None)
    if reads is not None:
        told["reads"] = round(float(reads), 2)
    return told | (found if isinstance(found, dict) else {})


def main() -> None:
    # What libraries print goes to the standard error, which is kept apart.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    name, folder, options = sys.argv[1:]
    try:
        work = WORKS[name](Path(folder), **json.loads(options))
        print(json.dumps({"ready": True}), file=answers)
        for _ in sys.stdin:
            print(json.dumps(answer(work)), file=answers)
    except Exception as error:  # a peer that fails is a line of the table
        print(json.dumps({"missing": f"{type(error).__name__}: {error}".splitlines()[0]}), file=answers)
        raise


if __name__ == "__main__":
    main()
