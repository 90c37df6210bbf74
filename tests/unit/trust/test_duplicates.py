"""Duplicates: the groups are those of comparing every pair."""

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

import gmmatch
from gmmatch.compute.keys import row_keys
from gmmatch.trust import find_copies
from gmmatch.trust.evidence.duplicate import _near, _sketch, _typical_gap


def groups_of(rows, usable=None):
    found = find_copies(rows, row_keys(rows), np.ones(len(rows), bool) if usable is None else usable)
    return found.groups, found


def by_pairs(rows, reach):
    """Return the groups that comparing every pair gives."""
    _, groups = connected_components(cdist(rows, rows) <= reach)
    sizes = np.bincount(groups)
    return np.where(sizes[groups] > 1, groups, -1)


@pytest.mark.parametrize("width", [2, 16, 17, 300])
@pytest.mark.parametrize("jitter", [0.0, 0.02])
def test_copies_and_near_copies_are_found(width, jitter):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(800, width))
    sources = rng.integers(0, 800, 200)
    gap = np.median(np.sort(cdist(rows, rows), axis=1)[:, 1])
    moved = rng.normal(size=(200, width))
    moved *= jitter * gap / np.linalg.norm(moved, axis=1, keepdims=True)
    groups, found = groups_of(np.concatenate([rows, rows[sources] + moved]))
    assert (groups[800:] == groups[sources]).mean() >= 0.99
    assert (groups[sources] >= 0).mean() >= 0.99
    alone = np.setdiff1d(np.arange(800), sources)
    assert (groups[alone] >= 0).mean() <= (0.03 if width == 2 else 0)
    assert 0.03 * gap < found.reach < 0.11 * gap


@pytest.mark.parametrize("width", [3, 40])
def test_the_groups_are_those_of_all_pairs(width):
    rng = np.random.default_rng(1)
    rows = np.repeat(rng.normal(size=(150, width)), 2, axis=0)
    rows[::4] += 1e-4 * rng.normal(size=(75, width))
    groups, found = groups_of(rows)
    expected = by_pairs(rows, found.reach)
    assert len(set(zip(groups.tolist(), expected.tolist(), strict=True))) == len(set(expected.tolist()))
    apart = found.apart(np.arange(0, 300, 2), np.arange(1, 300, 2))
    assert ((apart == 0) == (cdist(rows, rows)[np.arange(0, 300, 2), np.arange(1, 300, 2)] == 0)).all()


def test_the_order_of_the_rows_does_not_matter():
    rng = np.random.default_rng(2)
    rows = np.concatenate([rng.normal(size=(400, 24)), np.zeros((5, 24))])
    rows[:40] = rows[40:80] + 1e-3 * rng.normal(size=(40, 24))
    order = rng.permutation(len(rows))
    groups, other = groups_of(rows)[0], groups_of(rows[order])[0]
    pairs = set(zip(groups[order].tolist(), other.tolist(), strict=True))
    assert len(pairs) == len(set(groups.tolist())) == len(set(other.tolist()))


def test_rows_that_take_no_part_are_in_no_group():
    rows = np.zeros((6, 3))
    rows[:3] += np.arange(9).reshape(3, 3)
    groups, _ = groups_of(rows, np.array([True, True, True, True, True, False]))
    assert groups.tolist() == [-1, -1, -1, 0, 0, -1]


@pytest.mark.parametrize("rows", [np.ones((4, 2)), np.ones((1, 2)), np.eye(2)])
def test_odd_rows(rows):
    groups, _ = groups_of(rows)
    assert (groups >= 0).all() == (len(np.unique(rows, axis=0)) < len(rows))


def test_copies_of_a_row_with_a_wrong_label_are_as_suspicious_as_it_is():
    rng = np.random.default_rng(4)
    truth = np.repeat([0, 1], 150)
    rows = rng.normal(size=(300, 6)) + 4.0 * truth[:, None]
    labels = truth.copy()
    labels[:8] = 1  # wrong
    again = np.r_[np.arange(300), np.full(60, 3)]  # many copies of a row with a wrong label
    alone = gmmatch.suspects(rows, labels)
    found = gmmatch.suspects(rows[again], labels[again])
    assert set(alone.rows[:8]) == set(range(8))
    assert set(found.rows[:68]) == {*range(8), *range(300, 360)}
    suspicion = found.suspicion[np.argsort(found.rows)]
    assert (suspicion[300:] == suspicion[3]).all()
    assert suspicion[3] > 0.5


