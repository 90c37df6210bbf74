"""Stratified selection: who is dropped, and how evenly the strata are drawn from."""

from collections import Counter

import numpy as np
import pytest

import gmmatch
from gmmatch.errors import InvalidParameter

ROWS = np.random.default_rng(0).normal(size=(1000, 4))


def test_the_hardest_share_is_never_drawn() -> None:
    scores = np.random.default_rng(1).random(1000)
    kept = gmmatch.select(ROWS, keep=0.5, method="stratified", scores=scores, drop=0.3)
    hardest = np.argsort(scores)[700:]
    assert not set(kept.indices) & set(hardest)
    np.testing.assert_array_equal(kept.scores, scores[kept.indices])


def test_a_budget_beyond_the_rest_takes_the_dropped_rows_last_and_the_easiest_first() -> None:
    scores = np.random.default_rng(1).random(1000)
    kept = gmmatch.select(ROWS, keep=800, method="stratified", scores=scores, drop=0.3)
    by_difficulty = np.argsort(scores)
    assert set(kept.indices[:700]) == set(by_difficulty[:700])
    np.testing.assert_array_equal(kept.indices[700:], by_difficulty[700:800])


def test_small_strata_give_all_and_the_others_share_evenly() -> None:
    # Strata of 3, 0, 40 and 157 rows over the range 0 to 4.
    scores = np.repeat([0.5, 2.5, 3.5], [3, 40, 157]) + np.linspace(-0.4, 0.4, 200)
    scores[0], scores[-1] = 0.0, 4.0
    order = np.random.default_rng(2).permutation(200)
    for keep, expected in ((9, {0: 3, 2: 3, 3: 3}), (43, {0: 3, 2: 20, 3: 20}), (103, {0: 3, 2: 40, 3: 60})):
        kept = gmmatch.select(
            ROWS[:200], keep=keep, method="stratified", scores=scores[order], drop=0.0, strata=4
        )
        assert Counter(np.minimum(kept.scores.astype(int), 3).tolist()) == expected


def test_an_uneven_rest_gives_no_stratum_more_than_one_extra() -> None:
    scores = np.random.default_rng(3).random(1000)
    kept = gmmatch.select(ROWS, keep=57, method="stratified", scores=scores, drop=0.0, strata=10)
    low, high = scores.min(), scores.max()
    strata = np.minimum(((kept.scores - low) / (high - low) * 10).astype(int), 9)
    assert set(np.bincount(strata, minlength=10)) == {5, 6}


def test_without_scores_the_distance_to_the_center_is_the_difficulty() -> None:
    kept = gmmatch.select(ROWS, keep=50, method="stratified")
    np.testing.assert_array_equal(kept.scores, kept.distances)
    distances = np.linalg.norm(ROWS - ROWS.mean(axis=0), axis=1)
    assert kept.distances.max() <= np.sort(distances)[899]


def test_the_draws_depend_on_the_seed() -> None:
    first, second = (gmmatch.select(ROWS, keep=50, method="stratified", random_state=seed) for seed in (0, 1))
    assert set(first.indices) != set(second.indices)


def test_every_row_of_a_stratum_is_as_likely_as_the_others() -> None:
    scores = np.repeat([0.0, 1.0], [10, 30])
    counts = np.zeros(40)
    for seed in range(400):
        kept = gmmatch.select(
            np.ones((40, 1)), keep=10, method="stratified", scores=scores, drop=0, strata=2, random_state=seed
        )
        counts[kept.indices] += 1
    np.testing.assert_allclose(counts[:10] / 400, 5 / 10, atol=0.1)
    np.testing.assert_allclose(counts[10:] / 400, 5 / 30, atol=0.08)


@pytest.mark.parametrize("drop", [-0.1, 1.0, "some", None, True])
def test_a_share_that_is_none_is_refused(drop: object) -> None:
    with pytest.raises(InvalidParameter, match=r"drop must be a share in \[0, 1\)"):
        gmmatch.select(ROWS, keep=10, method="stratified", drop=drop)


def test_no_strata_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="strata must be a whole number of at least 1; got 0"):
        gmmatch.select(ROWS, keep=10, method="stratified", strata=0)
