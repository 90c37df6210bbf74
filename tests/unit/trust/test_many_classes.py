"""Heads for many classes: single precision decides as double precision does, and rows keep near classes."""

from dataclasses import replace

import numpy as np
import pytest

from gmmatch.compute import kernels
from gmmatch.matching.features import MatchedRows
from gmmatch.trust import head as heads
from gmmatch.trust.guard import Verdict, _too_little, judge
from gmmatch.trust.labels import decide
from gmmatch.trust.suspects import _nearest_others

N_CLASSES = 300


def slow_verdict(told: np.ndarray, code: int, thresholds: np.ndarray) -> tuple[bool, float, int]:
    """Return what the rule says of one row, word by word."""
    likely = [c for c in range(len(told)) if told[c] >= thresholds[c]]
    wrong = bool(likely) and max(likely, key=lambda c: told[c]) != code
    fits = told / thresholds
    other = max((c for c in range(len(told)) if c != code), key=lambda c: fits[c])
    return wrong, fits[other] / (fits[other] + fits[code]), other


@pytest.mark.parametrize("slack", [0.0, 1e-4])
@pytest.mark.parametrize("ties", [False, True])
def test_the_loop_says_what_the_rule_says(slack: float, ties: bool) -> None:
    rng = np.random.default_rng(0)
    told = rng.dirichlet(np.full(6, 0.3), 500)
    if ties:
        told = told.round(1) + 0.01
    codes, thresholds = rng.integers(0, 6, 500), rng.uniform(0.1, 0.6, 6).round(1) + 0.01
    wrong, odds, other, close = kernels.judge_labels(told, codes, thresholds, slack)
    for row in range(500):
        expected = slow_verdict(told[row], codes[row], thresholds)
        assert (wrong[row], other[row]) == (expected[0], expected[2])
        assert odds[row] == pytest.approx(expected[1], rel=1e-12)
    assert slack > 0 or not close.any()


