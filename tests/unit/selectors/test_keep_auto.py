"""keep="auto": as many picks as students need, and no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gmmatch
from gmmatch.errors import InvalidInput, InvalidParameter


def clouds(apart: float, n_rows: int = 1200) -> tuple[Any, Any]:
    """Return rows of four classes whose centres are so far apart, and their classes."""
    rng = np.random.default_rng(0)
    labels = np.arange(n_rows) % 4
    return rng.normal(size=(n_rows, 10)) + apart * rng.normal(size=(4, 10))[labels], labels


def test_the_budget_is_what_students_need_and_its_picks_are_those_of_that_count() -> None:
    rows, labels = clouds(1.5)
    found = gmmatch.GMMatching(keep="auto").fit(rows, labels).selection_
    counted = gmmatch.GMMatching(keep=len(found)).fit(rows, labels).selection_
    np.testing.assert_array_equal(found.indices, counted.indices)
    assert found.info.strategy is not None
    curve = found.info.strategy["curve"]
    assert len(curve["picks"]) == len(curve["accuracy"])
    enough = round(curve["share"] * curve["picks"][-1])
    after = [known for picks, known in zip(curve["picks"], curve["accuracy"], strict=True) if picks >= enough]
    assert min(after) >= 0.99 * curve["accuracy"][-1]
    assert "of the believed rows teach 99 % of what all do" in found.info.strategy["sentence"]
    assert counted.info.strategy is not None
    assert counted.info.strategy["strategy"] == found.info.strategy["strategy"]


def test_classes_that_are_easy_to_tell_need_fewer_picks() -> None:
    easy, hard = (len(gmmatch.GMMatching(keep="auto").fit(*clouds(apart)).selection_) for apart in (4.0, 0.7))
    assert 4 <= easy < 120
    assert easy < hard <= 1200


def test_without_judged_labels_there_is_nothing_to_learn() -> None:
    rows, labels = clouds(1.5, 200)
    with pytest.raises(InvalidInput, match="needs labels"):
        gmmatch.GMMatching(keep="auto").fit(rows)
    with pytest.raises(InvalidInput, match="needs labels"):
        gmmatch.GMMatching(keep="auto", guard="off").fit(rows, labels)
    with pytest.raises(InvalidParameter, match="pass a share or a count to random"):
        gmmatch.selectors.METHODS["random"].build(keep="auto").fit(rows, labels)
