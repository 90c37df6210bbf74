"""A number per row that depends on the row's values alone, for samples and folds without a position.

A sample drawn by row number changes when the rows are put in another order. One drawn by a hash of the
rows' values does not.
"""

from typing import Any

import numpy as np

from ..arrays import IntArray, Keys, Mask, Rows
from ..data import ForwardRows, ViewOf
from .blocks import by_group
from .kernels import mix
from .reads import SPARE, Look, Sums
from .runner import runner_of

_SAMPLE_ROWS = 1 << 16  # as large as samples are
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def row_keys(rows: Rows, seed: int = 0) -> Keys:
    """Return a seeded 64-bit hash of each row; equal rows have equal hashes, in float32 and float64.

    Whole-number arithmetic throughout, so that the order of additions does not matter.

    Time: one pass. Memory beyond the input: O(block) and 8 bytes per row.

    Examples
    --------
    >>> keys = row_keys(np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]]))
    >>> bool(keys[0] == keys[2]), bool(keys[0] == keys[1])
    (True, False)
    """
    return look_at_rows(rows, seed)[1]


def look_at_rows(rows: Rows, seed: int = 0, also: Sums[Any] | None = None) -> tuple[Mask, Keys, str]:
    """Return which rows hold finite numbers of ordinary size, a seeded hash of each, and a digest of all.

    One read, `Look`, in which something else may be added up.

    Examples
    --------
    >>> look_at_rows(np.array([[1.0], [np.nan], [3.0]]))[0].tolist()
    [True, False, True]
    """
    runner = runner_of(rows)
    source = runner.content
    # Of rows that this process will not have decoded, those that samples are drawn from first are kept.
    kept = isinstance(source, ForwardRows) and (runner.workers > 0 or not source.spills)
    kept = kept and not isinstance(rows, ViewOf)
    read = Look(rows.shape, seed, also, max(_SAMPLE_ROWS, 32 * rows.shape[1]) if kept else 0)
    found = runner.run(rows, read)
    if kept and isinstance(source, ForwardRows):
        source.remember(*read.sample())
    return found


def draw_order(keys: Keys, most: int | None = None) -> IntArray:
    """Return a random order of the rows that depends on their values alone, or its first `most` rows.

    Rows that are equal are spread like any others: the second of its kind has a place of its own. Every
    prefix is a random sample without replacement.

    Examples
    --------
    >>> draw_order(np.array([7, 7, 3], dtype=np.uint64)).shape
    (3,)
    """
    order, ordered = None, np.sort(keys)
    if (ordered[1:] == ordered[:-1]).any():
        order = in_order(keys)
        first = np.r_[True, ordered[1:] != ordered[:-1]]
        place = np.arange(len(keys))
        copy = place - np.maximum.accumulate(np.where(first, place, 0))
        spread = mix(ordered + copy.astype(np.uint64) * _GOLDEN)
    else:
        spread = mix(keys)
    if most is None or most >= len(keys):
        drawn = in_order(spread)
    else:
        among = np.flatnonzero(spread <= np.partition(spread, most)[most])
        drawn = among[in_order(spread[among])][:most]
    return drawn if order is None else order[drawn]


def draw_usable(keys: Keys, usable: Mask, size: int) -> IntArray:
    """Return the first `size` usable rows of `draw_order`, without sorting all rows where they are many.

    >>> keys = np.arange(9, dtype=np.uint64)
    >>> usable = keys != draw_order(keys)[0]
    >>> bool((draw_usable(keys, usable, 3) == draw_order(keys)[1:4]).all())
    True
    """
    most = int(SPARE * size * len(keys) / max(1, int(usable.sum()))) + 64
    for enough in (most, None):
        drawn = draw_order(keys, enough)
        found = drawn[usable[drawn]]
        if len(found) >= size or len(drawn) == len(keys):
            break
    return found[:size]


def in_order(keys: Keys) -> IntArray:
    """Return the places of the keys in ascending order, the first of equal ones first."""
    order: IntArray = np.argsort(keys)
    ordered = keys[order]
    # Sorting in any order is several times as fast, and equal keys are the exception.
    return np.argsort(keys, kind="stable") if (ordered[1:] == ordered[:-1]).any() else order


def group_samples(keys: Keys, codes: IntArray | None, n_groups: int, size: int) -> list[IntArray]:
    """Return up to `size` row numbers of each group, drawn at random by the rows' values alone.

    Rows of a negative group belong to none.

    Examples
    --------
    >>> keys = np.arange(5, dtype=np.uint64)
    >>> [len(drawn) for drawn in group_samples(keys, np.array([0, 1, 1, 1, 1]), 2, 3)]
    [1, 3]
    """
    order = draw_order(keys)
    if codes is None:
        return [order[:size]]
    order = order[codes[order] >= 0]
    grouped = order[by_group(codes[order])]
    counts = np.bincount(codes[order], minlength=n_groups)
    return [members[:size] for members in np.split(grouped, np.cumsum(counts)[:-1])]
