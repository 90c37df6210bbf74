"""The noise model against labels drawn from known transition matrices, and against Bayes' rule in loops."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gmmatch.trust import noise as module
from gmmatch.trust.noise import NoiseModel, fit_noise, fitted_rows, stray_share


def draw(
    n: int, transition: np.ndarray, outside: float = 0.0, gap: float = 5.0, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores, given classes, and true classes drawn by the scores; the last stands for none.

    `outside`: weight of the open set beside classes of weight one; a quarter of the rows fits none well.
    """
    rng = np.random.default_rng(seed)
    n_classes = len(transition)
    scores = rng.normal(size=(n, n_classes))
    scores[np.arange(n), rng.integers(0, n_classes, n)] += gap
    if outside:
        scores[: n // 4] = rng.normal(size=(n // 4, n_classes)) - 3.0
    likely = np.exp(np.c_[scores, np.zeros(n)]) * np.r_[np.ones(n_classes), outside]
    likely /= likely.sum(axis=1, keepdims=True)
    truth = (likely.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    given = np.vstack([transition, np.full(n_classes, 1 / n_classes)])[truth]
    return scores, (given.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1), truth


def counted(function: Any, calls: list[Any]) -> Any:
    """Return a function that notes with what it is called."""

    def call(*given: Any) -> Any:
        calls.append(given)
        return function(*given)

    return call


def uniform(n_classes: int, rate: float) -> np.ndarray:
    return np.where(np.eye(n_classes) > 0, 1 - rate, rate / (n_classes - 1))


def next_class(n_classes: int, rate: float) -> np.ndarray:
    return (1 - rate) * np.eye(n_classes) + rate * np.roll(np.eye(n_classes), 1, axis=1)


TWO_BAD = np.array([[1, 0, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 1, 0], [0.1, 0.1, 0.1, 0.7]])

CASES = {
    "clean": (np.eye(5), 0.0),
    "uniform": (uniform(5, 0.2), 0.0),
    "much": (uniform(5, 0.45), 0.0),
    "next class": (next_class(5, 0.25), 0.0),
    "two bad classes": (TWO_BAD, 0.0),
    "open set": (np.eye(5), 1.0),
    "both": (uniform(5, 0.15), 1.0),
}


@pytest.mark.parametrize("name", CASES)
def test_the_share_of_wrong_labels_comes_out_in_all_and_by_class(name: str) -> None:
    transition, outside = CASES[name]
    n_classes = len(transition)
    scores, given, truth = draw(6000, transition, outside)
    model = fit_noise(scores, given)
    found = model.judge(scores, given)
    wrong = given != truth
    off = 0.04 if outside else 0.03
    assert abs(found.wrong.mean() - wrong.mean()) < off
    assert abs(found.outside.mean() - (truth == n_classes).mean()) < off
    for code in range(n_classes):
        own = given == code
        assert abs(found.wrong[own].mean() - wrong[own].mean()) < off + 0.02
    # The interval holds the truth, and the rows that are wrong are told from the others.
    low, high = found.wrong.mean() - model.spread[-1, 0], found.wrong.mean() + model.spread[-1, 1]
    assert low <= wrong.mean() <= high
    if wrong.any():
        believed = found.wrong < 0.5
        assert wrong[believed].mean() < 0.06 + off
        named = wrong & ~believed & (truth < n_classes)
        assert (found.suggested != truth)[named].sum() <= 0.1 * named.sum()


@pytest.mark.parametrize("name", ["uniform", "much", "two bad classes"])
def test_of_labels_with_some_probability_so_many_are_wrong(name: str) -> None:
    scores, given, truth = draw(12_000, *CASES[name], gap=3.5)
    found = fit_noise(scores, given).judge(scores, given)
    wrong = given != truth
    edges = np.digitize(found.wrong, [0.05, 0.2, 0.4, 0.6, 0.8])
    checked = 0
    for level in range(6):
        own = edges == level
        if own.sum() >= 150:
            checked += 1
            assert abs(found.wrong[own].mean() - wrong[own].mean()) < 0.08, level
    assert checked >= 4


def test_rows_that_belong_to_no_class_are_told_from_wrong_labels() -> None:
    scores, given, truth = draw(6000, uniform(5, 0.15), 1.0)
    found = fit_noise(scores, given).judge(scores, given)
    none = truth == 5
    assert none[found.outside > 0.5].mean() > 0.8
    assert found.outside[none].mean() > 8 * found.outside[~none].mean()
    assert found.outside[~none & (given != truth)].mean() < 0.1


@pytest.mark.parametrize("name", CASES)
def test_values_of_the_sharpness_that_are_not_tried_would_change_nothing(name: str, monkeypatch) -> None:
    scores, codes, _ = draw(1500, *CASES[name])
    scores *= 0.6  # as wrong labels flatten them
    fits = []
    monkeypatch.setattr(module._Fitted, "fit", counted(module._Fitted.fit, fits))
    found = fit_noise(scores, codes)
    assert len(fits) < 2 * len(module.SHARPNESS)
    monkeypatch.setattr(module, "_HOPELESS", np.inf)
    every = fit_noise(scores, codes)
    assert_array_equal(found.sharpness, every.sharpness)
    assert_allclose(found.weights, every.weights, atol=1e-6)
    assert_allclose(found.spread, every.spread, atol=1e-6)
    assert_allclose(found.judge(scores, codes).wrong, every.judge(scores, codes).wrong, atol=2e-6)


def test_a_class_of_three_rows_is_believed() -> None:
    scores, given, truth = draw(2000, uniform(4, 0.2))
    scores, given = np.c_[scores, np.full(2000, -1.0)], given.copy()
    few = np.array([1, 2, 3])
    given[few] = 4
    scores[few] = np.random.default_rng(1).normal(size=(3, 5))
    scores[few, 4] += 2.0
    found = fit_noise(scores, given).judge(scores, given)
    assert (found.wrong[few] < 0.5).all()
    assert abs(found.wrong[4:].mean() - (given != truth)[4:].mean()) < 0.03


def test_the_interval_holds_the_truth_in_most_draws_and_is_wider_with_few_rows() -> None:
    held, widths = 0, []
    for seed in range(20):
        rate = 0.05 + 0.02 * seed
        scores, given, truth = draw(800, uniform(4, rate), gap=4.0, seed=seed)
        model = fit_noise(scores, given)
        share = model.judge(scores, given).wrong.mean()
        held += share - model.spread[-1, 0] <= (given != truth).mean() <= share + model.spread[-1, 1]
        widths.append(model.spread[-1].sum())
    assert held >= 17
    few = [fit_noise(*draw(60, uniform(4, 0.05 + 0.02 * seed), seed=seed)[:2]) for seed in range(20)]
    assert np.mean([model.spread[-1].sum() for model in few]) > 1.5 * np.mean(widths)
    # One class of few rows among others has the wider interval too.
    scores, given, _ = draw(3000, uniform(4, 0.2))
    rare = (given != 0) | (np.cumsum(given == 0) <= 30)
    spread = fit_noise(scores[rare], given[rare]).spread.sum(axis=1)
    assert spread[0] > 1.5 * spread[1:].max()


def test_few_rows_leave_several_values_of_the_sharpness_possible() -> None:
    few, many = (fit_noise(*draw(n, uniform(4, 0.2))[:2]) for n in (80, 8000))
    assert len(few.weights) > len(many.weights)
    for model in (few, many):
        assert model.weights.sum() == pytest.approx(1.0)
        assert len(model.sharpness) == len(model.weights) == len(model.bias) == len(model.transition)
        assert_allclose(model.transition.sum(axis=2), 1.0)
    # The scores were drawn as they are; flatter ones want a factor.
    scores, given, _ = draw(8000, uniform(4, 0.2))
    flat = fit_noise(scores / 2, given)
    assert many.weights @ many.sharpness == pytest.approx(1.0, abs=0.25)
    assert flat.weights @ flat.sharpness == pytest.approx(2.0, abs=0.5)


def test_with_very_many_classes_the_noise_is_uniform_and_says_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scores, given, _ = draw(6000, uniform(8, 0.2))
    pairs = fit_noise(scores, given).judge(scores, given)
    monkeypatch.setattr(module, "MANY_CLASSES", 7)
    model = fit_noise(scores, given)
    assert model.transition.shape[1:] == (1, 1)
    found = model.judge(scores, given)
    assert abs(found.wrong.mean() - pairs.wrong.mean()) < 0.01
    assert np.abs(found.wrong - pairs.wrong).mean() < 0.02
    assert (found.suggested == pairs.suggested)[pairs.wrong > 0.5].mean() > 0.99
    assert float(model.weights @ model.transition[:, 0, 0]) == pytest.approx(0.2, abs=0.02)


def test_no_matrix_of_all_pairs_of_very_many_classes_is_made() -> None:
    codes = np.repeat(np.arange(20), 2) * 200
    scores = np.random.default_rng(0).normal(size=(40, 4000))
    tracemalloc.start()
    fit_noise(scores, codes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 4000 * 4000 / 4


def test_three_hundred_classes() -> None:
    scores, given, truth = draw(6000, uniform(300, 0.2), gap=9.0)
    found = fit_noise(scores, given).judge(scores, given)
    wrong = given != truth
    assert abs(found.wrong.mean() - wrong.mean()) < 0.03
    assert wrong[found.wrong > 0.5].mean() > 0.85
    assert wrong[found.wrong <= 0.5].mean() < 0.06


@pytest.mark.parametrize("pairs", [True, False])
def test_the_posterior_is_that_of_bayes(pairs: bool) -> None:
    rng = np.random.default_rng(5)
    n_classes, n = 3, 40
    frequency, weights = np.array([0.5, 0.3, 0.2]), np.array([0.25, 0.75])
    rates = np.array([0.1, 0.3])
    transition = rng.dirichlet(np.ones(n_classes), (2, n_classes + 1)) if pairs else rates[:, None, None]
    model = NoiseModel(
        np.array([0.7, 2.0]),
        weights,
        np.log(rng.uniform(0.1, 2.0, (2, n_classes + 1))),
        transition,
        frequency,
        np.zeros((n_classes + 1, 2)),
    )
    scores, given = rng.normal(size=(n, n_classes)), rng.integers(0, n_classes, n)
    found = model.judge(scores, given)

    def label_given(at: int, truth: int, label: int) -> float:
        if pairs:
            return float(transition[at, truth, label])
        if truth == n_classes:
            return float(frequency[label])
        return float(1 - rates[at] if truth == label else rates[at] / (n_classes - 1))

    for row, label in enumerate(given.tolist()):
        posterior, evidence = np.zeros(n_classes + 1), 0.0
        for at in range(2):
            joint = [
                np.exp(model.bias[at, truth])
                * np.exp(model.sharpness[at] * (scores[row, truth] if truth < n_classes else 0.0))
                * label_given(at, truth, label)
                for truth in range(n_classes + 1)
            ]
            posterior += weights[at] * np.array(joint) / sum(joint)
            without = [joint[truth] / label_given(at, truth, label) for truth in range(n_classes + 1)]
            evidence += weights[at] * sum(joint) / sum(without)
        assert found.evidence[row] == pytest.approx(evidence, abs=1e-6)
        assert found.wrong[row] == pytest.approx(1 - posterior[label], abs=1e-6)
        assert found.outside[row] == pytest.approx(posterior[-1], abs=1e-6)
        others = [code for code in range(n_classes) if code != label]
        best = max(others, key=lambda code: posterior[code])
        assert found.suggested[row] == best
        assert found.likely[row] == pytest.approx(posterior[best], abs=1e-6)


def test_the_order_of_the_rows_does_not_matter() -> None:
    scores, given, _ = draw(1500, TWO_BAD)
    order = np.random.default_rng(0).permutation(1500)
    plain = fit_noise(scores, given).judge(scores, given)
    moved = fit_noise(scores[order], given[order]).judge(scores[order], given[order])
    for name in ("wrong", "likely", "outside"):
        assert_allclose(getattr(moved, name), getattr(plain, name)[order], atol=2e-6)
    assert_array_equal(moved.suggested, plain.suggested[order])


def test_a_confusion_counts_from_its_second_row_on() -> None:
    frequency, counts = np.full(3, 1 / 3), np.zeros((4, 3))
    counts[:3] = 50 * np.eye(3)
    alone = module._transition(counts, 0.1, frequency)
    assert_allclose(alone[0], [1 - 10 / 150, 5 / 150, 5 / 150])  # the pooled rate counts 100 rows
    assert_allclose(alone[3], frequency)
    counts[0, 1], counts[0, 2] = 1.0, 0.9
    found = module._transition(counts, 0.1, frequency)
    wrong = (1.9 + 10) / (51.9 + 100)
    assert_allclose(found[0], [1 - wrong, wrong / 2, wrong / 2])
    assert_allclose(found[1:], alone[1:])
    counts[0, 1] = 3.0
    wrong = (3.9 + 10) / (53.9 + 100)
    assert module._transition(counts, 0.1, frequency)[0, 1] == pytest.approx(wrong * (2 + 25) / (2 + 50))


def test_rows_far_outside_belong_to_no_class_unless_their_labels_fit() -> None:
    frequency = np.full(200, 0.25)
    assert stray_share(np.empty(0), np.empty(0)) == pytest.approx(0.9)
    by_chance = np.where(np.arange(200) % 4 == 0, 0.97, 0.01)
    assert stray_share(by_chance, frequency) > 0.9
    assert stray_share(np.full(200, 0.97), frequency) < 0.1
    assert 0.7 < stray_share(np.full(2, 0.97), frequency[:2]) < 0.9


def test_two_classes_of_doubtful_rows_are_no_open_set() -> None:
    """A row that might be of either class is not one of none, however many there are."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(600, 2))
    truth = (rng.random(600) < 1 / (1 + np.exp(scores[:, 0] - scores[:, 1]))).astype(int)
    found = fit_noise(scores, truth).judge(scores, truth)
    assert found.outside.max() < 0.1


def test_class_weights_of_few_rows_stay_near_the_frequency_of_the_labels() -> None:
    scores, given, truth = draw(3000, uniform(150, 0.2), gap=7.0)
    model = fit_noise(scores, given)
    assert np.abs(model.bias[:, :150]).max() < 1.5
    assert abs(model.judge(scores, given).wrong.mean() - (given != truth).mean()) < 0.04


def test_rows_that_the_model_is_fitted_to_are_as_many_as_memory_and_time_allow() -> None:
    assert [fitted_rows(n) for n in (2, 127, 1000)] == [16_384, 4096, 2048]
