"""What speaks against each row: the rules written out, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmmatch.facts import Evidence
from gmmatch.trust.copies import Copies
from gmmatch.trust.weighing import weigh


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
