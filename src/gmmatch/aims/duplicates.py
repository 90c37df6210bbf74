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
    codes, _ = checked.judged()
    own = np.zeros(len(checked.rows), np.int64) if codes is None else codes
    groups = np.where(usable, found.groups, -1)
    if evidence is not None:
        keep = make_table(evidence, own, found).keep
    else:
        _, starts, place = np.unique(groups, return_index=True, return_inverse=True)
        keep = np.where(groups >= 0, starts[place], np.arange(len(groups)))
    allowed: Mask = (groups < 0) | (keep == np.arange(len(groups)))
    taken = np.zeros(int(groups.max(initial=-1)) + 2, bool)
    taken[groups[first]] = True
    taken[-1] = False  # rows that are alone
    allowed &= ~taken[groups]
    allowed[first] = True
    dropped = np.flatnonzero(usable & ~allowed)
    kept = np.flatnonzero(allowed & (groups >= 0))
    stands_for = np.full(len(taken), -1)
    stands_for[groups[kept[::-1]]] = kept[::-1]
    told = {
        "groups": len(np.unique(groups[groups >= 0])),
        "dropped": len(dropped),
        "pairs": [[row, int(stands_for[groups[row]])] for row in dropped[:_LISTED].tolist()],
        "reach": found.reach,
        "cosine": as_cosine(np.asarray(checked.rows[:_SAMPLE_ROWS]), found.reach),
    }
    return allowed, told


def hashes_of(checked: CheckedRows, seed: int) -> Keys:
    """Return the hashes of the rows by this seed: those of the read that looked at them, else of another."""
    keys = checked.keys(seed)
    return row_keys(checked.rows, seed) if keys is None else keys


def _joined(one: IntArray, other: IntArray) -> IntArray:
    """Return the groups of rows that are in one group of either division; -1: alone.

    >>> _joined(np.array([0, 0, -1, -1, 1, 1]), np.array([-1, 7, 7, -1, -1, -1])).tolist()
    [0, 0, 0, -1, 1, 1]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = []
    for groups in (one, other):
        order = np.argsort(groups, kind="stable")
        order = order[groups[order] >= 0]
        same = groups[order[1:]] == groups[order[:-1]]
        links.append(np.stack([order[:-1][same], order[1:][same]]))
    start, end = np.concatenate(links, axis=1)
    graph = coo_array((np.ones(len(start), np.int8), (start, end)), shape=(len(one), len(one)))
    found = connected_components(graph, directed=False)[1]
    alone = np.bincount(found)[found] == 1
    groups = np.full(len(one), -1, np.int64)
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
