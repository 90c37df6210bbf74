"""The promises of the contract that must also hold where trusted rows are picked first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gmmatch
from gmmatch.matching.budgets import Weights, share
from gmmatch.selectors import METHODS
from tests.contract.test_selectors import LABELS, N_ROWS, ORDER, ROWS, SIZES, arguments

GUARDED = [name for name, method in METHODS.items() if "guard" not in method.fixed]

# Some rows are far off and some labels are wrong, so that there is something to distrust.
DAMAGED = ROWS.copy()
DAMAGED[::13] += 40.0
WRONG = np.where(np.arange(N_ROWS) % 11 == 0, "ant", LABELS)

every_method = pytest.mark.parametrize("method", GUARDED)


def run(
    method: str, rows: Any = DAMAGED, labels: Any = WRONG, keep: Any = 0.2, order: Any = ..., **more: Any
) -> Any:
    params = {name: value for name, value in arguments(method, order).items() if name != "guard"}
    return gmmatch.select(rows, keep=keep, labels=labels, method=method, guard="auto", **params, **more)


def picks_of(selection: Any, label: str) -> np.ndarray:
    return selection.indices[selection.labels == label]


def test_all_methods_but_the_literal_one_take_a_guard() -> None:
    assert set(METHODS) - set(GUARDED) == {"gm-matching-paper", "gm-matching-authors"}


@every_method
@pytest.mark.parametrize("keep", [3, 0.2, 300, 1.0])
def test_picks_are_exactly_k_unique_rows(method: str, keep: float | int) -> None:
    selection = run(method, keep=keep)
    k = keep if isinstance(keep, int) else round(keep * N_ROWS)
    assert len(np.unique(selection.indices)) == len(selection) == k
    trusted = np.array([(selection.tiers[name == WRONG] == 0).sum() for name in SIZES])
    sizes = Weights(np.array([(name == WRONG).sum() for name in SIZES]))
    first = selection.tiers[selection.indices] == 0
    np.testing.assert_array_equal(
        [(selection.labels[first] == name).sum() for name in SIZES],
        share(sizes, trusted[None], min(k, int(trusted.sum()))),
    )


@every_method
def test_a_row_far_off_is_picked_only_when_nothing_better_is_left(method: str) -> None:
    assert not np.isin(run(method, keep=0.5).indices, np.arange(0, N_ROWS, 13)).any()
    everything = run(method, keep=1.0)
    assert (np.diff((everything.tiers[everything.indices] > 0).astype(int)) >= 0).all()


@every_method
def test_a_smaller_budget_is_a_prefix_of_a_larger_one(method: str) -> None:
    if not METHODS[method].nested:
        pytest.skip("not promised without a guard either")
    everything = run(method, keep=1.0).indices
    for k in (3, 4, 7, 60, 180, 240, 270, 290):
        np.testing.assert_array_equal(run(method, keep=k).indices, everything[:k])


@every_method
def test_without_labels_a_smaller_budget_is_a_prefix_unless_cells_follow_the_budget(method: str) -> None:
    entry = METHODS[method]
    if entry.needs_labels or not entry.nested:
        pytest.skip("needs labels, or promises no prefixes")
    small, large = (run(method, labels=None, keep=keep).indices for keep in (10, 200))
    same = np.array_equal(small, large[:10])
    assert same != entry.clusters
    if entry.clusters:
        small, large = (run(method, labels=None, keep=keep, clusters="off").indices for keep in (10, 200))
        np.testing.assert_array_equal(small, large[:10])


@pytest.mark.parametrize("lift", ["auto", 64])
def test_lifted_picks_of_a_class_do_not_depend_on_the_budget(lift: Any) -> None:
    angles = np.random.default_rng(3).uniform(0, 2 * np.pi, N_ROWS)
    rings = 1.0 + 2.0 * (LABELS[:, None] == np.array(list(SIZES))).argmax(axis=1)
    flat = rings[:, None] * np.c_[np.cos(angles), np.sin(angles)]
    everything = run("gm-matching", flat, keep=1.0, fourier_features=lift)
    assert everything.info.guard["labels"]["classifier"] == "kernel"
    for k in (3, 4, 10, 100, 250):
        picks = run("gm-matching", flat, keep=k, fourier_features=lift).indices
        np.testing.assert_array_equal(picks, everything.indices[:k])


@every_method
def test_without_labels_the_order_of_the_rows_does_not_matter(method: str) -> None:
    entry = METHODS[method]
    if entry.needs_labels or not entry.equivariant:
        pytest.skip("needs labels, or promises no such thing")
    plain = run(method, labels=None).indices
    moved = run(method, DAMAGED[ORDER], None, order=ORDER).indices
    # The same rows; which of the two middle ones `moderate` names first is open.
    np.testing.assert_array_equal(np.sort(ORDER[moved]), np.sort(plain))


@every_method
def test_the_same_seed_gives_the_same_rows_on_any_number_of_threads(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(method)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    again = run(method)
    np.testing.assert_array_equal(again.indices, expected.indices)
    np.testing.assert_array_equal(again.scores, expected.scores)


@every_method
def test_the_order_of_the_rows_does_not_matter(method: str) -> None:
    if not METHODS[method].equivariant:
        pytest.skip("not promised without a guard either")
    moved = run(method, DAMAGED[ORDER], WRONG[ORDER], order=ORDER)
    np.testing.assert_array_equal(np.sort(ORDER[moved.indices]), np.sort(run(method).indices))


@every_method
def test_a_file_gives_the_same_rows_as_memory(method: str, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", DAMAGED)
    source = gmmatch.open(tmp_path / "rows.npy")
    np.testing.assert_array_equal(run(method, source).indices, run(method).indices)