@pytest.mark.parametrize("width", [12, 64])
def test_copies_of_some_rows_change_nothing_for_the_others(width):
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(3000, width))
    apart = rng.normal(size=(600, width))
    # Pairs at all distances from none to twice the reach: many are at the edge of being near copies.
    apart *= (
        np.linspace(0, 2 * groups_of(rows)[1].reach, 600)[:, None] / np.linalg.norm(apart, axis=1)[:, None]
    )
    rows[:600] = rows[600:1200] + apart
    sources = np.repeat(np.arange(2990, 2995), 180)
    copies = rows[sources] + 1e-4 * rng.normal(size=(900, width)) * (rng.random(900) < 0.5)[:, None]
    alone, among = groups_of(rows)[0], groups_of(np.concatenate([rows, copies]))[0][:3000]
    others = np.setdiff1d(np.arange(3000), sources)
    assert 100 < (alone >= 0).sum() < 1000
    pairs = set(zip(alone[others].tolist(), among[others].tolist(), strict=True))
    assert len(pairs) == len(set(alone[others].tolist())) == len(set(among[others].tolist()))


def test_the_typical_gap_is_the_median_distance_to_the_nearest_neighbour_of_so_many_rows():
    rng = np.random.default_rng(5)
    sample = rng.normal(size=(2000, 8))

    def nearest(rows):
        return np.sort(np.linalg.norm(rows[:256, None] - rows, axis=2), axis=1)[:, 1]

    def middle(gaps):
        return float(np.sqrt(np.median(gaps**2)))

    gap = middle(nearest(sample))
    assert _typical_gap(sample, 2000) == pytest.approx(gap)
    fall = np.log(middle(nearest(sample[:1024])) / gap) / np.log(2000 / 1024)
    assert _typical_gap(sample, 16_000) == pytest.approx(gap * 8.0**-fall)
    assert 0.06 < fall < 0.2  # an eighth in eight dimensions
    assert _typical_gap(sample[:900], 9000) == pytest.approx(_typical_gap(sample[:900], 900))
    assert _typical_gap(sample[:1], 5) == 0.0
    assert _typical_gap(np.zeros((5, 2)), 5) == 0.0
    # Near copies apart: those of every fifth row do not make the gap small.
    paired = np.concatenate([sample[:400], sample[:80] + 1e-6])
    apart = np.sort(np.linalg.norm(paired[:, None] - paired, axis=2), axis=1)[:, 1]
    assert _typical_gap(paired, 480) == pytest.approx(middle(apart[apart > 1e-3][:256]))


@pytest.mark.parametrize("width", [16, 17, 200])
def test_distances_in_the_sketch_are_about_those_of_the_rows(width):
    rows = np.random.default_rng(6).normal(size=(300, width)) + 5.0
    found = _sketch(rows, np.full(width, 5.0), 0.5)
    assert found.shape == (300, 16)
    if width == 16:
        np.testing.assert_allclose(found, (rows - 5.0) / 0.5, rtol=1e-5)
    ratio = np.linalg.norm(found[1:] - found[:-1], axis=1) / np.linalg.norm(rows[1:] - rows[:-1], axis=1)
    assert np.mean(ratio**2) == pytest.approx(4.0, rel=0.25)


def test_pairs_in_a_cell_of_a_grid_are_near_and_five_grids_have_nearly_all_of_them():
    rng = np.random.default_rng(7)
    sketch = 40.0 * rng.normal(size=(1000, 16))
    moved = rng.normal(size=(500, 16))
    length = rng.uniform(0.1, 1.6, 500)
    sketch[500:] = sketch[:500] + moved * (length / np.linalg.norm(moved, axis=1))[:, None]
    sketch = sketch.astype(np.float32)
    found = [_near(sketch, np.arange(1000), grid) for grid in range(5)]
    assert all((np.abs(one - other) == 500).all() for one, other in found)
    hits = [np.isin(np.arange(500), np.minimum(*pairs)) for pairs in found]
    assert not any(hit[length > 1.001].any() for hit in hits)
    # As the module says: of the farthest near copies one grid has 0.43, of those at half the distance 0.66.
    half, far = np.abs(length - 0.5) < 0.1, np.abs(length - 0.95) < 0.05
    assert np.mean([hit[half].mean() for hit in hits]) == pytest.approx(0.66, abs=0.1)
    assert np.mean([hit[far].mean() for hit in hits]) == pytest.approx(0.43, abs=0.15)
    assert np.any(hits, axis=0)[length < 0.5].mean() > 0.99
    chosen = np.arange(0, 1000, 2)
    assert np.isin(_near(sketch, chosen, 0), chosen).all()
