"""Which rows seem wrong: what the selection knows, or what can be said of the rows on the map."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, IntArray
from ..compute.keys import row_keys
from ..facts import Evidence
from ..trust import Table, find_copies, judge, make_table
from ..validation import CheckedRows

# Beyond these, judging all rows would take longer than a report should.
_MOST_VALUES = 1 << 27
_MOST_WORK = 2e11


@dataclass(frozen=True, eq=False)
class Suspicion:
    """What speaks against the rows that were judged."""

    rows: IntArray  # their numbers in the input, most suspicious first
    places: IntArray  # where each of them is in what follows
    table: Table  # scores, suggestions and groups of duplicates
    tiers: npt.NDArray[np.int8]
    reasons: npt.NDArray[Any]
    labels_judged: bool  # whether labels could be judged, or distances alone
    estimate: npt.NDArray[np.float64] | None  # as in `Evidence`

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """Return a score of the rows, in their order."""
        values: npt.NDArray[Any] = getattr(self.table, name)[self.places]
        return values


def from_evidence(
    evidence: Evidence,
    rows: FloatArray,
    judged: IntArray,
    codes: IntArray,
    classes: npt.NDArray[Any],
    seed: int,
) -> Suspicion:
    """Put the evidence of a verdict in order, and look for copies.

    `evidence`: about all rows of the input. `rows`: the input; read twice. `judged`: the rows to speak of.
    `codes`, `classes`: class of each row of the input, as a position in `classes`. `seed`: of the hashes.
    """
    usable = np.zeros(len(codes), bool)
    usable[judged] = True
    found = find_copies(rows, row_keys(rows, seed), usable)
    own = np.where(usable, codes, -1)
    return _ordered(make_table(evidence, own, found), evidence, judged, own, classes)


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
    own, present = CheckedRows(rows, classes, codes).judged()
    own = np.zeros(len(rows), np.int64) if own is None else own
    keys = row_keys(rows, seed)
    copies = find_copies(rows, keys, own >= 0)
    verdict = judge(rows, own, len(present), seed, keys=keys)
    evidence = verdict.evidence(own).among(present, len(classes))
    table = make_table(evidence, codes, copies, numbers)
    found = _ordered(replace(table, keep=numbers[table.keep]), evidence, np.arange(len(rows)), codes, classes)
    return replace(found, rows=numbers[found.rows])


def _ordered(
    table: Table, evidence: Evidence, judged: IntArray, codes: IntArray, classes: npt.NDArray[Any]
) -> Suspicion:
    order = table.order(judged)
    reasons = table.reasons(codes, classes)[order]
    return Suspicion(
        order, order, table, evidence.tiers[order], reasons, evidence.labels_judged, evidence.estimate
    )
