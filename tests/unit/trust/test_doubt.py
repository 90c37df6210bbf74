"""How likely labels are wrong, and what speaks against each row: the rules written out, row by row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gmmatch.facts import Evidence
from gmmatch.trust.copies import Copies
from gmmatch.trust.doubt import doubt_labels
from gmmatch.trust.labels import LabelFilter, doubt_from, in_doubt
from gmmatch.trust.weighing import weigh

N_CLASSES = 4


def judged(n: int = 800, seed: int = 0) -> tuple[np.ndarray, np.ndarray, LabelFilter]:
    """Return probabilities, codes (some of no class), and what a label filter makes of them."""
    rng = np.random.default_rng(seed)
    told = rng.dirichlet(np.full(N_CLASSES, 0.5), n).round(6)
    told[5] = [0.0, 0.7, 0.3, 0.0]
    codes = np.where(rng.random(n) < 0.7, told.argmax(axis=1), rng.integers(0, N_CLASSES, n))
    codes[5], codes[:3] = 0, -1
    own = told[np.arange(n), codes]
    thresholds = np.array([own[codes == code].mean() for code in range(N_CLASSES)])
    fits = told / thresholds
    others = np.where(np.arange(N_CLASSES) == codes[:, None], -1.0, fits)
    best, fit = others.max(axis=1), fits[np.arange(n), codes]
    unjudged = rng.random(n) < 0.05
    unjudged[:6] = False
    empty = np.zeros(n, bool)
    found = LabelFilter(
        empty,
        own,
        thresholds,
        told.mean(axis=0),
        1.0,
        unjudged,
        best / (best + fit),
        others.argmax(axis=1),
        None,
    )
    return told, codes, found


def test_the_odds_of_a_wrong_label_grow_with_the_fit_of_the_best_other_class() -> None:
    told, codes, labels = judged()
    found = doubt_labels(labels, codes)
    rows = np.flatnonzero((codes >= 0) & ~labels.unjudged)
    assert (found.wrong[np.setdiff1d(np.arange(len(codes)), rows)] == 0).all()
    assert (found.likely[np.setdiff1d(np.arange(len(codes)), rows)] == 0).all()
    moved = []
    for row in rows:
        fits = told[row] / labels.thresholds
        own = fits[codes[row]]
        best = np.delete(fits, codes[row]).max() if own > 0 else 1 / labels.thresholds[labels.suggested[row]]
        if own > 0:
            odds = math.log(found.wrong[row] / (1 - found.wrong[row]))
            moved.append(odds - 2 * math.log((best + 1) / own))
    assert np.ptp(moved) < 1e-6
    assert found.wrong[5] > 0.999


def test_wrong_labels_are_counted_by_class_as_the_confident_joint_does() -> None:
    told, codes, labels = judged()
    found = doubt_labels(labels, codes)
    total = 0.0
    for code in range(N_CLASSES):
        rows = np.flatnonzero((codes == code) & ~labels.unjudged)
        high = low = sure = 0
        for row in rows:
            fits = told[row] / labels.thresholds
            best = np.delete(fits, code).max()
            best = best if fits[code] > 0 else 1 / labels.thresholds[labels.suggested[row]]
            high += best > fits[code]
            low += best > fits[code] and best >= 1
            sure += fits[code] >= 1 and not (best > fits[code] and best >= 1)
        size, least, most = len(rows), low / len(rows), high / len(rows)
        share = np.clip((least + low / (low + sure)) / 2, least, most)
        np.testing.assert_allclose(found.by_class[code], [size, share, least, most])
        total += size * share
    assert found.wrong.sum() == pytest.approx(total, rel=1e-3)


def test_a_class_is_suggested_where_it_is_likelier_right_than_the_label() -> None:
    told, codes, labels = judged()
    found = doubt_labels(labels, codes)
    named = 0
    for row in np.flatnonzero((codes >= 0) & ~labels.unjudged):
        if row == 5:
            continue
        own, other = told[row, codes[row]], told[row, labels.suggested[row]]
        right = found.wrong[row] * other / (1 - own)
        named += right > 1 - found.wrong[row]
        assert found.likely[row] == pytest.approx(right if right > 1 - found.wrong[row] else 0.0, abs=1e-9)
    assert 50 < named < 400


def test_of_labels_that_nobody_doubts_one_may_be_wrong() -> None:
    _, codes, labels = judged()
    codes[:] = -1
    none = doubt_labels(labels, codes)
    assert none.wrong.sum() == none.likely.sum() == 0
    assert (none.by_class == 0).all()
    told = np.full((40, 2), 0.5) + 0.49 * np.where(np.arange(2) == np.arange(40)[:, None] % 2, 1, -1)
    sure = LabelFilter(
        np.zeros(40, bool), told.max(axis=1), np.full(2, 0.99), np.zeros(2), 1.0, np.zeros(40, bool),
        np.full(40, 0.01), 1 - np.arange(40) % 2, None,
    )  # fmt: skip
    certain = doubt_labels(sure, np.arange(40) % 2)
    assert certain.wrong.sum() == pytest.approx(1.0, rel=0.02)
    assert (certain.by_class[:, 1:] == 0).all()


def test_labels_are_in_doubt_beyond_odds_of_one_to_three_unless_a_class_has_too_many() -> None:
    _, codes, labels = judged()
    codes = np.maximum(codes, 0)
    rng = np.random.default_rng(1)
    passed = rng.random(len(codes)) < 0.9
    dropped = passed & (rng.random(len(codes)) < np.array([0.02, 0.2, 0.2, 0.2])[codes])
    labels = LabelFilter(dropped, *[getattr(labels, name) for name in list(vars(labels))[1:]])
    share = dropped.sum() / passed.sum()
    doubt = doubt_from(dropped, passed)
    ratio = doubt / (1 - doubt)
    assert ratio * share / (1 - share) == pytest.approx(1 / 3)
    open_to = passed & ~dropped & (labels.suspicion > doubt)
    many = [(open_to & (codes == code)).sum() > (dropped & (codes == code)).sum() for code in range(4)]
    assert many[0]
    assert not all(many)
    assert in_doubt(labels, codes, passed, doubt).tolist() == (open_to & ~np.array(many)[codes]).tolist()
    assert doubt_from(np.zeros(3, bool), np.zeros(3, bool)) == 1.0


def evidence(n: int, **given: Any) -> Evidence:
    """Return evidence that speaks against no row, but for what is given."""
    none = {"tiers": np.zeros(n, np.int8), "suggested": np.zeros(n, np.int64), "labels_judged": True}
    for name in ("suspicion", "wrong_label", "outlier", "likely"):
        none[name] = np.zeros(n)
    for name in ("unlikely", "far", "clumped"):
        none[name] = np.zeros(n, bool)
    return Evidence(**(none | {"estimate": np.zeros((3, 4))} | given))


def copies(groups: list[int], places: list[float] | None = None) -> Copies:
    sketch = None if places is None else np.array(places, np.float32)[:, None]
    return Copies(np.array(groups), 1.0, sketch)


NAMES = np.array(["ant", "bee", "cat"])


def test_the_row_to_keep_is_the_first_with_the_label_most_believed_in_its_group() -> None:
    codes = np.array([0, 1, 1, 0, 2, 2, -1, 1])
    wrong = np.array([0.1, 0.4, 0.2, 0.9, 0.3, 0.3, 0.0, 0.5])
    # Of the first group: one who believes in class 0 (0.9 + 0.1 = 1.0), two in class 1 (0.6 + 0.8 = 1.4).
    found = weigh(evidence(8, wrong_label=wrong), codes, copies([0, 0, 0, 0, 1, 1, 1, -1]))
    assert found.keep.tolist() == [1, 1, 1, 1, 4, 4, 6, 7]
    assert found.copies.tolist() == [4, 4, 4, 4, 2, 2, 1, 1]
    assert found.group.tolist() == [0, 0, 0, 0, 1, 1, -1, -1]
    assert found.duplicate.tolist() == [1, 0, 1, 1, 0, 1, 0, 0]
    assert found.contradicted.tolist() == [True, False, False, True, False, False, False, False]
    np.testing.assert_allclose(found.wrong_label, [0.955, 0.4, 0.2, 0.995, 0.3, 0.3, 0.0, 0.5])
    assert found.suggested.tolist() == [1, -1, -1, 1, -1, -1, -1, -1]
    np.testing.assert_allclose(found.likely[[0, 3]], [0.955, 0.995])
    assert np.isnan(found.likely[[1, 2, 4, 5, 6, 7]]).all()
    # Copies that agree with the row to keep come last, those that contradict it do not.
    np.testing.assert_allclose(found.suspicion, [0.955, 0.4, 0.0, 0.995, 0.3, 0.0, 0.0, 0.5])
    told = found.reasons(codes, NAMES).tolist()
    assert told[0] == "Copies of it do not bear the label 'ant', but 'bee'; it is a copy of row 1, one of 4."
    assert told[1] == told[4] == told[6] == told[7] == ""
    assert told[2] == "It is a copy of row 1, one of 4."


def test_near_copies_are_duplicates_the_less_the_farther_they_are() -> None:
    found = weigh(evidence(4), np.zeros(4, int), copies([0, 0, 0, 0], [0.0, 0.5, 1.0, 7.0]))
    np.testing.assert_allclose(found.duplicate, [0.0, 0.75, 0.5, 0.5])
    assert found.reasons(np.zeros(4, int), NAMES)[1] == "It is nearly a copy of row 0, one of 4."


def test_a_clump_is_a_fault_unless_it_is_one_of_copies() -> None:
    clumped, outlier = np.array([True, True, True, False, True]), np.array([0.2, 0.9, 0.9, 0.75, 0.9])
    codes = np.array([0, 0, 0, 0, -1])
    found = weigh(evidence(5, clumped=clumped, outlier=outlier), codes, copies([-1, -1, 0, -1, -1]))
    np.testing.assert_allclose(found.outlier, [0.5, 0.9, 0.0, 0.75, 0.0])
    assert found.suspect.tolist() == [True, True, False, True, False]
    assert found.clumped.tolist() == [True, True, False, False, True]
    # Rows a little beyond what their class allows stand behind labels that may be wrong.
    np.testing.assert_allclose(found.suspicion, [0.0, 0.64, 0.0, 0.25, 0.0], atol=1e-12)
    lost = np.array([False, True, False, True, False])
    told = found.reasons(codes, NAMES, lost).tolist()
    assert told[0] == told[1] == "It is in a dense clump of 'ant'."
    assert told[3] == "It is far outside 'ant' and every other class."
    assert found.reasons(codes, NAMES)[3] == "It is far outside 'ant'."


def test_what_is_suggested_is_told_with_its_probability() -> None:
    codes, suggested = np.array([0, 0, 1, 2, 2]), np.array([1, 1, 1, 0, 0])
    wrong, likely = np.array([0.9, 0.9, 0.8, 0.5, 0.7]), np.array([0.876, 0.874, 0.7, 0.4, 0.0])
    given = {"wrong_label": wrong, "likely": likely, "suggested": suggested}
    found = weigh(evidence(5, **given), codes, copies([-1] * 5))
    assert found.suggested.tolist() == [1, 1, -1, 0, -1]
    np.testing.assert_allclose(found.likely, [0.876, 0.874, np.nan, 0.4, np.nan])
    told = found.reasons(codes, NAMES).tolist()
    assert told[0] == "The label 'ant' is unlikely, 'bee' is likelier (88%)."
    assert told[1] == "The label 'ant' is unlikely, 'bee' is likelier (87%)."
    assert told[2] == "The label 'bee' is unlikely, and no other is likelier."
    assert told[3] == ""
    # Files of a former version know which labels are unlikely, and no probabilities.
    given |= {"likely": np.zeros(5), "unlikely": np.array([True, False, True, False, True]), "estimate": None}
    former = weigh(evidence(5, **given), codes, copies([-1] * 5))
    assert former.suggested.tolist() == [1, -1, -1, -1, 0]
    assert np.isnan(former.likely).all()
    assert former.reasons(codes, NAMES)[4] == "The label 'cat' is unlikely, 'ant' is likelier."


def test_long_names_are_shortened_in_the_middle() -> None:
    wrong = np.array([0.9])
    for length, shown in ((58, "'" + "x" * 58 + "'"), (59, "'" + "x" * 29 + "…" + "x" * 29 + "'")):
        found = weigh(evidence(1, wrong_label=wrong), np.array([0]), copies([-1]))
        reason = found.reasons(np.array([0]), np.array(["x" * length]))[0]
        assert reason == f"The label {shown} is unlikely, and no other is likelier."
