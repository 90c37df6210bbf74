"""Rows that stay where they are, and are read in pieces: from the front of a file on, each part once.

A cursor goes through a piece, block by block; threads that want neighbouring blocks share it. Rows that will
be asked for in another order than that of the file are expected first: they are read in the order of the
file, and held until they are taken.
"""

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..records import FloatArray, IntArray
from .kept import Buffers, Expected, KeptRows
from .memory import trim_memory
from .rows import JoinedRows

BLOCK_BYTES = 1 << 20
"""What is decoded in one go: little enough to stay in the cache until it is used."""

_KEPT_ASKS = 2  # per cursor: threads do not ask in strict order
_MOST_BLOCKS = 256  # per cursor, however much is asked for at once
_AHEAD = 4  # blocks that are read before they are asked for, where that means waiting
_MOST_CURSORS = 64
_SETTLED_ROWS = 4096  # that are given up together
_FINISHED = 2  # cursors that are at their end, and whose last blocks may still be asked for


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
        """Yield the rows from `start` on, some megabytes at a time."""


class _Cursor:
    """A place in a piece, and the blocks just before it."""

    def __init__(self, piece: Piece, start: int, kept: int) -> None:
        self.kept = kept
        self.at = self.first = self.asked = start
        self.ask = 0  # how many rows were asked for in one go
        self.end = piece.n_rows
        self.lock = threading.Lock()
        self._blocks = piece.blocks(start)
        self._held: deque[tuple[int, FloatArray]] = deque()
        self._failed: Exception | None = None

    def take(self, start: int, stop: int) -> list[FloatArray] | None:
        """Return the blocks between two rows; None where the first of them has been given up."""
        with self.lock:
            if start < self.first:
                return None
            self.asked, self.ask = max(self.asked, stop), stop - start
            blocks = list(self._held)
            while self.at < stop:
                blocks.append(self._pull())
            return [
                block[max(start - first, 0) : stop - first]
                for first, block in blocks
                if first < stop and start < first + len(block)
            ]

    def ahead(self) -> None:
        """Read what is likely to be asked for next."""
        if self.lock.acquire(blocking=False):
            try:
                most = _AHEAD * len(self._held[-1][1]) if self._held else 0
                while self.at < min(self.end, self.asked + min(self.ask, most)):
                    self._pull()
            finally:
                self.lock.release()

    def _pull(self) -> tuple[int, FloatArray]:
        if self._failed is not None:
            raise self._failed  # whoever read ahead met it and had nobody to tell
        try:
            found = self.at, next(self._blocks)
        except Exception as error:
            self._failed = error
            raise
        self._held.append(found)
        self.at += len(found[1])
        if len(self._held) > self.kept:
            self._held.popleft()
        self.first = self._held[0][0]
        return found


