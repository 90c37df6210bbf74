"""The bounds of docs/understand/theory.md hold pick by pick, on random data and on hostile data."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.spatial import ConvexHull

import gmmatch
from gmmatch.matching.greedy import Matching, match
from gmmatch.matching.teaching import Lesson, Pool, teach

Matrix = npt.NDArray[np.float64]
ROUNDING = 1 + 1e-9


def ball(offsets: Matrix) -> float:
    """Return the radius of the largest ball about the origin inside the hull; negative if it is outside."""
    return float(-ConvexHull(offsets).equations[:, -1].max())


def clouds() -> dict[str, Matrix]:
    """Return good rows of several shapes."""
    rng = np.random.default_rng(3)
    ring = rng.normal(size=(150, 2))
    return {
        "normal": rng.normal(size=(150, 3)),
        "flat": rng.normal(size=(150, 3)) * [10.0, 1.0, 0.1],
        "heavy tails": rng.standard_t(2, size=(150, 2)),
        "lopsided": rng.exponential(size=(150, 3)) ** 2,
        "ring": ring / np.linalg.norm(ring, axis=1, keepdims=True),
    }


def bad_rows(good: Matrix, kind: str) -> Matrix:
    """Return nearly as many rows as there are good ones, placed against them."""
    rng, count = np.random.default_rng(4), len(good) - 10
    if kind == "near":
        return good[:count] + 5.0
    if kind == "one point":
        return np.full((count, good.shape[1]), 1e6)
    directions = rng.normal(size=(count, good.shape[1]))
    return directions * 10.0 ** rng.uniform(2, 7, size=(count, 1))


@pytest.mark.parametrize("shape", list(clouds()))
@pytest.mark.parametrize("kind", ["near", "one point", "scattered"])
def test_the_accumulated_error_of_the_residual_step_is_bounded_by_the_good_rows(
    shape: str, kind: str
) -> None:
    good = clouds()[shape]
    rows, center = np.vstack([good, bad_rows(good, kind)]), good.mean(axis=0)
    picks = match(rows, 40, Matching.begin(center, np.zeros(rows.shape[1])), "residual")[0]
    offsets, longest = rows - center, float(np.linalg.norm(good - center, axis=1).max())
    theta, smallest, bound = np.zeros(rows.shape[1]), np.inf, longest
    for made, pick in enumerate(picks):
        free = np.setdiff1d(np.arange(len(good)), picks[:made])
        radius, before = ball(offsets[free]), float(np.linalg.norm(theta))
        assert radius > 0, "the data of this test leaves a ball at every pick"
        theta = theta - offsets[pick]
        after = float(np.linalg.norm(theta))
        assert after**2 <= (before**2 - 2 * radius * before + longest**2) * ROUNDING
        smallest = min(smallest, radius)
        bound = max(longest, longest**2 / (2 * smallest))
        assert after <= bound * ROUNDING
    # The corollary, and the error of the mean.
    assert np.linalg.norm(offsets[picks], axis=1).max() <= 2 * bound * ROUNDING
    assert np.linalg.norm(rows[picks].mean(axis=0) - center) <= bound / len(picks) * ROUNDING


@pytest.mark.parametrize("width", [1, 3, 300])
def test_the_mean_is_matched_without_a_ball(width: int) -> None:
    rows = np.random.default_rng(width).standard_t(3, size=(60, width))
    center = rows.mean(axis=0)
    picks = match(rows, 60, Matching.begin(center, np.zeros(width)), "residual")[0]
    longest = np.linalg.norm(rows - center, axis=1).max()
    errors = [np.linalg.norm(rows[picks[:k]].mean(axis=0) - center) for k in range(1, 61)]
    assert all(error <= longest / np.sqrt(k) * ROUNDING for k, error in enumerate(errors, 1))
    assert errors[-1] <= 1e-12 * longest


@pytest.mark.parametrize("shape", list(clouds()))
@pytest.mark.parametrize("kind", ["near", "one point", "scattered"])
@pytest.mark.parametrize("n_bad", [1, 60, 140])
def test_bad_rows_below_one_half_cannot_carry_the_picks_away(shape: str, kind: str, n_bad: int) -> None:
    good = clouds()[shape]
    rows, mean = np.vstack([good, bad_rows(good, kind)[:n_bad]]), good.mean(axis=0)
    median = gmmatch.geometric_median(rows)
    reach = np.linalg.norm(good - mean, axis=1)
    drift = float(np.linalg.norm(median.point - mean))
    assert drift <= (2 * reach.sum() + median.epsilon) / (len(good) - n_bad) * ROUNDING
    for k in (1, 10, len(good)):
        found = gmmatch.select(rows, keep=k, guard="off", step="residual", center="geometric-median")
        away = np.linalg.norm(rows[found.indices].mean(axis=0) - mean)
        assert away <= (reach.max() + 2 * drift) * (1 + 1e-6)


def test_one_far_row_carries_the_projection_step_away() -> None:
    good = clouds()["normal"]
    rows = np.vstack([good, np.full((1, 3), 1e6)])
    away = {}
    for step in ("projection", "residual"):
        picks = gmmatch.select(rows, keep=20, guard="off", step=step, center="geometric-median").indices
        away[step] = np.linalg.norm(rows[picks].mean(axis=0) - good.mean(axis=0))
    assert away["projection"] > 1e4
    assert away["residual"] < 1


@pytest.mark.parametrize("shape", list(clouds()))
@pytest.mark.parametrize("start", [0.0, 30.0])
def test_teaching_picks_keep_the_accumulated_error_bounded(
    shape: str, start: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = clouds()[shape]
    rows = np.vstack([rows, rows + np.arange(1, rows.shape[1] + 1)])
    codes = np.repeat([0, 1], len(rows) // 2)
    lesson = Lesson.of(rows, codes, 2, 0)
    pools = []
    for code in (0, 1):
        own = rows[codes == code]
        pools.append(Pool(lesson.view(own), own - own.mean(axis=0), np.full(rows.shape[1], start)))
    _check_teaching(lesson, pools, monkeypatch)


def _check_teaching(lesson: Lesson, pools: list[Pool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make 40 picks of each class and compare each with the bound."""
    bounds = [
        max(float(np.linalg.norm(pool.theta)), 2 * float(np.sqrt(pool.squares.max()))) for pool in pools
    ]
    smallest, checked = [np.inf, np.inf], 0
    take = Pool.take

    def checked_take(pool: Pool, place: int) -> None:
        nonlocal checked
        which = pools.index(pool)
        radius = ball(pool.offsets[pool.free])
        assert radius > 0, "the data of this test leaves a ball at every pick"
        smallest[which] = min(smallest[which], radius)
        take(pool, place)
        limit = max(bounds[which], float(pool.squares.max()) / smallest[which])
        assert np.linalg.norm(pool.theta) <= limit * ROUNDING
        checked += 1

    monkeypatch.setattr(Pool, "take", checked_take)
    teach(lesson, pools, np.arange(80) % 2)
    assert checked == 80


