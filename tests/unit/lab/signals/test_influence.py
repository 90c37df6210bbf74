from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression

from gmmatch.errors import InvalidInput, InvalidParameter
from gmmatch.lab import signals
from gmmatch.lab.signals import hessian as hessians
from gmmatch.lab.training.probe import standardised
from gmmatch.lab.training.softmax import fit_softmax, probabilities, with_bias


def _clusters(rows: int = 120, classes: int = 3, features: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    labels = np.arange(rows) % classes
    return rng.normal(size=(rows, features)) + 1.2 * rng.normal(size=(classes, features))[labels], labels


def test_influence_ranks_rows_as_true_leave_one_out_retraining_does() -> None:
    rows, labels = _clusters()
    l2 = 0.01
    found = signals.parameter_influence(rows, labels, l2=l2, sketch=None)
    inputs = with_bias(standardised(rows)[0])
    fit = LogisticRegression(C=1 / (l2 * len(rows)), fit_intercept=False, tol=1e-12, max_iter=10_000)
    whole = fit.fit(inputs, labels).coef_.copy()
    changes = []
    for row in range(len(rows)):
        others = np.arange(len(rows)) != row
        changes.append((fit.fit(inputs[others], labels[others]).coef_ - whole).T.ravel())
    true = np.array(changes)
    assert found.exact
    assert found.converged
    assert spearmanr(found.scores, np.linalg.norm(true, axis=1)).statistic >= 0.95
    cosines = np.sum(found.vectors * true, axis=1) / (found.scores * np.linalg.norm(true, axis=1))
    assert cosines.min() > 0.95
    assert np.median(found.scores / np.linalg.norm(true, axis=1)) == pytest.approx(1, abs=0.1)


def test_the_hessian_is_the_derivative_of_the_gradient() -> None:
    rows, labels = _clusters(rows=30)
    theta = np.random.default_rng(2).normal(size=(4, 3))

    def gradient(flat: np.ndarray) -> np.ndarray:
        gaps = probabilities(rows @ flat.reshape(4, 3)) - np.eye(3)[labels]
        return (rows.T @ gaps / len(rows) + 0.1 * flat.reshape(4, 3)).ravel()

    step = 1e-6
    numeric = np.stack(
        [
            (gradient(theta.ravel() + step * unit) - gradient(theta.ravel() - step * unit)) / (2 * step)
            for unit in np.eye(12)
        ]
    )
    exact = hessians.hessian(rows, probabilities(rows @ theta), 0.1)
    np.testing.assert_allclose(exact, numeric, atol=1e-8)
    vectors = np.random.default_rng(3).normal(size=(4, 3, 5))
    products = hessians.hessian_products(rows, probabilities(rows @ theta), vectors, 0.1)
    np.testing.assert_allclose(products.reshape(12, 5), exact @ vectors.reshape(12, 5), atol=1e-12)


def test_conjugate_gradients_agree_with_the_factored_hessian(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = _clusters(rows=90, features=8)
    dense = signals.parameter_influence(rows, labels, sketch=None)
    monkeypatch.setattr(hessians, "DENSE_PARAMETERS", 0)
    iterative = signals.parameter_influence(rows, labels, sketch=None)
    assert iterative.converged
    np.testing.assert_allclose(
        iterative.vectors, dense.vectors, rtol=1e-4, atol=1e-5 * np.abs(dense.vectors).max()
    )


def test_torch_finds_the_same_influence_as_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    rows, labels = _clusters()
    monkeypatch.setattr(hessians, "DENSE_PARAMETERS", 1)
    for kind, tolerance in ((np.float64, 1e-6), (np.float32, 1e-2)):  # in float32 fits end apart
        here, there = (
            signals.parameter_influence(rows.astype(kind), labels, sketch=None, device=device)
            for device in (None, "cpu")
        )
        assert here.converged == there.converged
        np.testing.assert_allclose(there.vectors, here.vectors, rtol=0, atol=tolerance * here.scores.max())


def test_conjugate_gradients_say_when_they_stop_short() -> None:
    rows, labels = _clusters(rows=90, features=8)
    theta, _ = fit_softmax(rows, labels, 3, 1e-6)
    chances = probabilities(rows @ theta)
    vectors = np.random.default_rng(0).normal(size=(8, 3, 2))
    assert not hessians.solve_iteratively(rows, chances, vectors, 1e-6, max_iter=1)[1]
    assert hessians.solve_iteratively(rows, chances, vectors, 1e-6)[1]
    solved, converged = hessians.solve_iteratively(rows, chances, 0 * vectors, 1e-6)
    assert converged
    assert not solved.any()


def test_a_sketch_keeps_lengths_and_inner_products() -> None:
    rows, labels = _clusters(rows=200, classes=5, features=60)
    exact = signals.parameter_influence(rows, labels, sketch=None)
    sketch = signals.parameter_influence(rows, labels, sketch=200)
    assert not sketch.exact
    assert sketch.vectors.shape == (200, 200)
    np.testing.assert_allclose(sketch.scores, exact.scores, rtol=0.3)
    assert np.corrcoef(sketch.scores, exact.scores)[0, 1] > 0.95
    again = signals.parameter_influence(rows, labels, sketch=200)
    np.testing.assert_array_equal(sketch.vectors, again.vectors)


def test_wrong_input_is_refused() -> None:
    rows, labels = _clusters()
    with pytest.raises(InvalidParameter, match="l2 must be above 0; got -1"):
        signals.parameter_influence(rows, labels, l2=-1)
    with pytest.raises(InvalidParameter, match="sketch must be a whole number of at least 1; got 0"):
        signals.parameter_influence(rows, labels, sketch=0)
    with pytest.raises(InvalidInput, match="at least two classes"):
        signals.parameter_influence(rows, np.zeros(len(rows), int))
    with pytest.raises(InvalidInput, match="keep asks for 200 rows"):
        signals.keep_least_change(rows, 200)


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 8), width=st.integers(1, 3), seed=st.integers(0, 10_000), data=st.data())
def test_the_bound_is_the_mean_over_all_subsets_and_is_never_exceeded(
    rows: int, width: int, seed: int, data: st.DataObject
) -> None:
    keep = data.draw(st.integers(1, rows))
    vectors = np.random.default_rng(seed).normal(size=(rows, width)) * (1 + seed % 3)
    found = signals.keep_least_change(vectors, keep)
    squares = [
        float(np.sum(vectors[list(removed)].sum(axis=0) ** 2))
        for removed in combinations(range(rows), rows - keep)
    ]
    assert len(set(found.indices.tolist())) == keep
    removed = np.setdiff1d(np.arange(rows), found.indices)
    assert found.change == pytest.approx(float(np.linalg.norm(vectors[removed].sum(axis=0))), abs=1e-9)
    assert found.bound**2 == pytest.approx(np.mean(squares), rel=1e-9, abs=1e-9)
    assert found.change <= found.bound + 1e-9
    assert found.change >= np.sqrt(min(squares)) - 1e-9


def test_the_program_does_far_better_than_its_bound() -> None:
    vectors = np.random.default_rng(0).normal(size=(400, 5))
    for keep in (0.1, 0.5, 0.9):
        found = signals.keep_least_change(vectors, keep)
        assert found.change < 0.1 * found.bound
