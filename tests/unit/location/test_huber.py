"""The Huber centre against a general optimiser, and the concentrated centre against clusters."""

import numpy as np
import pytest
from scipy.optimize import minimize

from gmmatch.location.centers import CENTERS, find_centers
from gmmatch.location.concentrated import Sample, concentrated, half_ball
from gmmatch.location.huber import huber


def objective(point, rows, scale):
    distances = np.linalg.norm(rows - point, axis=1)
    return np.where(distances < scale, (distances**2 / scale + scale) / 2, distances).sum()


@pytest.mark.parametrize("d", [1, 3, 20])
def test_it_minimises_the_huber_objective_at_its_own_scale(d):
    rng = np.random.default_rng(d)
    rows = rng.standard_t(3, size=(200, d))
    center = huber(rows)
    found = minimize(objective, rows.mean(axis=0), args=(rows, center.scale), method="BFGS")
    best = min(found.fun, objective(center.point, rows, center.scale))
    assert center.epsilon <= 1e-6
    assert objective(center.point, rows, center.scale) <= best * (1 + center.epsilon)
    np.testing.assert_allclose(
        center.scale, np.sort(np.linalg.norm(rows - center.point, axis=1))[99], rtol=1e-5
    )


def test_groups_are_found_as_if_alone():
    rng = np.random.default_rng(0)
    rows, codes = rng.normal(size=(300, 4)).astype(np.float32), rng.integers(0, 3, 300)
    for code, (point, epsilon) in enumerate(find_centers("huber", rows, codes, [0, 1, 2])):
        alone = huber(rows[codes == code])
        np.testing.assert_allclose(point, alone.point, rtol=1e-4, atol=1e-6)
        assert epsilon == alone.epsilon


@pytest.mark.parametrize(
    "rows", [np.zeros((5, 2)), np.ones((1, 3)), np.r_[np.zeros((6, 2)), np.ones((4, 2))]]
)
def test_rows_that_coincide_do_no_harm(rows):
    center = huber(rows)
    np.testing.assert_allclose(center.point, rows[0], atol=1e-6)
    assert center.epsilon <= 1e-6


def test_a_dense_clump_holds_the_geometric_median_but_not_the_huber_center():
    rng = np.random.default_rng(1)
    rows = np.r_[rng.normal(size=(600, 64)), 0.05 * rng.normal(size=(400, 64)) + 1.0]
    clump = np.ones(64)
    assert np.linalg.norm(CENTERS["geometric-median"](rows)[0] - clump) < 2.0
    assert np.linalg.norm(huber(rows).point - clump) > 4.0


@pytest.mark.parametrize("d", [2, 32, 256])
@pytest.mark.parametrize("share", [0.2, 0.45])
def test_a_far_cluster_does_not_move_the_concentrated_center(d, share):
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(2000, d))
    wrong = rng.permutation(2000) < share * 2000
    rows[wrong] += 40.0
    drift = np.linalg.norm(concentrated(rows) - rows[~wrong].mean(axis=0))
    assert drift < 0.15 * np.sqrt(d)
    assert np.linalg.norm(CENTERS["geometric-median"](rows)[0]) > drift


def test_no_ball_about_a_row_that_holds_half_is_smaller_by_much():
    rng = np.random.default_rng(3)
    rows = np.r_[rng.normal(size=(60, 3)), rng.normal(size=(40, 3)) + 6]
    half = len(rows) // 2
    radius = np.sort(np.linalg.norm(rows - half_ball(Sample.of(rows)), axis=1))[half]
    about_rows = min(np.sort(np.linalg.norm(rows - row, axis=1))[half] for row in rows)
    assert radius <= about_rows


def test_the_order_of_the_rows_does_not_move_the_concentrated_center():
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(3000, 5))
    np.testing.assert_allclose(concentrated(rows), concentrated(rows[rng.permutation(3000)]), atol=1e-9)
