"""Clusters against brute force and scikit-learn, and what they are for: groups, outliers, copies."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

import gmmatch
from gmmatch.compute.keys import row_keys
from gmmatch.matching import clusters as module
from gmmatch.matching.clusters import cluster_count, find_clusters, lloyd


def blobs(n=900, groups=12, d=5, seed=0, apart=6.0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, groups, n)
    return apart * rng.normal(size=(groups, d))[truth] + rng.normal(size=(n, d)), truth


def cells_of(rows, count, seed=0, usable=None):
    usable = np.ones(len(rows), dtype=bool) if usable is None else usable
    return find_clusters(rows, usable, row_keys(rows), count, seed)


def inertia(rows, codes):
    return sum(((rows[codes == code] - rows[codes == code].mean(0)) ** 2).sum() for code in np.unique(codes))


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("count", [60, 300])
def test_cells_are_nearly_as_tight_as_those_of_scikit_learn(count, levels, monkeypatch):
    if levels == 2:
        monkeypatch.setattr(module, "_FLAT_WORK", 0.0)
    rows, _ = blobs()
    codes = cells_of(rows, count)
    inside = codes >= 0
    assert np.count_nonzero(inside) > 0.97 * len(rows)
    rows, codes = rows[inside], codes[inside]
    peer = KMeans(count, n_init=1, random_state=0).fit(rows)
    assert codes.max() + 1 <= 1.1 * count
    assert inertia(rows, codes) < (1.35 if levels == 2 else 1.15) * peer.inertia_


def test_every_row_is_in_the_cell_of_the_nearest_centre():
    rows, _ = blobs()
    centers = lloyd(rows, 40, np.random.default_rng(0))
    found = module.Clusters(rows.mean(axis=0)[None], [centers]).assign(rows)
    np.testing.assert_array_equal(found, ((rows[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1))


def test_the_heaviest_cell_comes_first_and_unusable_rows_have_none():
    rows, _ = blobs()
    usable = np.arange(len(rows)) % 7 > 0
    rows[~usable] = np.nan
    codes = cells_of(rows, 50, usable=usable)
    assert (codes[~usable] == -1).all()
    sizes = np.bincount(codes[codes >= 0])
    assert (np.diff(sizes) <= 0).all()


@pytest.mark.parametrize("levels", [1, 2])
def test_the_order_of_the_rows_does_not_matter(levels, monkeypatch):
    if levels == 2:
        monkeypatch.setattr(module, "_FLAT_WORK", 0.0)
    rows, _ = blobs()
    order = np.random.default_rng(5).permutation(len(rows))
    np.testing.assert_array_equal(cells_of(rows, 80)[order], cells_of(rows[order], 80))


def test_rows_beyond_the_sample_go_to_the_cells_of_the_sample(monkeypatch):
    monkeypatch.setattr(module, "SAMPLE_ROWS", 300)
    rows, truth = blobs(apart=20.0)
    codes = cells_of(rows, 12)
    for code in np.unique(codes):
        assert len(np.unique(truth[codes == code])) == 1


@pytest.mark.parametrize("levels", [1, 2])
def test_copies_of_few_rows_are_few_cells(levels, monkeypatch):
    if levels == 2:
        monkeypatch.setattr(module, "_FLAT_WORK", 0.0)
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(1000, 30))
    rows[:300] = rows[:5][rng.integers(0, 5, 300)] + 1e-4 * rng.normal(size=(300, 30))
    codes = cells_of(rows, 200)
    assert len(np.unique(codes[:300])) <= 12


def test_rows_far_from_their_neighbours_are_in_no_cell_and_small_groups_are():
    rng = np.random.default_rng(4)
    crowd, few = rng.normal(size=(900, 12)), 6.0 + 0.6 * rng.normal(size=(12, 12))
    alone = 25.0 * rng.choice([-1.0, 1.0], size=(30, 12)) + rng.normal(size=(30, 12))
    codes = cells_of(np.concatenate([crowd, few, alone]), 60)
    assert (codes[912:] == -1).all()
    assert (codes[900:912] >= 0).all()
    assert np.count_nonzero(codes[:900] < 0) <= 9


def test_copies_leave_no_row_alone():
    rng = np.random.default_rng(4)
    rows = np.concatenate([np.repeat(rng.normal(size=(3, 5)), 100, axis=0), rng.normal(size=(60, 5))])
    assert (cells_of(rows, 20) >= 0).all()


def test_how_many_cells_follows_from_the_picks_and_the_rows():
    assert cluster_count("auto", 100, 5000) == 180
    assert cluster_count("auto", 3000, 5000) == 1666
    assert cluster_count("auto", 100_000, 1_000_000) == module.MOST_CLUSTERS
    assert cluster_count(40, 100, 5000) == 40
    assert cluster_count(40, 100, 30) == 30
    assert cluster_count("auto", 1, 2) == cluster_count("auto", 1, 5) == cluster_count(0, 1, 5) == 1
    assert cluster_count("auto", 3, 1000) == 6  # rounded up
    assert cluster_count("auto", 10**6, module.SAMPLE_ROWS) == module.SAMPLE_ROWS // 3
    assert cluster_count("auto", 10**6, module.SAMPLE_ROWS + 1) == module.MOST_CLUSTERS
    assert cluster_count(9000, 10**6, module.SAMPLE_ROWS + 1) == 9000


def test_coarse_cells_are_divided_by_how_many_rows_they_have_and_how_far_these_spread(monkeypatch):
    monkeypatch.setattr(module, "_FLAT_WORK", 0.0)
    monkeypatch.setattr(module, "_COARSE_ROWS", 700)
    rows, _ = blobs()
    rows[:300] = rows[0]  # copies of one row
    asked = []

    def noted(given, count, rng, rounds=module._ROUNDS):
        found = lloyd(given, count, rng, rounds)
        asked.append((given, count, rounds, found))
        return found

    monkeypatch.setattr(module, "lloyd", noted)
    found, _ = module._divide(rows, 90, 3)
    coarse = asked[0][3]
    assert (len(asked[0][0]), *asked[0][1:3]) == (700, 10, 12)  # the root of 90, rounded up
    np.testing.assert_array_equal(found.coarse, coarse)
    apart = ((rows[:, None] - coarse) ** 2).sum(axis=2)
    own = apart.argmin(axis=1)
    weights = np.array([np.sqrt((own == g).sum() * apart[own == g, g].sum()) for g in range(len(coarse))])
    shares = np.maximum(1, np.round(90 * weights / weights.sum()))
    fine = {given.tobytes(): (count, rounds) for given, count, rounds, _ in asked[1:]}
    for group in range(len(coarse)):
        if (own == group).any():
            assert fine[rows[own == group].tobytes()] == (shares[group], 6)
    assert len(found) == sum(len(points) for points in found.fine)
    codes = found.assign(rows)
    first = 0
    for group, points in enumerate(found.fine):
        members = rows[own == group]
        if len(members):
            best = ((members[:, None] - points) ** 2).sum(axis=2).argmin(axis=1)
            np.testing.assert_array_equal(codes[own == group], first + best)
        first += len(points)


def test_centres_move_until_none_does_or_the_rounds_are_over():
    rows, _ = blobs(n=300, groups=4)
    points = module.spread_out(rows, 9, np.random.default_rng(2))
    for rounds in range(30):
        np.testing.assert_allclose(lloyd(rows, 9, np.random.default_rng(2), rounds), points, atol=1e-9)
        owner = ((rows[:, None] - points) ** 2).sum(axis=2).argmin(axis=1)
        points = np.array([rows[owner == code].mean(axis=0) for code in range(9)])


def test_without_labels_every_group_has_picks_and_few_are_outliers():
    rows, truth = blobs(n=1500, groups=30, d=4, apart=12.0)
    rng = np.random.default_rng(9)
    wrong = rng.permutation(1500)[:120]
    rows[wrong] = 24.0 * rng.normal(size=(120, 4))
    picks = gmmatch.select(rows, keep=60).indices
    assert len(np.unique(truth[np.setdiff1d(picks, wrong)])) >= 28
    assert np.isin(picks, wrong).mean() <= 0.08 / 3


def test_a_group_beyond_all_measure_is_left_to_the_last():
    rows, _ = blobs()
    rows[:300] += 1e6
    selection = gmmatch.select(rows, keep=200)
    assert (selection.indices >= 300).all()
    assert (selection.tiers[:300] == 2).all()


@pytest.mark.parametrize("keep", [1, 7, 600, 899, 900])
def test_any_budget_is_met_exactly(keep):
    rows, _ = blobs()
    selection = gmmatch.select(rows, keep=keep)
    assert len(np.unique(selection.indices)) == keep
    means = np.cumsum(rows[selection.indices], axis=0) / np.arange(1, keep + 1)[:, None]
    np.testing.assert_allclose(
        selection.scores, np.linalg.norm(means - selection.centers[0], axis=1), atol=1e-9
    )


def test_one_pick_of_a_cell_is_the_row_nearest_to_its_geometric_median():
    rows, _ = blobs()
    codes = cells_of(rows, 40)
    selection = gmmatch.select(rows, keep=20, clusters=40)
    for pick in selection.indices:
        mine = np.flatnonzero(codes == codes[pick])
        if len(mine) > 2:
            center = gmmatch.geometric_median(rows[mine]).point
            assert pick == mine[np.linalg.norm(rows[mine] - center, axis=1).argmin()]


def test_a_coarse_cell_that_holds_most_of_the_rows_is_divided_in_parts(monkeypatch):
    rng = np.random.default_rng(0)
    rows = np.where(rng.random((3000, 40)) < 0.02, rng.normal(size=(3000, 40)), 0.0)
    rows += 0.05 * rng.normal(size=rows.shape)
    monkeypatch.setattr(module, "_FLAT_WORK", 0.0)
    whole = cells_of(rows, 300)
    monkeypatch.setattr(module, "_GROUP_WORK", 1e6)
    sizes = []
    plain = module.lloyd

    def seen(rows, count, rng, rounds=module._ROUNDS):
        sizes.append((len(rows), count))
        return plain(rows, count, rng, rounds)

    monkeypatch.setattr(module, "lloyd", seen)
    parts = cells_of(rows, 300)
    assert max(n * 40 * count for n, count in sizes[1:]) < 1e6
    assert abs(parts.max() - whole.max()) < 0.1 * whole.max()
    assert inertia(rows, parts) < 1.15 * inertia(rows, whole)
    order = rng.permutation(3000)
    assert cells_of(rows[order], 300).tolist() == parts[order].tolist()
