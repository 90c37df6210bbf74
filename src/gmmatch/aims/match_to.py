"""Rows that say what the picks should be like: the picks match them, part by part.

Where labels are judged, every reference row belongs to the class that most of its nearest believed rows have;
classes that hardly a reference row belongs to are left out, so that a few odd reference rows change little.
Without labels the reference rows are divided into clusters, and a row belongs to that of its nearest
reference row if it is as near to it as the nearest reference rows are to each other, or is one of the `k`
nearest. Each part has its share of the budget by its reference rows, and its picks match their mean. Rows of
many features, as embeddings have, are compared by their cosines, others by their distances.
"""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..arrays import FloatArray, IntArray, Mask, Rows, Vector
from ..compute.blocks import block_rows
from ..compute.keys import row_keys
from ..compute.reads import Sums
from ..compute.runner import PerRow, run_read
from ..errors import InvalidInput, InvalidParameter
from ..inputs import open_foreign, rows_of
from ..location.geometric_median import geometric_median
from ..matching.clusters import lloyd
from ..selectors.groups import Part, Parts
from ..trust import TRUSTED, Verdict
from ..validation import CheckedRows, is_number

_MOST_ROWS = 1 << 12  # of a reference that are compared with: the first by their hashes
_NEIGHBOURS = 5  # believed rows that say which class a reference row belongs to
_ROWS_PER_CLUSTER = 5
_MOST_CLUSTERS = 64
_FEW = 0.25  # of the reference rows of the largest class: classes of fewer are left out
_SPREAD = 3 * 1.4826  # median absolute deviations
_ALIKE = 0.1  # of the reference rows are as near to another as rows must be to compete
_MANY_FEATURES = 32  # from which rows are compared by their cosines


@dataclass(frozen=True, eq=False)
class Reference:
    """Rows that the picks should be like, and the share of the picks that should."""

    name: str
    rows: FloatArray
    share: float


def open_references(
    given: object,
    n_features: int,
    seed: int,
    encoder: object = None,
    text: str | None = None,
    drop: bool = False,
) -> list[Reference]:
    """Open references: one, or a mapping from paths to shares. `drop`: leave out their bad rows."""
    shares = given if isinstance(given, Mapping) else {None: 1.0}
    positive = all(is_number(share) and 0 < share < float("inf") for share in shares.values())
    named = all(name is None or isinstance(name, (str, os.PathLike)) for name in shares)
    if not (shares and positive and named):
        raise InvalidParameter(
            "match_to takes rows, a path, or a mapping from each path to a positive share, such as"
            " math.jsonl=0.5"
        )
    found = []
    for name, share in shares.items():
        called = "match_to" if name is None else f"match_to ({os.fspath(name)})"
        foreign = open_foreign(given if name is None else name, encoder, text, drop)
        rows = rows_of(foreign, called, n_features)
        rows = rows[np.isfinite(rows).all(axis=1)]
        order = np.argsort(row_keys(rows, seed), kind="stable")[:_MOST_ROWS]
        found.append(Reference(called, rows[np.sort(order)], float(share)))
    return found


