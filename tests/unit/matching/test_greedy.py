"""The greedy loop against exact arithmetic, where rounding would decide otherwise."""

from fractions import Fraction

import numpy as np
import pytest

from gmmatch.matching.greedy import Matching, match, match_groups

STEPS = ["residual", "projection"]
KINDS = [np.float32, np.float64]
ROUTES = {"products": 0, "gram": 1 << 30}


def exact_picks(rows, center, quota, step, start):
    """The method in fractions: no rounding at all, the smallest row number wins ties."""
    offsets = [
        [Fraction(float(x)) - Fraction(float(c)) for x, c in zip(row, center, strict=True)] for row in rows
    ]
    theta, left, picks = [Fraction(float(x)) for x in start], list(range(len(rows))), []
    penalties = [sum(m * m for m in row) / 2 if step == "residual" else Fraction(0) for row in offsets]
    for _ in range(quota):
        scores = {
            row: sum(t * m for t, m in zip(theta, offsets[row], strict=True)) - penalties[row] for row in left
        }
        best = min(left, key=lambda row, scores=scores: (-scores[row], row))
        theta = [t - m for t, m in zip(theta, offsets[best], strict=True)]
        left.remove(best)
        picks.append(best)
    return picks


def picked(rows, center, quota, step, start, route):
    state = Matching.begin(center, start)
    found = match(rows, quota, state, step, ROUTES[route])
    assert state.count == quota
    return found[0].tolist(), state, found


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("step", STEPS)
def test_picks_are_those_of_exact_arithmetic(step, dtype, route):
    rows = np.random.default_rng(0).normal(size=(60, 9)).astype(dtype)
    center = rows.mean(axis=0, dtype=float)
    start = np.zeros(9) if step == "residual" else center
    assert picked(rows, center, 60, step, start, route)[0] == exact_picks(rows, center, 60, step, start)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("step", STEPS)
def test_exact_ties_fall_to_the_smallest_row(step, dtype, route):
    """Small whole numbers: every sum is exact, and many rows that differ have one score."""
    rng = np.random.default_rng(1)
    rows = rng.integers(-2, 3, size=(80, 3)).astype(dtype)
    rows = np.concatenate([rows, rows[:20], -rows[:20]])
    zero = np.zeros(3)
    assert picked(rows, zero, 120, step, zero, route)[0] == exact_picks(rows, zero, 120, step, zero)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("step", STEPS)
def test_near_ties_are_those_of_exact_arithmetic(step, route):
    """Copies that differ in the last bits of float32: float32 products cannot tell them apart."""
    rng = np.random.default_rng(2)
    rows = np.repeat(rng.normal(size=(12, 40)).astype(np.float32), 5, axis=0)
    for _ in range(3):
        rows = np.where(rng.random(rows.shape) < 0.3, np.nextafter(rows, np.float32(np.inf)), rows)
    zero = np.zeros(40)
    start = zero if step == "residual" else rows[0].astype(float)
    assert picked(rows, zero, 60, step, start, route)[0] == exact_picks(rows, zero, 60, step, start)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", KINDS)
def test_all_rows_alike_are_picked_in_order(dtype, route):
    rows = np.full((50, 7), 1 / 3, dtype)
    assert picked(rows, np.zeros(7), 50, "residual", np.zeros(7), route)[0] == list(range(50))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("step", STEPS)
def test_one_row(step, dtype, route):
    rows = np.array([[3.0, 4.0]], dtype)
    picks, state, (_, objectives, distances) = picked(rows, np.zeros(2), 1, step, np.zeros(2), route)
    assert (picks, objectives.tolist(), distances.tolist()) == ([0], [5.0], [5.0])
    assert state.theta.tolist() == [-3.0, -4.0]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 1e18), (np.float32, 1e37), (np.float64, 1e140)])
@pytest.mark.parametrize("step", STEPS)
def test_huge_values(step, dtype, size, route):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(40, 5))
    rows[::4] *= size / 10
    rows = rows.astype(dtype)
    zero = np.zeros(5)
    picks = picked(rows, zero, 40, step, zero, route)[0]
    assert picks == exact_picks(rows, zero, 40, step, zero)


@pytest.mark.parametrize("route", ROUTES)
def test_going_on_equals_going_through(route):
    """State carried from batch to batch: the count, the error and what was started from."""
    rows = np.random.default_rng(4).normal(size=(90, 6))
    center, start = np.full(6, 0.1), np.full(6, 2.0)
    state = Matching.begin(center, start)
    before = state.theta
    objectives = []
    picks = []
    for first in (0, 30, 60):
        found = match(rows[first : first + 30], 12, state, "residual", ROUTES[route])
        picks += (found[0] + first).tolist()
        objectives += found[1].tolist()
    np.testing.assert_array_equal(before, start)
    theta = start.copy()
    for turn, row in enumerate(picks):
        theta -= rows[row] - center
        assert objectives[turn] == pytest.approx(np.linalg.norm(start - theta) / (turn + 1), rel=1e-12)
    np.testing.assert_array_equal(state.theta, theta)


def test_progress_is_told_pick_by_pick_without_changing_the_picks(monkeypatch):
    from gmmatch.matching import greedy

    rows = np.random.default_rng(5).normal(size=(200, 8)).astype(np.float32)
    whole = picked(rows, np.zeros(8), 150, "residual", np.zeros(8), "gram")[0]
    monkeypatch.setattr(greedy, "_CALL_VALUES", 1000)
    told = []
    state = Matching.begin(np.zeros(8), np.zeros(8))
    parts = greedy.pick(greedy.prepare(rows, state.center, 150), 150, state, "residual", told.append)[0]
    assert parts.tolist() == whole
    assert told == [5] * 30


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("huge", [False, True])
def test_groups_in_one_call_are_matched_as_one_by_one(step, kind, huge):
    rng = np.random.default_rng(11)
    sizes = np.array([1, 3, 40, 2, 900, 64, 65, 7])
    quotas = np.array([1, 2, 10, 1, 300, 64, 50, 7])
    rows = rng.integers(-3, 4, size=(sizes.sum(), 6)).astype(kind)  # with many ties
    if huge:
        rows[5] *= kind(1e18)  # beyond what products in single precision can tell
    centers, starts = rng.normal(size=(len(sizes), 6)), rng.normal(size=(len(sizes), 6))
    found = match_groups(rows, sizes, quotas, centers, starts, step)
    ends = np.cumsum(sizes)
    for group, (picks, scores, distances) in enumerate(found):
        own, state = (
            rows[ends[group] - sizes[group] : ends[group]],
            Matching.begin(centers[group], starts[group]),
        )
        expected = match(own, int(quotas[group]), state, step, 0)
        np.testing.assert_array_equal(picks, expected[0])
        np.testing.assert_allclose(scores, expected[1], rtol=1e-12)
        np.testing.assert_allclose(distances, expected[2], rtol=1e-12)
