"""Classifiers that leave every row out, against refits without the row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gmmatch.trust import classifiers as module
from gmmatch.trust.classifiers import Classifier, Reduced, Taught, choose, fit, leave_out
from gmmatch.trust.inputs import FourierFeatures, Inputs, leading_directions


def blobs(n: int = 60, d: int = 5, n_classes: int = 3, gap: float = 1.5, seed: int = 0) -> Taught:
    """Return rows of classes of different sizes, of which some teach less and some nothing."""
    rng = np.random.default_rng(seed)
    codes = np.sort(rng.choice(n_classes, n, p=np.arange(1, n_classes + 1) / sum(range(n_classes + 1))))
    codes[:n_classes] = np.arange(n_classes)
    rows = gap * rng.normal(size=(n_classes, d))[codes] + rng.normal(size=(n, d))
    weights = rng.choice([0.0, 0.02, 0.4, 1.0], n, p=[0.2, 0.1, 0.2, 0.5])
    weights[: 2 * n_classes] = 1.0
    return Taught(rows, codes, n_classes, weights)


def inputs_of(taught: Taught, n_features: int = 0) -> Inputs:
    origin = taught.rows.mean(axis=0)
    fourier = FourierFeatures.draw(origin, 2.0, n_features, 1) if n_features else None
    return Inputs(origin, 3.0, fourier)


def solve(taught: Taught, inputs: Inputs, penalty: float = 0.7, how: str = "_solve") -> Any:
    return next(iter(getattr(module, how)(taught, inputs, penalty, np.dtype(np.float64))))[1:]


def refit(read: np.ndarray, codes: np.ndarray, n_classes: int, weights: np.ndarray, penalty: float) -> Any:
    """Return the weights of the ridge regression of the classes, written out."""
    gram = (read * weights[:, None]).T @ read + penalty * np.eye(read.shape[1])
    return np.linalg.solve(gram, (read * weights[:, None]).T @ np.eye(n_classes)[codes])


def order_of(taught: Taught) -> np.ndarray:
    order = np.random.default_rng(3).permutation(len(taught.codes))
    return order[taught.weights[order] > 0]


@pytest.mark.parametrize("how", ["_primal", "_dual"])
@pytest.mark.parametrize("n_features", [0, 8])
def test_scores_are_those_of_refits_without_the_row(how: str, n_features: int) -> None:
    taught = blobs()
    inputs, balanced = inputs_of(taught, n_features), taught.balanced()
    weights, leverage = solve(taught, inputs, how=how)
    read = inputs(taught.rows)
    found = leave_out(read @ weights, taught.codes, leverage)
    for row in range(len(read)):
        without = balanced * (np.arange(len(read)) != row)
        expected = read[row] @ refit(read, taught.codes, 3, without, 0.7)
        assert_allclose(found[row], expected, atol=2e-5)  # leverages are in single precision


def test_of_fewer_rows_than_inputs_the_dual_is_solved_and_the_weights_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taught = blobs(n=40, d=70)
    inputs = inputs_of(taught)
    dual, primal = (solve(taught, inputs, how=how) for how in ("_dual", "_primal"))
    assert_allclose(dual[0], primal[0], atol=1e-10)
    assert_allclose(dual[1], primal[1], atol=1e-6)
    monkeypatch.setattr(module, "_primal", None)
    assert_array_equal(solve(taught, inputs)[0], dual[0])
    monkeypatch.undo()
    monkeypatch.setattr(module, "_dual", None)
    many = blobs(n=200, d=70)
    assert_array_equal(solve(many, inputs_of(many))[0], solve(many, inputs_of(many), how="_primal")[0])


@pytest.mark.parametrize("how", ["_primal", "_dual"])
def test_rows_of_weight_zero_have_no_leverage_and_teach_nothing(how: str) -> None:
    taught = blobs()
    silent = taught.weights == 0
    assert silent.sum() > 5
    inputs = inputs_of(taught)
    weights, leverage = solve(taught, inputs, how=how)
    assert (leverage[silent] == 0).all()
    assert ((leverage[~silent] > 0) & (leverage[~silent] < 1)).all()
    other = Taught(
        np.where(silent[:, None], 1e3, taught.rows),
        np.where(silent, (taught.codes + 1) % 3, taught.codes),
        3,
        taught.weights,
    )
    assert_allclose(solve(other, inputs, how=how)[0], weights, atol=1e-10)


def test_with_folds_scores_are_those_of_refits_without_the_fold() -> None:
    plain = blobs(n=120)
    folds = np.random.default_rng(2).integers(0, 4, 120)
    taught = Taught(plain.rows, plain.codes, 3, plain.weights, folds)
    inputs = inputs_of(taught)
    found, own = fit(taught, Classifier(np.empty(0), inputs, 0.0, 0.7, 0.0), order_of(taught))
    assert_array_equal(own, folds)
    scores, read = found.scores(taught.rows, taught.codes, own), inputs(taught.rows)
    for fold in range(4):
        weights = Taught(plain.rows, plain.codes, 3, plain.weights * (folds != fold)).balanced()
        expected = read @ refit(read, taught.codes, 3, weights, 0.7)
        assert_allclose(scores[folds == fold], found.sharpness * expected[folds == fold], atol=1e-8)


def test_the_ridge_is_chosen_by_rows_whose_fold_did_not_teach() -> None:
    """Rows of a group are near to each other: left out one by one they would know each other's labels."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 5)
    rows = rng.normal(size=(40, 60))[groups] + 0.1 * rng.normal(size=(200, 60))
    codes, ones = rng.integers(0, 2, 40)[groups], np.ones(200)
    inputs = Inputs(rows.mean(axis=0), 8.0)
    assert module._best_ridge(Taught(rows, codes, 2, ones), inputs).loss < 0.3
    assert module._best_ridge(Taught(rows, codes, 2, ones, groups % 5), inputs).loss > 0.6