def reference_parts(
    references: list[Reference],
    checked: CheckedRows,
    verdict: Verdict | None,
    by_class: bool,
    seed: int,
    k: int,
) -> tuple[Parts, list[str], list[dict[str, Any]]]:
    """Return the parts of the rows that the picks come from, notes, and what was found as plain data.

    `k`: how many rows are to be picked.

    Time: one read, O(rows * features * reference rows).
    """
    believed = checked.usable & (True if verdict is None else verdict.tiers == TRUSTED)
    codes, present = checked.judged(by_class)
    if verdict is None or verdict.labels is None or len(present) < 2:
        codes = None  # labels were not judged
    rows = np.concatenate([reference.rows for reference in references])
    origin = np.zeros(checked.rows.shape[1]) if verdict is None else verdict.rules.origin
    near, apart, neighbours, distances = _compare(checked.rows, believed, rows, origin)
    part_of, start = np.full(len(believed), -1), 0
    found: list[tuple[Part, float, Vector]] = []  # each part with its weight and its centre
    notes: list[str] = []
    told: list[dict[str, Any]] = []
    for reference in references:
        own, seen = slice(start, start + len(reference.rows)), _view(reference.rows, origin)
        nearest = _nearest_others(seen)
        reach = _reach(nearest)
        mine = believed & (near >= own.start) & (near < own.stop)
        if codes is None:
            groups = _clusters(seen, nearest > reach, seed)
            alike = _alike(nearest, np.sort(apart[mine]), k, reach)
        else:
            groups = _by_votes(codes, neighbours[own])
        parts: list[tuple[Part, int, Vector]] = []
        for group in np.unique(groups[groups >= 0]).tolist():
            members = np.flatnonzero(groups == group)
            if codes is None:
                chosen = mine & np.isin(near, start + members) & (apart <= alike)
            else:
                chosen = (codes == group) & (part_of < 0)
            if chosen.any():
                part_of[chosen] = len(found) + len(parts)
                center = np.add.reduce(reference.rows[members], axis=0, dtype=np.float64) / len(members)
                parts.append((Part(f"{reference.name} {group}"), len(members), center))
        total = sum(size for _, size, _ in parts)
        found += [(part, size * reference.share / total, center) for part, size, center in parts]
        alone = np.flatnonzero(distances[own] > reach)
        told.append(_describe(reference, verdict, alone) | {"parts": len(parts)})
        if len(alone):
            notes.append(
                f"nothing in the data is like {len(alone):,} of {len(reference.rows):,} rows of"
                f" {reference.name} (such as row {alone[0]})"
            )
        start = own.stop
    if not found:
        raise InvalidInput("no believed row of the data is like match_to; pass rows of the same kind")
    names, weights, centers = zip(*found, strict=True)
    return Parts(part_of, list(names), np.array(weights), np.stack(centers)), notes, told


def _view(rows: FloatArray, origin: Vector) -> Vector:
    """Return rows as they are compared: from the middle of the data and, of many features, of length one."""
    with np.errstate(over="ignore", invalid="ignore"):
        offsets: Vector = np.asarray(rows, np.float64) - origin
        if offsets.shape[1] < _MANY_FEATURES:
            return offsets
        lengths = np.sqrt(np.add.reduce(offsets * offsets, axis=1))
        scaled: Vector = offsets / np.where(lengths > 0, lengths, 1.0)[:, None]
    return scaled


def _compare(
    rows: Rows, believed: Mask, reference: FloatArray, origin: Vector
) -> tuple[IntArray, Vector, IntArray, Vector]:
    """Compare all rows with a reference, in one read.

    Returns the reference row that is nearest to each row, and its distance; and the believed rows that are
    nearest to each reference row, and the distance of the first.
    """
    others = _view(reference, origin)
    squares = np.add.reduce(others * others, axis=1)
    step = block_rows(max(rows.shape[1], len(reference)))
    own_believed = PerRow(believed)

    def part(block: slice, values: FloatArray) -> tuple[slice, IntArray, Vector, IntArray, Vector]:
        with np.errstate(over="ignore", invalid="ignore"):
            values = _view(values, origin)
            found = np.add.reduce(values * values, axis=1)[:, None] + squares - 2.0 * (values @ others.T)
        found = np.where(np.isfinite(found), np.maximum(found, 0.0), np.inf)
        own = np.where(own_believed[block][:, None], found, np.inf)
        best = np.argsort(own, axis=0, kind="stable")[:_NEIGHBOURS].T
        near = found.argmin(axis=1)
        least = found[np.arange(len(found)), near]
        return block, near, least, best + block.start, np.take_along_axis(own, best.T, axis=0).T

    def zero() -> list[Any]:
        few = np.empty((len(reference), 0))
        return [np.empty(len(rows), np.int64), np.empty(len(rows)), few.astype(np.int64), few]

    def add(total: list[Any], found: tuple[slice, IntArray, Vector, IntArray, Vector]) -> None:
        block, total[0][block], total[1][block], *best = found
        both = [np.hstack(pair) for pair in zip(total[2:], best, strict=True)]
        order = np.argsort(both[1], axis=1, kind="stable")[:, :_NEIGHBOURS]
        total[2:] = (np.take_along_axis(values, order, axis=1) for values in both)

    read = Sums("comparing rows", part, zero, add, step=step, products=True)
    nearest, apart, neighbours, distances = run_read(rows, read)
    neighbours = np.where(np.isfinite(distances), neighbours, -1)
    return nearest, np.sqrt(apart), neighbours, np.sqrt(distances[:, 0])


