"""Near-duplicates: among the rows, and of foreign rows, such as a test set; neither may be picked."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arrays import FloatArray, IntArray, Keys, Labels, Mask, Vector
from ..compute.keys import row_keys
from ..compute.runner import gather
from ..data import Dataset, StackedRows
from ..errors import InvalidInput
from ..facts import Evidence
from ..handover import as_frame
from ..inputs import rows_of
from ..records import verb
from ..trust import find_copies, make_table
from ..validation import CheckedRows
from .photos import find_alike_photos
from .texts import Alike, find_alike

_SAMPLE_ROWS = 1024
_LISTED = 1000  # rows or pairs that the information of a run lists
_LIKENESS = ("overlap", "correlation")


def drop_duplicates(
    checked: CheckedRows, seed: int, evidence: Evidence | None, first: IntArray, texts: IntArray | None = None
) -> tuple[Mask, dict[str, Any]]:
    """Return which rows may be picked, and what was found as plain data.

    `texts`: a number for each row, the same for rows of the same text; -1: none.

    Of each group of near-duplicates that is the row of the label most believed in it, as in the list of
    suspects. Rows that are in already stand for their groups. Time: one read.
    """
    usable = checked.usable
    found = find_copies(checked.rows, hashes_of(checked, seed), usable)
    if texts is not None:
        found = replace(found, groups=_joined(found.groups, np.where(usable, texts, -1)))
    codes, groups = checked.judged()[0], np.where(usable, found.groups, -1)
    if evidence is not None:
        own = np.zeros(len(groups), np.int64) if codes is None else codes
        keep = make_table(evidence, own, found).keep
    else:
        _, starts, place = np.unique(groups, return_index=True, return_inverse=True)
        keep = starts[place]
    taken = np.isin(groups, groups[first]) & (groups >= 0)
    allowed: Mask = (groups < 0) | (keep == np.arange(len(groups))) & ~taken
    allowed[first] = True
    dropped, kept = np.flatnonzero(usable & ~allowed), np.flatnonzero(allowed & (groups >= 0))
    stands_for = dict(zip(groups[kept[::-1]].tolist(), kept[::-1].tolist(), strict=True))
    told = {
        "groups": len(np.unique(groups[groups >= 0])),
        "dropped": len(dropped),
        "pairs": [[row, stands_for.get(int(groups[row]), -1)] for row in dropped[:_LISTED].tolist()],
        "reach": found.reach,
        "cosine": as_cosine(np.asarray(checked.rows[:_SAMPLE_ROWS]), found.reach),
    }
    return allowed, told


def hashes_of(checked: CheckedRows, seed: int) -> Keys:
    """Return the hashes of the rows by this seed: those of the read that looked at them, else of another."""
    return row_keys(checked.rows, seed) if (keys := checked.keys(seed)) is None else keys


def _joined(one: IntArray, other: IntArray) -> IntArray:
    """Return the groups of rows that are in one group of either division; -1: alone.

    >>> _joined(np.array([0, 0, -1, -1, 1, 1]), np.array([-1, 4, 4, -1, -1, -1])).tolist()
    [0, 0, 0, -1, 1, 1]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    # Each row is a node, and each group, which is linked with its rows; numbers of groups are below theirs.
    n_rows, row = len(one), np.arange(len(one))
    ends = np.r_[np.where(one >= 0, n_rows + one, row), np.where(other >= 0, 2 * n_rows + other, row)]
    graph = coo_array((np.ones(2 * n_rows, np.int8), (np.r_[row, row], ends)), shape=(3 * n_rows, 3 * n_rows))
    found = connected_components(graph, directed=False)[1][:n_rows]
    alone = np.bincount(found)[found] == 1
    groups = np.full(n_rows, -1, np.int64)
    groups[~alone] = np.unique(found[~alone], return_inverse=True)[1]
    return groups


def as_cosine(rows: FloatArray, distance: float) -> float:
    """Return a distance between rows of typical length as the cosine between them.

    >>> as_cosine(np.array([[3.0, 4.0]]), 5.0)
    0.5
    """
    with np.errstate(invalid="ignore", over="ignore"):
        squares = np.add.reduce(np.square(rows, dtype=np.float64), axis=1)
    typical = float(np.median(squares[np.isfinite(squares)])) if np.isfinite(squares).any() else 0.0
    return float(max(-1.0, 1.0 - distance**2 / (2.0 * typical))) if typical > 0 else 1.0


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
    train_ids, test_ids
        The id of each row of a pair, where the data has ids, as photos have.
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
    train_ids: Labels | None = None
    test_ids: Labels | None = None
    read: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.train)

    def __repr__(self) -> str:
        return f"Leaks({len(self)} rows are near-duplicates of {len(np.unique(self.test))} rows of the other)"

    def columns(self) -> dict[str, Any]:
        """Return the pairs as columns of a table."""
        found = {name: getattr(self, name) for name in ("train", "test", "distance")}
        return found | {name: own for name in _LIKENESS if np.isfinite(own := getattr(self, name)).any()}

    def ids(self) -> dict[str, Labels]:
        """Return the ids of the pairs as columns, where there are any."""
        found = {"train_id": self.train_ids, "test_id": self.test_ids}
        return {name: values for name, values in found.items() if values is not None}

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
        """Write the pairs, with their ids where the data has some: .parquet, .csv or .jsonl."""
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
    """Foreign rows, and which texts or photos of the data are nearly the same as theirs; bad rows are NaN."""

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
        good = np.asarray(np.isfinite(self.rows).all(axis=1))
        with np.errstate(over="ignore"):
            others = np.asarray(self.rows, rows.dtype)
        if not np.isfinite(others[good]).all():
            raise InvalidInput(
                f"the foreign rows have numbers that {rows.dtype}, as the rows are, cannot hold"
            )
        both, n_rows = StackedRows([rows, others], ["the rows", "holdout"]), len(rows)
        keys = np.r_[hashes_of(checked, seed), row_keys(others, seed)]
        found = find_copies(both, keys, np.r_[usable, good])
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
            more = usable[alike.train] & good[alike.test] & ~np.isin(alike.train, train)
            one, other = alike.train[more], alike.test[more]
            apart = np.subtract(gather(rows, one), others[other], dtype=np.float64)
            likeness = np.full((2, len(one)), np.nan)
            likeness[0 if self.texts else 1] = alike.likeness[more]
            order = np.argsort(np.r_[train, one], kind="stable")
            train, test = np.r_[train, one][order], np.r_[test, other][order]
            distance = np.r_[distance, np.sqrt(np.square(apart).sum(axis=1))][order]
            measured = np.hstack([measured, likeness])[:, order]
        return Leaks(train, test, distance, found.reach, as_cosine(others[good], found.reach), *measured)


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
