"""Picks that teach: the change of the loss, the order of turns, and the mean of the picks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import gmmatch
from gmmatch.matching import teaching
from gmmatch.matching.teaching import Lesson, LinearView, Pool, teach

Matrix = npt.NDArray[np.float64]


def clouds(n_rows: int = 300, width: int = 12, n_classes: int = 3, seed: int = 0) -> tuple[Matrix, Any]:
    """Return rows of classes that overlap, and their classes."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_classes, n_rows)
    return rng.normal(size=(n_rows, width)) + 2.0 * rng.normal(size=(n_classes, width))[codes], codes


def pools_of(rows: Matrix, codes: Any, lesson: Lesson) -> list[Pool]:
    """Return a pool of all rows of each class."""
    found = []
    for code in range(codes.max() + 1):
        own = rows[codes == code]
        found.append(Pool(lesson.view(own), own - own.mean(axis=0), np.zeros(rows.shape[1])))
    return found


def ridge_loss(lesson: Lesson, rows: Matrix, codes: Any, picks: list[int]) -> float:
    """Return the squared loss over all rows of a ridge regression that is fitted to the picks."""
    seen, known = lesson.view(rows), np.eye(codes.max() + 1)[codes] - lesson.mean
    own = seen[picks]
    weights = np.linalg.solve(own.T @ own + teaching._RIDGE * np.eye(own.shape[1]), own.T @ known[picks])
    return (
        float((((seen @ weights - known) ** 2).sum(axis=1) / np.bincount(codes)[codes]).sum())
        * len(codes)
        / len(lesson.mean)
    )


def test_the_scores_are_the_exact_changes_of_the_loss() -> None:
    rows, codes = clouds(120)
    lesson = Lesson.of(rows, codes, 3, 0)
    pools = pools_of(rows, codes, lesson)
    turns = np.arange(20) % 3
    picks: list[int] = []
    for turn in range(1, 21):
        own = pools_of(rows, codes, lesson)
        teach(lesson, own, turns[:turn])
        code = turns[turn - 1]
        numbers = np.flatnonzero(codes == code)
        before = ridge_loss(lesson, rows, codes, picks)
        exact = np.array([ridge_loss(lesson, rows, codes, [*picks, row]) - before for row in numbers])
        pool = pools[code]
        allowed = pool.admissible()
        total = (
            exact / exact[allowed].std()
            + teaching._MEAN_WEIGHT * pool.residuals() / pool.residuals()[allowed].std()
        )
        total[~allowed] = np.inf
        assert own[code].picks[-1] == int(total.argmin())
        pool.take(own[code].picks[-1])
        picks.append(int(numbers[own[code].picks[-1]]))


def test_a_learner_learns_more_from_teaching_picks_than_from_matching_ones() -> None:
    gains = []
    for seed in range(5):
        rows, codes = clouds(600, 30, 4, seed)
        lesson = Lesson.of(rows, codes, 4, 0)
        picks = {
            step: gmmatch.select(
                rows, keep=24, labels=codes, step=step, fourier_features="off"
            ).indices.tolist()
            for step in ("teaching", "residual")
        }
        losses = {step: ridge_loss(lesson, rows, codes, own) for step, own in picks.items()}
        gains.append(losses["residual"] - losses["teaching"])
    assert min(gains) > 0.0


def test_the_error_of_the_mean_still_falls_like_one_over_k() -> None:
    rows, codes = clouds(2000, 20, 2)
    lesson = Lesson.of(rows, codes, 2, 0)
    pools = pools_of(rows, codes, lesson)
    teach(lesson, pools, np.arange(400) % 2)
    for pool in pools:
        longest = np.sqrt(pool.squares.max())
        offsets = np.cumsum(pool.offsets[pool.picks], axis=0)
        # The accumulated error never exceeds the longest row by more than a pick, however many there are.
        assert np.linalg.norm(offsets, axis=1).max() <= 2.0 * longest


def test_leading_directions_hold_most_of_the_variance() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(900, 400)) * np.linspace(3.0, 0.1, 400)
    view, _ = LinearView.of(rows, 0)
    assert view.turn is not None
    seen = (rows - view.origin) @ view.turn
    best = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)[: teaching.MOST_DIRECTIONS]
    assert (seen**2).sum() > 0.97 * (best**2).sum()
    assert view(rows).shape == (900, teaching.MOST_DIRECTIONS + 1)


@pytest.mark.parametrize("batch_size", ["auto", 64])
def test_picks_go_on_from_the_teaching_ones(batch_size: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teaching, "_PICKS_PER_DIRECTION", 2)
    rows, codes = clouds(1200, 10, 2)
    found = gmmatch.select(rows, keep=400, labels=codes, batch_size=batch_size, fourier_features="off")
    assert len(np.unique(found.indices)) == 400
    for code in (0, 1):
        own = rows[found.indices[codes[found.indices] == code]]
        believed = rows[(codes == code) & (found.tiers == 0)]
        assert np.linalg.norm(own.mean(axis=0) - believed.mean(axis=0)) < 0.1
    if batch_size == "auto":
        smaller = gmmatch.select(rows, keep=30, labels=codes, fourier_features="off")
        np.testing.assert_array_equal(smaller.indices, found.indices[:30])
        plain = gmmatch.select(rows, keep=30, labels=codes, fourier_features="off", step="residual")
        assert set(plain.indices) != set(smaller.indices)


def test_a_learner_sees_no_row_longer_than_the_typical_one() -> None:
    rows, codes = clouds()
    view = Lesson.of(rows, codes, 3, 0).view
    far = view(1e3 * rows)[:, :-1]
    np.testing.assert_allclose(np.linalg.norm(far, axis=1), 1.0)
    short = view(rows)[np.linalg.norm(rows - view.origin, axis=1) < view.scale][:, :-1]
    assert (np.linalg.norm(short, axis=1) < 1.0).all()