def _by_votes(codes: IntArray, neighbours: IntArray) -> IntArray:
    """Return the class that most neighbours of each reference row have; -1 where hardly another has it."""
    votes = np.where(neighbours >= 0, codes[neighbours], -1)
    own = np.full(len(votes), -1)
    for row, named in enumerate(votes):
        for code, _ in Counter(named[named >= 0].tolist()).most_common(1):  # the nearest of equals
            own[row] = code
    counts = np.bincount(own[own >= 0], minlength=1)
    few = counts < _FEW * counts.max()
    own[few[own] & (own >= 0)] = -1
    return own


def _clusters(rows: Vector, far: Mask, seed: int) -> IntArray:
    """Divide reference rows into clusters; rows far from all others are in none."""
    count = int(np.clip(round(len(rows) / _ROWS_PER_CLUSTER), 1, _MOST_CLUSTERS))
    points = lloyd(rows, count, np.random.default_rng([seed, 0x6D746F]))
    apart = np.stack([np.square(rows - point).sum(axis=1) for point in points], axis=1)
    found: IntArray = apart.argmin(axis=1)
    found[far] = -1
    return found if (found >= 0).any() else np.zeros(len(rows), np.int64)


def _nearest_others(rows: Vector) -> Vector:
    """Return the distance of each row to the nearest other one."""
    squares = np.add.reduce(rows * rows, axis=1)
    with threadpool_limits(1):
        apart = squares[:, None] + squares - 2.0 * (rows @ rows.T)
    np.fill_diagonal(apart, np.inf)
    nearest: Vector = np.sqrt(np.maximum(apart.min(axis=1), 0.0))
    return nearest


def _reach(nearest: Vector) -> float:
    """Return how far reference rows usually are from their nearest other at most."""
    if len(nearest) < 2:
        return float("inf")
    middle = float(np.median(nearest))
    return middle + _SPREAD * float(np.median(np.abs(nearest - middle)))


def _alike(nearest: Vector, apart: Vector, k: int, reach: float) -> float:
    """Return how near to a reference row a row must be to compete.

    `nearest`: of each reference row the distance to the nearest other. `apart`: of all rows that to the
    nearest reference row, ascending.
    """
    enough = float(apart[min(k, len(apart)) - 1]) if len(apart) else 0.0
    return min(reach, max(float(np.quantile(nearest, _ALIKE)), enough))


def _describe(reference: Reference, verdict: Verdict | None, alone: IntArray) -> dict[str, Any]:
    """Return what was found of a reference, as plain data."""
    center, apart = geometric_median(reference.rows, epsilon=1e-3).point, None
    if verdict is not None:
        apart = float(np.sqrt(np.square(center - verdict.rules.origin).sum())) / verdict.rules.scale
    return {
        "name": reference.name,
        "rows": len(reference.rows),
        "apart": apart,  # of the middles, in typical distances of the data's rows to theirs
        "alone": len(alone),
        "alone_rows": alone[:100].tolist(),
    }
