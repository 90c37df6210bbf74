"""Processes of this machine as an engine: the same picks, lost processes, errors."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import gmmatch
from gmmatch.compute.processes import process_engine
from gmmatch.data import open_dataset
from gmmatch.errors import InvalidParameter, WorkerFailed

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, 1500)
ROWS = RNG.normal(size=(1500, 12)).astype(np.float32)
ROWS[np.arange(1500), LABELS] += 3

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes are started as on Linux")


@pytest.mark.parametrize(
    ("labels", "params"), [(LABELS, {}), (LABELS, {"batch_size": 64, "guard": "off"}), (None, {})]
)
def test_processes_pick_the_same_rows(labels, params, tmp_path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    expected = gmmatch.select(ROWS, labels, keep=0.1, **params)
    for data in (ROWS, tmp_path / "rows.npy"):
        found = gmmatch.select(data, labels, keep=0.1, engine="processes", **params)
        assert found.indices.tolist() == expected.indices.tolist()
        assert found.scores.tolist() == expected.scores.tolist()
        assert found.info.reads == expected.info.reads
        assert found.info.engine == "processes"


def test_a_process_that_is_killed_is_replaced_and_its_work_done_again() -> None:
    source = open_dataset(ROWS)
    with process_engine(source, workers=2) as engine:
        rows = engine.rows
        results = engine.map(
            lambda part: float(rows[part].sum()), [slice(n, n + 10) for n in range(0, 1500, 10)]
        )
        found = [next(results)]
        for _, process in list(engine._processes.values()):
            os.kill(process.pid, signal.SIGKILL)
        found += results
    assert found == [float(ROWS[n : n + 10].sum()) for n in range(0, 1500, 10)]


def test_a_call_that_ends_every_process_is_given_up() -> None:
    with (
        process_engine(open_dataset(ROWS), workers=1) as engine,
        pytest.raises(
            WorkerFailed,
            match=r"4 workers were lost in rows 0 to 10 of .*, the last ended; memory may be short",
        ),
    ):
        list(engine.map(lambda part: os._exit(1), [slice(0, 10)]))


def test_an_error_of_a_call_is_that_of_the_run() -> None:
    def fail(part):
        raise ValueError("nonsense")

    with process_engine(open_dataset(ROWS), workers=1) as engine, pytest.raises(ValueError, match="nonsense"):
        list(engine.map(fail, [slice(0, 10)]))


def test_a_method_that_runs_on_one_machine_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="other engines are for"):
        gmmatch.select(ROWS, LABELS, keep=0.1, method="k-center", engine="processes")
