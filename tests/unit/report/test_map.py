from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from gmmatch.errors import InvalidParameter
from gmmatch.reporting import map as maps
from gmmatch.reporting.map import (
    GRID,
    balanced_sample,
    check_projection,
    choose_rows,
    principal_components,
    project,
    to_grid,
)


def test_components_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 20)) * np.linspace(5, 1, 20)
    places, shares = principal_components(rows, np.ones(300, bool), 2, seed=0)
    expected = PCA(2, svd_solver="full").fit(rows)
    np.testing.assert_allclose(np.abs(places), np.abs(expected.transform(rows)), atol=1e-8)
    np.testing.assert_allclose(shares, expected.explained_variance_ratio_)


def test_wide_rows_have_nearly_the_same_components():
    rng = np.random.default_rng(0)
    scales = np.r_[30.0, 20.0, np.ones(1500)]
    rows = (rng.normal(size=(200, 1502)) * scales).astype(np.float32)
    places, _ = principal_components(rows, np.ones(200, bool), 2, seed=0)
    expected = PCA(2, svd_solver="full").fit_transform(rows.astype(float))
    for axis in range(2):
        assert abs(np.corrcoef(places[:, axis], expected[:, axis])[0, 1]) > 0.999


def test_far_rows_do_not_shape_the_map(blobs):
    rows = blobs[0].copy()
    rows[0, 5] = 1e9
    ordinary = np.arange(len(rows)) > 0
    places = principal_components(rows, ordinary, 2, seed=0)[0]
    expected = PCA(2).fit(rows[1:]).transform(rows[1:])
    np.testing.assert_allclose(np.abs(places[1:]), np.abs(expected), rtol=1e-6, atol=1e-6)


def test_a_fit_to_some_rows_is_close_to_a_fit_to_all(monkeypatch):
    monkeypatch.setattr(maps, "_MOST_VALUES", 10 * 600)
    rows = np.random.default_rng(0).normal(size=(3000, 10)) * np.r_[9.0, 5.0, np.ones(8)]
    places = principal_components(rows, np.ones(3000, bool), 2, seed=0)[0]
    expected = PCA(2).fit_transform(rows)
    for axis in range(2):
        assert abs(np.corrcoef(places[:, axis], expected[:, axis])[0, 1]) > 0.99


@pytest.mark.parametrize("rows", [np.ones((5, 4)), np.ones((1, 4)), np.arange(6.0).reshape(2, 3)])
def test_rows_that_are_alike_or_few_have_places(rows):
    found = project(rows, np.ones(len(rows), bool), "pca", 0)[0]
    assert np.isfinite(found).all()
    grid, window = to_grid(found)
    assert window[0] < window[1]
    assert ((grid >= 0) & (grid <= GRID)).all()


def test_rows_of_one_or_two_numbers_are_shown_as_they_are():
    rows = np.random.default_rng(0).normal(size=(50, 2))
    assert (project(rows, np.ones(50, bool), "pca", 0)[0] == rows).all()
    line = project(rows[:, :1], np.ones(50, bool), "pca", 0)[0]
    assert (line[:, 0] == rows[:, 0]).all()
    assert not line[:, 1].any()


def test_the_grid_keeps_the_shape_and_the_window_leaves_out_stragglers():
    places = np.random.default_rng(0).normal(size=(5000, 2)) * [3.0, 1.0]
    places[0] = [500.0, 0.0]
    grid, (left, right, bottom, top) = to_grid(places)
    ratio = (places[1] - places[2]) / (grid[1] - grid[2])
    assert ratio[0] == pytest.approx(ratio[1], rel=0.05)
    inside = (grid[:, 0] > left) & (grid[:, 0] < right) & (grid[:, 1] > bottom) & (grid[:, 1] < top)
    assert not inside[0]
    assert inside.mean() > 0.97


def test_projections_are_checked_by_name():
    assert check_projection("pca") == "pca"
    with pytest.raises(InvalidParameter, match="projection must be 'classes'"):
        check_projection("tsne")
    for former in ("auto", "umap"):
        with pytest.warns(DeprecationWarning, match="laid out by classes"):
            assert check_projection(former) == "classes"


