"""The same bytes of the selection file, wherever the rows are and whoever reads them.

``python -m benchmarks.same_bytes`` makes 150,000 x 32 rows with labels of which some are wrong, as ``.npy``,
as Parquet in row groups of 1,000 and of 100,000, and as Parquet in an S3 server on this machine (the one of
the tests, from moto). Every method that runs on a cluster keeps 2 % of each: here, on a Ray cluster of
one node, and on one of three. Prints the table of docs/scale.md: of each method, how many of the twelve files
have the bytes of the first.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import gmmatch
from gmmatch.compute.ray import ray_engine
from gmmatch.selectors.registry import METHODS

N_ROWS, WIDTH, CLASSES = 150_000, 32, 4
NODES = (1, 3)
Files = dict[str, dict[str, str]]  # of each method, the digest of the file from each place and engine
WORKS: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"`{name}`": (name, {}) for name, entry in METHODS.items() if entry.engine},
    "`gm-matching`, no guard": ("gm-matching", {"guard": "off"}),
    "`gm-matching`, no labels (cells)": ("gm-matching", {"labels": None}),
    "`gm-matching`, lift": ("gm-matching", {"lift": 64}),
}


def make(folder: Path) -> dict[str, tuple[str, Any]]:
    """Write the rows in every form; return where they are, and what to take as labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, N_ROWS)
    rows = rng.normal(size=(N_ROWS, WIDTH)) + 2 * rng.normal(size=(CLASSES, WIDTH))[labels]
    rows = rows.astype(np.float32)
    labels[::9] = 1
    np.save(folder / "rows.npy", rows)
    np.save(folder / "labels.npy", labels)
    values = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), WIDTH)
    found: dict[str, tuple[str, Any]] = {"`.npy`": (str(folder / "rows.npy"), str(folder / "labels.npy"))}
    for size in (1_000, 100_000):
        path = folder / f"rows-{size}.parquet"
        pq.write_table(pa.table({"vector": values, "label": labels}), path, row_group_size=size)
        found[f"Parquet, row groups of {size:,}"] = str(path), "label"
    return found


@contextmanager
def store(path: Path) -> Iterator[str]:
    """Put a file into an object store on this machine; yield its address."""
    from tests.cluster.store import Store

    server = Store()
    before = dict(os.environ)
    os.environ |= server.environment
    try:
        server.put(path, path.name)
        yield f"s3://rows/{path.name}"
    finally:
        os.environ.clear()
        os.environ |= before
        server.close()


@contextmanager
def cluster(nodes: int) -> Iterator[None]:
    """Join a Ray cluster of so many nodes on this machine."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    quiet = {"num_cpus": 2, "object_store_memory": 80 << 20}
    made = Cluster(initialize_head=True, head_node_args=quiet | {"include_dashboard": False})
    for _ in range(nodes - 1):
        made.add_node(**quiet)
    ray.init(address=made.address, log_to_driver=False, logging_level="error")
    try:
        yield
    finally:
        ray.shutdown()
        made.shutdown()


def digest(source: Any, method: str, params: dict[str, Any], engine: Any, folder: Path) -> str:
    """Select, and return a digest of the bytes of the selection file."""
    if "labels" in params:
        source, params = source.replace(labels=None), {}
    gmmatch.select(
        source, method=method, keep=0.02, random_state=5, engine=engine, output=folder / "kept.parquet",
        overwrite=True, **params,
    )  # fmt: skip
    return hashlib.blake2b((folder / "kept.parquet").read_bytes(), digest_size=8).hexdigest()


def compare(places: dict[str, tuple[str, Any]], engine: str, nodes: int, folder: Path) -> Files:
    """Have every method select from every place on one engine; no nodes: here."""
    found: Files = {}
    for place, (path, labels) in places.items():
        source = gmmatch.open(path, labels=labels, mapped=True)
        print(f"{place}, {engine}", file=sys.stderr, flush=True)
        with ray_engine(source, workers=max(2, nodes)) if nodes else nullcontext("local") as running:
            for work, (method, params) in WORKS.items():
                made = digest(source, method, params, running, folder)
                found.setdefault(work, {})[f"{place}, {engine}"] = made
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        places = make(folder)
        with store(folder / "rows-1000.parquet") as address:
            places["S3"] = address, "label"
            found = compare(places, "local", 0, folder)
            for nodes in NODES:
                with cluster(nodes):
                    there = compare(places, f"Ray, {nodes} node{'s' if nodes > 1 else ''}", nodes, folder)
                found = {work: files | there[work] for work, files in found.items()}
    print("| method | files | with the bytes of the first | others |\n|---|---|---|---|")
    for work, files in found.items():
        first = next(iter(files.values()))
        others = [where for where, made in files.items() if made != first]
        print(f"| {work} | {len(files)} | {len(files) - len(others)} | {'; '.join(others) or 'none'} |")


if __name__ == "__main__":
    main()
