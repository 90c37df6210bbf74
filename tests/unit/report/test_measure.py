from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gmmatch
from gmmatch.data import Dataset, StackedRows
from gmmatch.matching.features import unit_rows
from gmmatch.reporting.inputs import measure, prepare
from gmmatch.reporting.summarise import (
    choose_budgets,
    counts_at,
    group_objectives,
    make_curve,
    objectives_at,
)
from gmmatch.selectors import METHODS


def objectives_by_hand(rows, labels, indices, centers, k):
    """Return the mean of the classes' distances after k picks, weighted by their picks."""
    first = indices[:k]
    total = 0.0
    for center, label in zip(centers, np.unique(labels[indices]), strict=True):
        own = first[labels[first] == label]
        if len(own):
            total += len(own) * np.linalg.norm(rows[own].mean(axis=0) - center)
    return total / k


@pytest.mark.parametrize("method", ["gm-matching", "random", "k-center", "easy", "herding"])
def test_the_curve_is_the_distance_of_the_mean_of_every_prefix(blobs, method):
    rows, labels = blobs
    selection = gmmatch.select(rows, keep=0.2, labels=labels, method=method)
    inputs = prepare(selection, Dataset(rows, "blobs", "array", labels=labels))
    curve = make_curve(inputs)
    assert curve.budgets == list(range(1, 81))
    expected = [objectives_by_hand(rows, labels, selection.indices, inputs.centers, k) for k in curve.budgets]
    np.testing.assert_allclose(curve.objective, expected, rtol=6e-5)  # five digits
    if method not in ("random", "easy"):  # which know no objective
        assert curve.objective[-1] == pytest.approx(selection.objective, rel=6e-5)


@pytest.mark.parametrize(
    "params", [{"streams": 3, "batch_size": 32}, {"batch_size": "auto"}, {"by_class": False}]
)
def test_the_curve_ends_at_the_objective_however_the_rows_were_picked(blobs, params):
    rows, labels = blobs
    for guard in ("auto", "off"):
        selection = gmmatch.select(rows, keep=0.2, labels=labels, guard=guard, **params)
        inputs = prepare(selection, Dataset(rows, "blobs", "array", labels=labels))
        curve = make_curve(inputs)
        assert curve.objective[-1] == pytest.approx(selection.objective, rel=1e-4)


def test_scores_that_are_objectives_agree_with_the_rows(made):
    selection, source = made
    inputs = prepare(selection, source)
    assert inputs.scores_are_objectives
    found = group_objectives(inputs.rows, selection.indices, inputs.picked_groups, inputs.centers)
    np.testing.assert_allclose(found, selection.scores, rtol=1e-9)


def test_what_random_subsets_do_is_what_drawing_them_shows(blobs):
    rows, labels = blobs
    codes = np.unique(labels, return_inverse=True)[1]
    centers = np.stack([gmmatch.geometric_median(rows[codes == code]).point + 0.1 for code in range(3)])
    found = measure(rows, codes, centers)
    rng = np.random.default_rng(1)
    for picks in ([1, 1, 1], [3, 7, 11], [50, 20, 200]):
        means = []
        for code, count in enumerate(picks):
            own = rows[codes == code]
            drawn = [own[rng.choice(len(own), count, replace=False)].mean(axis=0) for _ in range(2000)]
            means.append(np.sqrt(np.mean(np.sum((np.array(drawn) - centers[code]) ** 2, axis=1))))
        expected = np.average(means, weights=picks)
        assert found.random_objective(np.array([picks]))[0] == pytest.approx(expected, rel=0.04)


def test_all_rows_drawn_leave_only_the_distance_of_the_means(blobs):
    rows, _ = blobs
    center = rows.mean(axis=0) + 0.25
    found = measure(rows, np.zeros(len(rows), np.int64), center[None])
    assert found.random_objective(np.array([[len(rows)]]))[0] == pytest.approx(0.25 * np.sqrt(8))


def test_measures_are_those_of_plain_numpy_from_memory_and_from_parts(blobs):
    rows, labels = blobs
    rows = rows.astype(np.float32)
    rows[[3, 70], 2] = np.nan, np.inf
    codes = np.unique(labels, return_inverse=True)[1]
    codes[10] = -1
    centers = np.random.default_rng(2).normal(size=(3, 8))
    whole = measure(rows, codes, centers)
    parts = measure(StackedRows([rows[:33], rows[33:]], ["a", "b"]), codes, centers)
    usable = np.isfinite(rows).all(axis=1) & (codes >= 0)
    assert (whole.usable == usable).all()
    expected = np.linalg.norm(rows[usable].astype(float) - centers[codes[usable]], axis=1)
    np.testing.assert_allclose(whole.distances[usable], expected, rtol=1e-12)
    assert np.isnan(whole.distances[~usable]).all()
    for code in range(3):
        own = rows[usable & (codes == code)].astype(float)
        assert whole.bias[code] == pytest.approx(np.sum((own.mean(axis=0) - centers[code]) ** 2))
        assert whole.variance[code] == pytest.approx(own.var(axis=0).sum())
    for name in ("usable", "distances", "sizes", "bias", "variance"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


@settings(max_examples=40)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_objectives_of_prefixes_are_weighted_means_of_the_latest_scores(groups, random):
    scores = [random.uniform(0, 5) for _ in groups]
    every = np.arange(1, len(groups) + 1)
    found = objectives_at(np.array(groups), np.array(scores), counts_at(np.array(groups), 4, every))
    for k in range(1, len(groups) + 1):
        latest = dict(zip(groups[:k], scores[:k], strict=True))
        expected = sum(groups[:k].count(group) * score for group, score in latest.items()) / k
        assert found[k - 1] == pytest.approx(expected, abs=1e-9)


def test_budgets_are_all_of_them_or_a_few_that_end_with_all():
    assert choose_budgets(1, 1).tolist() == [1]
    for kept, classes in ((1001, 10), (100_000, 10), (2_000_000, 1), (90_000, 5_000)):
        budgets = choose_budgets(kept, classes)
        assert (budgets[0], budgets[-1]) == (1, kept)
        assert (np.diff(budgets) > 0).all()
        assert len(budgets) * classes <= 200_000
        assert 30 <= len(budgets) <= 240


def test_counts_are_those_of_every_prefix():
    codes = np.random.default_rng(0).integers(0, 5, 300)
    budgets = np.array([1, 7, 120, 300])
    expected = [np.bincount(codes[:k], minlength=5) for k in budgets]
    assert counts_at(codes, 5, budgets).tolist() == np.array(expected).tolist()


def test_every_method_with_objectives_for_scores_says_so(blobs):
    rows, labels = blobs
    for name, method in METHODS.items():
        if method.selector.scores_are_objectives and method.needs_rows_only:
            center = {"center": "mean"} if name == "random" else {}
            selection = gmmatch.select(rows, keep=0.2, labels=labels, method=name, **center)
            assert selection.centers.shape == (3, 8)
            k = len(selection)
            compared = unit_rows(rows) if method.fixed.get("normalize") == "unit" else rows
            by_hand = objectives_by_hand(compared, labels, selection.indices, selection.centers, k)
            assert by_hand == pytest.approx(selection.objective)
