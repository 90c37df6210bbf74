import itertools

import numpy as np
import pytest

import gmmatch
from gmmatch.errors import InvalidParameter
from gmmatch.matching.refine import swap


def distance(rows, picks, center):
    return float(np.linalg.norm(rows[np.asarray(picks)].mean(axis=0) - center))


def best_single_swap(rows, center, picks):
    """Try every exchange of one pick for one other row."""
    others = np.setdiff1d(np.arange(len(rows)), picks)
    tried = []
    for place, new in itertools.product(range(len(picks)), others):
        changed = picks.copy()
        changed[place] = new
        tried.append((distance(rows, changed, center), changed))
    return min(tried, key=lambda one: one[0])


@pytest.mark.parametrize("seed", range(5))
def test_a_swap_is_the_best_of_all_exchanges(seed) -> None:
    rng = np.random.default_rng(seed)
    rows, center = rng.normal(size=(25, 3)), rng.normal(size=3)
    picks = rng.choice(25, 6, replace=False)
    found, made = swap(rows, center, picks, 1)
    expected, _ = best_single_swap(rows, center, picks)
    assert made == 1
    assert distance(rows, found, center) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(12))
def test_swaps_end_where_no_exchange_helps(seed) -> None:
    rng = np.random.default_rng(seed)
    rows, center = rng.normal(size=(14, 2)), 0.1 * rng.normal(size=2)
    picks, made = swap(rows, center, np.arange(6), 1000)
    assert 0 < made < 1000
    assert best_single_swap(rows, center, picks)[0] >= distance(rows, picks, center) - 1e-9
    assert len(set(picks.tolist())) == 6
    for so_many in range(made):  # each is the best of all exchanges, and one more than before
        before, told = swap(rows, center, np.arange(6), so_many)
        assert told == so_many
        after = swap(rows, center, np.arange(6), so_many + 1)[0]
        assert distance(rows, after, center) == pytest.approx(best_single_swap(rows, center, before)[0])


def test_refined_picks_are_closer_and_their_scores_are_their_distances() -> None:
    rows = np.random.default_rng(1).normal(size=(400, 6))
    plain = gmmatch.select(rows, 20, guard="off")
    refined = gmmatch.select(rows, 20, guard="off", refine=10)
    assert refined.objective < plain.objective
    center = gmmatch.geometric_median(rows).point
    assert refined.objective == pytest.approx(distance(rows, refined.indices, center), rel=1e-4)
    assert refined.scores[-1] == pytest.approx(refined.objective)


@pytest.mark.parametrize("value", [-1, 2.5, True, "many"])
def test_a_wrong_number_of_swaps_is_refused(value) -> None:
    with pytest.raises(InvalidParameter, match="refine must be a count of swaps"):
        gmmatch.select(np.zeros((9, 2)), 3, refine=value)


def test_batches_cannot_be_refined() -> None:
    with pytest.raises(InvalidParameter, match="refine needs all rows"):
        gmmatch.select(np.random.default_rng(0).normal(size=(90, 2)), 9, refine=1, batch_size=10)
