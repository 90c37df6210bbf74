"""Easy, hard, moderate and top-scores against hand-made cases and brute force."""

from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import gmmatch
from gmmatch.compute.blocks import block_rows
from gmmatch.errors import InvalidInput, InvalidInputType, InvalidParameter
from gmmatch.location.distances import group_distances
from gmmatch.selectors import Easy, Moderate, SelfSupervised, Stratified
from gmmatch.selectors.base import Group
from gmmatch.selectors.ranking import gap_to_median, smallest


def on_a_line(*distances: float) -> np.ndarray:
    """Rows at these distances from the origin, on alternating sides of it."""
    signs = np.resize([1.0, -1.0], len(distances))
    return (np.array(distances) * signs)[:, None]


def kept(rows: np.ndarray, keep: Any, method: str, **params: Any) -> list[int]:
    return gmmatch.select(rows, keep=keep, method=method, **params).indices.tolist()


ORIGIN = [0.0]


def test_easy_keeps_the_nearest_and_hard_the_farthest() -> None:
    rows = on_a_line(3, 1, 4, 1.5, 9, 2)
    assert kept(rows, 3, "easy", center=ORIGIN) == [1, 3, 5]
    assert kept(rows, 3, "hard", center=ORIGIN) == [4, 2, 0]


def test_the_smallest_row_number_wins_ties_at_the_edge_of_the_budget() -> None:
    rows = on_a_line(2, 1, 2, 2, 1, 3)
    assert kept(rows, 4, "easy", center=ORIGIN) == [1, 4, 0, 2]
    assert kept(rows, 3, "hard", center=ORIGIN) == [5, 0, 2]


@pytest.mark.parametrize(
    ("distances", "keep", "expected"),
    [
        ([1, 2, 3, 4, 9], 1, [2]),  # odd: the median row itself
        ([1, 2, 3, 4, 9], 3, [2, 1, 3]),  # 2 and 4 are equally far from 3
        ([9, 4, 3, 2, 1], 3, [2, 1, 3]),
        ([1, 2, 4, 9], 2, [1, 2]),  # even: both middle rows, the smaller number first
        ([9, 4, 2, 1], 1, [1]),
        ([1, 2, 4, 9], 3, [1, 2, 0]),
        ([0.1, 0.2, 0.3, 0.7], 1, [1]),  # the middle between 0.2 and 0.3 is not a floating-point number
        ([5, 5, 5, 5], 2, [0, 1]),
        ([7, 5, 5, 5, 1], 4, [1, 2, 3, 0]),
        ([1, 100, 101, 102, 103], 2, [2, 1]),  # by distance to the median, not by rank
        ([4, 8], 1, [0]),
        ([4], 1, [0]),
    ],
)
def test_moderate_keeps_the_band_around_the_median(
    distances: list[float], keep: int, expected: list[int]
) -> None:
    rows = on_a_line(*distances)
    assert kept(rows, keep, "moderate", center=ORIGIN) == expected
    assert kept(rows, keep, "top-scores", scores=distances, prefer="median") == expected


def test_the_score_of_moderate_is_the_gap_to_the_median_distance() -> None:
    selection = gmmatch.select(on_a_line(1, 2, 4, 9), keep=4, method="moderate", center=ORIGIN)
    np.testing.assert_array_equal(selection.indices, [1, 2, 0, 3])
    np.testing.assert_array_equal(selection.scores, [0, 0, 1, 5])
    np.testing.assert_array_equal(selection.distances, [2, 4, 1, 9])


def test_the_global_band_is_one_over_all_classes() -> None:
    rows = on_a_line(1, 2, 3, 10, 11, 12, 13)
    labels = np.array([0, 0, 0, 1, 1, 1, 1])
    by_class = gmmatch.select(rows, keep=2, labels=labels, method="moderate", center=ORIGIN)
    assert sorted(by_class.indices) == [1, 4]
    together = gmmatch.select(rows, keep=3, labels=labels, method="moderate", center=ORIGIN, scope="global")
    # The median of all distances is 10; class 0 has no row near it.
    assert together.indices.tolist() == [3, 4, 5]
    assert together.labels.tolist() == [1, 1, 1]
    estimator = Moderate(keep=1, center=ORIGIN, scope="global").fit(rows, labels)
    assert estimator.sample_indices_.tolist() == [3]
    assert len(estimator.centers_) == 2


def test_the_global_band_measures_each_row_from_its_own_class() -> None:
    rng = np.random.default_rng(5)
    labels = rng.integers(3, size=401)
    rows = rng.normal(size=(401, 4)) * (1 + labels)[:, None] + 100 * labels[:, None]
    centers = np.stack([rows[labels == label].mean(axis=0) for label in range(3)])
    distances = np.linalg.norm(rows - centers[labels], axis=1)
    expected = np.argsort(np.abs(distances - np.median(distances)))[:80]
    selection = gmmatch.select(rows, keep=80, labels=labels, method="moderate", scope="global")
    assert set(selection.indices) == set(expected)


