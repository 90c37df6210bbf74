"""What the user knows of the rows beside their labels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import gmmatch
from gmmatch.errors import GmmatchError


def test_groups_reach_the_classifiers_through_open() -> None:
    rng = np.random.default_rng(3)
    # Ten rows of each person are near-copies, and a person's wrong label is wrong in all of them.
    person = np.repeat(np.arange(40), 10)
    labels = np.where(person % 2 == 0, "a", "b")
    rows = (rng.normal(size=(40, 20))[person] + 0.01 * rng.normal(size=(400, 20))).astype(np.float32)
    rows[:, 0] += 6.0 * (person % 2)
    labels[person == 4] = "b"
    alone = gmmatch.suspects(rows, labels)
    together = gmmatch.suspects(gmmatch.open(rows, labels, groups=person))
    wrong = person == 4
    by_row = [found.suspicion[np.argsort(found.rows)] for found in (alone, together)]
    assert by_row[0][wrong].mean() < 0.1 < 0.9 < by_row[1][wrong].mean()
    with pytest.raises(GmmatchError, match="groups"):
        gmmatch.open(rows, labels, groups=person[:-1])


def test_a_small_reference_finds_labels_that_are_wrong_as_a_weak_model_has_them() -> None:
    rng = np.random.default_rng(7)
    truth = np.repeat([0, 1], 220)
    rows = rng.normal(size=(440, 30)).astype(np.float32)
    rows[:, 0] += 4.0 * truth
    rows[:, 1] += 1.5 * truth
    labels = (rows[:, 1] > 0.75).astype(np.int64)  # the weak model sees one column: a fifth is wrong
    known = np.r_[:10, 220:230]
    judged = np.setdiff1d(np.arange(440), known)
    alone, told = (
        _area(gmmatch.suspects(rows[judged], labels[judged], reference=given), (labels != truth)[judged])
        for given in (None, (rows[known], truth[known]))
    )
    assert alone < 0.85
    assert told > 0.96


@pytest.mark.parametrize("share_wrong", [0.0, 0.2])
def test_a_reference_of_two_rows_for_each_class_does_not_outvote_labels_that_are_wrong_by_chance(
    share_wrong: float,
) -> None:
    rng = np.random.default_rng(7)
    truth = np.tile(np.arange(10), 52)
    rows = (2.5 * rng.normal(size=(10, 8))[truth] + 2.0 * rng.normal(size=(520, 8))).astype(np.float32)
    labels = np.where(rng.random(520) < 0.25, (truth + rng.integers(1, 10, 520)) % 10, truth)
    given = np.where(rng.permutation(20) < 20 * share_wrong, (truth[:20] + 1) % 10, truth[:20])
    wrong = (labels != truth)[20:]
    alone = _area(gmmatch.suspects(rows[20:], labels[20:]), wrong)
    told = _area(gmmatch.suspects(rows[20:], labels[20:], reference=(rows[:20], given)), wrong)
    assert told > alone - 0.02


def _area(found: gmmatch.Suspects, wrong: np.ndarray) -> float:
    """Return the area under the ROC curve of the order."""
    return float(roc_auc_score(wrong[found.rows], found.suspicion))
