"""Distances, quantiles and means of groups against NumPy, and centres by name or as given."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gmmatch
from gmmatch.compute.blocks import block_rows
from gmmatch.errors import InvalidInput, InvalidInputType, InvalidParameter
from gmmatch.location import concentrated, huber, mean
from gmmatch.location import concentrated as concentrated_center
from gmmatch.location.centers import CENTERS, find_center, find_centers
from gmmatch.location.concentrated import Sample, _squared_distances, _weiszfeld, half_ball
from gmmatch.location.distances import group_distances, group_quantiles
from gmmatch.location.mean import group_means

RNG = np.random.default_rng(0)
ROWS, CODES = RNG.normal(size=(200, 3)), RNG.integers(-1, 4, 200)


def test_distances_are_those_to_the_point_of_the_group() -> None:
    points = np.random.default_rng(1).normal(size=(4, 3))
    inside = CODES >= 0
    expected = np.linalg.norm(ROWS - points[CODES], axis=1)
    np.testing.assert_allclose(group_distances(ROWS, CODES, points)[inside], expected[inside])
    np.testing.assert_allclose(
        group_distances(ROWS, None, points), np.linalg.norm(ROWS - points[0], axis=1), rtol=1e-12
    )


@pytest.mark.parametrize("shares", [(0.5,), (0.0, 0.1, 0.25, 0.5, 0.9, 1.0)])
def test_quantiles_are_values_that_are_there(shares: tuple[float, ...]) -> None:
    values, codes = np.random.default_rng(2).normal(size=101), np.array([0, 1, 1, 3] * 25 + [4])
    found = group_quantiles(values, codes, 6, shares)
    for group in (0, 1, 3, 4):
        own = np.sort(values[codes == group])
        assert found[group].tolist() == [own[max(math.ceil(share * len(own)), 1) - 1] for share in shares]
    assert np.isnan(found[[2, 5]]).all()
    assert (group_quantiles(values, codes, 5, shares)[4] == values[100]).all()  # the last group has rows
    assert group_quantiles(values, None, 1, (1.0,))[0, 0] == values.max()
    many = group_quantiles(values, 700 * codes, 5000, shares)
    np.testing.assert_array_equal(many[700 * np.arange(6)], found)
    assert np.isnan(np.delete(many, 700 * np.arange(6), axis=0)).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_means_are_those_of_each_group(weighted: bool) -> None:
    weights = np.random.default_rng(3).uniform(0.0, 2.0, 200) if weighted else None
    for code, point in enumerate(group_means(ROWS, CODES, 4, weights)):
        own = None if weights is None else weights[code == CODES]
        np.testing.assert_allclose(point, np.average(ROWS[code == CODES], axis=0, weights=own), rtol=1e-12)
    np.testing.assert_allclose(mean(ROWS, weights), np.average(ROWS, axis=0, weights=weights), rtol=1e-12)


def test_rows_of_no_group_and_groups_in_some_blocks_only_change_no_mean() -> None:
    n_rows = 3 * block_rows(2000) + 2
    rows = np.ones((n_rows, 2000), np.float32)
    codes = np.full(n_rows, -1)
    codes[:10], codes[-10:], codes[20:30], codes[-30:-20] = 2, 0, 1, 1
    rows[-10:] = 5.0
    rows[-30:-20] = 3.0
    found = group_means(rows, codes, 3)
    assert found[:, 7].tolist() == [5.0, 2.0, 1.0]


@pytest.mark.parametrize("name", sorted(CENTERS))
def test_every_center_by_name_of_all_groups_is_that_of_each(name: str) -> None:
    found = find_centers(name, ROWS, CODES, ["a", "b", "c", "d"])
    for code, (point, epsilon) in enumerate(found):
        alone, certified = find_center(name, ROWS[code == CODES])
        np.testing.assert_allclose(point, alone, atol=1e-4)
        assert (epsilon is None) == (certified is None)
        assert name != "mean" or epsilon == 0.0
    assert find_center("mean", ROWS)[1] == 0.0
    assert find_center("huber", ROWS)[1] == huber(ROWS).epsilon
    assert len(find_centers(name, ROWS, None, [None])) == 1


def test_a_center_may_be_given_for_all_or_by_class() -> None:
    by_class = {"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]}
    found = find_centers(by_class, ROWS, CODES, ["b", "a"])
    assert [point.tolist() for point, _ in found] == [[4.0, 5.0, 6.0], [1.0, 2.0, 3.0]]
    assert [epsilon for _, epsilon in found] == [None, None]
    for wrong, kind, words in (
        (by_class, InvalidInput, "center has no entry for class 'c'"),
        ("middle", InvalidParameter, "center"),
        (object(), InvalidInputType, "center must be a name"),
        ([1.0, 2.0], InvalidInput, r"center has shape \(2,\); expected \(3,\)"),
        ([1.0, 2.0, np.nan], InvalidParameter, "center must be finite"),
    ):
        with pytest.raises(kind, match=words):
            find_center(wrong, ROWS, "c")


def loss(distances: np.ndarray, scale: float) -> np.ndarray:
    return np.where(distances < scale, (distances**2 / scale + scale) / 2, distances)


@pytest.mark.parametrize("passes", [1, 2, 4, 200])
def test_the_certificate_of_a_huber_center_is_the_bound_that_its_module_proves(passes: int) -> None:
    center = huber(ROWS, 1e-6, passes)
    offsets = ROWS - center.point
    distances = np.linalg.norm(offsets, axis=1)
    pull = np.linalg.norm((offsets / np.maximum(distances, center.scale)[:, None]).sum(axis=0))
    objective = loss(distances, center.scale).sum()
    excess = pull * (distances.sum() + objective) / len(ROWS)
    assert center.epsilon == pytest.approx(excess / (objective - excess), rel=1e-6, abs=2e-14)
    if passes < 200:
        assert center.n_iter == passes + 2
    else:
        assert center.epsilon <= 1e-6
        assert 5 < center.n_iter < 60
    if passes == 1:
        np.testing.assert_allclose(center.point, ROWS.mean(axis=0))
        assert center.scale == np.sort(distances)[99]


def test_a_huber_step_goes_to_the_mean_weighted_by_the_inverse_distances() -> None:
    first, second = (huber(ROWS, 1e-6, passes) for passes in (1, 2))
    weights = 1 / np.maximum(np.linalg.norm(ROWS - first.point, axis=1), first.scale)
    np.testing.assert_allclose(second.point, np.average(ROWS, axis=0, weights=weights), rtol=1e-9)


def test_a_sample_has_the_distances_of_its_rows_about_their_middle() -> None:
    rows = np.random.default_rng(4).normal(size=(31, 4)) + 5.0
    sample = Sample.of(rows)
    np.testing.assert_allclose(sample.origin, np.median(rows, axis=0))
    np.testing.assert_allclose(sample.gram, (rows - sample.origin) @ (rows - sample.origin).T)
    weights = np.random.default_rng(5).dirichlet(np.ones(31), size=5)
    expected = np.linalg.norm((weights @ rows)[:, None] - rows, axis=2) ** 2
    # Weights that add up to one make the same point of the offsets as of the rows.
    found = _squared_distances(np.diagonal(sample.gram), weights, weights @ sample.gram)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    left_out = np.arange(31) % 3 == 0
    fewer = sample.without(left_out)
    assert (fewer.offsets == sample.offsets[~left_out]).all()
    assert (fewer.gram == sample.gram[~left_out][:, ~left_out]).all()
    assert sample.without(np.zeros(31, bool)) is sample


def test_ten_rough_steps_come_near_the_geometric_median() -> None:
    rows = np.random.default_rng(6).standard_t(2, size=(60, 4))
    weights = _weiszfeld(Sample.of(rows).gram)
    assert weights.sum() == pytest.approx(1.0)
    exact = gmmatch.geometric_median(rows)
    rough = np.linalg.norm(rows - weights @ rows, axis=1).sum()
    assert rough <= 1.001 * exact.objective
    assert rough < 0.999 * np.linalg.norm(rows - rows.mean(axis=0), axis=1).sum()


def test_rough_steps_are_ten_means_weighted_by_the_inverse_distances() -> None:
    rows = np.random.default_rng(7).normal(size=(40, 3))
    rows[0] = rows.mean(axis=0)
    rows[1:6] *= 30.0
    weights = np.full(40, 1 / 40)
    for _ in range(10):
        weights = 1 / np.linalg.norm(rows - weights @ rows, axis=1)
        weights /= weights.sum()
    np.testing.assert_allclose(_weiszfeld(Sample.of(rows).gram), weights, rtol=1e-6)
    alike = _weiszfeld(np.zeros((4, 4)))  # no distance at all: every row weighs the same
    assert alike.tolist() == [0.25] * 4


@pytest.mark.parametrize("n_rows", [1, 2, 3, 7, 50, 51, 59, 60])
def test_the_half_ball_is_the_smallest_of_all_that_are_tried(n_rows: int) -> None:
    rows = np.random.default_rng(n_rows).normal(size=(n_rows, 3))
    rows[: n_rows // 3] += 4.0
    half = n_rows // 2 + 1
    sample = Sample.of(rows)
    tried = [*rows, sample.origin, rows.mean(axis=0), _weiszfeld(sample.gram) @ rows]
    for start in list(tried):
        point = start
        for _ in range(2):
            nearest = np.argsort(np.linalg.norm(rows - point, axis=1), kind="stable")[:half]
            point = rows[nearest].mean(axis=0)
        tried.append(point)
    radii = [np.sort(np.linalg.norm(rows - point, axis=1))[half - 1] for point in tried]
    np.testing.assert_allclose(half_ball(sample), tried[int(np.argmin(radii))], atol=1e-9)


def test_the_concentrated_center_is_the_median_of_the_rows_in_and_about_the_ball() -> None:
    rows = np.random.default_rng(5).normal(size=(41, 3))
    rows[:15] += 8.0
    point = half_ball(Sample.of(rows))
    distances = np.linalg.norm(rows - point, axis=1)
    inside = rows[distances <= 1.25 * np.sort(distances)[20] * (1 + 1e-9)]
    assert 21 <= len(inside) < 41
    np.testing.assert_allclose(
        concentrated(rows, 1e-10), gmmatch.geometric_median(inside, epsilon=1e-10).point, atol=1e-4
    )
    assert concentrated is concentrated_center
