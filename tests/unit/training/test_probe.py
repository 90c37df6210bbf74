from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from gmmatch.errors import InvalidInput, InvalidParameter
from gmmatch.training import linear_probe
from gmmatch.training.softmax import fit_softmax, with_bias


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