def test_classes_weigh_alike_whatever_their_size_and_the_mean_weight_stays() -> None:
    taught = blobs()
    balanced = taught.balanced()
    masses = [balanced[taught.codes == code].sum() for code in range(3)]
    assert_allclose(masses, np.full(3, taught.weights.sum() / 3))
    for code in range(3):
        own = taught.codes == code
        assert_allclose(balanced[own] / balanced[own].max(), taught.weights[own] / taught.weights[own].max())
    absent = Taught(taught.rows, taught.codes, 5, taught.weights)  # two classes of which no row is there
    assert_allclose(absent.balanced(), balanced)


def test_fitting_again_gives_the_weights_times_the_sharpness_and_the_loss_of_rows_left_out() -> None:
    taught = blobs(n=300, seed=4)
    inputs, balanced = inputs_of(taught), taught.balanced()
    like = Classifier(np.empty(0), inputs, 0.0, 0.7, 0.0)
    found, leverage = fit(taught, like, order_of(taught))
    plain, own = solve(taught, inputs)
    assert_array_equal(leverage, own)
    assert_allclose(found.weights, found.sharpness * plain)
    scores = found.scores(taught.rows, taught.codes, leverage)
    assert_allclose(
        scores, found.sharpness * leave_out(inputs(taught.rows) @ plain, taught.codes, leverage), atol=1e-6
    )
    expected = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(300), taught.codes]
    assert found.loss == pytest.approx(np.average(expected, weights=balanced), abs=1e-5)


def test_the_sharpness_is_that_under_which_the_labels_are_most_likely() -> None:
    rng = np.random.default_rng(3)
    scores, codes, weights = rng.normal(size=(300, 4)), rng.integers(0, 4, 300), rng.random(300)
    scores[np.arange(300), codes] += 0.4
    weights[::7] = 0.0
    scores[::7] = 100.0  # rows of no weight, whose scores would decide

    def loss(sharpness: float) -> float:
        powers = np.exp(sharpness * (scores - scores.max(axis=1, keepdims=True)))
        return float(np.average(-np.log(powers[np.arange(300), codes] / powers.sum(axis=1)), weights=weights))

    sharpness, told = module._sharpness(scores.copy(), codes, weights)
    assert told == pytest.approx(loss(sharpness), abs=1e-4)
    assert told <= min(loss(other) for other in np.exp(np.arange(-3, 3, 0.05))) + 1e-5
    assert np.log(sharpness) == pytest.approx(round(np.log(sharpness), 2), abs=1e-12)
    assert module._sharpness(scores, codes, 0 * weights) == (1.0, round(np.log(4), 6))


