"""A number per row that depends on the row's values alone, for samples and folds without a position.

A sample drawn by row number changes when the rows are put in another order. One drawn by a hash of the
rows' values does not.
"""

import hashlib
from collections import deque
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, IntArray, Keys, Mask
from ..data import ForwardRows
from ..validation import key_factors
from .blocks import by_group, core_count, map_in_order
from .counting import count_gathered, count_matched
from .kernels import check_and_hash, mix
from .passes import engine_for, map_blocks

Part = TypeVar("Part")

_SAMPLE_ROWS, _SPARE = 1 << 16, 1.15  # as large as samples are, and more where some rows are unusable
_MANY_VALUES = 1 << 24  # that several cores read faster than one
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def row_keys(rows: FloatArray, seed: int = 0) -> Keys:
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


class Sums(Protocol[Part]):
    """What else is added up while rows are looked at."""

    def part(self, block: slice, values: FloatArray, good: Mask) -> Part:
        """Return the sums of a block; `good`: which of its rows hold finite numbers of ordinary size."""

    def add(self, part: Part) -> None:
        """Take the sums of the next block."""


def look_at_rows(rows: Any, seed: int = 0, sums: Sums[Any] | None = None) -> tuple[Mask, Keys, str]:
    """Return which rows hold finite numbers of ordinary size, a seeded hash of each, and a digest of all.

    One pass, in which `sums` are added up as well. The digest is that of `validation.digest_rows`, whatever
    the seed.

    Examples
    --------
    >>> look_at_rows(np.array([[1.0], [np.nan], [3.0]]))[0].tolist()
    [True, False, True]
    """
    factors, fixed = key_factors(rows.shape[1], seed), key_factors(rows.shape[1])
    # Rows that this process will not have decoded: those that samples are drawn from first are kept.
    elsewhere = isinstance(rows, ForwardRows) and (engine_for(rows) is not None or not rows.spills)
    share = max(_SAMPLE_ROWS, 32 * rows.shape[1]) * _SPARE / len(rows) if elsewhere else 0.0
    below = np.uint64(min(share, 1.0) * (2**64 - 2**11))

    def part(block: slice) -> tuple[Mask, Keys, Keys, IntArray, FloatArray, Any]:
        values = np.asarray(rows[block])
        good, keys, marks = check_and_hash(values, factors, fixed)
        drawn = np.flatnonzero(mix(keys) < below)
        added = None if sums is None else sums.part(block, values, good)
        return good, keys, marks, drawn + block.start, values[drawn], added

    digest = hashlib.blake2b(digest_size=16)
    good, keys = np.empty(len(rows), bool), np.empty(len(rows), np.uint64)
    room = min(int(share * len(rows) * _SPARE), len(rows))  # copies of a row are drawn together, if at all
    drawn, kept = np.empty(room, np.int64), np.empty((room, rows.shape[1]), rows.dtype)
    at = held = 0
    for found, hashes, marks, places, values, added in map_blocks(part, rows, "checking rows"):
        own, new = slice(at, at + len(found)), slice(held, min(held + len(places), room))
        good[own], keys[own] = found, hashes
        digest.update(marks.tobytes())
        drawn[new], kept[new] = places[: new.stop - held], values[: new.stop - held]
        at, held = own.stop, new.stop
        if sums is not None:
            sums.add(added)
    if elsewhere:
        rows.remember(drawn[:held], kept[:held])
    return good, keys, digest.hexdigest()


def draw_order(keys: Keys, most: int | None = None, order: IntArray | None = None) -> IntArray:
    """Return a random order of the rows that depends on their values alone, or its first `most` rows.

    `order`: what `in_order` returns, where that is known.

    Rows that are equal are spread like any others: the second of its kind has a place of its own. Every
    prefix is a random sample without replacement.

    Examples
    --------
    >>> draw_order(np.array([7, 7, 3], dtype=np.uint64)).shape
    (3,)
    """
    order = in_order(keys) if order is None else order
    ordered = keys[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]]
    place = np.arange(len(keys))
    copy = place - np.maximum.accumulate(np.where(first, place, 0))
    spread = mix(ordered + copy.astype(np.uint64) * _GOLDEN)
    if most is None or most >= len(keys):
        return order[in_order(spread)]
    among = np.flatnonzero(spread <= np.partition(spread, most)[most])
    return order[among[in_order(spread[among])][:most]]


def draw_usable(
    keys: Keys, usable: npt.NDArray[np.bool_], size: int, order: IntArray | None = None
) -> IntArray:
    """Return the first `size` usable rows of `draw_order`, without sorting all rows where they are many.

    >>> keys = np.arange(9, dtype=np.uint64)
    >>> usable = keys != draw_order(keys)[0]
    >>> bool((draw_usable(keys, usable, 3) == draw_order(keys)[1:4]).all())
    True
    """
    most = int(_SPARE * size * len(keys) / max(1, int(usable.sum()))) + 64
    for enough in (most, None):
        drawn = draw_order(keys, enough, order)
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


def gather(rows: Any, chosen: IntArray) -> FloatArray:
    """Return the chosen rows in the order of `chosen`, read from `rows` in ascending order."""
    count_gathered(rows, len(chosen))
    order = np.argsort(chosen, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return np.take(take_rows(rows, chosen[order]), place, axis=0)


def take_rows(rows: Any, chosen: IntArray) -> FloatArray:
    """Return rows by their numbers; of an array, which may be a file, many of them on all cores."""
    if not isinstance(rows, np.ndarray):
        return np.asarray(rows[chosen])
    if chosen.size * rows.shape[1] < _MANY_VALUES:
        return np.take(np.asarray(rows), chosen, axis=0)  # of files several times as fast as an index
    found = np.empty((len(chosen), rows.shape[1]), rows.dtype)
    step = -(-len(chosen) // core_count())

    def part(start: int) -> None:
        own = slice(start, start + step)
        np.take(rows, chosen[own], axis=0, out=found[own], mode="clip")  # other modes go through a copy

    deque(map_in_order(part, range(0, len(chosen), step)), maxlen=0)
    return found


def hold_rows(rows: Any, chosen: IntArray | None = None) -> FloatArray:
    """Return all rows, or those of some numbers, ascending, in memory: whatever follows reads nothing.

    An array that is in memory is not copied.
    """
    count_matched(rows, len(rows) if chosen is None else len(chosen))
    return read_rows(rows, chosen)


def read_rows(rows: Any, chosen: IntArray | None = None) -> FloatArray:
    """Return what `hold_rows` returns, for callers that count by themselves what they read."""
    if chosen is not None and len(chosen) < len(rows):
        return take_rows(rows, chosen)
    return np.array(rows) if isinstance(rows, np.memmap) else np.asarray(rows[:])
