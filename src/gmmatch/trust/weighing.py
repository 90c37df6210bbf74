"""What speaks against each row, kind by kind: its label, its place, and that it is a copy."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..facts import Evidence
from ..records import IntArray
from .copies import Copies

Vector = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

ODD = 0.5
"""Vector beyond this make a row a suspect."""

_CONTRADICTED = 0.95  # at least so likely is a label wrong that copies of the row contradict
_LETTERS = 60


@dataclass(frozen=True, eq=False)
class Weighed:
    """The scores of every row, and what goes with them; see `gmmatch.trust.Suspects`."""

    wrong_label: Vector
    outlier: Vector
    duplicate: Vector
    # Group of copies (-1: none), rows in it, and the row of it to keep.
    group: IntArray
    copies: IntArray
    keep: IntArray
    contradicted: Mask  # rows whose copies bear other labels that are likelier
    suggested: IntArray  # the class that is likelier than the label, -1 where none is
    likely: Vector  # its probability; NaN where it is not known
    clumped: Mask

    @property
    def suspicion(self) -> Vector:
        """What rows are ordered by."""
        # Squared: rows a little beyond what their class allows stand behind labels that may be wrong.
        beyond = np.maximum(self.outlier - ODD, 0.0) / (1 - ODD)
        suspicion = np.maximum(self.wrong_label, beyond * beyond)
        # Copies come last: the row to keep stands for them, unless they contradict it.
        return np.where((self.duplicate > 0) & ~self.contradicted, 0.0, suspicion)

    @property
    def suspect(self) -> Mask:
        """Rows whose label or place is hard to believe; copies alone are no fault."""
        return (self.wrong_label > ODD) | (self.outlier > ODD)

    @cached_property
    def _percent(self) -> IntArray:
        """How likely the suggestions are, in percent; -1 where that is not known."""
        return np.rint(100 * np.nan_to_num(self.likely, nan=-0.01)).astype(np.int64)

    def reasons(
        self, codes: IntArray, classes: npt.NDArray[Any], lost: Mask | None = None
    ) -> npt.NDArray[Any]:
        """Say as a sentence what speaks against each row, a str; an empty one where nothing does.

        `codes`, `classes`: class of each row, as a position in `classes`. `lost`: rows that are far outside
        every class, where that is known.
        """
        names = [_quoted(name) for name in classes.tolist()]
        told = np.full(len(codes), "", dtype=object)
        suspect, percent = self.suspect | (self.duplicate > 0), self._percent
        single = (self.duplicate > 0) | (self.outlier > ODD) | self.contradicted
        known: dict[tuple[int, ...], str] = {}
        for row in np.flatnonzero(suspect).tolist():
            # Where the label is all that is wrong, one sentence does for many rows.
            key = (row,) if single[row] else (int(codes[row]), int(self.suggested[row]), int(percent[row]))
            if key not in known:
                known[key] = self._sentence(row, codes, names, lost)
            told[row] = known[key]
        return told

    def _sentence(self, row: int, codes: IntArray, names: list[str], lost: Mask | None) -> str:
        found = [*self._of_label(row, codes, names), *self._of_place(row, names[codes[row]], lost)]
        if self.duplicate[row] > 0:
            near = "" if self.duplicate[row] == 1 else "nearly "
            found.append(f"it is {near}a copy of row {self.keep[row]}, one of {self.copies[row]}")
        text = "; ".join(found)
        return f"{text[:1].upper()}{text[1:]}."

    def _of_label(self, row: int, codes: IntArray, names: list[str]) -> list[str]:
        if self.wrong_label[row] <= ODD:
            return []
        label, better = names[codes[row]], int(self.suggested[row])
        if self.contradicted[row]:
            return [f"copies of it do not bear the label {label}, but {names[better]}"]
        if better < 0:
            return [f"the label {label} is unlikely, and no other is likelier"]
        how = f" ({self._percent[row]}%)" if self._percent[row] >= 0 else ""
        return [f"the label {label} is unlikely, {names[better]} is likelier{how}"]

    def _of_place(self, row: int, label: str, lost: Mask | None) -> list[str]:
        if self.outlier[row] <= ODD:
            return []
        if self.clumped[row]:
            return [f"it is in a dense clump of {label}"]
        everything = " and every other class" if lost is not None and lost[row] else ""
        return [f"it is far outside {label}{everything}"]


def weigh(evidence: Evidence, codes: IntArray, found: Copies) -> Weighed:
    """Tell the kinds of evidence apart.

    `evidence`: what a verdict found of each row. `codes`: class of each; those of a negative one take no
    part. `found`: which rows are copies.
    """
    usable = codes >= 0
    group = np.where(usable, found.groups, -1)
    rows = np.flatnonzero(group >= 0)
    copies, keep = np.ones(len(codes), np.int64), np.arange(len(codes))
    duplicate, contradicted = np.zeros(len(codes)), np.zeros(len(codes), bool)
    wrong = np.where(usable, evidence.wrong_label, 0.0).astype(np.float64)
    other = evidence.suggested
    likelier = evidence.likely > 0 if evidence.estimate is not None else evidence.unlikely
    suggested = np.where(usable & likelier & (other != codes), other, -1)
    likely = np.where((suggested >= 0) & (evidence.likely > 0), evidence.likely, np.nan)
    if len(rows):
        best, copies[rows] = _best_of_groups(rows, group[rows], codes[rows], 1 - wrong[rows])
        keep[rows] = best
        gone = rows[rows != best]
        near = np.clip(1 - found.apart(gone, keep[gone]) / 2, 0.5, 1.0)
        duplicate[gone] = near
        against = rows[codes[rows] != codes[best]]
        contradicted[against] = True
        wrong[against] = 1 - (1 - _CONTRADICTED) * (1 - wrong[against])
        suggested[against] = codes[keep[against]]
        likely[against] = wrong[against]
    clumped = evidence.clumped & (group < 0)
    # A clump of copies is no clump of a class: copies are harmless.
    outlier = np.where(evidence.clumped & (group >= 0), 0.0, evidence.outlier)
    outlier = np.where(clumped, np.maximum(outlier, np.nextafter(ODD, 1)), outlier).astype(np.float64)
    return Weighed(
        wrong,
        np.where(usable, outlier, 0.0),
        duplicate,
        group,
        copies,
        keep,
        contradicted,
        suggested,
        likely,
        clumped,
    )


def _best_of_groups(
    rows: IntArray, groups: IntArray, codes: IntArray, belief: Vector
) -> tuple[IntArray, IntArray]:
    """Return for each row the first of its group with the label most believed there, and the group's size."""
    order = np.lexsort((rows, codes, groups))
    group, code = groups[order], codes[order]
    new_group = np.r_[True, group[1:] != group[:-1]]
    starts = np.flatnonzero(new_group | np.r_[True, code[1:] != code[:-1]])
    believed = np.add.reduceat(belief[order], starts)
    # The most believed run of each group comes first.
    runs = np.lexsort((starts, -believed, group[starts]))
    _, first = np.unique(group[starts][runs], return_index=True)
    place = np.cumsum(new_group) - 1
    best, size = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    best[order] = rows[order[starts[runs[first]]]][place]
    size[order] = np.bincount(place)[place]
    return best, size


def _quoted(name: Any) -> str:
    text = repr(name)
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS // 2]}…{text[-_LETTERS // 2 :]}"
