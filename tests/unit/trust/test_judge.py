"""The verdict on rows: what is promised of it, and each rule written out."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gmmatch
from gmmatch.compute.keys import draw_order, row_keys
from gmmatch.location.geometric_median import geometric_median
from gmmatch.trust import TIERS, TRUSTED, Known, Verdict, judge
from gmmatch.trust import classifiers as classifiers_module
from gmmatch.trust.judge import _draw_sample, _notes, _origin, _too_little, sample_size

MODULE = importlib.import_module("gmmatch.trust.judge")  # the name in the package is the function
COLUMNS = ("wrong", "likely", "outside", "probability")


@pytest.fixture(autouse=True)
def _few_kernel_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of few features, which are quick."""
    monkeypatch.setattr(classifiers_module, "KERNEL_FEATURES", 64)


def noisy(
    n: int = 600, d: int = 8, wrong: float = 0.15, seed: int = 0, gap: float = 1.3, far: int = 15
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of three classes, given labels, and true ones; the first rows are far off."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    rows = gap * rng.normal(size=(3, d))[truth] + rng.normal(size=(n, d))
    rows[:far] += 30.0
    return rows, np.where(rng.random(n) < wrong, (truth + rng.integers(1, 3, n)) % 3, truth), truth


def same(one: Verdict, other: Verdict, atol: float = 2e-6) -> None:
    assert_array_equal(one.tiers, other.tiers)
    assert one.labels is not None
    assert other.labels is not None
    for name in COLUMNS:
        assert_allclose(getattr(one.labels, name), getattr(other.labels, name), atol=atol)


def moved(verdict: Verdict, order: np.ndarray) -> Any:
    """Return the verdict on the rows in another order."""
    assert verdict.labels is not None
    columns = {name: values[order] for name, values in vars(verdict.labels).items()}
    return replace(verdict, tiers=verdict.tiers[order], labels=replace(verdict.labels, **columns))


@pytest.mark.parametrize("wrong", [0.05, 0.3])
def test_the_order_of_the_rows_does_not_matter(wrong: float) -> None:
    rows, codes, _ = noisy(wrong=wrong)
    order = np.random.default_rng(1).permutation(len(rows))
    found, again = judge(rows, codes, 3, 0), judge(rows[order], codes[order], 3, 0)
    same(again, moved(found, order))
    assert found.estimate is not None
    assert again.estimate is not None
    assert_allclose(again.estimate, found.estimate, atol=1e-5)
    alone = judge(rows, None, 1, 0), judge(rows[order], None, 1, 0)
    assert_array_equal(alone[1].tiers, alone[0].tiers[order])


def test_wrong_labels_are_found_and_tiers_are_cuts_of_the_columns() -> None:
    rows, codes, truth = noisy(wrong=0.25, n=1500)
    found = judge(rows, codes, 3, 0)
    assert found.labels is not None
    outside = found.far | found.clumped
    expected = np.where(outside, 2, np.where(found.labels.wrong >= 0.5, 1, 0))
    assert_array_equal(found.tiers, expected)
    assert found.far[:15].all()
    judged = ~outside
    assert (found.tiers[judged & (codes != truth)] == 1).mean() > 0.85
    assert (found.tiers[judged & (codes == truth)] == 0).mean() > 0.95
    named = judged & (found.tiers == 1) & (codes != truth)
    assert (found.labels.suggested == truth)[named].mean() > 0.9


@pytest.mark.parametrize("wrong", [0.0, 0.1, 0.35])
def test_the_estimate_adds_up_the_probabilities_and_its_interval_holds_the_truth(wrong: float) -> None:
    rows, codes, truth = noisy(n=2000, wrong=wrong, far=0)
    found = judge(rows, codes, 3, 0)
    assert found.labels is not None
    assert found.estimate is not None
    for code in range(3):
        own = codes == code
        size, share, low, high = found.estimate[code]
        assert size == own.sum()
        assert share == pytest.approx(found.labels.wrong[own].mean(), abs=1e-6)
        assert low <= (codes != truth)[own].mean() <= high
    size, share, low, high = found.estimate[-1]
    assert (size, share) == (2000, pytest.approx(found.labels.wrong.mean(), abs=1e-6))
    assert low <= (codes != truth).mean() <= high
    assert abs(share - (codes != truth).mean()) < 0.03
    told = found.summary()["labels"]
    assert told["estimate"] == round(share, 6)
    assert told["interval"] == [round(low, 6), round(high, 6)]


@pytest.mark.parametrize("wrong", [0.1, 0.3])
def test_a_sample_teaches_what_all_rows_do(wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, codes, truth = noisy(n=6000, d=12, wrong=wrong)
    whole = judge(rows, codes, 3, 0)
    assert whole.sample is None
    monkeypatch.setattr(MODULE, "_SAMPLE_ROWS", 2000)
    monkeypatch.setattr(MODULE, "_ROWS_PER_FEATURE", 1)
    part = judge(rows, codes, 3, 0)
    assert part.sample == 2000
    assert (part.tiers == whole.tiers).mean() > 0.98
    assert part.labels is not None
    assert whole.labels is not None
    assert np.abs(part.labels.wrong - whole.labels.wrong).mean() < 0.02
    assert part.estimate is not None
    assert abs(part.estimate[-1, 1] - (codes != truth).mean()) < 0.03
    order = np.random.default_rng(1).permutation(6000)
    same(judge(rows[order], codes[order], 3, 0), moved(part, order))
    # Rows that taught nothing are judged with a leverage of zero, others with their own.
    assert part.leverage is not None
    assert (part.leverage > 0).sum() <= 2000


def test_rows_of_a_negative_class_take_no_part_whatever_they_hold() -> None:
    rows, codes, _ = noisy()
    taken = np.arange(600) % 7 > 0
    damaged = np.where(taken[:, None], rows, np.nan)
    found = judge(damaged, np.where(taken, codes, -1), 3, 0)
    alone = judge(rows[taken], codes[taken], 3, 0)
    same(moved(found, np.flatnonzero(taken)), alone)
    assert (found.tiers[~taken] == 2).all()
    assert not (found.far | found.clumped)[~taken].any()
    assert found.labels is not None
    assert not found.labels.wrong[~taken].any()
    assert_allclose(found.estimate, alone.estimate, atol=1e-6)
    assert found.notes == alone.notes


def test_duplicates_with_one_label_count_once_and_never_speak_for_themselves() -> None:
    rows, codes, truth = noisy(wrong=0.1, far=0)
    plain = judge(rows, codes, 3, 0)
    assert plain.labels is not None
    victim = int(np.flatnonzero((codes != truth) & (plain.labels.wrong > 0.9))[0])
    copies = np.full(50, victim)
    more = np.r_[np.arange(600), copies]
    found = judge(rows[more], codes[more], 3, 0)
    assert found.labels is not None
    assert_allclose(found.labels.wrong[600:], found.labels.wrong[victim], atol=1e-6)
    assert found.labels.wrong[victim] > 0.8
    # For the others hardly anything changes: the middle of the rows, and so the scale, moves a little.
    assert np.abs(found.labels.wrong[:600] - plain.labels.wrong).max() < 0.1
    assert np.abs(found.labels.wrong[:600] - plain.labels.wrong).mean() < 0.005


def test_a_class_of_three_rows_is_believed_and_one_of_a_single_row_is_not_judged() -> None:
    rows, codes, _ = noisy(n=900, wrong=0.1, far=0)
    rng = np.random.default_rng(5)
    center = 6.0 * rng.normal(size=8)
    rows = np.r_[rows, center + rng.normal(size=(3, 8)), rng.normal(size=(1, 8))]
    codes = np.r_[codes, 3, 3, 3, 4]
    found = judge(rows, codes, 5, 0)
    assert found.labels is not None
    assert (found.tiers[-4:] == 0).all()
    assert found.labels.wrong[-1] == 0.0
    assert found.rules.thin.tolist() == [False, False, False, False, True]


@pytest.mark.parametrize(("wrong", "rounds"), [(0.0, 1), (0.3, 2)])
def test_the_classifier_learns_again_without_labels_that_seem_wrong(
    wrong: float, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, codes, truth = noisy(n=1200, d=20, wrong=wrong, gap=0.7, far=0)
    found = judge(rows, codes, 3, 0)
    assert found.rules.rounds == found.summary()["labels"]["rounds"] == rounds
    if rounds == 2:
        monkeypatch.setattr(MODULE, "_MANY_WRONG", 1.0)
        once = judge(rows, codes, 3, 0)
        assert once.rules.rounds == 1
        assert found.labels is not None
        assert once.labels is not None
        right = np.arange(1200), truth
        # Of the true classes, the second classifier knows more.
        first, second = (each.class_probabilities(rows, codes)[right].mean() for each in (once, found))
        assert second > first


def test_rows_far_outside_every_class_belong_to_none_whatever_their_label() -> None:
    rows, codes, truth = noisy(n=900, wrong=0.1, far=0, gap=2.0)
    rng = np.random.default_rng(5)
    rows[:30] += 30.0 * rng.normal(size=(30, 8))
    codes[:15] = (truth[:15] + 1) % 3
    codes[15:30] = truth[15:30]
    found = judge(rows, codes, 3, 0)
    assert found.labels is not None
    assert (found.labels.outside[:30] > 0.7).all()
    assert found.labels.outside[:30].mean() > 0.9
    assert (found.labels.likely[:30] < 0.3).all()  # no suggestion is certain
    assert (found.tiers[:30] == 2).all()
    ordinary = np.arange(900) >= 30
    assert found.labels.outside[ordinary].max() < 0.5
    assert (found.labels.likely[ordinary & (codes != truth)] > 0.5).mean() > 0.8


def test_far_rows_whose_labels_fit_are_of_their_class() -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(900) % 3
    scale = np.where(np.arange(900) % 8 == 0, 6.0, 1.0)  # an eighth of the rows is far off, on the right side
    rows = scale[:, None] * (8.0 * np.eye(3, 6)[truth] + rng.normal(size=(900, 6)))
    found = judge(rows, truth, 3, 0)
    assert found.labels is not None
    assert found.rules.stray < 0.3
    assert found.labels.outside[scale > 1].mean() < 0.2


def test_a_label_that_is_sure_speaks_for_the_place_of_its_row() -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(900) % 3
    # Heavy tails: many rows are beyond what the middle of a class allows.
    rows = 12.0 * np.eye(3, 6)[truth] + rng.standard_t(2.5, size=(900, 6))
    found = judge(rows, truth, 3, 0)
    beyond = found.distances / found.thresholds[truth]
    between = (beyond > 1) & (beyond < 1.5)
    assert between.sum() > 30
    assert found.labels is not None
    expected = (beyond > 1) & ~((found.labels.wrong < 0.1) & (beyond <= 1.5))
    assert_array_equal(found.far, expected & ~found.clumped)
    assert (found.tiers[between] == 0).mean() > 0.8
    outlier = found.evidence(truth).outlier
    assert_array_equal(outlier[~found.clumped] > 0.5, found.far[~found.clumped])


def test_rows_of_one_group_are_judged_by_classifiers_that_learned_from_none_of_it() -> None:
    rng = np.random.default_rng(0)
    n_groups, size = 60, 6
    groups = np.repeat(np.arange(n_groups), size)
    truth = (np.arange(n_groups) % 2)[groups]
    # Every group has a place of its own, by which its rows are known; what tells the classes apart is weak.
    rows = 2.0 * rng.normal(size=(n_groups, 40))[groups] + 0.3 * rng.normal(size=(n_groups * size, 40))
    rows[:, :3] += 1.5 * truth[:, None]
    codes = truth.copy()
    wrong = np.isin(groups, np.arange(0, n_groups, 5))  # all rows of a patient bear the wrong label
    codes[wrong] = 1 - truth[wrong]

    def order(known: Known | None) -> float:
        labels = judge(rows, codes, 2, 0, known=known).labels
        assert labels is not None
        return float(np.mean(labels.wrong[wrong][:, None] > labels.wrong[~wrong]))

    apart, together = order(None), order(Known(groups=groups))
    assert together > apart + 0.1
    # One group only, or each row a group of its own, changes little.
    same(judge(rows, codes, 2, 0, known=Known(groups=0 * groups)), judge(rows, codes, 2, 0))
    assert judge(rows, codes, 2, 0, known=Known(groups=np.arange(len(rows)))).labels is not None


@pytest.mark.parametrize(
    ("n", "d", "n_classes"),
    [(3000, 1, 5), (1000, 30, 10), (300, 4, 3), (400, 20, 30), (1000, 100, 10), (500, 200, 2)],
)
def test_labels_by_chance_are_believed_with_a_note_and_an_interval_that_says_nothing(
    n: int, d: int, n_classes: int
) -> None:
    rng = np.random.default_rng(0)
    found = judge(rng.normal(size=(n, d)), np.arange(n) % n_classes, n_classes, 0)
    assert found.reason is None
    assert any("the rows say little about the labels" in note for note in found.notes)
    assert found.summary()["notes"] == list(found.notes)
    assert found.estimate is not None
    assert_array_equal(found.estimate[:, 2:], np.tile([0.0, 1.0], (n_classes + 1, 1)))
    assert (found.tiers != 1).all()  # their labels are believed; their order stands


def test_classes_that_are_hardly_believed_are_counted() -> None:
    rows, codes, truth = noisy(n=1200, wrong=0.0, far=0, gap=2.0)
    assert judge(rows, codes, 3, 0).notes == ()
    # Most rows that bear the label 2 are of class 0.
    given = np.where((truth == 2) | ((truth == 0) & (np.arange(1200) % 3 > 0)), 2, truth)
    given[(truth == 2) & (np.arange(1200) % 2 == 0)] = 1
    known = np.full((1200, 3), 0.01)
    known[np.arange(1200), truth] = 0.98
    found = judge(rows, given, 3, 0, known=Known(probabilities=known))
    believed = [(found.tiers[given == code] == 0).mean() for code in range(3)]
    poor = sum(share < 0.5 for share in believed)
    assert poor >= 1
    assert found.notes == (f"in {poor} of 3 classes fewer than half of the rows are believed",)


def test_a_verdict_that_believes_hardly_a_row_says_so() -> None:
    rows, codes, _ = noisy(n=600, wrong=0.0, far=0)
    verdict = judge(rows, codes, 3, 0)
    tiers = np.where(np.arange(600) < 59, 0, 1).astype(np.int8)
    (note,) = _notes(tiers, verdict.labels, codes, verdict.rules, 3)
    assert note.startswith("only 59 of 600 rows are believed; check the labels, or pass rows")
    tiers[59] = 0
    (note,) = _notes(tiers, verdict.labels, codes, verdict.rules, 3)
    assert note == "in 3 of 3 classes fewer than half of the rows are believed"
    assert _notes(tiers, None, codes, verdict.rules, 3) == ()


def test_a_models_probabilities_take_the_place_of_the_classifier() -> None:
    rows, codes, truth = noisy(n=1500, wrong=0.2, far=0)
    rng = np.random.default_rng(2)
    known = rng.dirichlet(np.full(3, 0.3), 1500) * 0.3
    known[np.arange(1500), truth] += 0.7
    found = judge(0 * rows + rng.normal(size=rows.shape), codes, 3, 0, known=Known(probabilities=known))
    assert found.summary()["labels"]["classifier"] == "given"
    assert found.labels is not None
    assert found.estimate is not None
    assert abs(found.estimate[-1, 1] - 0.2) < 0.03
    assert ((found.labels.wrong >= 0.5) == (codes != truth)).mean() > 0.98
    assert_allclose(found.labels.probability, known[np.arange(1500), codes], atol=1e-6)


def test_a_model_that_learned_the_wrong_labels_does_not_explain_them_away() -> None:
    """Where a fifth of each class bears the label of the next, a good model of these labels says so."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, 3000)
    wrong = rng.random(3000) < 0.2
    known = np.full((3000, 5), 0.01)
    known[np.arange(3000), truth] = 0.78
    known[np.arange(3000), (truth + 1) % 5] = 0.19
    known = known * rng.uniform(0.5, 2.0, known.shape)
    known /= known.sum(axis=1, keepdims=True)
    labels = np.where(wrong, (truth + 1) % 5, truth)
    found = judge(rng.normal(size=(3000, 4)), labels, 5, 0, known=Known(probabilities=known))
    assert found.labels is not None
    assert found.estimate is not None
    assert abs(found.estimate[-1, 1] - 0.2) < 0.05
    assert area(wrong, found.labels.wrong) > 0.99


@pytest.mark.parametrize(
    ("codes", "n_classes", "reason"),
    [
        (None, 1, "no labels"),
        (np.zeros(40, int), 1, "one class only"),
        (np.arange(40), 40, "there are too few rows to learn from"),
    ],
)
def test_labels_that_cannot_be_judged_leave_the_place(codes: Any, n_classes: int, reason: str) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 4))
    rows[0] = 90.0
    found = judge(rows, codes, n_classes, 0, labelled=codes is not None)
    assert (found.labels, found.estimate, found.notes) == (None, None, ())
    assert found.summary()["labels"] == {"used": False, "reason": reason}
    assert (found.tiers == np.where(np.arange(40) == 0, 2, 0)).all() or n_classes == 40
    evidence = found.evidence(codes)
    assert not evidence.labels_judged
    assert not evidence.wrong.any()


def test_a_classifier_that_would_take_too_much_memory_is_not_fitted() -> None:
    many = np.repeat(np.arange(200_000), 2)
    reason = _too_little(4096, many, 200_000, Known())
    assert reason == "a classifier of 4096 features and 200000 classes would take more than 4 GB"
    some = np.repeat(np.arange(40_000), 2)
    assert _too_little(16_000, some, 40_000, Known(probabilities=np.empty((0, 0)))) is None
    assert _too_little(16, some, 40_000, Known()) is None


@pytest.mark.parametrize("known", [Known(), Known(probabilities=np.empty((0, 0)))])
def test_a_noise_model_that_would_take_too_much_memory_is_not_fitted(known: Known) -> None:
    reason = _too_little(8, np.repeat(np.arange(100_000), 2), 100_000, known)
    assert reason == "a noise model of 100000 classes would take more than 4 GB"


@pytest.mark.parametrize("shape", [(2, 1), (4, 3), (12, 1), (40, 200)])
def test_the_smallest_inputs_are_judged(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(0).normal(size=shape)
    found = judge(rows, np.arange(len(rows)) % 2, 2, 0)
    assert len(found.tiers) == len(rows)
    assert (found.tiers == 0).mean() >= 0.5


def test_many_classes_of_few_rows() -> None:
    rng = np.random.default_rng(2)
    truth = np.repeat(np.arange(300), 12)
    rows = 1.5 * rng.normal(size=(300, 40))[truth] + rng.normal(size=(3600, 40))
    codes = np.where(rng.random(3600) < 0.15, rng.integers(0, 300, 3600), truth)
    found = judge(rows.astype(np.float32), codes, 300, 0)
    assert found.labels is not None
    assert found.estimate is not None
    wrong = codes != truth
    assert found.estimate[-1, 2] <= wrong.mean() <= found.estimate[-1, 3]
    inside = ~(found.far | found.clumped)
    assert (found.tiers[inside & ~wrong] == 0).mean() > 0.97
    assert (found.tiers[inside & wrong] == 1).mean() > 0.7


def test_the_middle_and_the_typical_distance_are_those_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(301, 4)) + 2.0
    keys = row_keys(rows)
    for size in (4096, 100):
        monkeypatch.setattr(MODULE, "_ORIGIN_ROWS", size)
        sample = rows[draw_order(keys)[:size]]
        origin, scale = _origin(rows, keys)
        best = geometric_median(sample)
        assert_allclose(origin, best.point, atol=0.02)
        assert best.objective * (1 + 1e-4) >= np.linalg.norm(sample - origin, axis=1).sum()
        assert scale == pytest.approx(np.sort(np.linalg.norm(sample - origin, axis=1))[len(sample) // 2])
    alike = np.zeros((9, 2))
    assert _origin(alike, row_keys(alike))[1] == 1.0


def test_a_sample_has_its_size_and_some_rows_of_every_class() -> None:
    rng = np.random.default_rng(9)
    keys = row_keys(rng.normal(size=(5000, 2)))
    codes = np.zeros(5000, np.int64)
    codes[:300], codes[300:310] = 1, 2
    codes = codes[rng.permutation(5000)]
    usable = rng.random(5000) < 0.9
    order = draw_order(keys)
    order = order[usable[order]]
    plain = _draw_sample(keys, None, usable, 1000)
    assert plain is not None
    assert plain.tolist() == sorted(order[:1000].tolist())
    found = _draw_sample(keys, codes, usable, 1000)
    assert found is not None
    for code in range(3):
        drawn = order[:1000][codes[order[:1000]] == code]
        own = order[codes[order] == code]
        wanted = own[: max(len(drawn), min(256, len(own)))]
        assert found[codes[found] == code].tolist() == sorted(wanted.tolist())
    assert _draw_sample(keys, codes, usable, int(usable.sum())) is None
    assert _draw_sample(keys, codes, usable, int(usable.sum()) - 1) is not None
    assert [sample_size(8, 2), sample_size(4000, 2), sample_size(8, 1000)] == [32768, 17179, 128_000]


class Counted:
    """Rows on a slow disk: every value that is read counts."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.read = rows, 0
        self.shape, self.dtype, self.itemsize, self.ndim = rows.shape, rows.dtype, rows.itemsize, 2

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: Any) -> np.ndarray:
        read = np.array(self.rows[chosen])
        self.read += read.shape[0]
        return read


@pytest.mark.parametrize(("wrong", "rounds"), [(0.02, 1), (0.3, 2)])
def test_many_rows_are_read_once_beside_their_hashes_and_the_sample(
    wrong: float, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, codes, _ = noisy(n=20_000, wrong=wrong, gap=2.0)
    monkeypatch.setattr(MODULE, "_SAMPLE_ROWS", 4096)
    monkeypatch.setattr(MODULE, "_ROWS_PER_FEATURE", 1)
    counted: Any = Counted(rows)
    found = judge(counted, codes, 3, 0)
    assert found.rules.rounds == rounds
    assert found.reads == 2
    assert found.sample == 4096
    assert counted.read == found.reads * len(rows) + found.sample
    again: Any = Counted(rows)
    known = judge(again, codes, 3, 0, keys=row_keys(rows, 0))
    assert known.reads == 1
    assert again.read == len(rows) + found.sample
    assert_array_equal(known.tiers, found.tiers)


def test_the_means_of_the_believed_rows_come_with_the_verdict() -> None:
    rows, codes, _ = noisy(wrong=0.2)
    found = judge(rows, codes, 3, 0)
    assert found.means is not None
    for code in range(3):
        own = (codes == code) & (found.tiers == 0)
        assert_allclose(found.means[code], rows[own].mean(axis=0), atol=1e-9)


def test_the_evidence_is_the_columns_and_the_doubt_the_worst_of_them() -> None:
    rows, codes, _ = noisy()
    rows[200:240] = rows[200] + 1e-3 * np.random.default_rng(4).normal(size=(40, 8))
    codes[200:240] = codes[200]
    verdict = judge(rows, codes, 3, 0)
    labels = verdict.labels
    assert labels is not None
    assert verdict.clumped.sum() >= 40
    light = np.zeros(len(rows), bool)
    light[400:450] = True
    told = verdict.with_light(light)
    assert_array_equal(told.tiers, np.where(light & (verdict.tiers == 0), 2, verdict.tiers))
    found = told.evidence(codes)
    for name in ("wrong", "suggested", "likely", "outside"):
        assert_array_equal(getattr(found, name), getattr(labels, name))
    for row, code in enumerate(codes):
        allowed = verdict.thresholds[code]
        if not (verdict.far[row] or verdict.clumped[row]) and verdict.distances[row] > allowed:
            allowed *= 1.5  # the label is sure
        outlier = verdict.distances[row] / (verdict.distances[row] + allowed)
        doubt = max(labels.wrong[row], outlier if verdict.far[row] else 0.0)
        doubt = 1.0 if verdict.clumped[row] else doubt
        doubt = max(doubt, 0.25) if light[row] else doubt
        assert found.doubt[row] == pytest.approx(doubt)
        assert found.outlier[row] == pytest.approx(outlier)
        assert found.unlikely[row] == (labels.wrong[row] >= 0.5)
    assert found.labels_judged
    assert_array_equal(found.estimate, verdict.estimate)


def test_the_summary_counts_what_was_found() -> None:
    rows, codes, _ = noisy()
    codes[-3:] = 3  # too few to be judged by distance
    found = judge(rows, codes, 4, 0)
    told = found.summary()
    assert told["tiers"] == {name: int((found.tiers == tier).sum()) for tier, name in enumerate(TIERS)}
    assert told["gate"]["far"] == found.far.sum()
    assert told["gate"]["clumped"] == found.clumped.sum()
    assert told["gate"]["classes_too_small"] == 1
    assert told["gate"]["thresholds"] == [found.thresholds[:3].min(), found.thresholds[:3].max()]
    assert found.labels is not None
    assert told["labels"]["unlikely"] == (found.labels.wrong >= 0.5).sum()
    assert sum(told["labels"]["sharpness"].values()) == pytest.approx(1.0, abs=0.01)
    assert (told["reads"], told["sample"]) == (found.reads, None)
    few = judge(rows[:5], None, 1, 0).summary()["gate"]
    assert (few["thresholds"], few["classes_too_small"]) == (None, 1)


def test_classes_far_apart_are_known_however_many_labels_are_wrong() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 3000)
    rows = 1.5 * rng.normal(size=(3, 32))[truth] + rng.normal(size=(3000, 32))
    labels = np.where(rng.random(3000) < 0.4, rng.integers(0, 3, 3000), truth)
    found = gmmatch.suspects(rows, labels)
    told = found.summary()["wrong_labels"]
    assert abs(told["estimate"] - (labels != truth).mean()) < 0.02
    assert found.notes == ()


def test_what_is_judged_in_single_precision_is_believed_as_in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, codes, _ = noisy(n=6000, wrong=0.2, gap=2.0)
    double = judge(rows, codes, 3, 0)
    monkeypatch.setattr(classifiers_module, "_SINGLE_ROWS", 1)
    single = judge(rows, codes, 3, 0)
    assert single.rules.classifier is not None
    assert single.rules.classifier.precision == "float32"
    assert double.labels is not None
    assert single.labels is not None
    assert (single.labels.wrong != double.labels.wrong).any()
    assert_allclose(single.labels.wrong, double.labels.wrong, atol=1e-4)
    assert_array_equal(single.tiers, double.tiers)


@pytest.mark.parametrize("seed", range(3))
def test_a_table_of_few_categories_is_judged_by_how_often_labels_are_given(seed):
    rng = np.random.default_rng(seed)
    rows = rng.choice(3, p=[0.6, 0.3, 0.1], size=(900, 2)).astype(np.float32)  # nine distinct rows
    truth = (rows.sum(axis=1) >= 1).astype(np.int64)
    wrong = rng.random(900) < 0.2
    found = judge(rows, np.where(wrong, 1 - truth, truth), 2, seed=0)
    right, mistaken = np.sort(found.labels.wrong[~wrong]), found.labels.wrong[wrong]
    assert np.searchsorted(right, mistaken).mean() > 0.9 * len(
        right
    )  # nearly all are above nearly all others
    assert (found.tiers[~wrong] == TRUSTED).mean() > 0.8


def test_odd_rows_do_not_outvote_few_rows_that_occur_often():
    rng = np.random.default_rng(0)
    often = np.repeat(rng.normal(size=(12, 6)), 50, axis=0)
    rows = np.concatenate([often, 100.0 + 50.0 * rng.normal(size=(400, 6))]).astype(np.float32)
    found = judge(rows, np.zeros(1000, np.int64), 1, seed=0)
    assert (found.tiers[600:] != TRUSTED).all()
    assert (found.tiers[:600] == TRUSTED).mean() > 0.9


def area(wrong, order):
    """Return how often a wrong label is above a right one, ties half."""
    right = np.sort(order[~wrong])
    sides = [np.searchsorted(right, order[wrong], side=side) for side in ("left", "right")]
    return float(np.mean(sides) / len(right))


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_a_table_that_share_few_values_are_no_copies_and_no_dense_clusters(seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, 400)
    columns = np.array([[0.9, 0.1, 0.1], [0.1, 0.9, 0.1], [0.1, 0.1, 0.9], [0.8, 0.5, 0.2], [0.2, 0.5, 0.8]])
    rows = (rng.random((400, 5)) < columns.T[truth]).astype(
        np.float32
    )  # 32 distinct rows, some of them often
    wrong = rng.random(400) < 0.25
    labels = np.where(wrong, (truth + rng.integers(1, 3, 400)) % 3, truth)
    found = judge(rows, labels, 3, seed=0)
    assert not found.clumped.any()
    # As good an order as counting which other rows with the same values have the label.
    same = (rows[:, None] == rows).all(axis=2) & ~np.eye(400, dtype=bool)
    counted = (same & (labels[:, None] == labels)).sum(axis=1) / np.maximum(1, same.sum(axis=1))
    assert area(wrong, found.labels.wrong) > area(wrong, -counted) - 0.01


def test_one_large_group_of_copies_under_many_labels_does_not_make_a_table():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 100)
    rows = rng.normal(size=(300, 16)) + 4.0 * np.eye(3, 16)[truth]
    rows[rng.permutation(300)[:120]] = 3.0  # two fifths of the rows are one and the same point, of any label
    assert judge(rows, truth, 3, seed=0).clumped.any()
