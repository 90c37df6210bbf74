"""The number of reads that is told is the number of reads that are made, for every method."""

import threading
from typing import Any

import numpy as np
import pytest

import gmmatch
from gmmatch.compute.runner import Threads
from gmmatch.data.rows import View
from gmmatch.location.centers import CENTERS
from gmmatch.selectors import METHODS

N_ROWS, N_CLASSES = 70_000, 10
TRAINED = {"train_config": {"epochs": 1, "batch_size": 4096}}
CHEAP = {
    "k-center": {"keep": 20},
    "facility-location": {"keep": 20, "anchors": 50},
    "optimization": {"keep": 20},
}


def make_rows() -> tuple[np.ndarray, np.ndarray]:
    """Return rows of ten classes, and their labels, some of them wrong."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, N_CLASSES, N_ROWS)
    rows = rng.normal(size=(N_ROWS, 24)) + 1.5 * rng.normal(size=(N_CLASSES, 24))[labels]
    return rows.astype(np.float32), np.where(rng.random(N_ROWS) < 0.05, (labels + 1) % N_CLASSES, labels)


ROWS, LABELS = make_rows()
SCORES = np.random.default_rng(1).random(N_ROWS)


class CountedRows(View):
    """Rows that count how many of them are read, by slices and by numbers."""

    def __init__(self, values: np.ndarray) -> None:
        super().__init__(values.shape, values.dtype)
        self._values, self.read, self._lock = values, 0, threading.Lock()

    def __getitem__(self, key: Any, /) -> np.ndarray:
        found = np.array(self._values[key])
        with self._lock:  # threads read at the same time
            self.read += len(np.atleast_2d(found))
        return found


def cases() -> list[Any]:
    found = []
    for name, method in METHODS.items():
        for labelled in (True, False):
            for guard in ("off", "auto"):
                if (method.needs_labels and not labelled) or (guard == "auto" and "guard" in method.fixed):
                    continue
                words = f"{name}-{'labels' if labelled else 'no labels'}-{guard}"
                found.append(pytest.param(name, labelled, guard, id=words))
    return found


def arguments(method: str, labelled: bool, guard: str) -> dict[str, Any]:
    entry = METHODS[method]
    given: dict[str, Any] = {"method": method, "keep": 0.1, "labels": LABELS if labelled else None}
    if entry.needs_scores:
        given["scores"] = SCORES
    if entry.needs_training:
        given |= TRAINED
    if "guard" not in entry.fixed:
        given["guard"] = guard
    return given | CHEAP.get(method, {})


@pytest.mark.parametrize(("method", "labelled", "guard"), cases())
def test_reads_are_told_planned_and_made(method: str, labelled: bool, guard: str) -> None:
    rows, given = CountedRows(ROWS), arguments(method, labelled, guard)
    runner = Threads(rows)
    found = gmmatch.select(rows, engine=runner, **given)
    counter = runner.count
    assert rows.read - counter.rows in (0, 1)  # the first row is looked at before any read
    assert found.info.reads == counter.reads
    # What is beside the reads: samples and picks; and a read may leave out rows that are not trusted.
    assert (found.info.reads - 1) * N_ROWS < rows.read - counter.gathered <= found.info.reads * N_ROWS + 1
    assert gmmatch.plan(ROWS, **given).reads == found.info.reads


@pytest.mark.parametrize("labels", [LABELS, None], ids=["labels", "no labels"])
def test_the_default_takes_three_reads(labels: np.ndarray | None) -> None:
    assert gmmatch.select(CountedRows(ROWS), keep=0.1, labels=labels).info.reads == 3


@pytest.mark.parametrize("method", ["random", "easy", "hard", "moderate", "stratified", "top-scores"])
@pytest.mark.parametrize("labelled", [True, False])
def test_methods_that_draw_or_rank_take_one_read_to_look_and_at_most_one_to_pick(method, labelled) -> None:
    rows = CountedRows(ROWS)
    gmmatch.select(rows, **arguments(method, labelled, "off"))
    assert rows.read <= 2 * N_ROWS + 1


@pytest.mark.parametrize("center", list(CENTERS))
@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("method", ["easy", "random", "gm-matching", "k-center"])
def test_reads_for_a_centre_that_is_asked_for_are_told(method, labelled, center) -> None:
    rows = CountedRows(ROWS[:3000])
    labels = LABELS[:3000] if labelled else None
    runner = Threads(rows)
    asked = {"method": method, "guard": "off", "center": center, "random_state": 3}
    found = gmmatch.select(rows, keep=0.1, labels=labels, engine=runner, **asked)
    counter = runner.count
    assert rows.read - counter.rows in (0, 1)  # the first row is looked at before any read
    assert found.info.reads == counter.reads


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize(
    "params",
    # Where Fourier features are matched, which the rows decide on, a read more finds their means.
    [{}, {"guard": "off", "batch_size": 64}, {"sample": 200, "batch_size": 64, "fourier_features": "off"}],
)
def test_reads_of_an_estimator_are_told(labelled, params) -> None:
    rows, labels = CountedRows(ROWS[:3000]), LABELS[:3000] if labelled else None
    runner = Threads(rows)
    found = gmmatch.GMMatching(0.1, **params).fit(runner.rows, labels).selection_
    counter = runner.count
    assert rows.read - counter.rows in (0, 1)  # the first row is looked at before any read
    assert (
        found.info.reads
        == counter.reads
        == gmmatch.plan(ROWS[:3000], keep=0.1, labels=labels, **params).reads
    )


def test_reads_for_suspects_and_for_a_report_are_told(tmp_path) -> None:
    for number, outputs in enumerate(({"suspects": "s.csv"}, {"report": "r.html"})):
        rows = CountedRows(ROWS)
        given = {name: tmp_path / f"{number}{file}" for name, file in outputs.items()}
        told = []
        for method in ("gm-matching", "random"):
            asked = {"labels": LABELS, "method": method, "overwrite": True, **given}
            found = gmmatch.select(rows, keep=0.01, **asked)
            told.append((found.info.reads, gmmatch.plan(ROWS, keep=0.01, **asked).reads))
        assert all(made == planned for made, planned in told), told
