"""What the user knows of the rows beside their labels."""

from __future__ import annotations

import numpy as np
import pytest

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