def test_a_class_that_nobody_believes_in_leaves_no_odds_undefined() -> None:
    told = np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]])
    _, odds, other, _ = kernels.judge_labels(told, np.array([0, 0, 1]), np.array([0.5, 0.0]), 0.0)
    np.testing.assert_array_equal(odds, [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(other, [1, 1, 0])


def test_what_errors_within_the_slack_may_change_is_called_close() -> None:
    rng = np.random.default_rng(1)
    told = rng.dirichlet(np.full(5, 0.5), 4000)
    codes, thresholds = rng.integers(0, 5, 4000), np.full(5, 0.3)
    slack = 0.02
    wrong, odds, other, close = kernels.judge_labels(told, codes, thresholds, slack)
    changed = np.zeros(4000, bool)
    for _ in range(20):
        moved = told * (1 + rng.uniform(-slack / 2, slack / 2, told.shape))
        again, _, named, _ = kernels.judge_labels(moved, codes, thresholds, 0.0)
        changed |= (again != wrong) | ((named != other) & (odds > 0.2))
    assert changed.any()
    assert not (changed & ~close).any()
    assert close.mean() < 0.3


@pytest.fixture(scope="module")
def judged() -> tuple[np.ndarray, np.ndarray, Verdict]:
    rng = np.random.default_rng(2)
    truth = np.repeat(np.arange(N_CLASSES), 30)
    rows = (rng.normal(size=(N_CLASSES, 40)) * 1.2)[truth] + rng.normal(size=(len(truth), 40))
    given = np.where(rng.random(len(truth)) < 0.15, rng.integers(0, N_CLASSES, len(truth)), truth)
    return rows.astype(np.float32), given, judge(rows.astype(np.float32), given, N_CLASSES, seed=0)


def test_single_precision_decides_as_double_precision_does(judged) -> None:
    rows, given, verdict = judged
    assert verdict.head is not None
    read = verdict.head.inputs(rows)
    told, (wrong, odds, other) = decide(verdict.head, read, verdict.folds, given, verdict.labels.thresholds)
    assert told.dtype == np.float32
    exact = verdict.head.told(read, verdict.folds, exact=True)
    np.testing.assert_allclose(told, exact, atol=1e-5)
    expected = kernels.judge_labels(exact, given, verdict.labels.thresholds, 0.0)
    np.testing.assert_array_equal(wrong, expected[0])
    np.testing.assert_allclose(odds, expected[1], atol=1e-4)
    sure = expected[1] > 0.2
    np.testing.assert_array_equal(other[sure], expected[2][sure])


def test_rows_are_compared_by_the_classes_that_theirs_is_taken_for(judged) -> None:
    rows, given, verdict = judged
    nearest = verdict.head.nearest
    assert nearest.shape == (N_CLASSES, heads.NEAREST_CLASSES)
    assert all(code in nearest[code] for code in range(N_CLASSES))
    exact = verdict.head.told(verdict.head.inputs(rows), verdict.folds, exact=True)
    # Classes that are left out have little to say: of the rows of a class, they hold a small share.
    held = np.take_along_axis(exact, nearest[given], axis=1).sum(axis=1)
    trusted = verdict.tiers == 0
    assert held[trusted].mean() > 0.95
    shares = verdict.head.among_nearest(rows, verdict.folds, given)
    expected = heads.nearest_of(exact, nearest[given])
    # Where these classes hold hardly anything, nine digits of the probabilities say nothing of their shares.
    sure = held > 0.01
    np.testing.assert_allclose(shares[sure], expected[sure], atol=1e-6)
    view = MatchedRows(rows, verdict, codes=given)
    assert view.shape == (len(rows), rows.shape[1] + heads.NEAREST_CLASSES)
    weight = 2.0 / verdict.labels.scale
    found = view[:][:, rows.shape[1] :]
    np.testing.assert_allclose(found[sure], expected[sure] * weight, atol=1e-3 * weight)


def test_the_way_of_computing_near_classes_does_not_matter(judged) -> None:
    rows, given, verdict = judged
    kept = MatchedRows(rows, verdict, codes=given)
    computed = MatchedRows(
        rows, replace(verdict, labels=replace(verdict.labels, probabilities=None)), codes=given
    )
    np.testing.assert_allclose(kept[:], computed[:], atol=1e-4)
    some = np.array([5, 17, 4000])
    np.testing.assert_array_equal(computed[some], computed[:][some])


def test_the_largest_are_the_first_of_a_stable_sort() -> None:
    rng = np.random.default_rng(0)
    for count in (1, 3, 20):
        scores = rng.integers(0, 6, (50, 20)).astype(float)
        expected = np.sort(np.argsort(-scores, axis=1, kind="stable")[:, :count], axis=1)
        assert (heads._largest(scores, count) == expected).all()


def test_the_nearest_others_of_very_many_classes() -> None:
    rng = np.random.default_rng(0)
    codes = np.arange(3000) % 1500
    rows = rng.normal(size=(3000, 5)).astype(np.float32)
    verdict = judge(rows, codes, 1500, 0)
    centers = verdict.gate.centers
    limits = replace(verdict.gate.limits, thresholds=rng.uniform(0.1, 0.6, 1500))
    verdict = replace(verdict, gate=replace(verdict.gate, limits=limits))
    apart = np.linalg.norm(rows[:, None] - centers, axis=2)
    expected = (apart > limits.thresholds).all(axis=1)
    apart[np.arange(3000), codes] = np.inf
    other, distances, lost = _nearest_others(rows, codes, verdict)
    assert (other == apart.argmin(axis=1)).all()
    np.testing.assert_allclose(distances, apart.min(axis=1), rtol=1e-12)
    assert (lost == expected).all()
    assert 0 < lost.sum() < 3000


def test_labels_of_more_classes_than_features_tell_apart_are_not_judged() -> None:
    reason = _too_little(np.empty((0, 16)), 500_000, 100_000, 3)
    assert reason == "100000 classes are more than a head of 16 features tells apart"
    assert _too_little(np.empty((0, 16)), 500_000, 10_000, 3) is None
