"""What speaks against each row: the rules written out, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gmmatch.facts import Evidence
from gmmatch.trust import Copies, Table, make_table
from gmmatch.trust.evidence import KINDS


def evidence(n: int, **given: Any) -> Evidence:
    """Return evidence that speaks against no row, but for what is given."""
    none: dict[str, Any] = {
        "tiers": np.zeros(n, np.int8),
        "suggested": np.zeros(n, np.int64),
        "labels_judged": True,
    }
    for name in ("wrong", "likely", "outside", "outlier"):
        none[name] = np.zeros(n)
    for name in ("far", "clumped"):
        none[name] = np.zeros(n, bool)
    return Evidence(**(none | given))


def copies(groups: list[int], places: list[float] | None = None) -> Copies:
    sketch = None if places is None else np.array(places, np.float32)[:, None]
    return Copies(np.array(groups), 1.0, sketch)


NAMES = np.array(["ant", "bee", "cat"])


def test_the_row_to_keep_is_the_first_with_the_label_most_believed_in_its_group() -> None:
    codes = np.array([0, 1, 1, 0, 2, 2, -1, 1])
    wrong = np.array([0.1, 0.4, 0.2, 0.9, 0.3, 0.3, 0.0, 0.4])
    # Of the first group: class 0 is believed by 0.9 + 0.1 = 1.0, class 1 by 0.6 + 0.8 = 1.4.
    found = make_table(evidence(8, wrong=wrong), codes, copies([0, 0, 0, 0, 1, 1, 1, -1]))
    assert found.keep.tolist() == [1, 1, 1, 1, 4, 4, 6, 7]
    assert found.copies.tolist() == [4, 4, 4, 4, 2, 2, 1, 1]
    assert found.group.tolist() == [0, 0, 0, 0, 1, 1, -1, -1]
    assert found.duplicate.tolist() == [1, 0, 1, 1, 0, 1, 0, 0]
    np.testing.assert_array_equal(found.suspicion, wrong)  # copies say nothing of the label
    told = found.reasons(codes, NAMES).tolist()
    assert told[0] == "It is a copy of row 1, which bears the label 'bee', one of 4."
    assert told[1] == told[4] == told[6] == told[7] == ""
    assert told[2] == "It is a copy of row 1, one of 4."
    assert told[3] == (
        "The label 'ant' is unlikely, and no other is likelier;"
        " it is a copy of row 1, which bears the label 'bee', one of 4."
    )


def test_near_copies_are_duplicates_the_less_the_farther_they_are() -> None:
    found = make_table(evidence(4), np.zeros(4, int), copies([0, 0, 0, 0], [0.0, 0.5, 1.0, 7.0]))
    np.testing.assert_allclose(found.duplicate, [0.0, 0.75, 0.5, 0.5])
    assert found.reasons(np.zeros(4, int), NAMES)[1] == "It is nearly a copy of row 0, one of 4."


def test_a_dense_cluster_is_a_fault_unless_it_is_one_of_duplicates() -> None:
    clumped, outlier = np.array([True, True, True, False, True]), np.array([0.2, 0.9, 0.9, 0.75, 0.9])
    codes = np.array([0, 0, 0, 0, -1])
    found = make_table(evidence(5, clumped=clumped, outlier=outlier), codes, copies([-1, -1, 0, -1, -1]))
    np.testing.assert_allclose(found.outlier, [0.5, 0.9, 0.0, 0.75, 0.0], atol=1e-6)
    assert found.suspect.tolist() == [True, True, False, True, False]
    told = found.reasons(codes, NAMES).tolist()
    assert told[0] == told[1] == "It is in a dense cluster of 'ant'."
    assert told[3] == "It is far outside 'ant'."


def test_what_is_suggested_is_told_with_its_probability() -> None:
    codes, suggested = np.array([0, 0, 1, 2, 2]), np.array([1, 1, 0, 0, 2])
    wrong, likely = np.array([0.9, 0.9, 0.8, 0.4, 0.7]), np.array([0.876, 0.874, 0.15, 0.4, 0.6])
    found = make_table(evidence(5, wrong=wrong, likely=likely, suggested=suggested), codes, copies([-1] * 5))
    # A class is suggested where it is likelier than the label.
    assert found.suggested.tolist() == [1, 1, -1, -1, -1]
    np.testing.assert_allclose(found.suggested_probability, [0.876, 0.874, np.nan, np.nan, np.nan])
    told = found.reasons(codes, NAMES).tolist()
    assert told[0] == "The label 'ant' is unlikely, 'bee' is likelier (88%)."
    assert told[1] == "The label 'ant' is unlikely, 'bee' is likelier (87%)."
    assert told[2] == "The label 'bee' is unlikely, and no other is likelier."
    assert told[3] == ""
    assert told[4] == "The label 'cat' is unlikely, and no other is likelier."


def test_rows_are_ordered_by_label_then_place_then_duplicates() -> None:
    rng = np.random.default_rng(8)
    n = 300
    wrong, outlier = rng.choice([0.0, 0.3, 0.9], n), rng.choice([0.1, 0.6], n)
    group = np.where(rng.random(n) < 0.3, rng.integers(0, 20, n), -1)
    found = make_table(evidence(n, wrong=wrong, outlier=outlier), np.zeros(n, int), copies(group.tolist()))
    expected = sorted(
        range(n), key=lambda row: (-found.suspicion[row], -found.outlier[row], -found.duplicate[row], row)
    )
    assert found.order(np.arange(n)).tolist() == expected
    assert found.suspect.tolist() == ((wrong >= 0.5) | (outlier > 0.5)).tolist()
    told = found.reasons(np.zeros(n, int), NAMES)
    assert ((told != "") == (found.suspect | (found.duplicate > 0))).all()


def test_rows_of_a_part_are_named_by_their_number_in_the_input() -> None:
    numbers = np.array([40, 50, 60])
    found = make_table(evidence(3), np.zeros(3, int), copies([-1, 0, 0]), numbers)
    assert found.reasons(np.zeros(3, int), NAMES)[2] == "It is a copy of row 50, one of 2."
    assert isinstance(found, Table)


def test_long_names_are_shortened_in_the_middle() -> None:
    wrong = np.array([0.9])
    for length, shown in ((58, "'" + "x" * 58 + "'"), (59, "'" + "x" * 29 + "…" + "x" * 29 + "'")):
        found = make_table(evidence(1, wrong=wrong), np.array([0]), copies([-1]))
        reason = found.reasons(np.array([0]), np.array(["x" * length]))[0]
        assert reason == f"The label {shown} is unlikely, and no other is likelier."


KINDS_BY_HAND = {
    "wrong_labels": lambda table, row: table.suspicion[row] >= 0.5,
    "outliers": lambda table, row: table.outlier[row] > 0.5,
    "duplicates": lambda table, row: table.keep[row] != row,
}
"""The rule of each kind of evidence, for one row."""


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_evidence_flags_scores_and_tells_the_same_rows(name: str) -> None:
    rng = np.random.default_rng(4)
    n = 200
    columns = {name: rng.random(n) for name in ("wrong", "outlier", "likely", "outside")}
    group = np.where(rng.random(n) < 0.3, rng.integers(0, 20, n), -1)
    codes = rng.integers(0, 3, n)
    found = make_table(evidence(n, **columns), codes, copies(group.tolist()))
    kind, names = KINDS[name], NAMES.tolist()
    expected = [bool(KINDS_BY_HAND[name](found, row)) for row in range(n)]
    assert 0 < sum(expected) < n
    assert kind.flag(found).tolist() == expected
    assert [kind.sentence(found, row, names, codes) is not None for row in range(n)] == expected
    scores = kind.score(found)
    assert scores.min() >= 0
    assert scores.max() <= 1
    assert scores[kind.flag(found)].min() >= scores[~kind.flag(found)].max()
    if kind.FAULT:
        assert found.suspect[kind.flag(found)].all()