def rings(n: int = 600) -> Taught:
    rng = np.random.default_rng(0)
    codes, angle = np.arange(n) % 3, rng.uniform(0, 2 * np.pi, n)
    rows = (1.0 + 2.0 * codes)[:, None] * np.c_[np.cos(angle), np.sin(angle)]
    return Taught(rows + 0.1 * rng.normal(size=(n, 2)), codes, 3, np.ones(n))


def chosen(taught: Taught, monkeypatch: pytest.MonkeyPatch, n_features: int = 128) -> Any:
    monkeypatch.setattr(module, "KERNEL_FEATURES", n_features)
    return choose(taught, order_of(taught), Inputs(taught.rows.mean(axis=0), 3.0), 7)


def test_rows_on_rings_get_a_kernel_and_rows_that_planes_divide_a_linear_classifier(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    best, losses = chosen(rings(), monkeypatch)
    assert best.kernel
    assert losses["kernel"] < 0.2 < 0.8 < losses["linear"]
    best, losses = chosen(blobs(n=600, d=30, gap=0.6), monkeypatch)
    assert not best.kernel
    assert losses["linear"] < 0.7
    # Where a plane makes no mistake there is nothing to gain, and the kernel is not tried.
    best, losses = chosen(blobs(n=600, d=30, gap=30.0), monkeypatch)
    assert (best.kernel, list(losses)) == (False, ["linear"])


@pytest.mark.parametrize(
    ("linear", "kernel", "best"),
    [(0.5, 0.491, "linear"), (0.5, 0.4895, "kernel"), (0.009, 0.0, "linear"), (0.0101, 0.0001, "kernel")],
)
def test_a_kernel_is_worth_its_price_where_it_lowers_the_loss_by_a_hundredth(
    linear: float, kernel: float, best: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taught, seen = rings(400), []
    monkeypatch.setattr(module, "_CHOICE_WORK", 0.0)
    monkeypatch.setattr(module, "_CHOICE_ROWS", 150)

    def fitted(part: Taught, inputs: Inputs) -> Classifier:
        seen.append(part)
        return Classifier(np.empty((0, 3)), inputs, 1.0, 1.0, linear if inputs.fourier is None else kernel)

    monkeypatch.setattr(module, "_best_ridge", fitted)
    found, losses = chosen(taught, monkeypatch)
    assert found.kernel == (best == "kernel")
    assert losses == {"linear": round(linear, 3)} | ({} if linear < 0.01 else {"kernel": round(kernel, 3)})
    first = order_of(taught)[:150]
    for part in seen:
        assert sorted(part.rows.tolist()) == sorted(taught.rows[first].tolist())
        assert np.bincount(part.codes[:30]).tolist() == [10, 10, 10]  # classes take turns
    # Too few rows per class in the choice to tell, or matrices too large: linear.
    monkeypatch.setattr(module, "_ROWS_PER_CLASS", 51)
    assert list(chosen(taught, monkeypatch)[1]) == ["linear"]
    monkeypatch.setattr(module, "_ROWS_PER_CLASS", 50)
    monkeypatch.setattr(module, "_MOST_KERNEL_BYTES", 0)
    assert list(chosen(taught, monkeypatch)[1]) == ["linear"]


def test_the_ridge_is_that_of_the_lowest_loss_and_single_precision_chooses_as_double_does() -> None:
    taught = blobs(n=150, d=60, gap=0.5, seed=5)
    inputs, balanced = inputs_of(taught), taught.balanced()
    best = module._best_ridge(taught, inputs)
    trace = float((inputs(taught.rows) ** 2 * balanced[:, None]).sum())
    losses = []
    for ridge in module.RIDGES:
        penalty = ridge * trace / inputs.width
        like = Classifier(np.empty(0), inputs, 0.0, penalty, 0.0)
        losses.append((fit(taught, like, order_of(taught))[0].loss, penalty))
    loss, penalty = min(losses)
    assert best.loss == pytest.approx(loss, abs=1e-4)
    assert best.penalty == pytest.approx(penalty, rel=1e-4)
    assert max(losses)[0] > loss + 0.01


def test_of_fewer_rows_than_inputs_stronger_ridges_are_tried_as_well() -> None:
    for n, ridges in ((40, (*module.RIDGES, *module.STRONG_RIDGES)), (200, module.RIDGES)):
        taught = blobs(n=n, d=70)
        inputs = inputs_of(taught)
        trace = float((inputs(taught.rows) ** 2 * taught.balanced()[:, None]).sum())
        found = [solved[0] for solved in module._solve(taught, inputs, None, np.dtype(np.float64))]
        assert_allclose(found, [ridge * trace / inputs.width for ridge in ridges])


def test_noise_in_the_labels_is_not_learned_by_heart() -> None:
    taught = blobs(n=60, d=200, gap=0.0)
    best = module._best_ridge(taught, inputs_of(taught))
    assert best.loss > np.log(3) - 0.1


def test_bytes_are_those_of_the_kernel_unless_they_are_too_many() -> None:
    width = 513 + module.KERNEL_FEATURES
    assert module.classifier_bytes(512, 10) == 8 * width * (2 * width + 20)
    assert module.classifier_bytes(20_000, 10) == 8 * 20_001 * (2 * 20_001 + 20)
    assert not module.too_large(4096, 1000)
    assert module.too_large(4096, 100_000)


@pytest.mark.parametrize("n_features", [0, 8])
def test_a_classifier_of_reduced_rows_scores_the_rows_themselves_alike(monkeypatch, n_features: int) -> None:
    monkeypatch.setattr(module, "MOST_DIRECTIONS", 6)
    taught = blobs(n=80, d=20)
    origin = taught.rows.mean(axis=0)
    view = Reduced.of(taught.rows, np.arange(80), Inputs(origin, 8.0), 0)  # no row is clipped
    assert view is not None
    assert_allclose(view.turn.T @ view.turn, np.eye(6), atol=1e-5)
    narrow = replace(taught, rows=view(taught.rows))
    fourier = FourierFeatures.draw(np.zeros(6), 0.5, n_features, 1) if n_features else None
    like = Classifier(np.zeros((0, 0)), replace(view.own_inputs, fourier=fourier), 1.0, 0.7, 0.0)
    found, leverage = fit(narrow, like, order_of(taught))
    expected = found.scores(narrow.rows, taught.codes, leverage)
    assert_allclose(
        view.widen(found).scores(taught.rows, taught.codes, leverage), expected, atol=1e-3 * found.sharpness
    )


def test_leading_directions_hold_nearly_all_of_what_the_leading_eigenvectors_do() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 40)) / np.arange(1, 41)
    found = leading_directions(rows, 10, 0)
    best = np.sort(np.linalg.eigvalsh(rows.T @ rows))[-10:].sum()
    assert 0.99 * best <= np.square(rows @ found).sum() <= (1 + 1e-5) * best


