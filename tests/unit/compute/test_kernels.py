"""The loops against NumPy."""

import numpy as np
import pytest

from gmmatch.compute import kernels
from gmmatch.compute.keys import row_keys
from gmmatch.location.distances import group_quantiles
from gmmatch.location.mean import group_means
from gmmatch.validation import bad_rows, key_factors, row_marks

KINDS = [np.float32, np.float64]
KNOWN = ["cb14965c92d973d6", "13d96860e3394099", "17ad9d5927c0b6f2", "91e257b623b564c7"]


def some_rows(n, d, dtype=np.float64, seed=0):
    return (np.random.default_rng(seed).normal(size=(n, d)) * 3.0 + 1.0).astype(dtype)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("d", [1, 2, 31, 32, 33, 63, 64, 100])
def test_distances_to_the_own_points(d, dtype):
    rows, points = some_rows(50, d, dtype), some_rows(3, d, seed=1)
    codes = np.random.default_rng(2).integers(0, 3, 50)
    found = kernels.group_distances(rows, codes, points)
    np.testing.assert_allclose(found, np.linalg.norm(rows - points[codes], axis=1), rtol=1e-14)
    alone = [kernels.group_distances(rows[i : i + 1], codes[i : i + 1], points)[0] for i in range(50)]
    assert found.tolist() == alone
    first = kernels.group_distances(rows, None, points)
    np.testing.assert_allclose(first, np.linalg.norm(rows - points[0], axis=1), rtol=1e-14)


def test_rows_of_no_group_and_of_any_layout_are_measured():
    rows, points = some_rows(40, 6, np.float32), some_rows(2, 6)
    codes = np.repeat([-1, 0, 1, 0], 10)
    found = kernels.group_distances(rows, codes, points)
    packed = np.frombuffer(b"x" + rows.tobytes(), np.float32, offset=1).reshape(rows.shape)
    for other in (np.asfortranarray(rows), np.repeat(rows, 2, axis=1)[:, ::2], packed):
        assert kernels.group_distances(other, codes.astype(np.int32), points).tolist() == found.tolist()
    assert len(kernels.group_distances(rows[:0], codes[:0], points)) == 0


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_by_class_are_those_of_a_loop(dtype, weighted):
    rows = some_rows(300, 5, dtype)
    codes = np.random.default_rng(1).integers(-1, 4, 300)
    weights = np.random.default_rng(2).random(300) if weighted else None
    sums, mass = np.zeros((4, 5)), np.zeros(4)
    for row, code in enumerate(codes):
        if code >= 0:
            weight = 1.0 if weights is None else weights[row]
            sums[code] += weight * rows[row].astype(float)
            mass[code] += weight
    found = kernels.group_sums(rows, codes, 4, weights)
    np.testing.assert_array_equal(found[0], sums)
    np.testing.assert_array_equal(found[1], mass)
    np.testing.assert_allclose(group_means(rows, codes, 4, weights), sums / mass[:, None], rtol=1e-14)
    np.testing.assert_allclose(
        group_means(rows, None, 1, weights)[0], np.average(rows.astype(float), axis=0, weights=weights)
    )


def test_many_classes_that_hold_few_rows_have_their_means():
    rows = some_rows(70_000, 3, np.float32)
    codes = np.random.default_rng(3).permutation(70_000) // 2
    codes[codes == 7] = -1
    codes[codes > 7] -= 1
    means = group_means(rows, codes, 34_999)
    for code in (0, 6, 7, 34_998):
        np.testing.assert_allclose(means[code], rows[codes == code].mean(axis=0, dtype=float))


def hashed(rows, factors):
    """The keys, in whole-number arithmetic on arrays."""
    bits = (rows.astype(np.float64) + 0.0).view(np.uint64)
    return kernels.mix(np.add.reduce((bits ^ (bits >> np.uint64(32))) * factors, axis=1))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("d", [1, 7, 32, 257])
def test_a_block_is_checked_and_hashed_in_one_look(d, dtype):
    rows = some_rows(60, d, dtype)
    with np.errstate(over="ignore"):
        for row, value in enumerate([np.nan, np.inf, -np.inf, 1e141, -1e141, 1e139, -0.0, 5e-324]):
            rows[row * 3, -1] = value
    factors = key_factors(d, seed=4)
    good, keys, marks = kernels.check_and_hash(rows, factors, key_factors(d))
    assert np.flatnonzero(~good).tolist() == bad_rows(rows).tolist()
    np.testing.assert_array_equal(keys, hashed(rows, factors))
    np.testing.assert_array_equal(keys, row_keys(rows, seed=4))
    np.testing.assert_array_equal(marks, row_marks(rows))


def test_keys_are_those_of_the_first_version():
    rows = np.arange(12, dtype=np.float32).reshape(4, 3) / 8 - 0.5
    assert [f"{key:x}" for key in row_keys(rows)] == KNOWN


@pytest.mark.parametrize("n_groups", [1, 9, 300, 70_000])
def test_quantiles_are_those_of_sorted_values(n_groups):
    rng = np.random.default_rng(5)
    values, codes = np.round(rng.normal(size=2000), 1), rng.integers(0, n_groups, 2000)
    values[::97] = np.inf
    shares = (0.0, 0.1, 0.5, 0.75, 1.0)
    found = group_quantiles(values, codes, n_groups, shares)
    for group in [*np.unique(codes)[:50], 0, n_groups - 1]:
        own = np.sort(values[codes == group])
        places = [max(int(np.ceil(share * len(own))), 1) - 1 for share in shares]
        np.testing.assert_array_equal(found[group], own[places] if len(own) else np.full(5, np.nan))


def test_cosines_and_sines_are_those_of_numpy_and_far_angles_are_cut():
    rng = np.random.default_rng(5)
    for scale in (1.0, 300.0, 1e5):
        angles, found = scale * rng.normal(size=(50, 40)), np.empty((50, 80))
        kernels.cosines_and_sines(angles, 0.5, found)
        np.testing.assert_allclose(found, 0.5 * np.hstack([np.cos(angles), np.sin(angles)]), atol=2e-16)
    far, found = np.array([[1e300, -1e300, 1e6]]), np.empty((1, 6))
    kernels.cosines_and_sines(far, 1.0, found)
    np.testing.assert_array_equal(found[:, [0, 3]], found[:, [2, 5]])
    np.testing.assert_array_equal(found[:, [1, 4]], found[:, [2, 5]] * [1, -1])