def test_whatever_the_score_prefers_the_admissible_rows_keep_the_bound() -> None:
    # The worst score there is: always the admissible row that leaves the longest error.
    for rows in clouds().values():
        pool = Pool(np.ones((len(rows), 1)), rows - rows.mean(axis=0), np.zeros(rows.shape[1]))
        longest, smallest = float(np.sqrt(pool.squares.max())), np.inf
        for _ in range(40):
            radius = ball(pool.offsets[pool.free])
            assert radius > 0, "the data of this test leaves a ball at every pick"
            smallest = min(smallest, radius)
            places: Any = np.flatnonzero(pool.admissible())
            pool.take(int(places[pool.residuals()[places].argmax()]))
            assert np.linalg.norm(pool.theta) <= max(2 * longest, longest**2 / smallest) * ROUNDING


def test_the_centre_moves_by_the_share_of_wrong_rows_times_their_distance() -> None:
    rng = np.random.default_rng(8)
    right, wrong = rng.normal(size=(90, 5)), rng.normal(size=(10, 5)) + 3.0
    moved = np.linalg.norm(np.vstack([right, wrong]).mean(axis=0) - right.mean(axis=0))
    assert moved == pytest.approx(0.1 * np.linalg.norm(wrong.mean(axis=0) - right.mean(axis=0)))
