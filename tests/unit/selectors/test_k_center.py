"""k-center against brute force and the guarantee of the greedy algorithm."""

from itertools import combinations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import gmmatch
from gmmatch.selectors.k_center import cover


def greedy(rows: np.ndarray, k: int) -> tuple[list[int], list[float]]:
    """Farthest-first traversal by the full matrix of distances."""
    rows = rows.astype(np.float64)
    table = cdist(rows, rows)
    picks = [int(np.linalg.norm(rows - rows.mean(axis=0), axis=1).argmin())]
    radii = []
    while True:
        gaps = table[:, picks].min(axis=1)
        radii.append(float(gaps.max()))
        if len(picks) == k:
            return picks, radii
        gaps[picks] = -1.0
        picks.append(int(gaps.argmax()))


@pytest.mark.parametrize("k", [1, 2, 30, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_the_farthest_first_traversal(k: int, dtype: type) -> None:
    rows = np.random.default_rng(k).normal(size=(200, 9)).astype(dtype)
    found = gmmatch.select(rows, keep=k, method="k-center")
    picks, radii = greedy(rows, k)
    assert found.indices.tolist() == picks
    np.testing.assert_allclose(found.scores, radii, rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_radius_is_at_most_twice_the_smallest_possible(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(13, 2)) * rng.choice([1.0, 10.0], size=(13, 1))
    table = cdist(rows, rows)
    optimum = min(table[:, list(chosen)].min(axis=1).max() for chosen in combinations(range(13), k))
    radius = gmmatch.select(rows, keep=k, method="k-center").scores[-1]
    assert optimum - 1e-12 <= radius <= 2 * optimum + 1e-12


def test_the_radius_never_grows() -> None:
    rows = np.random.default_rng(1).normal(size=(300, 5))
    radii = gmmatch.select(rows, keep=300, method="k-center").scores
    assert (np.diff(radii) <= 0).all()
    assert radii[-1] == 0.0


def test_ties_that_float32_cannot_tell_are_decided_exactly() -> None:
    # A grid far from the origin: nearly every choice is a tie, and products lose all digits that matter.
    side = np.arange(8, dtype=np.float32)
    grid = np.stack(np.meshgrid(side, side, side), axis=-1).reshape(-1, 3) + np.float32(4096)
    assert gmmatch.select(grid, keep=60, method="k-center", center=[4096.0] * 3).indices.tolist() == (
        greedy_from(grid, 60, 0)
    )


def greedy_from(rows: np.ndarray, k: int, first: int) -> list[int]:
    whole = rows.astype(np.int64)
    table = ((whole[:, None] - whole[None]) ** 2).sum(axis=2)
    picks = [first]
    while len(picks) < k:
        gaps = table[:, picks].min(axis=1)
        gaps[picks] = -1
        picks.append(int(gaps.argmax()))
    return picks


def test_near_ties_are_decided_by_distances_in_float64() -> None:
    # Both far rows are 1000 away, the second by a hair more than float32 products can show.
    rows = np.array([[0.0, 0.0], [1000.0, 0.0], [0.0, np.nextafter(np.float32(1000), 2000)]], np.float32)
    picks, radii = cover(rows, 2, np.zeros(2))
    assert picks.tolist() == [0, 2]
    assert radii[0] == rows[2, 1]


def test_duplicates_are_picked_only_when_nothing_else_is_left() -> None:
    rows = np.repeat(np.random.default_rng(0).normal(size=(10, 4)), 5, axis=0)
    found = gmmatch.select(rows, keep=15, method="k-center")
    assert len({tuple(row) for row in rows[found.indices[:10]]}) == 10
    np.testing.assert_array_equal(found.scores[9:], 0.0)


def test_the_first_pick_is_the_row_nearest_to_the_center() -> None:
    rows = np.array([[0.0], [1.0], [2.0], [30.0]])
    assert gmmatch.select(rows, keep=1, method="k-center").indices[0] == 2
    assert gmmatch.select(rows, keep=1, method="k-center", center=[-5.0]).indices[0] == 0
