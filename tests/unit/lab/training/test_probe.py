from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from gmmatch.errors import InvalidInput, InvalidParameter
from gmmatch.lab.training import early_stopped_probe, linear_probe
from gmmatch.lab.training.softmax import fit_softmax, with_bias


def _clusters(rows: int = 150, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.arange(rows) % classes
    return rng.normal(size=(rows, 4)) + 1.5 * rng.normal(size=(classes, 4))[labels], labels


def test_softmax_regression_agrees_with_scikit_learn() -> None:
    rows, labels = _clusters()
    inputs = with_bias(rows)
    theta, converged = fit_softmax(inputs, labels, 3, l2=0.01)
    theirs = LogisticRegression(C=1 / (0.01 * len(rows)), fit_intercept=False, tol=1e-10, max_iter=5000)
    theirs.fit(inputs, labels)
    assert converged
    np.testing.assert_allclose(theta.T, theirs.coef_, atol=2e-5)


def test_the_probe_does_not_care_for_the_features_scale_or_place() -> None:
    rows, labels = _clusters()
    first, second = linear_probe(rows, labels), linear_probe(1000 * rows - 7, labels)
    np.testing.assert_allclose(first.logits(rows), second.logits(1000 * rows - 7), atol=1e-3)
    assert first.converged
    assert first.accuracy(rows, labels) > 0.7


def test_the_probe_answers_in_the_labels_own_words() -> None:
    rows, labels = _clusters()
    names = np.array(["ant", "bee", "cat"])[labels]
    probe = linear_probe(rows.astype(np.float32), names)
    assert set(probe.predict(rows)) == {"ant", "bee", "cat"}
    assert probe.accuracy(rows, names) == linear_probe(rows, labels).accuracy(rows, labels)


def test_wrong_probes_are_refused() -> None:
    rows, labels = _clusters()
    with pytest.raises(InvalidInput, match="at least two classes; got only"):
        linear_probe(rows, np.zeros(len(rows), int))
    with pytest.raises(InvalidParameter, match="l2 must be above 0; got 0"):
        linear_probe(rows, labels, l2=0)


def test_the_search_that_is_stopped_early_keeps_the_step_that_held_out_rows_like_best() -> None:
    rng = np.random.default_rng(1)
    rows, labels = rng.normal(size=(60, 40)), rng.integers(0, 3, 60)
    held = np.random.default_rng(5).permutation(60) < 6
    losses = []
    for steps in range(1, 13):
        probe = early_stopped_probe(rows, labels, max_iter=steps, patience=100, seed=5)
        chances = np.exp(probe.logits(rows[held]))
        chances /= chances.sum(axis=1, keepdims=True)
        losses.append(-np.log(chances[np.arange(6), labels[held]]).mean())
    assert losses == sorted(losses, reverse=True)
    full = linear_probe(rows[~held], labels[~held], l2=1e-5)
    chances = np.exp(full.logits(rows[held]))
    chances /= chances.sum(axis=1, keepdims=True)
    assert -np.log(chances[np.arange(6), labels[held]]).mean() > losses[-1]


def test_a_probe_on_rows_that_tell_nothing_answers_all_the_same() -> None:
    probe = early_stopped_probe(np.ones((40, 3)), np.arange(40) % 2)
    assert probe.accuracy(np.ones((40, 3)), np.arange(40) % 2) == 0.5


def test_too_few_rows_to_hold_any_out_are_refused() -> None:
    with pytest.raises(InvalidInput, match="twice as many rows as classes; got 5 rows in 3"):
        early_stopped_probe(np.eye(5), [0, 1, 2, 0, 1])
