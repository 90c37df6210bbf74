"""The certificate and the steps of the search for a geometric median, against formulas written out."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pytest

import gmmatch
from gmmatch.location.geometric_median import (
    GroupSums,
    Search,
    Visits,
    _kink,
    _secant,
    certify,
    group_medians,
    partial_sums,
)


def bound(rows: np.ndarray, point: np.ndarray, weights: np.ndarray) -> float:
    """Return the certified excess: the gradient times how far the optimum can be, as a share of the rest."""
    offsets = rows - point
    distances = np.linalg.norm(offsets, axis=1)
    apart = distances > 0
    pull = (weights[apart, None] * offsets[apart] / distances[apart, None]).sum(axis=0)
    gradient = max(0.0, float(np.linalg.norm(pull)) - weights[~apart].sum())
    objective = float((weights * distances).sum())
    loss = 2 * gradient * objective / weights.sum()
    return loss / (objective - loss) if loss < objective else np.inf


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("at_a_row", [False, True])
def test_the_certificate_is_the_gradient_times_the_reach_of_the_optimum(seed: int, at_a_row: bool) -> None:
    rng = np.random.default_rng(seed)
    rows, weights = rng.normal(size=(30, 3)), rng.uniform(0.5, 2.0, 30)
    point = rows[4] if at_a_row else 0.3 * rng.normal(size=3)
    found = certify(rows, [point], None, weights)[0]
    assert found.epsilon == pytest.approx(bound(rows, point, weights), rel=1e-9)
    assert (found.point == point).all()
    assert found.objective == pytest.approx((weights * np.linalg.norm(rows - point, axis=1)).sum())
    assert (found.n_iter, found.converged) == (1, False)


def test_a_point_too_far_off_is_certified_as_nothing() -> None:
    rows = np.random.default_rng(0).normal(size=(20, 2))
    assert certify(rows, [np.array([50.0, 0.0])])[0].epsilon == np.inf
    # Of four rows three pull to the right, one to the left: the loss may be 2 * 2 / 4 of the objective.
    assert certify(np.array([[1.0], [1.0], [2.0], [-1.0]]), [np.zeros(1)])[0].epsilon == np.inf
    # Of eight rows four to the right, two to the left, two across: half of it, as much as the rest.
    across = np.array([[0.0, 3], [0, -3], [4, 0], [-1, 0], [9, 0], [1, 0], [2, 0], [-7, 0]])
    assert certify(across, [np.zeros(2)])[0].epsilon == pytest.approx(1.0)


def test_a_point_that_no_row_pulls_away_is_certified_to_rounding() -> None:
    square = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    found = certify(square, [np.zeros(2)])[0]
    assert 0 < found.epsilon < 1e-10
    assert found.converged
    assert certify(np.zeros((3, 2)), [np.zeros(2)])[0].epsilon == 0.0


@pytest.mark.parametrize(("nearest", "counts"), [(6e-8, True), (7e-8, False)])
def test_a_row_too_near_to_matter_counts_as_one_at_the_point(nearest: float, counts: bool) -> None:
    # Four rows at distance one hold the point, so that 1e-6 / 16 is the limit; one row is at the point.
    rows = np.array([[1.0, 0], [-1.0, 0], [0, 1.0], [0, -1.0], [0, 0], [nearest, 0]])
    weights = np.array([1.0, 1, 1, 1, 2, 5])
    found = certify(rows, [np.zeros(2)], None, weights)[0]
    loss = 2 * 5 * nearest
    gradient = 5 - 2
    far = 2 * gradient * found.objective / 11
    expected = loss / (found.objective - loss) if counts else far / (found.objective - far)
    assert found.epsilon == pytest.approx(expected, rel=1e-9, abs=1e-10)


def test_a_step_goes_along_the_pull_as_far_as_the_stiffness_lets_it() -> None:
    rows = np.array([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])
    weights = np.array([2.0, 2.0, 0.5])
    sums = partial_sums(rows, np.zeros((1, 2)), None, weights)
    search = Search(np.zeros((1, 2)), 1e-6, 5)
    search.feed(sums)
    length, stiffness = np.sqrt(8.0), 2 / 3 + 2 / 4
    np.testing.assert_allclose(search.points[0], np.array([2.0, 2.0]) * (length - 0.5) / length / stiffness)
    held = Search(np.zeros((1, 2)), 1e-6, 5)  # a row at the point that is heavier than the pull of the others
    held.feed(partial_sums(rows, np.zeros((1, 2)), None, np.array([2.0, 2.0, 3.0])))
    assert (held.points == 0).all()
    assert held.done.all()


def visit(point: Any, objective: float, move: Any, epsilon: float = 1.0, pull: Any = 0.0) -> Visits:
    place, way, force = (np.atleast_1d(np.asarray(value, np.float64))[None] for value in (point, move, pull))
    return Visits(place, force, np.array([float(objective)]), way, np.array([epsilon]))


def test_moves_that_shrink_by_a_factor_are_followed_to_their_end() -> None:
    assert _secant(visit(0, 9, 1), visit(1, 8, 0.5))[0].tolist() == [2.0]
    assert _secant(visit(0, 9, 3), visit(3, 8, 1.0))[0].tolist() == [4.5]
    assert _secant(visit([0, 1], 9, [4, 0]), visit([4, 1], 8, [1, 0]))[0].tolist() == pytest.approx(
        [16 / 3, 1.0]
    )
    assert _secant(visit(0, 9, 1), visit(5, 8, 1))[0].tolist() == [6.0]  # no change: the plain step


def test_the_kink_is_where_the_tangents_meet() -> None:
    # 10 - 8 s falls, 11 + 12 (s - 1) rises: they meet at 0.55 of the way of 4.
    assert _kink(visit(0, 10, 9, pull=2), visit(4, 11, 0, pull=-3))[0].tolist() == pytest.approx([2.2])
    assert _kink(visit(1, 10, 9, pull=2), visit(5, 11, 0, pull=-3))[0].tolist() == pytest.approx([3.2])
    # Never beyond either of the two; and where nothing rises, the plain step.
    assert _kink(visit(1, 10, 9, pull=2), visit(5, 40, 0, pull=-3))[0].tolist() == [1.0]
    assert _kink(visit(1, 10, 9, pull=2), visit(5, -40, 0, pull=-3))[0].tolist() == [5.0]
    assert _kink(visit(1, 10, 9, pull=2), visit(5, 11, 0, pull=2))[0].tolist() == [10.0]


def test_guesses_that_miss_end_in_a_plain_step_from_the_best_point() -> None:
    search = Search(np.zeros((1, 1)), 1e-6, 50)
    first, second = visit(0, 10, 1), visit(1, 8, 0.5, pull=2)
    assert search._next(first)[0].tolist() == [1.0]
    assert search._next(second)[0].tolist() == [2.0]  # the secant
    miss = visit(2, 9, 0.1, pull=-3)
    for _ in range(2):
        assert search._next(miss)[0].tolist() == _kink(second, miss)[0].tolist()
    assert search._next(miss)[0].tolist() == [1.5]
    # That step is no guess: what it leads to is taken, worse or not.
    assert (
        search._next(visit(1.5, 8.5, 0.25))[0].tolist() == _secant(second, visit(1.5, 8.5, 0.25))[0].tolist()
    )
    assert search.best is not None
    assert search.best.objective == 8.5


def test_a_plain_step_is_no_guess_and_a_guess_as_good_as_the_best_is_no_miss() -> None:
    search = Search(np.zeros((1, 1)), 1e-6, 50)
    search._next(visit(0, 10, 1))
    search._next(visit(1, 11, 0.5, epsilon=2.0))  # after the first step, worse or not
    assert search.best is not None
    assert search.best.objective == 11
    latest = visit(2, 11, 0.1, epsilon=2.0)
    search._next(latest)
    assert search.best is latest


def test_a_guess_with_a_better_certificate_is_taken_although_its_objective_is_worse() -> None:
    search = Search(np.zeros((1, 1)), 1e-6, 50)
    search._next(visit(0, 10, 1))
    search._next(visit(1, 8, 0.5, epsilon=0.5))
    search._next(visit(2, 9, 0.1, epsilon=0.4))
    assert search.best is not None
    assert search.best.objective == 9
    search._next(visit(3, 9.5, 0.1, epsilon=0.4))  # no better: a miss
    assert search.best.objective == 9


def test_a_search_ends_with_its_certificate_or_its_passes() -> None:
    rows = np.random.default_rng(1).normal(size=(50, 3))
    for passes in (1, 2, 5):
        found = gmmatch.geometric_median(rows, epsilon=1e-15, max_iter=passes)
        assert (found.n_iter, found.converged) == (passes, False)
    found = gmmatch.geometric_median(rows, epsilon=1e-3)
    fewer = gmmatch.geometric_median(rows, epsilon=1e-3, max_iter=found.n_iter)
    assert (fewer.n_iter, fewer.converged) == (found.n_iter, True)
    assert not Search(np.zeros((1, 3)), 1e-3, 5).done.any()


@pytest.mark.parametrize("features", [1, 2, 3, 40])
def test_groups_that_are_searched_together_are_found_as_each_alone(features: int) -> None:
    # Groups of one row to nine, with copies, rows far off and weights: some end at once, some after many.
    rng = np.random.default_rng(features)
    codes = rng.permutation(np.repeat(np.arange(90), np.arange(90) // 10 + 1))
    rows, weights = rng.standard_t(1.5, size=(len(codes), features)), rng.uniform(0.2, 3.0, len(codes))
    rows[::7] = rows[1::7][: len(rows[::7])]
    together = group_medians(rows, codes, 90, 1e-9, weights, max_iter=60)
    assert len({found.n_iter for found in together}) > (1 if features == 1 else 5)
    for group, found in enumerate(together):
        own = codes == group
        alone = group_medians(rows[own], None, 1, 1e-9, weights[own], max_iter=60)[0]
        assert found.point.tobytes() == alone.point.tobytes()
        assert astuple(replace(found, point=alone.point))[1:] == astuple(alone)[1:]


def test_the_search_takes_few_passes() -> None:
    total = {"many": 0, "plane": 0, "far": 0}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        total["many"] += gmmatch.geometric_median(rng.normal(size=(100, 200))).n_iter
        total["plane"] += gmmatch.geometric_median(rng.standard_t(2, size=(101, 2))).n_iter
        far = rng.normal(size=(100, 5))
        far[:45] += 1e6
        total["far"] += gmmatch.geometric_median(far).n_iter
    assert total["many"] <= 48
    assert total["plane"] <= 145
    assert total["far"] <= 150


def test_the_visit_keeps_what_the_sums_say() -> None:
    rows = np.array([[3.0, 4.0], [0.0, 0.0]])
    sums = partial_sums(rows, np.zeros((1, 2)))
    seen = Visits.read(np.zeros((1, 2)), sums, 1e-6)
    assert seen.pull[0].tolist() == pytest.approx([0.6, 0.8])
    assert seen.objective.tolist() == [5.0]
    assert seen.move.tolist() == [[0.0, 0.0]]  # the row at the point holds it
    assert 0 < seen.epsilon < 1e-10  # to rounding


def test_rows_that_share_the_smallest_distance_are_added_up_over_blocks() -> None:
    rows = np.array([[1.0, 0], [-1.0, 0], [0, 1.0], [0, -1.0], [3.0, 0]])
    weights = np.array([1.0, 2, 3, 4, 5])
    total = GroupSums.zeros(1, 2)
    for row in (4, 0, 1, 2, 3):
        total.add(partial_sums(rows[[row]], np.zeros((1, 2)), None, weights[[row]]))
    assert total.numbers[0, 4:].tolist() == [1.0, 10.0]
    assert total.nearest_pull[0].tolist() == [-1.0, -1.0]
    assert total.numbers[0, :2].tolist() == [15.0, 25.0]


def test_rows_of_no_group_pull_at_no_point() -> None:
    rng = np.random.default_rng(3)
    rows, codes, points = rng.normal(size=(60, 3)), rng.integers(-1, 3, 60), rng.normal(size=(3, 3))
    found = partial_sums(rows, points, codes)
    known = partial_sums(rows[codes >= 0], points, codes[codes >= 0])
    for name in ("groups", "numbers", "pull", "nearest_pull"):
        np.testing.assert_array_equal(getattr(found, name), getattr(known, name))
