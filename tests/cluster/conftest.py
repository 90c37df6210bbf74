"""A cluster of three nodes on this machine, rows on disk, and what this machine alone picks from them."""

import functools
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmmatch
from gmmatch.compute.ray import ray_engine

N_ROWS, WIDTH = 70_000, 128
PARAMS = {"keep": 0.02, "batch_size": 128, "random_state": 5}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Rows as one file, with labels of which some are wrong, and the same rows as shards of Parquet."""
    where = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, N_ROWS)
    middles = 2.0 * rng.normal(size=(4, WIDTH))
    rows = (rng.normal(size=(N_ROWS, WIDTH)) + middles[labels]).astype(np.float32)
    rows[:3000] += 30.0
    labels[3000:9000] = rng.integers(0, 4, 6000)
    np.save(where / "rows.npy", rows)
    np.save(where / "labels.npy", labels)
    (where / "shards").mkdir()
    for number, start in enumerate(range(0, N_ROWS, 9_999)):
        part = rows[start : start + 9_999]
        values = pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), WIDTH)
        table = pa.table({"vector": values, "label": labels[start : start + 9_999]})
        pq.write_table(table, where / "shards" / f"{number}.parquet", row_group_size=2_000)
    return where


@pytest.fixture(scope="session")
def alone(folder):
    """Return what the local engine picks; each selection is made once."""

    @functools.cache
    def pick(labelled, **params):
        labels = folder / "labels.npy" if labelled else None
        return gmmatch.select(gmmatch.open(folder / "rows.npy", labels=labels), **PARAMS | params)

    return pick


@pytest.fixture(scope="session")
def cluster(store):
    """Three nodes with room for two workers each; a lost one is noticed within seconds."""
    ray = pytest.importorskip("ray", reason="ray is not installed")
    from ray.cluster_utils import Cluster

    noticing = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 500,
        "health_check_timeout_ms": 3000,
        "health_check_failure_threshold": 4,
    }
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    quiet = {"num_cpus": 4, "object_store_memory": 80 << 20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=quiet | {"_system_config": noticing})
    for _ in range(2):
        made.add_node(num_cpus=4, object_store_memory=80 << 20)
    ray.init(address=made.address, log_to_driver=False, logging_level="error")
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="session")
def engine(cluster, folder):
    """One engine for many tests: what was lost in one is replaced before the next."""
    source = gmmatch.open(folder / "rows.npy", labels=folder / "labels.npy")
    with ray_engine(source, workers=3) as opened:
        yield opened


@pytest.fixture(scope="session")
def on_pieces(cluster, folder):
    """The same rows as Parquet, read where they are."""
    source = gmmatch.open(folder / "shards", labels="label", mapped=True)
    with ray_engine(source, workers=3) as opened:
        yield opened


@pytest.fixture(scope="session")
def store(folder):
    """The same rows in an object store, which processes that start from now on can reach."""
    pytest.importorskip("moto", reason="moto is not installed")
    from tests.cluster.store import Store

    server = Store()
    for file in sorted((folder / "shards").iterdir()):
        server.put(file, f"shards/{file.name}")
    before = dict(os.environ)
    os.environ |= server.environment
    yield server
    os.environ.clear()
    os.environ |= before
    server.close()


@pytest.fixture(scope="session")
def in_store(store, cluster):
    source = gmmatch.open("s3://rows/shards", labels="label", mapped=True)
    with ray_engine(source, workers=3) as opened:
        yield opened
