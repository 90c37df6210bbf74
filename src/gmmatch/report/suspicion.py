"""Which rows seem wrong: what the selection knows, and evidence about all rows or about those on the map."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..records import FloatArray, IntArray
from ..trust import Suspects, suspects

# Beyond these, judging all rows would take longer than a report should.
_MOST_VALUES = 1 << 27
_MOST_WORK = 2e11


@dataclass(frozen=True, eq=False)
class Evidence:
    """Suspicion of rows of the input.

    Attributes
    ----------
    rows
        Judged rows, most suspicious first.
    suspicion, suggested, tiers, reasons
        Of each; `suggested` is the class that fits best beside the label.
    labels_judged
        Whether labels could be judged, or distances alone.
    """

    rows: IntArray
    suspicion: npt.NDArray[np.float64]
    suggested: IntArray
    tiers: npt.NDArray[np.int8]
    reasons: npt.NDArray[np.str_]
    labels_judged: bool


def worth_judging(n_rows: int, n_features: int, n_classes: int) -> bool:
    """Tell whether judging so many rows is quick enough for a report."""
    work = float(n_rows) * n_features * (n_features + n_classes)
    return n_rows * n_features <= _MOST_VALUES and work <= _MOST_WORK


def judge_rows(
    rows: FloatArray, numbers: IntArray, labels: npt.NDArray[Any], classes: npt.NDArray[Any], seed: int
) -> Evidence:
    """Judge rows that are in memory.

    Parameters
    ----------
    rows
        Finite rows.
    numbers, labels
        Number in the input and label of each.
    classes
        All labels, sorted.
    seed
        Seed of the folds and samples.
    """
    found = suspects(rows, labels, random_state=seed)
    return from_suspects(replace(found, rows=numbers[found.rows]), classes)


def from_suspects(found: Suspects, classes: npt.NDArray[Any]) -> Evidence:
    """Take the evidence from what `gmmatch.suspects` found; labels become positions among `classes`."""
    suggested = np.searchsorted(classes, found.suggested)
    judged = bool(np.isfinite(found.probability).any())
    return Evidence(found.rows, found.suspicion, suggested, found.tiers, found.reasons, judged)
