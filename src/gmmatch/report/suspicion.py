"""Which rows seem wrong: what the selection knows, or what can be said of the rows on the map."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..facts import Evidence
from ..records import FloatArray, IntArray
from ..trust import judge
from ..trust.suspects import reasons_of
from ..validation import CheckedRows

# Beyond these, judging all rows would take longer than a report should.
_MOST_VALUES = 1 << 27
_MOST_WORK = 2e11


@dataclass(frozen=True, eq=False)
class Suspicion:
    """Rows of the input with what speaks against them, most suspicious first."""

    rows: IntArray  # the rows that were judged
    # Of each; `suggested` is the class that fits best beside the label.
    suspicion: npt.NDArray[np.floating[Any]]
    suggested: IntArray
    tiers: npt.NDArray[np.int8]
    reasons: npt.NDArray[np.str_]
    labels_judged: bool  # whether labels could be judged, or distances alone


def from_evidence(
    evidence: Evidence, judged: IntArray, codes: IntArray, classes: npt.NDArray[Any]
) -> Suspicion:
    """Put the evidence of a verdict in order.

    `evidence`: about all rows of the input. `judged`: the rows to speak of. `codes`, `classes`: class of each
    row of the input, as a position in `classes`.
    """
    order = judged[np.lexsort((judged, -evidence.suspicion[judged]))]
    reasons = reasons_of(evidence, codes, evidence.suggested, classes)
    return Suspicion(
        order,
        evidence.suspicion[order],
        evidence.suggested[order],
        evidence.tiers[order],
        reasons[order],
        evidence.labels_judged,
    )


def worth_judging(n_rows: int, n_features: int, n_classes: int) -> bool:
    """Tell whether judging so many rows is quick enough for a report."""
    work = float(n_rows) * n_features * (n_features + n_classes)
    return n_rows * n_features <= _MOST_VALUES and work <= _MOST_WORK


def judge_rows(
    rows: FloatArray, numbers: IntArray, codes: IntArray, classes: npt.NDArray[Any], seed: int
) -> Suspicion:
    """Judge rows that are in memory.

    `numbers`, `codes`: number in the input and class of each, as a position in `classes`. `classes`: all
    labels, sorted. `seed`: of the folds and samples.
    """
    checked = CheckedRows(rows, classes, codes)
    own, present = checked.judged()
    evidence = judge(rows, own, len(present), seed).evidence(own)
    evidence = replace(evidence, suggested=present[evidence.suggested])
    found = from_evidence(evidence, np.arange(len(rows)), codes, classes)
    return replace(found, rows=numbers[found.rows])
