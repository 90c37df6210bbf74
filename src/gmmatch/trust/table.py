"""One table of what speaks against each row: its label, its place, and that it is a duplicate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray, Mask, Vector
from ..facts import Evidence
from .evidence import KINDS
from .evidence.duplicate import Copies
from .evidence.place import ODD

_LETTERS = 60


class Columns(Protocol):
    """The scores of rows, in any order of these; see `gmmatch.Suspects`."""

    @property
    def suspicion(self) -> Vector: ...  # noqa: D102
    @property
    def outlier(self) -> Vector: ...  # noqa: D102
    @property
    def duplicate(self) -> Vector: ...  # noqa: D102


def suspected(table: Columns) -> Mask:
    """Return True for rows with a fault: whose label or place is hard to believe."""
    found: Mask = np.logical_or.reduce([kind.flag(table) for kind in KINDS.values() if kind.FAULT])
    return found


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of every row; see `gmmatch.Suspects`."""

    suspicion: Vector
    outside: Vector
    outlier: Vector
    duplicate: Vector
    # Group of duplicates (-1: none), rows in it, and the row of it to keep.
    group: IntArray
    copies: IntArray
    keep: IntArray
    suggested: IntArray  # the class that is likelier than the label, -1 where none is
    suggested_probability: Vector  # its probability; NaN where there is none
    clumped: Mask
    numbers: IntArray  # of the rows in the input

    @property
    def suspect(self) -> Mask:
        """Rows with a fault."""
        return suspected(self)

    def order(self, rows: IntArray) -> IntArray:
        """Return rows ordered by how likely their label is wrong, then by place, then duplicates."""
        columns = (kind.score(self) for kind in reversed(KINDS.values()))
        return rows[np.lexsort((rows, *(-column[rows] for column in columns)))]

    def reasons(self, codes: IntArray, classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Say as a sentence what speaks against each row, a str; an empty one where nothing does.

        `codes`, `classes`: class of each row, as a position in `classes`.
        """
        names = [_quoted(name) for name in classes.tolist()]
        reasons = np.full(len(codes), "", dtype=object)
        flagged = np.logical_or.reduce([kind.flag(self) for kind in KINDS.values()])
        for row in np.flatnonzero(flagged).tolist():
            parts = (kind.sentence(self, row, names, codes) for kind in KINDS.values())
            text = "; ".join(part for part in parts if part)
            reasons[row] = f"{text[:1].upper()}{text[1:]}."
        return reasons


def make_table(evidence: Evidence, codes: IntArray, found: Copies, numbers: IntArray | None = None) -> Table:
    """Put the kinds of evidence side by side.

    `evidence`: what a verdict found of each row. `codes`: class of each; those of a negative one take no
    part. `found`: which rows are duplicates. `numbers`: of the rows in the input, where they are a part.
    """
    usable = codes >= 0
    group = np.where(usable, found.groups, -1)
    rows = np.flatnonzero(group >= 0)
    copies, keep = np.ones(len(codes), np.int64), np.arange(len(codes))
    duplicate = np.zeros(len(codes))
    wrong = np.where(usable, evidence.wrong, 0.0).astype(np.float64)
    likely = evidence.likely.astype(np.float64)
    better = usable & (likely > 1 - wrong) & (evidence.suggested != codes)
    if len(rows):
        best, copies[rows] = _best_of_groups(rows, group[rows], codes[rows], 1 - wrong[rows])
        keep[rows] = best
        gone = rows[rows != best]
        duplicate[gone] = np.clip(1 - found.apart(gone, keep[gone]) / 2, 0.5, 1.0)
    # A dense cluster of duplicates is no fault of a class.
    clumped = evidence.clumped & (group < 0)
    outlier = np.where(evidence.clumped & (group >= 0), 0.0, evidence.outlier)
    outlier = np.where(clumped, np.maximum(outlier, np.nextafter(np.float32(ODD), np.float32(1))), outlier)
    return Table(
        wrong,
        np.where(usable, evidence.outside, 0.0).astype(np.float64),
        np.where(usable, outlier, 0.0).astype(np.float64),
        duplicate,
        group,
        copies,
        keep,
        np.where(better, evidence.suggested, -1),
        np.where(better, likely, np.nan),
        clumped,
        np.arange(len(codes)) if numbers is None else numbers,
    )


def _best_of_groups(
    rows: IntArray, groups: IntArray, codes: IntArray, belief: Vector
) -> tuple[IntArray, IntArray]:
    """Return for each row the first of its group with the label most believed there, and the group's size."""
    _, group = np.unique(groups, return_inverse=True)
    _, run = np.unique(group * (int(codes.max()) + 1) + codes, return_inverse=True)
    order = np.lexsort((rows, codes, -np.bincount(run, belief)[run], group))
    _, first = np.unique(group[order], return_index=True)
    return rows[order[first]][group], np.bincount(group)[group]


def _quoted(name: Any) -> str:
    text = repr(name)
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS // 2]}…{text[-_LETTERS // 2 :]}"