@pytest.mark.parametrize("center", ["mean", "geometric-median", "coordinate-median"])
def test_easy_hard_and_moderate_agree_with_brute_force(center: str) -> None:
    rng = np.random.default_rng(11)
    labels = rng.integers(3, size=500)
    rows = (rng.normal(size=(500, 20)) + labels[:, None]).astype(np.float32)
    found = {
        name: gmmatch.select(rows, keep=0.3, labels=labels, method=name, center=center)
        for name in ("easy", "hard", "moderate")
    }
    for label in range(3):
        members = np.flatnonzero(labels == label)
        mine = rows[members].astype(np.float64)
        if center == "geometric-median":
            point = gmmatch.geometric_median(mine, epsilon=1e-12).point
        else:
            point = mine.mean(axis=0) if center == "mean" else np.median(mine, axis=0)
        distances = cdist(mine, point[None])[:, 0]
        orders = {
            "easy": np.argsort(distances),
            "hard": np.argsort(-distances),
            "moderate": np.argsort(np.abs(distances - np.median(distances))),
        }
        for name, order in orders.items():
            picks = found[name].indices[found[name].labels == label]
            assert set(picks) == set(members[order[: len(picks)]]), name


def test_top_scores_follows_the_scores_within_each_class() -> None:
    rng = np.random.default_rng(2)
    scores, labels = rng.random(90), np.repeat([0, 1, 2], 30)[rng.permutation(90)]
    high, low = (
        gmmatch.select(
            rng.normal(size=(90, 3)),
            keep=30,
            labels=labels,
            method="top-scores",
            scores=scores,
            prefer=prefer,
        )
        for prefer in ("highest", "lowest")
    )
    for label in range(3):
        ranked = sorted(np.flatnonzero(labels == label), key=lambda row: scores[row])
        assert low.indices[low.labels == label].tolist() == ranked[:10]
        assert high.indices[high.labels == label].tolist() == ranked[::-1][:10]
    np.testing.assert_array_equal(high.scores, scores[high.indices])


def test_the_first_of_equal_scores_is_kept_either_way() -> None:
    for prefer in ("highest", "lowest", "median"):
        assert kept(np.eye(5), 2, "top-scores", scores=[1, 1, 1, 1, 1], prefer=prefer) == [0, 1]


def test_scores_may_be_a_tensor() -> None:
    torch = pytest.importorskip("torch")
    assert kept(np.eye(3), 1, "top-scores", scores=torch.tensor([0.0, 2.0, 1.0], requires_grad=True)) == [1]


@pytest.mark.parametrize(
    ("scores", "error", "message"),
    [
        (None, InvalidParameter, "top-scores needs scores"),
        ([1.0, 2.0], InvalidInput, r"scores has shape \(2,\); expected \(3,\)"),
        ([[1.0], [2.0], [3.0]], InvalidInput, r"scores has shape \(3, 1\)"),
        ([1.0, np.nan, 3.0], InvalidInput, r"NaN or infinite values in 1 rows \(first: 1\)"),
        (["a", "b", "c"], InvalidInputType, "scores must be numbers"),
    ],
)
def test_scores_that_cannot_be_used_are_refused(scores: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        gmmatch.select(np.eye(3), keep=1, method="top-scores", scores=scores)


def test_words_that_are_no_choice_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="prefer must be 'highest', 'lowest' or 'median'; got 'best'"):
        gmmatch.select(np.eye(3), keep=1, method="top-scores", scores=[1, 2, 3], prefer="best")
    with pytest.raises(InvalidParameter, match="scope must be 'class' or 'global'; got 'all'"):
        gmmatch.select(np.eye(3), keep=1, method="moderate", scope="all")


@pytest.mark.parametrize("n_features", [1, 3, 700])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_distance_is_a_function_of_its_row_and_point_alone(n_features: int, dtype: type) -> None:
    rng = np.random.default_rng(0)
    n_rows = 2 * block_rows(n_features) + 5 if n_features == 700 else 999
    rows = rng.normal(size=(n_rows, n_features)).astype(dtype)
    points, codes = rng.normal(size=(4, n_features)), rng.integers(4, size=n_rows)
    distances = group_distances(rows, codes, points)
    np.testing.assert_allclose(distances, np.linalg.norm(rows - points[codes], axis=1), rtol=1e-13)
    order = rng.permutation(n_rows)
    np.testing.assert_array_equal(group_distances(rows[order], codes[order], points), distances[order])
    for row in (0, n_rows // 2, n_rows - 1):
        alone = group_distances(rows[row : row + 1], None, points[codes[row]][None])
        assert alone[0] == distances[row]


def test_the_smallest_are_those_of_a_stable_sort() -> None:
    values = np.random.default_rng(0).integers(10, size=200).astype(float)
    for k in (0, 1, 57, 200):
        np.testing.assert_array_equal(smallest(values, k), np.argsort(values, kind="stable")[:k])


@pytest.mark.parametrize("size", [1, 2, 9, 10, 101])
def test_the_gap_to_the_median_orders_like_the_distance_to_it(size: int) -> None:
    values = np.random.default_rng(size).integers(0, 50, size=size).astype(float)
    gaps, reference = gap_to_median(values), np.abs(values - np.median(values))
    np.testing.assert_array_equal(np.argsort(gaps, kind="stable"), np.argsort(reference, kind="stable"))
    assert gaps.min() == 0


def test_rows_of_no_group_take_no_part() -> None:
    rows = np.array([[0.0], [1.0], [2.0], [1e200], [3.0]])
    group = Group(rows, np.array([0, 1, 2, 4]), None, (0, 0), 1)
    for selector in (
        Moderate(scope="global"),
        Easy(),
        Stratified(),
        SelfSupervised(n_clusters=1, center="mean"),
    ):
        picks = selector._select_all([group], np.array([4]))[0]
        np.testing.assert_array_equal(picks.center, [1.5])
        assert sorted(picks.order) == [0, 1, 2, 3]
        np.testing.assert_array_equal(picks.distances, np.abs(group.rows[picks.order, 0] - 1.5))
