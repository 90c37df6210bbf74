"""Clusters against brute force and scikit-learn, and what they are for: groups, outliers, copies."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.cluster import KMeans

import gmmatch
from gmmatch.compute.keys import row_keys
from gmmatch.matching import clusters as module
from gmmatch.matching.clusters import divide_into_clusters, find_clusters, lloyd
from gmmatch.matching.groups import Group
from gmmatch.matching.pick import _cut
from gmmatch.trust import judge


def blobs(n=900, groups=12, d=5, seed=0, apart=6.0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, groups, n)
    return apart * rng.normal(size=(groups, d))[truth] + rng.normal(size=(n, d)), truth


def clusters_of(rows, seed=0, usable=None, wanted="auto"):
    """Return the clusters, and that of each row, -1 for rows of none."""
    usable = np.ones(len(rows), dtype=bool) if usable is None else usable
    found = find_clusters(rows, row_keys(np.where(usable[:, None], rows, 0.0)), usable, seed, wanted)
    codes = found.ready(rows.dtype)(np.where(usable[:, None], rows, 0.0))
    return found, np.where(usable & ~found.alone, codes, -1)


def cells_of(rows, seed=0, usable=None, wanted="auto"):
    return clusters_of(rows, seed, usable, wanted)[1]


def inertia(rows, codes):
    return sum(((rows[codes == code] - rows[codes == code].mean(0)) ** 2).sum() for code in np.unique(codes))


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("count", [60, 300])
def test_cells_are_nearly_as_tight_as_those_of_scikit_learn(count, levels, monkeypatch):
    if levels == 2:
        monkeypatch.setattr(module, "_FLAT_WORK", 0.0)
    monkeypatch.setattr(module, "MOST_CLUSTERS", count)
    rows, _ = blobs()
    codes = cells_of(rows)
    inside = codes >= 0
    assert np.count_nonzero(inside) > 0.97 * len(rows)
    rows, codes = rows[inside], codes[inside]
    peer = KMeans(count, n_init=1, random_state=0).fit(rows)
    assert codes.max() + 1 <= 1.1 * count
    assert inertia(rows, codes) < (1.35 if levels == 2 else 1.15) * peer.inertia_


def test_every_row_is_in_the_cell_of_the_nearest_centre():
    rows, _ = blobs()
    centers = lloyd(rows, 40, np.random.default_rng(0))
    place = np.random.default_rng(1).permutation(40)
    found = module.Clusters(rows.mean(axis=0)[None], [centers], place, np.zeros(900, bool))
    near = ((rows[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(found.ready(rows.dtype)(rows), place[near])


def test_a_cluster_joins_the_nearest_that_is_chosen():
    rows, _ = blobs()
    found, codes = clusters_of(rows)
    centers = np.stack([rows[codes == code].mean(axis=0) for code in range(len(found))])
    chosen = np.array([0, 3, 17, 40])
    joined = found.join(chosen)
    near = ((centers[:, None] - centers[chosen]) ** 2).sum(axis=2).argmin(axis=1)
    assert (joined == near).mean() > 0.98  # the last round of k-means moves centres a little
    assert joined[chosen].tolist() == [0, 1, 2, 3]


def covered(near, weights, chosen):
    return weights @ near[chosen].max(axis=0)


def test_each_cluster_in_order_covers_most_of_what_is_not_covered_yet():
    rng = np.random.default_rng(2)
    points, weights = rng.normal(size=(60, 3)), rng.integers(1, 30, 60).astype(float)
    order = module._coverage(points, weights, 0.8)
    apart = ((points[:, None] - points) ** 2).sum(axis=2)
    near = np.maximum(1.0 - apart / 0.64, 0.0)
    assert sorted(order.tolist()) == list(range(60))
    for count in range(60):
        gains = [covered(near, weights, [*order[:count], other]) for other in range(60)]
        assert gains[order[count]] >= max(gains) - 1e-3


def test_a_small_group_apart_comes_before_the_second_part_of_a_large_one():
    rng = np.random.default_rng(5)
    large, small = rng.normal(size=(800, 8)), 4.0 + 0.3 * rng.normal(size=(12, 8))
    rows = np.concatenate([large, small])
    for keep in (20, 40):
        picks = gmmatch.select(rows, keep=keep).indices
        assert (picks >= 800).sum() == 1


def test_rows_that_are_less_dense_count_less_and_none_where_half_are_copies():
    rng = np.random.default_rng(6)
    rows = np.concatenate([rng.normal(size=(400, 6)), 3.0 * rng.normal(size=(40, 6))])
    reach, weights, alone = module._density(rows)
    gaps = np.sqrt(np.sort(((rows[:, None] - rows) ** 2).sum(axis=2), axis=1)[:, 5])
    assert reach == pytest.approx(np.median(gaps))
    spread = 1.4826 * np.median(np.abs(gaps - reach))
    beyond = np.maximum(gaps - reach, 0.0) / spread
    np.testing.assert_allclose(weights, np.exp(-0.5 * (beyond / 2.0) ** 2), rtol=1e-6)
    np.testing.assert_array_equal(alone, (beyond > 3.5) & (gaps > 2.0 * reach))
    assert alone.any()
    rows[:300] = rows[0]
    assert module._density(rows)[1].min() == 1.0


def test_unusable_rows_have_no_cluster_and_change_nothing():
    rows, _ = blobs()
    usable = np.arange(len(rows)) % 7 > 0
    others = np.where(usable[:, None], rows, np.nan)
    codes = cells_of(others, usable=usable)
    assert (codes[~usable] == -1).all()
    np.testing.assert_array_equal(codes[usable], cells_of(rows[usable]))


@pytest.mark.parametrize("levels", [1, 2])
def test_the_order_of_the_rows_does_not_matter(levels, monkeypatch):
    if levels == 2:
        monkeypatch.setattr(module, "_FLAT_WORK", 0.0)
    rows, _ = blobs()
    order = np.random.default_rng(5).permutation(len(rows))
    np.testing.assert_array_equal(cells_of(rows)[order], cells_of(rows[order]))


def test_rows_beyond_the_sample_go_to_the_cells_of_the_sample(monkeypatch):
    monkeypatch.setitem(judge.__globals__, "_SAMPLE_ROWS", 300)
    monkeypatch.setitem(judge.__globals__, "_ROWS_PER_CLASS", 1)
    rows, truth = blobs(apart=20.0)
    verdict = gmmatch.GMMatching(12).fit(rows)._judged
    assert verdict.sample == 300
    for code in range(verdict.clusters.max() + 1):
        assert len(np.unique(truth[verdict.clusters == code])) <= 1


@pytest.mark.parametrize("levels", [1, 2])
def test_copies_of_few_rows_are_few_cells(levels, monkeypatch):
    if levels == 2:
        monkeypatch.setattr(module, "_FLAT_WORK", 0.0)
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(1000, 30))
    rows[:300] = rows[:5][rng.integers(0, 5, 300)] + 1e-4 * rng.normal(size=(300, 30))
    codes = cells_of(rows)
    assert len(np.unique(codes[:300])) <= 12


def test_rows_far_from_their_neighbours_are_in_no_cell_and_small_groups_are():
    rng = np.random.default_rng(4)
    crowd, few = rng.normal(size=(900, 12)), 6.0 + 0.6 * rng.normal(size=(12, 12))
    alone = 25.0 * rng.choice([-1.0, 1.0], size=(30, 12)) + rng.normal(size=(30, 12))
    codes = cells_of(np.concatenate([crowd, few, alone]))
    assert (codes[912:] == -1).all()
    assert (codes[900:912] >= 0).all()
    assert np.count_nonzero(codes[:900] < 0) <= 9


def test_copies_leave_no_row_alone():
    rng = np.random.default_rng(4)
    rows = np.concatenate([np.repeat(rng.normal(size=(3, 5)), 100, axis=0), rng.normal(size=(60, 5))])
    assert (cells_of(rows) >= 0).all()


@pytest.mark.parametrize(("wanted", "count"), [("auto", 300), (40, 300), (400, 400), (5000, 900)])
def test_there_are_a_third_as_many_clusters_as_rows_or_as_many_as_are_asked_for(wanted, count):
    rows, _ = blobs()
    found, codes = clusters_of(rows, wanted=wanted)
    assert len(found) == min(count, np.count_nonzero(codes >= 0))


@pytest.mark.parametrize(("clusters", "count"), [("auto", 20), (7, 7), (50, 50)])
def test_there_are_as_many_groups_as_picks_or_as_many_as_are_asked_for(clusters, count):
    rows, _ = blobs()
    verdict = gmmatch.GMMatching(20, clusters=clusters).fit(rows)._judged
    whole = Group(rows, np.arange(len(rows)), None, (0,), 1)
    groups, judged = divide_into_clusters(whole, clusters, 20, verdict)
    *members, outside = [group.members for group in groups]
    assert len(members) == count
    np.testing.assert_array_equal(outside, np.flatnonzero((verdict.clusters < 0) | (verdict.tiers > 0)))
    np.testing.assert_array_equal(np.flatnonzero(judged.tiers > 0), outside)
    np.testing.assert_array_equal(np.sort(np.concatenate([*members, outside])), np.arange(len(rows)))
    # The first clusters are those that others join.
    assert [verdict.clusters[own].min() for own in members] == list(range(count))


def test_coarse_cells_are_divided_by_how_many_rows_they_have_and_how_far_these_spread(monkeypatch):
    monkeypatch.setattr(module, "_FLAT_WORK", 0.0)
    rows, _ = blobs()
    rows[:300] = rows[0]  # copies of one row
    asked = []

    def noted(given, count, rng, rounds=module._ROUNDS, fewest=0):
        found = lloyd(given, count, rng, rounds, fewest)
        asked.append((given, count, rounds, found))
        return found

    monkeypatch.setattr(module, "lloyd", noted)
    found = module.Clusters(*module._divide(rows, 90, 3, 0), np.arange(200), np.zeros(len(rows), bool))
    coarse = asked[0][3]
    assert (len(asked[0][0]), *asked[0][1:3]) == (900, 10, 12)  # the root of 90, rounded up
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
    codes = found.ready(rows.dtype)(rows)
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


def test_a_pick_of_a_cluster_makes_up_for_those_of_the_clusters_before():
    rows, _ = blobs()
    estimator = gmmatch.GMMatching(20).fit(rows)
    whole = Group(rows, np.arange(len(rows)), None, (0,), 1)
    groups, _ = divide_into_clusters(whole, "auto", 20, estimator._judged)
    error, squares, expected = np.zeros(rows.shape[1]), 0.0, []
    for mine in [group.members for group in groups[:20]]:
        offsets = rows[mine] - rows[mine].mean(axis=0)
        left = max(0.0, 1 - 0.5 * squares / max(error @ error, 1e-30))
        best = np.linalg.norm(left * error - offsets, axis=1).argmin()
        error -= offsets[best]
        squares += offsets[best] @ offsets[best]
        expected.append(mine[best])
    np.testing.assert_array_equal(np.sort(estimator.sample_indices_), np.sort(expected))


def test_picks_are_as_mixed_as_the_rows_where_one_kind_is_denser():
    rng = np.random.default_rng(4)
    dense = np.arange(1200) < 600
    rows = rng.normal(size=(1200, 40)) * np.where(dense, 0.9, 1.0)[:, None] + 0.5 * dense[:, None]
    picks = gmmatch.select(rows, keep=60).indices
    assert 20 <= dense[picks].sum() <= 40


def test_a_large_cluster_is_cut_at_random_and_each_piece_has_its_share():
    rows, few = np.zeros((3000, 2)), np.arange(100, 140)
    large, small = (Group(rows, own, None, (5, 1), 2) for own in (np.arange(200, 3000), few))
    places, pieces, quotas = zip(*_cut(large, 50), strict=True)
    assert [len(piece.members) for piece in pieces] == [255] * 6 + [254] * 5
    assert sum(quotas) == 50
    assert max(quotas) - min(quotas) <= 1
    np.testing.assert_array_equal(np.sort(np.concatenate(places)), np.arange(2800))
    assert all(
        (large.members[place] == piece.members).all() for place, piece in zip(places, pieces, strict=True)
    )
    assert [(len(piece.members), quota) for _, piece, quota in _cut(large, 2)] == [(1400, 1), (1400, 1)]
    assert _cut(small, 3) == [(None, small, 3)]
    classes = replace(large, label="a")
    assert _cut(classes, 50) == [(None, classes, 50)]


def test_of_many_rows_those_by_themselves_make_no_clusters():
    rows, _ = blobs(n=1200, groups=12)
    rows[::100] += 30.0 * np.arange(1, 13)[:, None]
    count = len(rows) // (2 * module._ROWS_PER_CLUSTER)
    fewer = lloyd(rows, count, np.random.default_rng(1), fewest=2)
    every = lloyd(rows, count, np.random.default_rng(1))
    owner = ((rows[:, None] - every) ** 2).sum(axis=2).argmin(axis=1)
    assert len(fewer) < len(every)
    assert len(fewer) == (np.bincount(owner, minlength=len(every)) > 1).sum()


def test_a_coarse_cell_that_holds_most_of_the_rows_is_divided_in_parts(monkeypatch):
    rng = np.random.default_rng(0)
    rows = np.where(rng.random((3000, 40)) < 0.02, rng.normal(size=(3000, 40)), 0.0)
    rows += 0.05 * rng.normal(size=rows.shape)
    monkeypatch.setattr(module, "_FLAT_WORK", 0.0)
    monkeypatch.setattr(module, "MOST_CLUSTERS", 600)
    whole = cells_of(rows)
    monkeypatch.setattr(module, "_GROUP_WORK", 1e6)
    sizes = []
    plain = module.lloyd

    def seen(rows, count, rng, rounds=module._ROUNDS, fewest=0):
        sizes.append((len(rows), count))
        return plain(rows, count, rng, rounds, fewest)

    monkeypatch.setattr(module, "lloyd", seen)
    parts = cells_of(rows)
    assert max(n * 40 * count for n, count in sizes[1:]) < 1e6
    assert abs(parts.max() - whole.max()) < 0.1 * whole.max()
    assert inertia(rows, parts) < 1.15 * inertia(rows, whole)
    order = rng.permutation(3000)
    assert cells_of(rows[order]).tolist() == parts[order].tolist()


@pytest.mark.parametrize("seed", range(3))
def test_a_class_that_is_thin_beside_a_dense_one_is_picked_from(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense, thin = 0.4 * rng.normal(size=(320, 6)), 1.0 + 1.2 * rng.normal(size=(160, 6))
    scattered = 40.0 * rng.uniform(-1, 1, size=(20, 6))
    kept = gmmatch.select(np.concatenate([dense, thin, scattered]), keep=48).indices
    assert np.count_nonzero((kept >= 320) & (kept < 480)) >= 8
    assert np.count_nonzero(kept >= 480) <= 1
