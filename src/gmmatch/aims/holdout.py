"""Near-duplicates of foreign rows, such as a test set: they must not be picked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import FloatArray, IntArray, Vector
from ..compute.keys import row_keys
from ..compute.runner import gather
from ..data import Dataset, StackedRows
from ..errors import InvalidInput
from ..handover import as_frame
from ..inputs import rows_of
from ..records import verb
from ..trust import find_copies
from ..validation import CheckedRows
from .duplicates import Alike, as_cosine, hashes_of
from .photos import find_alike_photos
from .texts import find_alike

_LISTED = 1000  # pairs that the information of a run lists
_LIKENESS = ("overlap", "correlation")


@dataclass(frozen=True, eq=False)
class Leaks:
    """Near-duplicates between two datasets.

    Attributes
    ----------
    train, test
        Row numbers of each pair: every row of the first data that is a near-duplicate of one of the second,
        and the nearest such one.
    distance
        How far apart they are; 0 for equal rows.
    reach
        The largest distance of near-duplicates: a tenth of the usual distance to the nearest neighbour.
    cosine
        The same as a cosine between rows of typical length.
    overlap
        Of pairs that were found by their texts, the share of sequences of four letters that both have, at
        least 0.6; NaN of other pairs.
    correlation
        Of pairs that were found by their photos, the correlation of the greys under the crop of either that
        makes both most alike, at least 0.97; NaN of other pairs.
    read
        Names of the files that were read, which nothing may be written to.
    """

    train: IntArray
    test: IntArray
    distance: Vector
    reach: float
    cosine: float
    overlap: Vector
    correlation: Vector
    read: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.train)

    def __repr__(self) -> str:
        return f"Leaks({len(self)} rows are near-duplicates of {len(np.unique(self.test))} rows of the other)"

    def columns(self) -> dict[str, Any]:
        """Return the pairs as columns of a table."""
        found = {name: getattr(self, name) for name in ("train", "test", "distance")}
        return found | {name: own for name in _LIKENESS if np.isfinite(own := getattr(self, name)).any()}

    @property
    def by_text(self) -> int:
        """How many pairs were found by their texts alone."""
        return int(np.isfinite(self.overlap).sum())

    @property
    def by_photo(self) -> int:
        """How many pairs were found by their photos alone."""
        return int(np.isfinite(self.correlation).sum())

    def to_pandas(self) -> Any:
        """Return the pairs as a pandas DataFrame."""
        return as_frame(self.columns())

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the pairs: .parquet, .csv or .jsonl."""
        verb("save leaks")(self, path, overwrite)

    def summary(self) -> dict[str, Any]:
        """Return what was found as plain data; of many pairs the nearest."""
        nearest = np.argsort(self.distance, kind="stable")[:_LISTED]
        return {
            "rows": len(self),
            "by_text": self.by_text,
            "by_photo": self.by_photo,
            "test_rows": len(np.unique(self.test)),
            "reach": self.reach,
            "cosine": self.cosine,
            "pairs": np.stack([self.train[nearest], self.test[nearest]], axis=1).tolist(),
        }

    @property
    def how(self) -> str:
        """By what near-duplicates were found, in words."""
        by_text = f", or of nearly the same text: {self.by_text:,}" if self.by_text else ""
        by_photo = f", or of nearly the same photo: {self.by_photo:,}" if self.by_photo else ""
        return f"within {self.reach:.3g}, a cosine of {self.cosine:.4f}{by_text}{by_photo}"

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        return (
            f"{len(self):,} rows are near-duplicates of {len(np.unique(self.test)):,} held-out rows"
            f" ({self.how}) and were not picked"
        )


@dataclass(frozen=True, eq=False)
class Holdout:
    """Foreign rows, and which texts or photos of the data are nearly the same as theirs."""

    rows: FloatArray
    alike: Alike | None = None
    texts: bool = False  # whether those are texts

    @classmethod
    def of(cls, foreign: Dataset, data: Dataset, name: str, n_features: int) -> Holdout:
        """Return the rows of other data; where both are texts or photos, these are compared as well."""
        rows, mine, theirs = rows_of(foreign, name, n_features), data.content, foreign.content
        if mine is None or theirs is None or not mine.kind == theirs.kind != "rows":
            return cls(rows)
        texts = mine.kind == "text"
        return cls(rows, (find_alike if texts else find_alike_photos)(mine, theirs), texts)

    def leaks(self, checked: CheckedRows, seed: int) -> Leaks:
        """Find the rows that are near-duplicates of the foreign ones.

        Time: one read, and O(rows log rows).
        """
        rows, usable, alike = checked.rows, checked.usable, self.alike
        with np.errstate(over="ignore"):
            others = np.asarray(self.rows, rows.dtype)
        if not np.isfinite(others).all():
            raise InvalidInput(
                f"the foreign rows have numbers that {rows.dtype}, as the rows are, cannot hold"
            )
        both, n_rows = StackedRows([rows, others], ["the rows", "holdout"]), len(rows)
        keys = np.r_[hashes_of(checked, seed), row_keys(others, seed)]
        found = find_copies(both, keys, np.r_[usable, np.ones(len(others), bool)])
        groups, other_groups = found.groups[:n_rows], found.groups[n_rows:]
        mine = np.flatnonzero(np.isin(groups, other_groups) & (groups >= 0))
        theirs = np.flatnonzero(np.isin(other_groups, groups[mine]))
        test, distance = _nearest_in_group(
            gather(rows, mine), groups[mine], others[theirs].astype(np.float64), other_groups[theirs]
        )
        near = distance <= found.reach
        train, test, distance = mine[near], theirs[test[near]], distance[near]
        measured = np.full((2, len(train)), np.nan)  # overlap and correlation
        if alike is not None:
            more = usable[alike.train] & ~np.isin(alike.train, train)
            one, other = alike.train[more], alike.test[more]
            apart = np.subtract(gather(rows, one), others[other], dtype=np.float64)
            likeness = np.full((2, len(one)), np.nan)
            likeness[0 if self.texts else 1] = alike.likeness[more]
            order = np.argsort(np.r_[train, one], kind="stable")
            train, test = np.r_[train, one][order], np.r_[test, other][order]
            distance = np.r_[distance, np.sqrt(np.square(apart).sum(axis=1))][order]
            measured = np.hstack([measured, likeness])[:, order]
        return Leaks(train, test, distance, found.reach, as_cosine(others, found.reach), *measured)


def _nearest_in_group(
    rows: FloatArray, groups: IntArray, others: Vector, other_groups: IntArray
) -> tuple[IntArray, Vector]:
    """Return for each row the place of the nearest other one of its group, and their distance."""
    places, distances = np.zeros(len(rows), np.int64), np.full(len(rows), np.inf)
    order = np.argsort(other_groups, kind="stable")
    starts = np.searchsorted(other_groups[order], groups)
    ends = np.searchsorted(other_groups[order], groups, side="right")
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        apart = np.sqrt(np.square(others[order[start:end]] - rows[row]).sum(axis=1))
        best = int(apart.argmin())
        places[row], distances[row] = order[start + best], apart[best]
    return places, distances
