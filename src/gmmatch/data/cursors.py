"""Places in files that can be read from the front on only, so that each part of a file is decoded once.

A *piece* is a file of Parquet or Arrow, or a span of a file of numbers. Reading it from some row on gives
*blocks* of about a megabyte. A *cursor* is a place in a piece that goes on block by block. Whoever wants the
rows between two is served by a cursor that is just before them or, where there is none, by a new one. Threads
that want neighbouring rows share a cursor: blocks that it passed on the way to what was asked for are held
until somebody has asked for every row of them.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from ..arrays import FloatArray, IntArray

BLOCK_BYTES = 1 << 20
"""What is decoded in one go: little enough to stay in the cache until it is used."""
Background = Callable[[Callable[[], None]], object]

_AHEAD = 4  # blocks that are read before they are asked for, where that means waiting
_MOST_CURSORS = 64


def rows_per_block(row_bytes: int) -> int:
    """Return how many rows of so many bytes are decoded in one go."""
    return max(1, BLOCK_BYTES // row_bytes)


class Source(Protocol):
    """Where rows are, read from the front on."""

    @property
    def n_rows(self) -> int:
        """How many rows it has."""

    @property
    def far(self) -> bool:
        """Whether reading means waiting for another machine."""

    @property
    def travels(self) -> bool:
        """Whether another process can read it."""

    def check(self) -> None:
        """Refuse other content than what was described."""


class Piece(Source, Protocol):
    """Rows of numbers: a file of Parquet or Arrow, or a span of a file of numbers."""

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
    """A place in a piece, and the blocks before it of which rows have yet to be asked for.

    `kept`: how many blocks are held at most; the oldest are given up.
    """

    def __init__(self, piece: Piece, start: int, kept: int) -> None:
        self.kept = kept
        self.at = self.asked = start
        self.ask = 0  # how many rows were asked for in one go
        self.end = piece.n_rows
        self.lock = threading.Lock()
        self._blocks = piece.blocks(start)
        self._held: list[_Block] = []
        self._size = 0  # rows in a block
        self._failed: Exception | None = None

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
            self.asked, self.ask = max(self.asked, stop), stop - start
            passed = [block for block in self._held if block.first < stop]
            while self.at < stop:
                passed.append(self._pull())
            parts = [(block, block.between(start, stop)) for block in passed]
            if sum(len(rows) for _, rows in parts) < stop - start:
                return None
            for block, rows in parts:
                block.left -= len(rows)
            self._held = [block for block in self._held if block.left > 0]
            return [rows for _, rows in parts if len(rows)]

    def ahead(self) -> None:
        """Read what is likely to be asked for next, and give nothing up for it."""
        if self.lock.acquire(blocking=False):
            try:
                upto = min(self.end, self.asked + min(self.ask, _AHEAD * self._size))
                while self.at < upto and len(self._held) < self.kept:
                    self._pull()
            finally:
                self.lock.release()

    def _pull(self) -> _Block:
        if self._failed is not None:
            raise self._failed  # whoever read ahead met it and had nobody to tell
        try:
            found = _Block(self.at, next(self._blocks))
        except Exception as error:
            self._failed = error
            raise
        self._size = len(found.rows)
        self.at += self._size
        self._held = [*self._held, found][-self.kept :]
        return found


class Cursors:
    """The cursors of pieces that follow each other.

    `ends`: the row after each piece. `background`: runs a function while others go on; None where reading
    ahead does not pay.
    """

    def __init__(self, pieces: Sequence[Piece], ends: IntArray, background: Background | None) -> None:
        self.pieces, self.ends = pieces, ends
        self._background = background
        self._lock = threading.Lock()
        self._open: OrderedDict[int, tuple[int, Cursor]] = OrderedDict()

    def between(self, start: int, stop: int, kept: int, step: int, threads: int) -> list[FloatArray]:
        """Return the rows between two as the parts of blocks that they were decoded in.

        `kept`: blocks that a new cursor holds at most. `step`: rows in a block. `threads`: how many cursors
        that hold several blocks may be open.
        """
        parts: list[FloatArray] = []
        first = int(np.searchsorted(self.ends, start, side="right"))
        for number in range(first, len(self.pieces)):
            begin = int(self.ends[number]) - self.pieces[number].n_rows
            if begin >= stop:
                break
            low, high = max(start - begin, 0), min(stop, int(self.ends[number])) - begin
            if low < high:
                parts += self._span(number, low, high, kept, kept * max(step, high - low), threads)
        return parts

    def clear(self) -> None:
        """Give up all places."""
        with self._lock:
            self._open.clear()

    def _span(
        self, number: int, start: int, stop: int, kept: int, reach: int, threads: int
    ) -> list[FloatArray]:
        parts = None
        while parts is None:
            cursor = self._nearest(number, start, kept, reach, threads)
            try:
                parts = cursor.take(start, stop)
            except BaseException:
                self._drop(cursor)  # it cannot go on
                raise
            if parts is None:
                self._drop(cursor)  # it was left for another place
        if cursor.done:
            self._drop(cursor)
        elif self._background is not None and cursor.at < cursor.end:
            self._background(cursor.ahead)
        return parts

    def _nearest(self, number: int, start: int, kept: int, reach: int, threads: int) -> Cursor:
        """Return the nearest cursor that is at most `reach` rows before a row, or open one.

        Those that were left longest ago are closed.
        """
        with self._lock:
            near = [
                cursor
                for home, cursor in self._open.values()
                if home == number and cursor.first <= start <= cursor.at + reach
            ]
            if near:
                cursor = max(near, key=lambda cursor: cursor.first)
                self._open.move_to_end(id(cursor))
                return cursor
            cursor = Cursor(self.pieces[number], start, kept)
            wide = [key for key, (_, one) in self._open.items() if one.kept > 1]
            for key in wide[: len(wide) - threads if kept > 1 else 0]:
                self._open.pop(key)
            self._open[id(cursor)] = number, cursor
            if len(self._open) > _MOST_CURSORS:
                self._open.popitem(last=False)
            return cursor

    def _drop(self, cursor: Cursor) -> None:
        with self._lock:
            self._open.pop(id(cursor), None)
