"""The same selection on this machine and on Ray workers, from disk: speed-up, overhead, bytes that travel.

``python -m benchmarks.cluster`` makes 2,000,000 x 256 float32 on disk (2 GB) and keeps 10 %, without the
guard: with the local engine held to one core, with one worker and with two. Prints one JSON document.
``--rows 200000,2000000`` measures several sizes, ``--guard`` with the guard, ``--labels 100`` with classes
(20 % of the labels drawn anew),
``--parquet`` with the rows in a Parquet file of row groups of 100,000.

One core means: the process is pinned to one by ``os.sched_setaffinity`` and uses one thread of BLAS, as a
worker does. The seconds of an engine are those of the selection; opening the engine (Ray itself and the
workers' imports) is the start-up, measured apart. Runs take turns, and the best of ``--repeats`` counts:
other work on the machine can only make a run slower. Beside the seconds on the clock stand those that a
process had of a core, which other work touches little: of this process and of each worker, by phase. Their
longest path, the driver's and in each phase those of the busiest worker, is what a run takes on cores of
its own.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

import gmmatch
from gmmatch.compute.blocks import limit_threads
from gmmatch.compute.ray import RayEngine, ray_engine
from gmmatch.data import Dataset
from gmmatch.progress import listen

FEATURES = 256
CHUNK = 100_000


def make(path: Path, n_rows: int, classes: int) -> np.ndarray | None:
    """Write rows of moderate rank to a .npy file, piece by piece; return labels, a fifth of them wrong."""
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((64, FEATURES), dtype=np.float32)
    centers = rng.standard_normal((max(classes, 1), FEATURES), dtype=np.float32) / 2
    truth = rng.integers(0, max(classes, 1), n_rows)
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, FEATURES))
    for start in range(0, n_rows, CHUNK):
        stop = min(start + CHUNK, n_rows)
        latent = rng.standard_normal((stop - start, 64), dtype=np.float32)
        noise = rng.standard_normal((stop - start, FEATURES), np.float32)
        rows[start:stop] = latent @ mixing / 8 + noise + centers[truth[start:stop]]
    rows.flush()
    if not classes:
        return None
    return np.where(rng.random(n_rows) < 0.2, rng.integers(0, classes, n_rows), truth)


def make_parquet(path: Path, rows: np.ndarray, labels: np.ndarray | None) -> None:
    """Write the same rows, and labels, as Parquet."""
    columns = {"vector": pa.list_(pa.float32(), FEATURES)} | ({} if labels is None else {"label": pa.int64()})
    with pq.ParquetWriter(path, pa.schema(list(columns.items()))) as file:
        for start in range(0, len(rows), CHUNK):
            part = pa.array(np.asarray(rows[start : start + CHUNK]).ravel())
            table = {"vector": pa.FixedSizeListArray.from_arrays(part, FEATURES)}
            if labels is not None:
                table["label"] = pa.array(labels[start : start + CHUNK])
            file.write_table(pa.table(table), row_group_size=CHUNK)


@contextmanager
def one_core() -> Any:
    """Hold this process to one core and one thread."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        with threadpool_limits(1), limit_threads(1):
            yield
    finally:
        os.sched_setaffinity(0, cores)


