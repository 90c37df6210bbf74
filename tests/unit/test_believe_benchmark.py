"""The benchmark of what is believed compares fairly and loses nothing that it measured."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks._believe_page import Found, sections
from benchmarks._believe_parts import Cell, class_shares
from benchmarks._believe_rivals import folds_of, tuned_regression
from benchmarks.believe import Store, measure


def test_shares_are_those_of_the_budget_and_never_beyond_a_class() -> None:
    labels = np.repeat([0, 1, 2], [100, 25, 2])
    equal = class_shares(labels, 30, power=0.0)
    assert equal.tolist() == [14.0, 14.0, 2.0]
    assert class_shares(labels, 127, power=0.5).tolist() == [100.0, 25.0, 2.0]
    root = class_shares(labels, 12, power=0.5)
    assert root.sum() == pytest.approx(12)
    assert root[0] == pytest.approx(2 * root[1])


def test_folds_hold_every_class_that_has_enough_rows() -> None:
    labels = np.repeat([0, 1, 2], [50, 5, 7])
    folds = folds_of(labels, seed=0)
    assert all(set(folds[labels == code]) == set(range(5)) for code in range(3))


def test_the_regression_is_tuned_out_of_fold() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 60)
    rows = rng.normal(size=(120, 40)).astype(np.float32)
    noise = tuned_regression(rows, labels, seed=0)
    assert np.allclose(noise.probabilities.sum(axis=1), 1)
    rows[:, 0] += 6 * labels
    clear = tuned_regression(rows, labels, seed=0)
    assert noise.strength < clear.strength
    assert (clear.probabilities.argmax(axis=1) == labels).mean() > 0.95
    assert abs(float((noise.probabilities.argmax(axis=1) == labels).mean()) - 0.5) < 0.2


def _draw(ours: float, rival: float) -> dict[str, object]:
    return {
        "order": [ours, 0.5],
        "regression": [rival, 0.5],
        "calibration": 0.1,
        "rows": 60,
        "wrong": 0.25,
        "estimate": 0.2,
        "interval": [0.1, 0.3],
    }


def test_a_cell_is_behind_only_beyond_two_paired_standard_errors() -> None:
    noisy = Found("small", "digits", "2 x 30", [_draw(0.8, 0.9), _draw(0.95, 0.9), _draw(0.85, 0.9)])
    steady = Found("small", "digits", "2 x 30", [_draw(0.86, 0.9), _draw(0.85, 0.9), _draw(0.87, 0.9)])
    assert [sections([cell], {}, ["small"])["small"][0][0].met for cell in (noisy, steady)] == [True, False]


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    calls = []

    def ours(draw: int, rivals: dict[str, int]) -> dict[str, int]:
        calls.append(draw)
        return {"ours": rivals["rival"] + draw}

    cell = Cell("small", "set", "cell", 2, ours, lambda draw: {"rival": 10}, after_rivals=True)
    for _ in range(2):
        store = Store(tmp_path / "kept.csv")
        for draw in range(2):
            measure(cell, draw, store, rivals_only=False)
    assert calls == [0, 1]
    assert [draw["ours"] for draw in store.found(cell).draws] == [10, 11]
    assert all("small: set, cell" in line for line in (tmp_path / "kept.csv").read_text().splitlines()[1:])
