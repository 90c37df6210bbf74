"""Near-duplicates among the rows: of each group only the most believed row may be picked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arrays import FloatArray, IntArray, Keys, Mask, Vector
from ..compute.keys import row_keys
from ..facts import Evidence
from ..trust import find_copies, make_table
from ..validation import CheckedRows

_SAMPLE_ROWS = 1024
_LISTED = 1000  # dropped rows that the information of a run lists, with the row that stands for each


@dataclass(frozen=True, eq=False)
class Alike:
    """Pairs of a text or photo and the foreign one that it is most like, and how alike they are."""

    train: IntArray
    test: IntArray
    likeness: Vector


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
