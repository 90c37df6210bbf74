"""Facility location against brute force and another library."""

from itertools import combinations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import gmmatch
from gmmatch.errors import InvalidInput, InvalidParameter
from gmmatch.selectors import facility_location
from gmmatch.selectors.facility_location import serve


def similarities(rows: np.ndarray) -> np.ndarray:
    squared = cdist(rows, rows, "sqeuclidean")
    return squared.max() - squared


def value(table: np.ndarray, picks: np.ndarray) -> float:
    return float(table[:, picks].max(axis=1).sum())


def greedy(table: np.ndarray, k: int) -> list[int]:
    """Plain greedy over the full table of similarities, anchors by candidates."""
    picks: list[int] = []
    best = np.zeros(len(table))
    for _ in range(k):
        gains = np.maximum(table - best[:, None], 0).sum(axis=0)
        gains[picks] = -1.0
        near = np.flatnonzero(gains >= gains.max() * (1 - 1e-10))
        picks.append(int(near[0]))
        best = np.maximum(best, table[:, picks[-1]])
    return picks


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # apricot has one, seen when it is compiled
@pytest.mark.parametrize(("seed", "dtype"), [(0, np.float32), (1, np.float64)])
def test_it_is_as_good_as_apricot(seed: int, dtype: type) -> None:
    apricot = pytest.importorskip("apricot", reason="apricot-select is not installed")
    rows = np.random.default_rng(seed).normal(size=(400, 3)).astype(dtype)
    table = similarities(rows.astype(np.float64))
    theirs = apricot.FacilityLocationSelection(60, metric="precomputed", optimizer="naive").fit(table).ranking
    ours = gmmatch.select(rows, keep=60, method="facility-location").indices
    # Later picks may differ where two rows gain equally.
    np.testing.assert_array_equal(ours[:20], theirs[:20])
    assert value(table, ours) >= value(table, theirs) * (1 - 1e-6)


@pytest.mark.parametrize("table_bytes", [1 << 30, 0])
@pytest.mark.parametrize("batch_bytes", [32 << 20, 8 * 200 * 3])
def test_it_is_the_plain_greedy_algorithm(
    table_bytes: int, batch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facility_location, "_BATCH_BYTES", batch_bytes)
    rows = np.random.default_rng(1).normal(size=(200, 5))
    picks, costs = serve(rows, 120, np.arange(200), rows.mean(axis=0), table_bytes)
    assert picks.tolist() == greedy(similarities(rows), 120)
    squared = cdist(rows, rows, "sqeuclidean")
    expected = [squared[:, picks[: turn + 1]].min(axis=1).mean() for turn in range(120)]
    np.testing.assert_allclose(costs, expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_value_is_within_the_guarantee_of_the_optimum(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(12, 2)) * rng.choice([1.0, 8.0], size=(12, 1))
    table = similarities(rows)
    optimum = max(value(table, np.array(chosen)) for chosen in combinations(range(12), k))
    found = value(table, gmmatch.select(rows, keep=k, method="facility-location").indices)
    assert (1 - 1 / np.e) * optimum <= found <= optimum + 1e-9
    if k == 1:
        assert found == pytest.approx(optimum)


def test_anchors_are_the_rows_that_count() -> None:
    rows = np.random.default_rng(2).normal(size=(150, 4))
    anchors = np.sort(np.random.default_rng(3).choice(150, 40, replace=False))
    picks, costs = serve(rows, 30, anchors, rows.mean(axis=0))
    table = similarities(rows)[anchors]
    assert picks.tolist() == greedy(table, 30)
    expected = cdist(rows[anchors], rows[picks], "sqeuclidean").min(axis=1).mean()
    assert costs[-1] == pytest.approx(expected)


def test_a_sample_of_anchors_costs_little_and_all_of_them_nothing() -> None:
    rows = np.random.default_rng(2).normal(size=(600, 4))

    def mean_squared_gap(**params: int) -> float:
        picks = gmmatch.select(rows, keep=30, method="facility-location", **params).indices
        return float(cdist(rows, rows[picks], "sqeuclidean").min(axis=1).mean())

    everyone = mean_squared_gap()
    assert mean_squared_gap(anchors=600) == everyone
    assert mean_squared_gap(anchors=10_000) == everyone
    assert everyone < mean_squared_gap(anchors=300) < 1.15 * everyone


def test_the_order_of_the_rows_does_not_matter_while_there_are_no_ties() -> None:
    rows = np.random.default_rng(4).normal(size=(300, 5))
    order = np.random.default_rng(5).permutation(300)
    shuffled = gmmatch.select(rows[order], keep=15, method="facility-location").indices
    np.testing.assert_array_equal(
        order[shuffled], gmmatch.select(rows, keep=15, method="facility-location").indices
    )


def test_mutual_neighbours_tie_and_the_first_is_kept() -> None:
    # Two pairs and a row between them: within a pair, either row serves as well as the other.
    rows = np.array([[10.0], [10.5], [0.0], [-10.0], [-10.5]])
    assert gmmatch.select(rows, keep=3, method="facility-location").indices.tolist() == [2, 0, 3]
    rows = np.array([[100.25], [100.0], [0.0], [0.25]])
    assert gmmatch.select(rows, keep=2, method="facility-location").indices.tolist() == [1, 2]


def test_too_many_pairs_are_refused_with_an_estimate() -> None:
    rows = np.zeros((200_000, 2), dtype=np.float32)
    with pytest.raises(InvalidInput, match=r"4\.0e\+10 pairs, some .* hours .*anchors=50000 or fewer"):
        gmmatch.select(rows, keep=10, method="facility-location")


@pytest.mark.parametrize("anchors", [0, -3, 1.5, "all", True])
def test_a_number_of_anchors_that_is_none_is_refused(anchors: object) -> None:
    with pytest.raises(InvalidParameter, match="anchors must be a whole number of at least 1"):
        gmmatch.select(np.eye(4), keep=2, method="facility-location", anchors=anchors)


def test_a_row_far_away_leaves_the_others_served() -> None:
    rows = np.random.default_rng(6).normal(size=(200, 4))
    rows[50] = 1e6
    found = gmmatch.select(rows, keep=30, method="facility-location")
    assert 50 in found.indices[:2]
    rest = np.delete(rows, 50, axis=0)
    plain = gmmatch.select(rest, keep=29, method="facility-location")
    cost = cdist(rest, rows[found.indices], "sqeuclidean").min(axis=1).mean()
    assert cost < 1.1 * plain.scores[-1]
