"""How likely labels are wrong: against loops over the classes, the truth, and the scores of cleanlab."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from gmmatch.trust import judge, overall
from gmmatch.trust import labels as labels_module
from gmmatch.trust import learning as learning_module
from gmmatch.trust.doubt import doubt_labels
from gmmatch.trust.mixups import MixedUp


def blobs(n=3000, n_classes=8, gap=2.2, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n)
    return gap * rng.normal(size=(n_classes, 10))[truth] / np.sqrt(2) + rng.normal(size=(n, 10)), truth, rng


def next_class(seed=0):
    """Return rows of which a fifth has the label of the next class."""
    rows, truth, rng = blobs(seed=seed)
    return rows, np.where(rng.random(len(rows)) < 0.2, (truth + 1) % 8, truth), truth


def any_class(seed=0):
    rows, truth, rng = blobs(seed=seed)
    other = (truth + rng.integers(1, 8, len(rows))) % 8
    return rows, np.where(rng.random(len(rows)) < 0.2, other, truth), truth


def no_class(seed=0):
    """Return rows of which two of ten classes are given the labels of the others."""
    rows, truth, rng = blobs(n_classes=10, seed=seed)
    return rows, np.where(truth > 7, rng.integers(0, 8, len(rows)), truth), truth


@pytest.mark.parametrize(("make", "scores"), [(next_class, 3), (any_class, 1), (no_class, 3)])
def test_wrong_labels_of_every_kind_are_found_as_by_the_best_score_of_cleanlab(make, scores):
    rank = pytest.importorskip("cleanlab.rank")
    names = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")[:scores]
    ours, theirs = [], []
    for seed in range(3):
        rows, given, truth = make(seed)
        verdict = judge(rows, given, 8, seed, 5)
        told = verdict.labels.probabilities / verdict.labels.probabilities.sum(axis=1, keepdims=True)
        ours.append(average_precision_score(given != truth, verdict.evidence(given).wrong_label))
        quality = [rank.get_label_quality_scores(given, told, method=name) for name in names]
        theirs.append([average_precision_score(given != truth, -values) for values in quality])
    assert np.mean(ours) > np.mean(theirs, axis=0).max() - 0.003


def test_labels_that_a_class_is_often_given_are_doubted_more():
    rows, given, _ = next_class()
    labels = judge(rows, given, 8, 0).labels
    told = labels.probabilities
    likely = told >= labels.thresholds
    surely = likely.any(axis=1) & (np.where(likely, told, -1).argmax(axis=1) != given)
    surely &= labels.own < 0.2 * labels.thresholds[given]
    for row in range(0, 3000, 250):
        expected = 0.0
        for code in set(range(8)) - {given[row]}:
            found = surely & (labels.suggested == code)
            seen = [(found & (given == label)).sum() for label in range(8)]
            weights = [count + 1 + 3 * sum(seen) / 7 for count in seen]
            share = weights[given[row]] / (sum(weights) - weights[code])
            expected += share * told[row, code] / labels.thresholds[code]
        np.testing.assert_allclose(labels.elsewhere[row], expected, rtol=1e-5)
    np.testing.assert_allclose(labels.nowhere, 1 - told.max(axis=1), atol=1e-6)


def test_where_nothing_was_counted_every_class_counts_alike():
    told = np.random.default_rng(0).dirichlet(np.ones(5), 40)
    codes = np.arange(40) % 5
    own = told[np.arange(40), codes]
    np.testing.assert_allclose(MixedUp(None).elsewhere(told, codes), 1 - own, atol=1e-6)
    nobody = np.empty(0, np.int64)
    found = MixedUp.count(nobody, nobody, np.full(5, 0.5))
    np.testing.assert_allclose(found.elsewhere(told, codes), (1 - own) / 4 / 0.5, rtol=1e-5)


def test_a_class_that_nobody_believes_in_leaves_no_score_undefined():
    rows, given, _ = any_class()
    verdict = judge(rows, given, 8, 0)
    labels, told = verdict.labels, verdict.labels.probabilities.copy()
    told[:, 3] = 0.0
    thresholds = np.where(np.arange(8) == 3, 0.0, labels.thresholds)
    mixed_up = MixedUp.count(given[labels.dropped], labels.suggested[labels.dropped], thresholds)
    changed = replace(
        labels,
        own=told[np.arange(len(given)), given],
        thresholds=thresholds,
        elsewhere=mixed_up.elsewhere(told, given),
    )
    found = doubt_labels(changed, given)
    assert np.isfinite(found.wrong).all()
    assert np.isfinite(found.by_class).all()
    assert found.wrong[given == 3].mean() > found.wrong[given != 3].mean()


def test_the_estimate_counts_rows_one_by_one():
    rows, given, truth = any_class()
    verdict = judge(rows, given, 8, 0)
    told, thresholds = verdict.labels.probabilities, verdict.labels.thresholds
    fits = told / thresholds
    found, better, right, caught = 0, 0, 0, 0.0
    for fit, label in zip(fits, given, strict=True):
        others = np.delete(fit, label)
        if others.max() > fit[label]:
            better += 1
            found += fit[label] < 0.2 and others.max() >= 1
        else:
            right += 1
            # Any other label would have been found out, but that of the best other class where it is near.
            caught += (fit[label] >= 1) * (1 - (others.max() >= 0.2) / 7)
    share, low, high = overall(verdict.evidence(given).estimate)
    np.testing.assert_allclose([low, high], [found / 3000, better / 3000], atol=0.002)
    np.testing.assert_allclose(share, found / 3000 * right / caught, atol=0.003)
    assert abs(share - (given != truth).mean()) < 0.03


@pytest.mark.parametrize("kept", [True, False])
def test_a_sample_teaches_how_likely_labels_are_wrong(kept, monkeypatch):
    rows, given, truth = next_class()
    whole = judge(rows, given, 8, 0)
    monkeypatch.setattr(learning_module, "_SAMPLE_ROWS", 2000)
    monkeypatch.setattr(learning_module, "_ROWS_PER_FEATURE", 1)
    monkeypatch.setattr(learning_module, "_ROWS_PER_CLASS", 32)
    if not kept:
        monkeypatch.setattr(labels_module, "_MOST_KEPT", 8 * 2600)
    part = judge(rows, given, 8, 0)
    assert part.sample is not None
    assert (part.labels.probabilities is not None) == kept
    assert part.labels.mixed_up.weights is not None
    found = [
        average_precision_score(given != truth, told.evidence(given).wrong_label) for told in (part, whole)
    ]
    assert found[0] > found[1] - 0.02
