"""Places in files that can be read forward only, so that each part of a file is decoded once in a read.

Decoding from some row on gives *blocks* of about a megabyte. A *cursor* is a place that goes on block by
block. Whoever wants the rows between two is served by a cursor that is just before them or, where there is
none, by a new one. Threads that want neighbouring rows share a cursor: blocks that it passed on the way to
what was asked for are held until somebody has asked for every row of them.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from ..arrays import FloatArray, IntArray

BLOCK_BYTES = 1 << 20
"""What is decoded in one go: little enough to stay in the cache until it is used."""

_KEPT_ASKS = 2  # of a cursor: threads do not ask in strict order
_MOST_CURSORS = 16


def rows_per_block(row_bytes: int) -> int:
    """Return how many rows of so many bytes are decoded in one go."""
    return max(1, BLOCK_BYTES // row_bytes)


class Forward(Protocol):
    """Rows that are decoded in their order."""

    n_rows: int

    def blocks(self, start: int) -> Iterator[FloatArray]:
        """Yield the rows from `start` on, about a megabyte at a time."""


class _Block:
    """Rows that were decoded together, the number of the first, and how many nobody has asked for yet."""

    def __init__(self, first: int, rows: FloatArray) -> None:
        self.first, self.rows = first, rows
        self.left = len(rows)

    def between(self, start: int, stop: int) -> FloatArray:
        return self.rows[max(start - self.first, 0) : max(stop - self.first, 0)]


class Cursor:
    """A place, and the blocks before it of which rows have yet to be asked for.

    `kept`: how many blocks are held at most; the oldest are given up.
    """

    def __init__(self, rows: Forward, start: int, kept: int) -> None:
        self.kept = kept
        self.at, self.end = start, rows.n_rows
        self.lock = threading.Lock()
        self._blocks = rows.blocks(start)
        self._held: list[_Block] = []

    @property
    def first(self) -> int:
        """The first row that is held, or else the next one."""
        held = self._held[:1]
        return held[0].first if held else self.at

    @property
    def done(self) -> bool:
        """Whether there is nothing left to ask for."""
        return self.at >= self.end and not self._held

    def take(self, start: int, stop: int) -> list[FloatArray] | None:
        """Return the rows between two as parts of blocks; None where some of them have been given up."""
        with self.lock:
            if start < self.first:
                return None
            passed = [block for block in self._held if block.first < stop]
            while self.at < stop:
                passed.append(_Block(self.at, next(self._blocks)))
                self.at += len(passed[-1].rows)
                self._held = [*self._held, passed[-1]][-self.kept :]
            parts = [(block, block.between(start, stop)) for block in passed]
            if sum(len(rows) for _, rows in parts) < stop - start:
                return None
            for block, rows in parts:
                block.left -= len(rows)
            self._held = [block for block in self._held if block.left > 0]
            return [rows for _, rows in parts if len(rows)]


class Cursors:
    """The cursors of stretches of rows that follow each other.

    `ends`: the row after each stretch. `step`: rows in a block.
    """

    def __init__(self, stretches: Sequence[Forward], ends: IntArray, step: int) -> None:
        self._stretches, self._ends, self._step = stretches, ends, step
        self._lock = threading.Lock()
        self._open: OrderedDict[int, tuple[int, Cursor]] = OrderedDict()

    def between(self, start: int, stop: int, asks: int = _KEPT_ASKS) -> FloatArray:
        """Return the rows between two; `asks`: of how many such spans a new cursor holds the blocks."""
        kept = asks * -(-(stop - start) // self._step)
        parts: list[FloatArray] = []
        first, last = np.searchsorted(self._ends, (start, stop - 1), side="right").tolist()
        for number in range(first, last + 1):
            begin = int(self._ends[number]) - self._stretches[number].n_rows
            low, high = max(start - begin, 0), min(stop, int(self._ends[number])) - begin
            parts += self._span(number, low, high, kept)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _span(self, number: int, start: int, stop: int, kept: int) -> list[FloatArray]:
        parts = None
        while parts is None:
            cursor = self._nearest(number, start, kept, kept * max(self._step, stop - start))
            try:
                parts = cursor.take(start, stop)
            except BaseException:
                self._drop(cursor)  # it cannot go on
                raise
            if parts is None or cursor.done:
                self._drop(cursor)  # it was left for another place, or is at its end
        return parts

    def _nearest(self, number: int, start: int, kept: int, reach: int) -> Cursor:
        """Return the nearest cursor at most `reach` rows before a row, or open one.

        The one that was used longest ago is closed.
        """
        with self._lock:
            near = [
                cursor
                for home, cursor in self._open.values()
                if home == number and cursor.first <= start <= cursor.at + reach
            ]
            cursor = max(near, key=lambda one: one.first, default=None)
            if cursor is None:
                cursor = Cursor(self._stretches[number], start, kept)
                self._open[id(cursor)] = number, cursor
                if len(self._open) > _MOST_CURSORS:
                    self._open.popitem(last=False)
            self._open.move_to_end(id(cursor))
            return cursor

    def _drop(self, cursor: Cursor) -> None:
        with self._lock:
            self._open.pop(id(cursor), None)
