"""What rows are judged by, and what is told of them: each rule written out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gmmatch.compute.keys import draw_order, row_keys
from gmmatch.location.geometric_median import geometric_median
from gmmatch.trust import head as head_module
from gmmatch.trust import learning as module
from gmmatch.trust.copies import _near, _sketch, _typical_gap
from gmmatch.trust.guard import TIERS, expected_reads, judge
from gmmatch.trust.head import Inputs, Labelled, _lead, _sharpness, assign_folds
from gmmatch.trust.learning import _choose_head, _origin
from gmmatch.trust.lift import Lift, typical_gap
from gmmatch.trust.rules import LabelRules, judge_rows
from gmmatch.trust.suspects import apart_from_copies, folds_for


def noisy(n: int = 500, d: int = 8, wrong: float = 0.12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    rows = 1.1 * rng.normal(size=(3, d))[truth] + rng.normal(size=(n, d))
    rows[: n // 40] += 30.0
    return rows, np.where(rng.random(n) < wrong, (truth + 1) % 3, truth)


@pytest.fixture(autouse=True)
def _few_lifted_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads on a lift of few features, which are quick."""
    monkeypatch.setattr(module, "_LIFTED_FEATURES", 64)


def test_the_middle_and_the_typical_distance_are_those_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(301, 4)) + 2.0
    keys, usable = row_keys(rows), np.arange(301) % 5 > 0
    for size in (4096, 100):
        monkeypatch.setattr(module, "_ORIGIN_ROWS", size)
        order = draw_order(keys)
        sample = rows[order[usable[order]][:size]]
        origin, scale = _origin(rows, keys, usable)
        np.testing.assert_allclose(origin, geometric_median(sample).point, atol=0.02)
        assert (
            geometric_median(sample).objective * (1 + 1e-4) >= np.linalg.norm(sample - origin, axis=1).sum()
        )
        assert scale == pytest.approx(np.sort(np.linalg.norm(sample - origin, axis=1))[len(sample) // 2])
    alike = np.zeros((9, 2))
    assert _origin(alike, row_keys(alike), np.ones(9, bool))[1] == 1.0


@pytest.mark.parametrize(
    ("linear", "lifted", "best"),
    [(0.5, 0.491, "linear"), (0.5, 0.4895, "lifted"), (0.009, 0.0, "linear"), (0.0101, 0.0001, "lifted")],
)
def test_a_lift_is_taken_where_it_lowers_the_loss_by_a_hundredth(
    linear: float, lifted: float, best: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EVIDENCE_WORK", 0.0)
    monkeypatch.setattr(module, "_EVIDENCE_ROWS", 150)
    rows, codes = noisy(400)
    keys, passed = row_keys(rows), np.arange(400) % 4 > 0
    data = Labelled(rows, codes, 3, assign_folds(keys, codes, 3), 3, keys)
    calls = []

    def fit(given: Labelled, chosen: Any, inputs: Inputs, precision: Any = np.float64) -> Any:
        calls.append((given, chosen, inputs, precision))
        return SimpleNamespace(loss=linear if inputs.lift is None else lifted, inputs=inputs)

    monkeypatch.setattr(module, "fit_heads", fit)
    head, losses = _choose_head(data, passed, np.zeros(8), 2.0, 7)
    assert (head.inputs.lift is not None) == (best == "lifted")
    assert losses == {"linear": round(linear, 3)} | ({} if linear < 0.01 else {"lifted": round(lifted, 3)})
    order = draw_order(keys)
    order = order[passed[order]]
    for part, chosen, _, precision in calls[:-1]:
        np.testing.assert_array_equal(part.rows, rows[np.sort(order[:150])])
        np.testing.assert_array_equal(part.codes, codes[np.sort(order[:150])])
        assert (chosen, precision) == (None, np.float32)
    assert calls[-1][0] is data
    assert calls[-1][1] is passed
    if best == "lifted":
        expected = Lift.draw(np.zeros(8), 0.3 * typical_gap(rows[order]), 64, 7)
        np.testing.assert_allclose(head.inputs.lift.directions, expected.directions)
    monkeypatch.setattr(module, "may_be_lifted", lambda *shape: False)
    assert _choose_head(data, passed, np.zeros(8), 2.0, 7)[1] == {"linear": round(linear, 3)}


def test_distinct_rows_of_a_class_are_dealt_out_to_folds_in_turn() -> None:
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 4, (200, 2)).astype(float)
    codes, keys = rng.integers(-1, 3, 200), row_keys(rows)
    expected = np.empty(200, int)
    for code in (-1, 0, 1, 2):
        distinct = sorted(set(keys[codes == code].tolist()))
        for row in np.flatnonzero(codes == code):
            expected[row] = (distinct.index(keys[row]) + code) % 3
    assert assign_folds(keys, codes, 3).tolist() == expected.tolist()
    many = codes + 2**15
    shifted = assign_folds(keys, many, 3)
    assert ((shifted - expected - 2**15) % 3 == 0).all()


def test_heads_read_clipped_rows_their_lift_and_a_one() -> None:
    rows = np.random.default_rng(2).normal(size=(50, 3)) * 3
    origin, lift = np.array([1.0, 0.0, 0.0]), Lift.draw(np.zeros(3), 1.0, 6, 0)
    scaled = (rows - origin) / 2.5
    scaled *= np.minimum(1, 2 / np.linalg.norm(scaled, axis=1))[:, None]
    for inputs, expected in (
        (Inputs(origin, 2.5), np.c_[scaled, np.ones(50)]),
        (Inputs(origin, 2.5, lift), np.c_[scaled, lift(rows), np.ones(50)]),
    ):
        assert inputs.width == expected.shape[1]
        np.testing.assert_allclose(inputs(rows), expected, atol=1e-12)


def test_the_temperature_is_that_under_which_the_labels_are_most_likely() -> None:
    rng = np.random.default_rng(3)
    scores, codes = rng.normal(size=(300, 4)), rng.integers(0, 4, 300)
    scores[np.arange(300), codes] += 0.4

    def loss(sharpness: float) -> float:
        powers = np.exp(sharpness * scores)
        return float(-np.log(powers[np.arange(300), codes] / powers.sum(axis=1)).mean())

    sharpness, told = _sharpness(scores.copy(), codes)
    assert told == pytest.approx(loss(sharpness), abs=1e-4)
    assert told <= min(loss(other) for other in np.exp(np.arange(-3, 3, 0.05))) + 1e-5
    assert np.log(sharpness) == pytest.approx(round(np.log(sharpness), 2), abs=1e-12)
    assert _sharpness(np.empty((0, 4)), codes[:0]) == (1.0, round(np.log(4), 6))
    usual = scores.mean(axis=0)
    lead = [scores[row, code] - usual[code] for row, code in enumerate(codes)]
    assert _lead(scores, codes) == pytest.approx(np.mean(lead) - 3 * np.std(lead) / np.sqrt(300))
    assert _lead(scores[:0], codes[:0]) == 0.0


def test_what_a_head_gains_is_how_much_chance_would_not_give() -> None:
    rows, codes = noisy()
    verdict = judge(rows, codes, 3, 0)
    assert verdict.head is not None
    passed = verdict.gate.passed
    scores = head_module._scores(
        verdict.head.inputs(rows[passed]), verdict.folds[passed], verdict.head.weights
    )
    expected = verdict.head.sharpness * _lead(scores, codes[passed])
    assert verdict.head.gain == pytest.approx(expected, abs=1e-6)
    assert verdict.head.gain > 0.1


@pytest.mark.parametrize("rounds", [1, 2])
def test_in_one_pass_every_row_is_judged_by_what_was_learned(rounds: int) -> None:
    rows, codes = noisy(wrong=0.12 if rounds == 1 else 0.35)
    rows[200:240] = rows[200] + 1e-3 * np.random.default_rng(4).normal(size=(40, 8))
    codes[200:240] = codes[200]
    learned = judge(rows, codes, 3, 0)
    assert learned.rounds == rounds
    case = module.Case(rows, codes, 3, learned.folds, 3, learned.keys, np.ones(len(rows), bool), 0, True)
    heads = module.learn(case).rounds
    rules = LabelRules(heads, learned.labels.mean, learned.labels.scale, 0.4, learned.labels.mixed_up)
    codes = np.where(np.arange(len(codes)) % 50 == 0, -1, codes)
    gate, labels, means = judge_rows(rows, codes, learned.folds, learned.gate.limits, rules)
    limits = learned.gate.limits
    apart = np.linalg.norm(rows - limits.centers[codes], axis=1)
    clumped = np.array([
        code >= 0 and any(np.linalg.norm(row - spot) <= limits.reaches[code] for spot in limits.spots[code])
        for row, code in zip(rows, codes, strict=True)
    ])  # fmt: skip
    far = (codes >= 0) & ~clumped & (apart > limits.thresholds[codes] * (1 + 1e-9))
    assert gate.far.tolist() == far.tolist()
    assert gate.clumped.tolist() == clumped.tolist()
    assert clumped.sum() >= 38
    np.testing.assert_allclose(gate.distances[codes >= 0], apart[codes >= 0])
    dropped, suspicion = np.zeros(len(codes), bool), np.zeros(len(codes))
    for head, thresholds in heads:
        told = head.probabilities(rows, learned.folds)
        for row in np.flatnonzero((codes >= 0) & ~far & ~clumped):
            likely = [code for code in range(3) if told[row, code] >= thresholds[code]]
            dropped[row] |= bool(likely) and max(likely, key=lambda code: told[row, code]) != codes[row]
            fits = told[row] / thresholds
            best = np.delete(fits, codes[row]).max()
            suspicion[row] = best / (best + fits[codes[row]])
    assert labels.dropped.tolist() == dropped.tolist()
    judged = (codes >= 0) & ~far & ~clumped
    np.testing.assert_allclose(labels.suspicion[judged], suspicion[judged])
    np.testing.assert_allclose(labels.own, told[np.arange(len(codes)), codes])
    np.testing.assert_array_equal(labels.probabilities, told)
    assert (labels.scale, labels.thresholds.tolist()) == (rules.scale, heads[-1][1].tolist())
    for code in range(3):
        likely = judged & ~dropped & (codes == code)
        doubtful = likely & (suspicion > 0.4)
        if doubtful.sum() <= (dropped & (codes == code)).sum():  # they may be doubted
            likely &= ~doubtful
        np.testing.assert_allclose(means.rows[code], rows[likely].mean(axis=0))
        np.testing.assert_allclose(means.probabilities[code], told[likely].mean(axis=0))


def test_evidence_is_the_worst_that_is_known_of_a_row() -> None:
    rows, codes = noisy()
    rows[200:240] = rows[200] + 1e-3 * np.random.default_rng(4).normal(size=(40, 8))
    codes[200:240] = codes[200]
    verdict = judge(rows, codes, 3, 0)
    gate, labels = verdict.gate, verdict.labels
    assert gate.clumped.sum() >= 40
    light = np.zeros(len(rows), bool)
    light[400:450] = True
    told = verdict.with_light(light)
    assert told.tiers.tolist() == np.where(light & (verdict.tiers == 0), 2, verdict.tiers).tolist()
    found = told.evidence(codes)
    for row, code in enumerate(codes):
        outlier = gate.distances[row] / (gate.distances[row] + gate.thresholds[code])
        suspicion = max(labels.suspicion[row], outlier if gate.far[row] else 0.0)
        suspicion = 1.0 if gate.clumped[row] else suspicion
        suspicion = max(suspicion, 0.25) if light[row] else suspicion
        assert found.suspicion[row] == pytest.approx(suspicion)
        assert found.outlier[row] == pytest.approx(outlier)
        assert found.unlikely[row] == (verdict.tiers[row] == 1 or labels.suspicion[row] > 0.5)
    assert found.labels_judged
    assert found.estimate is not None
    nothing = judge(rows, None, 1, 0).evidence(None)
    assert (nothing.estimate, nothing.labels_judged) == (None, False)
    assert not nothing.likely.any()
    assert (nothing.wrong_label == 0).all()


def test_how_likely_labels_are_wrong_is_told_of_many_rows_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, codes = noisy(300)
    verdict = judge(rows, codes, 3, 0)
    assert verdict.evidence(codes, doubt=False).estimate is not None
    monkeypatch.setattr("gmmatch.trust.guard._MANY_ROWS", 299)
    assert verdict.evidence(codes).estimate is not None
    brief = verdict.evidence(codes, doubt=False)
    assert brief.estimate is None
    expected = np.where(brief.unlikely, brief.suspicion, 0.0)  # held in single precision where rows are many
    np.testing.assert_allclose(brief.wrong_label, expected, rtol=1e-6)


def test_the_summary_counts_what_was_found() -> None:
    rows, codes = noisy(wrong=0.03)
    codes[-3:] = 3  # too few to be judged by distance
    verdict = judge(rows, codes, 4, 0)
    told = verdict.summary()
    assert told["tiers"] == {name: int((verdict.tiers == tier).sum()) for tier, name in enumerate(TIERS)}
    gate, labels = verdict.gate, verdict.labels
    assert told["gate"]["far"] == gate.far.sum()
    assert told["gate"]["clumped"] == gate.clumped.sum()
    assert told["gate"]["classes_too_small"] == 1
    assert told["gate"]["thresholds"] == [gate.thresholds[:3].min(), gate.thresholds[:3].max()]
    assert told["labels"]["unlikely"] == labels.dropped.sum() == (verdict.tiers == 1).sum() > 0
    assert told["labels"]["unjudged"] == labels.unjudged.sum()
    assert told["labels"]["thresholds"] == [
        labels.thresholds[np.isfinite(labels.thresholds)].min(),
        labels.thresholds[np.isfinite(labels.thresholds)].max(),
    ]
    assert told["labels"]["folds"] == 3
    assert told["labels"]["mean_probability_of_the_label"] == pytest.approx(labels.own.mean())
    assert (told["reads"], told["sample"]) == (verdict.reads, None)
    assert verdict.reads == 1 + expected_reads(len(rows), 8, 4, labelled=True)
    alone = judge(rows, None, 1, 0)
    assert alone.reads == 1 + expected_reads(len(rows), 8, 1, labelled=False)
    few = judge(rows[:5], None, 1, 0).summary()["gate"]
    assert (few["thresholds"], few["classes_too_small"]) == (None, 1)


def test_the_typical_gap_is_the_median_distance_to_the_nearest_neighbour_of_so_many_rows() -> None:
    rng = np.random.default_rng(5)
    sample = rng.normal(size=(2000, 8))

    def nearest(rows: np.ndarray) -> np.ndarray:
        return np.sort(np.linalg.norm(rows[:256, None] - rows, axis=2), axis=1)[:, 1]

    def middle(gaps: np.ndarray) -> float:
        return float(np.sqrt(np.median(gaps**2)))

    gap = middle(nearest(sample))
    assert _typical_gap(sample, 2000) == pytest.approx(gap)
    fall = np.log(middle(nearest(sample[:1024])) / gap) / np.log(2000 / 1024)
    assert _typical_gap(sample, 16_000) == pytest.approx(gap * 8.0**-fall)
    assert 0.06 < fall < 0.2  # an eighth in eight dimensions
    assert _typical_gap(sample[:900], 9000) == pytest.approx(_typical_gap(sample[:900], 900))
    assert _typical_gap(sample[:1], 5) == 0.0
    assert _typical_gap(np.zeros((5, 2)), 5) == 0.0
    # Near copies apart: those of every fifth row do not make the gap small.
    paired = np.concatenate([sample[:400], sample[:80] + 1e-6])
    apart = np.sort(np.linalg.norm(paired[:, None] - paired, axis=2), axis=1)[:, 1]
    assert _typical_gap(paired, 480) == pytest.approx(middle(apart[apart > 1e-3][:256]))


@pytest.mark.parametrize("width", [16, 17, 200])
def test_distances_in_the_sketch_are_about_those_of_the_rows(width: int) -> None:
    rows = np.random.default_rng(6).normal(size=(300, width)) + 5.0
    found = _sketch(rows, np.full(width, 5.0), 0.5)
    assert found.shape == (300, 16)
    if width == 16:
        np.testing.assert_allclose(found, (rows - 5.0) / 0.5, rtol=1e-5)
    ratio = np.linalg.norm(found[1:] - found[:-1], axis=1) / np.linalg.norm(rows[1:] - rows[:-1], axis=1)
    assert np.mean(ratio**2) == pytest.approx(4.0, rel=0.25)


def test_pairs_in_a_cell_of_a_grid_are_near_and_five_grids_have_nearly_all_of_them() -> None:
    rng = np.random.default_rng(7)
    sketch = 40.0 * rng.normal(size=(1000, 16))
    moved = rng.normal(size=(500, 16))
    length = rng.uniform(0.1, 1.6, 500)
    sketch[500:] = sketch[:500] + moved * (length / np.linalg.norm(moved, axis=1))[:, None]
    sketch = sketch.astype(np.float32)
    found = [_near(sketch, np.arange(1000), grid) for grid in range(5)]
    assert all((np.abs(one - other) == 500).all() for one, other in found)
    hits = [np.isin(np.arange(500), np.minimum(*pairs)) for pairs in found]
    assert not any(hit[length > 1.001].any() for hit in hits)
    # As the module says: of the farthest near copies one grid has 0.43, of those at half the distance 0.66.
    half, far = np.abs(length - 0.5) < 0.1, np.abs(length - 0.95) < 0.05
    assert np.mean([hit[half].mean() for hit in hits]) == pytest.approx(0.66, abs=0.1)
    assert np.mean([hit[far].mean() for hit in hits]) == pytest.approx(0.43, abs=0.15)
    assert np.any(hits, axis=0)[length < 0.5].mean() > 0.99
    chosen = np.arange(0, 1000, 2)
    assert np.isin(_near(sketch, chosen, 0), chosen).all()


def test_copies_under_one_label_are_judged_once() -> None:
    groups = np.array([0, 0, 0, -1, 1, 1, 1, 0])
    codes = np.array([2, 2, 1, 1, -1, 0, 0, 1])
    kept, stands = apart_from_copies(codes, SimpleNamespace(groups=groups))
    assert stands.tolist() == [0, 0, 2, 3, 4, 5, 5, 2]
    assert kept.tolist() == [2, -1, 1, 1, -1, 0, -1, -1]
    assert [folds_for(n) for n in (2048, 2049, 65536, 65537)] == [10, 5, 5, 3]