def test_in_an_average_beside_a_reference_the_own_label_of_a_row_does_not_speak_for_it() -> None:
    rng = np.random.default_rng(4)
    codes = np.tile([0, 1], 30)
    rows = rng.normal(size=(60, 90)) + 1.2 * codes[:, None] * (np.arange(90) < 3)
    read = Inputs(np.zeros(90), 9.0, FourierFeatures.draw(np.zeros(90), 9.0, 16, 1))
    like = Classifier(np.empty((0, 2)), read, 1.0, 0.1, 0.5)
    moved, own = [], []
    for at in range(20, 40):
        scores = []
        for label in (0, 1):
            taught = Taught(rows[20:], np.r_[codes[20:at], label, codes[at + 1 :]], 2, np.ones(40))
            found, leverage, count = module.fit_with_reference(taught, like, rows[:20], codes[:20])
            assert leverage.shape == (40, found.folds)
            assert 0.0 < count < 0.1
            scores.append(found.scores(rows[at : at + 1], np.array([label]), leverage[at - 20 : at - 19])[0])
        moved.append(abs(np.diff(scores[1] - scores[0])[0]))
        own.append(2 * float(np.dot(found.factors, leverage[at - 20])))
    assert found.folds == 4
    assert np.mean(moved) < 0.2 * np.mean(own)


def test_a_reference_without_rows_of_a_class_teaches_together_with_all_rows_alone() -> None:
    taught = blobs()
    like = Classifier(np.empty((0, 3)), inputs_of(taught), 1.0, 0.1, 0.5)
    found, leverage, count = module.fit_with_reference(
        taught, like, taught.rows[:6] + 0.1, np.tile([0, 1], 3)
    )
    assert (found.folds, count) == (1, 0.1)
    scores = found.scores(taught.rows, taught.codes, leverage)
    assert scores.shape == (60, 3)
    assert (scores.argmax(axis=1) == 2).any()