class PieceRows(JoinedRows):
    """The rows of pieces that follow each other, read where they are.

    `pieces`: where the rows are. `stamp`: what tells their content from another one without reading it.
    """

    def __init__(self, pieces: Sequence[Piece], width: int, dtype: npt.DTypeLike, stamp: str) -> None:
        self.pieces, self.stamp = list(pieces), stamp
        self.ends = np.cumsum([piece.n_rows for piece in self.pieces])
        super().__init__((int(self.ends[-1]), width), dtype)
        self.threads = os.cpu_count() or 1
        self.far = any(piece.far for piece in self.pieces)
        self._lock = threading.Lock()
        self._cursors: OrderedDict[int, tuple[int, _Cursor]] = OrderedDict()
        self._finished: deque[tuple[int, _Cursor]] = deque(maxlen=_FINISHED)
        self._expected: list[Expected] = []
        self._sample: Expected | None = None
        self._settled: list[tuple[IntArray, IntArray]] = []
        self.keeps = True  # whether picks will be asked for once more, here
        self._kept = KeptRows(width, self.dtype)
        self._read = Buffers(width, self.dtype, self.threads + 1)
        self._windows = Buffers(width, self.dtype, 2)
        self._pool: ThreadPoolExecutor | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return PieceRows, (self.pieces, self.shape[1], self.dtype, self.stamp)

    @cached_property
    def begins(self) -> list[int]:
        """The rows that reading can begin at without decoding others."""
        starts = [0, *self.ends[:-1].tolist()]
        parts = zip(starts, self.pieces, strict=True)
        return [start + begin for start, piece in parts for begin in getattr(piece, "begins", (0,))]

    @property
    def can_travel(self) -> bool:
        """Whether another process can read the pieces."""
        return all(piece.travels for piece in self.pieces)

    def expect(self, numbers: npt.NDArray[Any], settled: bool = False) -> None:
        """Begin to read rows that will be asked for soon, in any order and once each.

        They are read in the order of the file while others are worked on, and held until they are asked for
        or, if they are to be `settled`, until then.
        """
        if not self._expected:
            self._rest()
        self._sample = None
        if not len(numbers):
            return
        numbers = np.sort(numbers).astype(np.int64)
        values = self._windows.empty(len(numbers)) if settled else self._empty(len(numbers))
        expected = Expected(numbers, values, settled)
        gaps = np.flatnonzero(np.diff(numbers) > self._step()) + 1
        cuts = [0, *gaps.tolist(), len(numbers)]
        runs = list(pairwise(cuts))
        if self.threads == 1 and not self.far:
            for run in runs:
                self._fill(expected, run, [])
        else:
            # Cursors go on from where those before them stopped.
            before = [part for one in self._expected for part in one.reading]
            expected.reading = [self._background().submit(self._fill, expected, run, before) for run in runs]
        with self._lock:
            self._expected.append(expected)

    def settle(self, numbers: IntArray, kept: IntArray) -> None:
        """Give up rows that were expected, but for some to be asked for once more, if there is room."""
        self._settled.append((numbers, kept))
        if sum(len(part[0]) for part in self._settled) >= _SETTLED_ROWS:
            self._give_up()

    def _give_up(self) -> None:
        settled, self._settled = self._settled, []
        expected = [one for one in self._expected if one.settled]
        if not settled or not expected:
            return
        numbers, kept = (np.sort(np.concatenate(parts)) for parts in zip(*settled, strict=True))
        if self.keeps and len(kept):
            self._kept.add(kept, self._take)
        for one in expected:
            one.release(numbers)
        self._drop_empty()

    def hold(self, numbers: IntArray, values: FloatArray) -> None:
        """Keep rows that will be asked for once; `numbers` are ascending."""
        if len(numbers):
            with self._lock:
                self._expected.append(Expected(numbers, values))

    def unknown(self, numbers: IntArray) -> IntArray:
        """Return those rows that are not held."""
        self._hold_kept()
        for one in list(self._expected):
            numbers = numbers[~one.holds(numbers)]
        return numbers

    def _hold_kept(self) -> None:
        """Let the rows that were kept be asked for."""
        self._give_up()
        self._windows.clear()
        if len(self._kept):
            held = Expected(*self._kept.release())
            with self._lock:
                self._expected.append(held)

    def forget(self) -> None:
        """Give up all rows that are held."""
        with self._lock:
            self._expected.clear()
            self._settled.clear()
            self._windows.clear()
            self._kept.release()

    def remember(self, numbers: IntArray, values: FloatArray) -> None:
        """Keep rows that have been read, and will be asked for, until others are expected."""
        if self._sample is None:
            self._rest()
        self._sample = Expected(numbers, values, settled=True)

    def _rest(self) -> None:
        """Let go of what a pass over the rows has left behind."""
        with self._lock:
            self._cursors.clear()
            self._finished.clear()
            self._read.clear()
        trim_memory()

    def _drop_empty(self) -> None:
        with self._lock:
            self._expected = [one for one in self._expected if len(one)]

    def _background(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(8 if self.far else self.threads, "gmmatch-reading")
        return self._pool

    def _empty(self, n_rows: int) -> FloatArray:
        return np.empty((n_rows, self.shape[1]), self.dtype)

    def _step(self) -> int:
        return rows_per_block(self.shape[1] * self.itemsize)

    def _fill(self, expected: Expected, run: tuple[int, int], before: list[Future[None]]) -> None:
        """Read a run of expected rows, which stand close to each other, after what was expected before."""
        wait(before)
        numbers = expected.numbers[run[0] : run[1]]
        for start in range(int(numbers[0]), int(numbers[-1]) + 1, self._step()):
            low, high = np.searchsorted(numbers, (start, start + self._step())).tolist()
            if high > low:
                self._copy(numbers[low:high], start, expected.values[run[0] + low : run[0] + high])

    def _copy(self, numbers: IntArray, start: int, out: FloatArray) -> None:
        """Copy rows, ascending, from the blocks that begin at row `start`."""
        for block in self._parts(start, int(numbers[-1]) + 1, kept=1):
            low, high = np.searchsorted(numbers, (start, start + len(block))).tolist()
            np.take(block, numbers[low:high] - start, axis=0, out=out[low:high], mode="clip")
            start += len(block)

    def _take(self, chosen: IntArray) -> FloatArray:
        """Return rows by their numbers: those that are held first, the others from the files."""
        rows = self._empty(len(chosen))
        missing = np.ones(len(chosen), dtype=bool)
        if len(self._kept) and not any(one.settled for one in self._expected):
            self._hold_kept()  # nothing is being matched any more
        with self._lock:
            expected = list(self._expected)
        for one in (*expected, *([self._sample] if self._sample is not None else [])):
            if missing.any():
                missing &= ~one.take(chosen, rows)
        large = self._sample is not None and 2 * len(chosen) > len(self._sample) and not missing.any()
        if large and (chosen[1:] > chosen[:-1]).all():
            self.remember(chosen, rows)  # in place of a copy
        self._drop_empty()
        if missing.any():
            self._gather(chosen, np.flatnonzero(missing), rows)
        return rows

    def _gather(self, chosen: IntArray, places: IntArray, rows: FloatArray) -> None:
        """Read scattered rows, each piece from its first to its last one, once."""
        order = places[np.argsort(chosen[places], kind="stable")]
        home = np.searchsorted(self.ends, chosen[order], side="right")
        for number in np.unique(home).tolist():
            own = order[home == number]
            piece = self.pieces[number]
            wanted = chosen[own] - (int(self.ends[number]) - piece.n_rows)
            at, done = int(wanted[0]), 0
            blocks = piece.blocks(at)
            while done < len(own):
                block = next(blocks)
                upto = int(np.searchsorted(wanted, at + len(block)))
                rows[own[done:upto]] = block[wanted[done:upto] - at]
                at, done = at + len(block), upto

    def _between(self, start: int, stop: int) -> FloatArray:
        asks = _KEPT_ASKS * -(-(stop - start) // self._step())
        parts = self._parts(start, stop, min(asks, _MOST_BLOCKS))
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts, out=self._read.empty(stop - start)) if parts else self._empty(0)

    def _parts(self, start: int, stop: int, kept: int) -> list[FloatArray]:
        """Return the rows between two as the blocks that they were decoded in."""
        parts: list[FloatArray] = []
        first = int(np.searchsorted(self.ends, start, side="right"))
        for number in range(first, len(self.pieces)):
            begin = int(self.ends[number]) - self.pieces[number].n_rows
            if begin >= stop:
                break
            last = min(stop, int(self.ends[number])) - begin
            parts += self._span(number, max(start - begin, 0), last, kept)
        return parts

    def _span(self, number: int, start: int, stop: int, kept: int) -> list[FloatArray]:
        """Return rows of a piece from a cursor that is just before them, or from a new one."""
        if start >= stop:
            return []
        parts = None
        while parts is None:
            cursor = self._cursor(number, start, kept, kept * max(self._step(), stop - start))
            try:
                parts = cursor.take(start, stop)
            except BaseException:
                self._cursors.pop(id(cursor), None)  # it cannot go on
                raise
        if cursor.at >= cursor.end:
            with self._lock:
                if self._cursors.pop(id(cursor), None) is not None:
                    self._finished.append((number, cursor))
        elif self.far:
            self._background().submit(cursor.ahead)
        return parts

    def _cursor(self, number: int, start: int, kept: int, reach: int) -> _Cursor:
        """Return a cursor that is at most `reach` rows before a row, or a new one."""
        with self._lock:
            near = [
                cursor
                for home, cursor in (*self._cursors.values(), *self._finished)
                if home == number and cursor.first <= start <= cursor.at + reach
            ]
            if near:
                cursor = max(near, key=lambda cursor: cursor.first)
                if id(cursor) in self._cursors:
                    self._cursors.move_to_end(id(cursor))
                return cursor
            # Whoever begins anew has done with what was read farther on.
            behind = [one for one in self._finished if one[0] < number]
            self._finished = deque(behind, maxlen=_FINISHED)
            cursor = _Cursor(self.pieces[number], start, kept)
            wide = [key for key, (_, one) in self._cursors.items() if one.kept > 1]
            for key in wide[: len(wide) - self.threads if kept > 1 else 0]:
                self._cursors.pop(key)  # which was left for a place farther on
            self._cursors[id(cursor)] = number, cursor
            if len(self._cursors) > _MOST_CURSORS:
                self._cursors.popitem(last=False)
            return cursor
