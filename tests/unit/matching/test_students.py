"""Students who say which way of picking serves: what they know, and what decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

import gmmatch
from gmmatch.errors import InvalidParameter
from gmmatch.matching import students
from gmmatch.matching.budgets import Weights
from gmmatch.matching.students import Learned, Sample, Students, best_of, budgets_of, list_picks


def sample_of(n_rows: int = 400, width: int = 8, n_classes: int = 4, seed: int = 0) -> Sample:
    """Return a sample of overlapping classes, all of it believed."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_classes, n_rows)
    rows = rng.normal(size=(n_rows, width)) + 2.0 * rng.normal(size=(n_classes, width))[codes]
    return Sample(
        rows, codes, np.ones(n_rows, bool), np.zeros(n_rows), n_classes, Weights(np.bincount(codes))
    )


@pytest.mark.parametrize("n_picks", [8, 40])
def test_students_know_what_a_ridge_and_nearest_neighbours_know(n_picks: int) -> None:
    sample = sample_of()
    taught = Students(sample, 0)
    picks = list_picks(sample, sample.rows, Students(sample, 0).lesson(sample.rows, 0), True, n_picks)
    linear, neighbours = taught.right(picks)
    asked, codes = np.flatnonzero(sample.asked), sample.codes
    weight = 1.0 / np.bincount(codes[picks])[codes[picks]]
    ridge = Ridge(students._RIDGE, fit_intercept=False)
    ridge.fit(taught.seen[picks], np.eye(4)[codes[picks]], sample_weight=weight)
    np.testing.assert_array_equal(ridge.predict(taught.seen[asked]).argmax(axis=1) == codes[asked], linear)
    nearest = KNeighborsClassifier(1, metric="cosine").fit(taught.unit[picks], codes[picks])
    agree = nearest.score(taught.unit[asked], codes[asked])
    assert abs(agree - neighbours.mean()) < 0.15  # five vote where one decides


def test_rows_that_are_asked_for_are_never_picked_and_doubtful_ones_are_asked_for() -> None:
    sample = sample_of()
    sample.believed[::3] = False
    lesson = Students(sample, 0).lesson(sample.rows, 0)
    picks = list_picks(sample, sample.rows, lesson, True, 60)
    assert len(np.unique(picks)) == 60
    assert not sample.asked[picks].any()
    assert sample.believed[picks].all()
    assert not sample.believed[sample.asked].all()
    # The first picks of a longer list are a shorter one.
    np.testing.assert_array_equal(list_picks(sample, sample.rows, lesson, True, 20), picks[:20])
    assert max(budgets_of(sample)) <= len(sample.open) // 2


def test_the_first_list_stays_unless_another_is_better_beyond_chance() -> None:
    share = np.full(100, 0.01)
    rng = np.random.default_rng(0)

    def learned(name: str, rate: float) -> Learned:
        known = (rng.random((1, 100)) < rate).astype(float)
        return Learned(name, known, known, share)

    first = learned("first", 0.5)
    assert best_of([first, Learned("same", first.linear, first.neighbours, share)], "any").name == "first"
    assert best_of([first, learned("worse", 0.2)], "any").name == "first"
    assert best_of([first, learned("better", 0.95)], "any").name == "better"
    only_linear = Learned("linear", np.ones((1, 100)), np.zeros((1, 100)), share)
    assert best_of([first, only_linear], "linear").name == "linear"
    assert best_of([first, only_linear], "neighbours").name == "first"


def test_the_choice_is_told_and_does_not_depend_on_the_budget() -> None:
    rng = np.random.default_rng(4)
    labels = np.arange(600) % 3
    rows = rng.normal(size=(600, 40)) + 1.5 * rng.normal(size=(3, 40))[labels]
    small, large = (gmmatch.select(rows, keep=keep, labels=labels) for keep in (12, 200))
    assert small.info.strategy == large.info.strategy
    assert large.info.strategy is not None
    compared = set(large.info.strategy["accuracy"])
    assert compared >= {"teaching", "rows", "teaching+fourier", "fourier", "random"}
    assert sum(name.endswith("+lenient") for name in compared) == 1
    assert "as many random rows" in large.info.strategy["sentence"]
    np.testing.assert_array_equal(small.indices, large.indices[:12])
    named = gmmatch.select(rows, keep=200, labels=labels, strategy=large.info.strategy["strategy"])
    np.testing.assert_array_equal(named.indices, large.indices)
    with pytest.raises(InvalidParameter, match="strategy must be"):
        gmmatch.select(rows, keep=12, labels=labels, strategy="best")


def test_with_very_many_classes_no_picks_teach_and_nothing_is_compared(monkeypatch) -> None:
    rng = np.random.default_rng(4)
    labels = np.arange(800) % 4
    rows = rng.normal(size=(800, 100)) + rng.normal(size=(4, 100))[labels]
    few, named = (gmmatch.select(rows, labels, keep=40, strategy=name) for name in ("auto", "rows"))
    assert few.info.strategy is not None
    assert {"teaching", "rows"} < set(few.info.strategy["accuracy"])
    monkeypatch.setattr("gmmatch.matching.advice.TAUGHT_CLASSES", 3)
    many = gmmatch.select(rows, labels, keep=40)
    assert many.info.strategy == {"strategy": "rows", "reason": "nothing to compare"}
    np.testing.assert_array_equal(many.indices, named.indices)
    assert gmmatch.select(rows, labels, keep="auto").info.strategy["strategy"] == "rows"


def test_rows_that_are_hardly_doubted_come_first() -> None:
    rng = np.random.default_rng(5)
    labels = np.arange(900) % 3
    rows = rng.normal(size=(900, 24)) + 0.4 * rng.normal(size=(3, 24))[labels]
    labels[::5] = rng.integers(0, 3, 180)
    strict, lenient = (
        gmmatch.select(rows, keep=30, labels=labels, strategy=name)
        for name in ("teaching", "teaching+lenient")
    )
    assert strict.evidence is not None
    doubt = strict.evidence.wrong
    assert doubt[strict.indices].max() <= 0.05 < doubt[lenient.indices].max() < 0.5


def test_doubtful_rows_of_the_sample_compete_only_in_lenient_lists() -> None:
    sample = sample_of()
    doubtful = np.zeros(400)
    doubtful[::3] = 0.4
    sample = replace(sample, wrong=doubtful)
    lesson = Students(sample, 0).lesson(sample.rows, 0)
    strict, lenient = (list_picks(sample, sample.rows, lesson, one, 16) for one in (True, False))
    assert not doubtful[strict].any()
    assert doubtful[lenient].any()