def test_the_map_tells_more_classes_apart_than_principal_components_do():
    bunch = load_digits()
    rows, codes = bunch.data, bunch.target
    given = codes.copy()
    wrong = np.random.default_rng(0).random(len(codes)) < 0.2
    given[wrong] = (given[wrong] + 1) % 10
    everybody = np.ones(len(rows), bool)
    found, about = project(rows, everybody, "classes", 0, given, ~wrong)
    assert "linear classifier" in about
    flat = project(rows, everybody, "pca", 0)[0][:, :2]

    def told_apart(places):
        return cross_val_score(KNeighborsClassifier(10), places, codes, cv=3).mean()

    assert told_apart(found) > told_apart(flat) + 0.15
    # A row with a wrong label lies with its true class, not with the one it is given.
    middles = np.stack([found[~wrong & (codes == code)].mean(axis=0) for code in range(10)])
    nearest = np.linalg.norm(found[wrong][:, None] - middles, axis=2).argmin(axis=1)
    assert (nearest == codes[wrong]).mean() > 0.7


def test_rows_far_off_lie_around_their_class_and_not_on_a_square():
    rng = np.random.default_rng(0)
    codes = np.arange(600) % 3
    rows = rng.normal(size=(600, 8)) + 6 * np.eye(3, 8)[codes]
    far = np.arange(600) >= 540
    rows[far] += 500 * rng.normal(size=(60, 8))
    places = project(rows, ~far, "classes", 0, codes, ~far)[0]
    assert len(np.unique(places[far].round(6), axis=0)) == 60
    for axis in (0, 1):
        assert len(np.unique(places[far, axis].round(3))) > 50
    ordinary = np.abs(places[~far]).max()
    assert np.abs(places[far]).max() < 2 * ordinary


def test_without_two_believed_classes_the_map_is_made_of_components_and_says_so(blobs):
    rows = blobs[0]
    everybody = np.ones(400, bool)
    for codes, believed in (
        (None, everybody),
        (np.zeros(400, int), everybody),
        (np.arange(400) % 2, ~everybody),
    ):
        assert "principal components" in project(rows, everybody, "classes", 0, codes, believed)[1]


def test_quotas_are_as_even_as_sizes_allow():
    rng = np.random.default_rng(0)
    for _ in range(50):
        sizes = rng.integers(0, 40, 7)
        total = int(rng.integers(1, 200))
        codes = np.repeat(np.arange(7), sizes)
        drawn = balanced_sample(np.arange(len(codes)), codes, total, rng)
        quota = np.bincount(codes[drawn], minlength=7)
        assert quota.sum() == min(total, sizes.sum())
        assert (quota <= sizes).all()
        waiting = quota[quota < sizes]
        assert not waiting.size or quota.max() - waiting.min() <= 1


def test_a_balanced_sample_is_drawn_evenly_and_repeats_with_its_seed():
    codes = np.repeat([0, 1, 2], [1000, 100, 10])
    rows = np.random.default_rng(3).permutation(5000)[:1110]
    drawn = balanced_sample(rows, codes, 210, np.random.default_rng(0))
    assert (drawn == balanced_sample(rows, codes, 210, np.random.default_rng(0))).all()
    assert (np.diff(drawn) > 0).all()
    place = {int(row): code for row, code in zip(rows, codes, strict=True)}
    assert np.bincount([place[int(row)] for row in drawn]).tolist() == [100, 100, 10]


@pytest.mark.parametrize("kept", [50, 3000, 9990])
def test_the_map_has_the_first_picks_and_what_must_be_there(kept):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 10_000)
    usable = np.setdiff1d(np.arange(10_000), [5, 77])
    picked = rng.permutation(usable)[:kept]
    always = np.setdiff1d(usable, picked)[:7]
    shown = choose_rows(usable, codes, picked, always, seed=0, total=4000)
    assert len(shown) == len(set(shown.tolist())) == 4000
    assert set(always.tolist()) | set(picked[:1000].tolist()) <= set(shown.tolist()) <= set(usable.tolist())
    rank = {int(row): place for place, row in enumerate(picked)}
    ranks = [rank.get(int(row), -1) for row in shown]
    dropped = ranks.count(-1)
    assert ranks[:dropped] == [-1] * dropped
    assert ranks[dropped:] == sorted(ranks[dropped:], reverse=True)
    assert (shown == choose_rows(usable, codes, picked, always, seed=0, total=4000)).all()


def test_all_rows_are_on_the_map_where_there_is_room():
    shown = choose_rows(np.arange(50), np.zeros(50, np.int64), np.array([4, 2]), np.array([9]), seed=0)
    assert sorted(shown.tolist()) == list(range(50))
    assert shown[-2:].tolist() == [2, 4]
