"""Heads, folds and the label filter against plain linear algebra and cleanlab's rule."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from gmmatch.compute import kernels
from gmmatch.compute.keys import row_keys
from gmmatch.trust import head as head_module
from gmmatch.trust import labels as labels_module
from gmmatch.trust import learning as learning_module
from gmmatch.trust.guard import judge
from gmmatch.trust.head import Labelled, assign_folds, fit_heads, softmax
from gmmatch.trust.inputs import Inputs
from gmmatch.trust.labels import doubt_from, filter_labels, in_doubt


def make(n=600, d=12, n_classes=4, wrong=0.2, seed=0, gap=3.0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n)
    rows = gap * rng.normal(size=(n_classes, d))[truth] / np.sqrt(2) + rng.normal(size=(n, d))
    codes = np.where(rng.random(n) < wrong, (truth + rng.integers(1, n_classes, n)) % n_classes, truth)
    return rows, codes, truth


def fit_head(rows, codes, n_classes, folds, n_folds, passed, origin, scale, keys):
    data = Labelled(rows, codes, n_classes, folds, n_folds, keys)
    return fit_heads(data, passed, Inputs(origin, scale), ridges=(0.03,))


def head_of(rows, codes, passed=None, n_folds=3):
    keys = row_keys(rows)
    folds = assign_folds(keys, codes, n_folds)
    passed = np.ones(len(rows), dtype=bool) if passed is None else passed
    n_classes = codes.max() + 1
    origin, scale = rows.mean(axis=0), 4.0
    head = fit_head(rows, codes, n_classes, folds, n_folds, passed, origin, scale, keys)
    return head, folds


def test_each_head_is_the_ridge_regression_on_the_other_folds():
    rows, codes, _ = make()
    passed = np.random.default_rng(1).random(len(rows)) < 0.9
    head, folds = head_of(rows, codes, passed)
    scaled = (rows - rows.mean(axis=0)) / 4.0
    scaled *= np.minimum(1, 2 / np.linalg.norm(scaled, axis=1))[:, None]
    inputs = np.c_[scaled, np.ones(len(rows))]
    for fold in range(3):
        seen = passed & (folds != fold)
        gram = inputs[seen].T @ inputs[seen]
        gram += 0.03 * np.trace(gram) / len(gram) * np.eye(len(gram))
        weights = np.linalg.solve(gram, inputs[seen].T @ np.eye(4)[codes[seen]])
        np.testing.assert_allclose(head.weights[fold], weights, atol=1e-10)
        mine = folds == fold
        expected = softmax(head.sharpness * inputs[mine] @ weights)
        np.testing.assert_allclose(head.probabilities(rows[mine], folds[mine]), expected, atol=1e-8)


def test_no_row_is_scored_by_a_head_that_saw_its_label():
    rows, codes, _ = make()
    head, folds = head_of(rows, codes)
    flipped = codes.copy()
    mine = np.flatnonzero(folds == 1)
    flipped[mine] = (flipped[mine] + 1) % 4
    # The same folds: a label does not change the head of its own fold.
    keys = row_keys(rows)
    passed = np.ones(len(rows), dtype=bool)
    again = fit_head(rows, flipped, 4, folds, 3, passed, rows.mean(axis=0), 4.0, keys)
    np.testing.assert_allclose(again.weights[1], head.weights[1], atol=1e-9)
    assert np.abs(again.weights[0] - head.weights[0]).max() > 1e-3


def test_with_fewer_rows_than_features_the_heads_are_the_same(monkeypatch):
    rows, codes, _ = make(n=90, d=200)
    dual, folds = head_of(rows, codes)
    monkeypatch.setattr(head_module, "_dual", head_module._primal)
    primal, _ = head_of(rows, codes)
    np.testing.assert_allclose(dual.weights, primal.weights, atol=1e-10)
    np.testing.assert_array_equal(dual.probabilities(rows, folds), primal.probabilities(rows, folds))


def test_the_ridge_of_the_lowest_loss_out_of_fold_is_taken():
    rows, codes, _ = make(n=120, d=60, wrong=0.4)
    keys = row_keys(rows)
    data = Labelled(rows, codes, 4, assign_folds(keys, codes, 3), 3, keys)
    inputs = Inputs(rows.mean(axis=0), 4.0)
    each = {ridge: fit_heads(data, None, inputs, (ridge,)) for ridge in (0.003, 0.03, 0.3)}
    best = fit_heads(data, None, inputs)
    assert best.loss == min(head.loss for head in each.values())
    np.testing.assert_array_equal(best.weights, each[best.ridge].weights)
    out_of_fold = best.probabilities(rows, data.folds)[np.arange(len(rows)), codes]
    assert best.loss == pytest.approx(-np.log(out_of_fold).mean(), abs=1e-4)


def test_rows_on_rings_get_the_lifted_head_and_rows_in_blobs_the_linear_one():
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], 200)
    angle = rng.uniform(0, 2 * np.pi, 600)
    rings = (1.0 + 2.0 * codes)[:, None] * np.c_[np.cos(angle), np.sin(angle)] + 0.1 * rng.normal(
        size=(600, 2)
    )
    verdict = judge(rings, codes, 3, seed=0)
    assert verdict.lifted
    assert (verdict.tiers == 0).mean() > 0.9
    wide, noisy, _ = make(n=600, d=100)
    assert not judge(wide, noisy, 4, seed=0).lifted


@pytest.mark.parametrize(("wrong", "rounds"), [(0.0, 1), (0.05, 1), (0.4, 2)])
def test_heads_are_fitted_again_where_many_labels_are_wrong(wrong, rounds, monkeypatch):
    rows, codes, truth = make(n=3000, d=20, wrong=wrong, gap=1.2)
    # Labels that are merely in doubt apart: those that the first heads doubt are judged again.
    monkeypatch.setattr(labels_module, "_HARM", 0.0)
    trust = judge(rows, codes, 4, seed=0)
    assert trust.summary()["labels"]["rounds"] == rounds
    monkeypatch.setattr(learning_module, "_MANY_UNLIKELY", 1.0)
    once = judge(rows, codes, 4, seed=0)
    assert once.rounds == 1
    if rounds == 1:
        np.testing.assert_array_equal(trust.tiers, once.tiers)
        return
    right = codes == truth
    assert right[trust.tiers == 0].mean() > right[once.tiers == 0].mean()
    assert (trust.tiers[once.tiers == 1] == 1).all()
    # The second head tells right from wrong labels better than the first.
    areas = [roc_auc_score(right, each.labels.own) for each in (once, trust)]
    assert areas[1] > areas[0]


def test_folds_divide_every_class_evenly_and_keep_copies_together():
    rng = np.random.default_rng(2)
    codes = np.repeat([0, 1, 2], [3, 40, 301])
    rows = rng.normal(size=(344, 2))
    rows[10:20] = rows[9]
    folds = assign_folds(row_keys(rows), codes, 3)
    assert len(set(folds[9:20])) == 1
    assert sorted(folds[:3]) == [0, 1, 2]
    assert np.ptp(np.bincount(folds[43:])) <= 1


def test_the_rule_is_that_of_confident_learning():
    count = pytest.importorskip("cleanlab.count")
    rows, codes, _ = make(n=900, wrong=0.3)
    head, folds = head_of(rows, codes)
    passed = np.ones(len(rows), dtype=bool)
    found = filter_labels(rows, codes, 4, folds, passed, head)
    assert found.probabilities is not None
    thresholds = np.array([found.own[codes == code].mean() for code in range(4)])
    np.testing.assert_allclose(found.thresholds, thresholds, rtol=1e-6)
    _, confident = count.compute_confident_joint(
        codes, found.probabilities, calibrate=False, return_indices_of_off_diagonals=True
    )
    assert np.flatnonzero(found.dropped).tolist() == sorted(confident)


def test_wrong_labels_are_found():
    rows, codes, truth = make(n=3000, d=32, wrong=0.3)
    tiers = judge(rows, codes, 4, seed=0).tiers
    assert (tiers[codes != truth] > 0).mean() > 0.9
    assert (tiers[codes == truth] == 0).mean() > 0.9


def test_probabilities_that_are_not_kept_give_the_same_decisions(monkeypatch):
    rows, codes, _ = make()
    head, folds = head_of(rows, codes)
    passed = np.ones(len(rows), dtype=bool)
    kept = filter_labels(rows, codes, 4, folds, passed, head)
    monkeypatch.setattr(labels_module, "_MOST_KEPT", 0)
    streamed = filter_labels(rows, codes, 4, folds, passed, head)
    assert streamed.probabilities is None
    assert (streamed.dropped == kept.dropped).all()


def test_many_classes_and_few_columns_of_product_agree(monkeypatch):
    rows, codes, _ = make()
    head, folds = head_of(rows, codes)
    narrow = head.probabilities(rows, folds)
    monkeypatch.setattr(head_module, "_CACHE_BYTES", 0)
    np.testing.assert_allclose(head.probabilities(rows, folds), narrow, atol=2e-9)


def test_a_class_that_its_head_never_saw_is_not_judged():
    rows, codes, _ = make()
    codes[0] = 4  # alone in its class
    trust = judge(rows, codes, 5, seed=0)
    assert trust.labels is not None
    assert trust.labels.unjudged[0]
    assert trust.tiers[0] == 0


def test_nothing_is_likely_where_no_probability_reaches_its_threshold():
    assert not kernels.judge_labels(np.full((3, 2), 0.5), np.array([0, 1, 0]), np.array([0.6, 0.6]), 0.0)[
        0
    ].any()


def test_labels_are_in_doubt_beyond_odds_of_one_to_three_unless_a_class_has_too_many():
    rng = np.random.default_rng(1)
    codes, passed = rng.integers(0, 4, 800), rng.random(800) < 0.9
    dropped = passed & (rng.random(800) < np.array([0.02, 0.2, 0.2, 0.2])[codes])
    rows, given, _ = make(800)
    head, folds = head_of(rows, given)
    found = filter_labels(rows, given, 4, folds, passed, head)
    labels = replace(found, dropped=dropped, suspicion=rng.random(800))
    share = dropped.sum() / passed.sum()
    doubt = doubt_from(dropped, passed)
    ratio = doubt / (1 - doubt)
    assert ratio * share / (1 - share) == pytest.approx(1 / 3)
    open_to = passed & ~dropped & (labels.suspicion > doubt)
    many = [(open_to & (codes == code)).sum() > (dropped & (codes == code)).sum() for code in range(4)]
    assert many[0]
    assert in_doubt(labels, codes, passed, doubt).tolist() == (open_to & ~np.array(many)[codes]).tolist()
    assert doubt_from(np.zeros(3, bool), np.zeros(3, bool)) == 1.0