def measure(source: Dataset, engine: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Select, and return the seconds in all, and by phase those of the clock and of each process."""
    phases: dict[str, float] = {}
    cores: dict[str, float] = {}
    workers: dict[str, list[float]] = {}

    @contextmanager
    def listener(name: str, total: int | None) -> Any:
        before = core_seconds(engine) if engine != "local" else []
        started, used = time.perf_counter(), time.process_time()
        yield lambda done: None
        phases[name] = round(phases.get(name, 0.0) + time.perf_counter() - started, 3)
        cores[name] = round(cores.get(name, 0.0) + time.process_time() - used, 3)
        if engine != "local":
            spent = [after - at for at, after in zip(before, core_seconds(engine), strict=True)]
            known = workers.get(name, [0.0] * len(spent))
            workers[name] = [round(one + more, 2) for one, more in zip(known, spent, strict=True)]

    started, used = time.perf_counter(), time.process_time()
    with listen(listener):
        selection = gmmatch.select(source, engine=engine, batch_size="auto", **params)
    seconds, own = time.perf_counter() - started, time.process_time() - used
    return {
        "seconds": round(seconds, 2),
        "core_seconds": round(own, 2),
        "worker_phases": workers,
        "longest_path": round(own + sum(map(max, workers.values())), 2),
        "phases": phases,
        "core_phases": cores,
        "passes": selection.info.reads,
        "load": round(os.getloadavg()[0], 1),
        "selection": selection,
    }


def core_seconds(engine: RayEngine) -> list[float]:
    """Return the seconds of a core that each worker has had."""
    import ray

    members = sorted(engine.members, key=lambda member: member.place)
    asked = [member.handle.__ray_call__.remote(lambda worker: time.process_time()) for member in members]
    return ray.get(asked)


def on_workers(source: Dataset, workers: int, params: dict[str, Any]) -> dict[str, Any]:
    """Select on a cluster of this machine with so many workers, and count what went through the driver."""
    started = time.perf_counter()
    with ray_engine(source, workers=workers) as engine:
        while len(engine.members) < workers:
            list(engine.map(lambda span: time.sleep(0.1), [slice(0, 1)]))
        start_up = time.perf_counter() - started
        before, used = engine.sent + engine.received, core_seconds(engine)
        found = measure(source, engine, params)
        through = engine.sent + engine.received - before
        busy = [round(after - at, 2) for at, after in zip(used, core_seconds(engine), strict=True)]
    kept = len(found["selection"])
    return found | {
        "start_up_seconds": round(start_up, 2),
        "worker_core_seconds": busy,
        "driver_bytes": through,
        "driver_bytes_per_row_kept": round(through / kept, 1),
        "driver_bytes_per_row": round(through / len(source), 2),
    }


def compare(source: Dataset, params: dict[str, Any], repeats: int) -> dict[str, Any]:
    """Measure the three engines in turn, the best of each, and check that their picks are the same."""
    runs: dict[str, list[dict[str, Any]]] = {"local, one core": [], "one worker": [], "two workers": []}
    for _ in range(repeats):
        with one_core():
            runs["local, one core"].append(measure(source, "local", params))
        runs["one worker"].append(on_workers(source, 1, params))
        runs["two workers"].append(on_workers(source, 2, params))
    picks = [run.pop("selection").indices for own in runs.values() for run in own]
    best = {name: min(own, key=lambda run: run["seconds"]) for name, own in runs.items()}
    one, two = best["one worker"]["seconds"], best["two workers"]["seconds"]
    paths = [best[name]["longest_path"] for name in ("one worker", "two workers")]
    return {
        "rows": len(source),
        "kept": len(picks[0]),
        "classes": None if source.labels is None else len(np.unique(source.labels)),
        "guard": params["guard"] == "auto",
        "same_picks": all(np.array_equal(picks[0], other) for other in picks),
        "engines": best,
        "speed_up_of_two_workers": round(one / two, 2),
        "speed_up_of_the_longest_path": round(paths[0] / paths[1], 2),
        "overhead_of_one_worker": round(one / best["local, one core"]["seconds"] - 1, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="2000000")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", type=float, default=0.1)
    parser.add_argument("--labels", type=int, default=0)
    parser.add_argument("--guard", action="store_true")
    parser.add_argument("--parquet", action="store_true")
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        for size in map(int, arguments.rows.split(",")):
            labels = make(path, size, arguments.labels)
            if arguments.parquet:
                columns = path.with_suffix(".parquet")
                make_parquet(columns, np.load(path, mmap_mode="r"), labels)
                source = gmmatch.open(columns, labels="label" if arguments.labels else None, mapped=True)
            else:
                source = gmmatch.open(path, labels=labels)
            params = {"keep": arguments.keep, "guard": "auto" if arguments.guard else "off"}
            results.append(compare(source, params, arguments.repeats))
            path.unlink()
    cores = len(os.sched_getaffinity(0))
    print(json.dumps({"cores": cores, "features": FEATURES, "runs": results}))


if __name__ == "__main__":
    main()
