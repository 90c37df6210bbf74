"""Copies: the groups are those of comparing every pair."""

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

import gmmatch
from gmmatch.compute.keys import row_keys
from gmmatch.trust import find_copies


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


def test_copies_of_a_suspect_stand_behind_it_and_all_others():
    rng = np.random.default_rng(4)
    truth = np.repeat([0, 1], 150)
    rows = rng.normal(size=(300, 6)) + 4.0 * truth[:, None]
    labels = truth.copy()
    labels[:8] = 1  # wrong
    again = np.r_[np.arange(300), np.full(60, 3)]  # many copies of a row with a wrong label
    alone = gmmatch.suspects(rows, labels)
    found = gmmatch.suspects(rows[again], labels[again])
    assert set(alone.rows[:8]) == set(found.rows[:8]) == set(range(8))
    assert set(found.rows[-60:]) == set(range(300, 360))
    assert (found.wrong_label[-60:] > 0.5).all()


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
