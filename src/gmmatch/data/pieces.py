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
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..records import FloatArray, IntArray
from .rows import JoinedRows

BLOCK_BYTES = 4 << 20
"""What is decoded in one go."""

_KEPT_BLOCKS = 2 * (os.cpu_count() or 1) + 1  # per cursor: threads do not ask in strict order
_MOST_CURSORS = 64
_KEPT_BYTES = 256 << 20  # of picked rows, which are asked for once more
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
        self.at = self.first = start
        self.end = piece.n_rows
        self.lock = threading.Lock()
        self._blocks = piece.blocks(start)
        self._held: deque[tuple[int, FloatArray]] = deque()

    def take(self, start: int, stop: int) -> list[FloatArray] | None:
        """Return the blocks between two rows; None where the first of them has been given up."""
        with self.lock:
            if start < self.first:
                return None
            blocks = list(self._held)
            while self.at < stop:
                blocks.append(self._pull())
            return [
                block[max(start - first, 0) : stop - first]
                for first, block in blocks
                if first < stop and start < first + len(block)
            ]

    def ahead(self) -> None:
        """Read the next block before it is asked for."""
        if self.lock.acquire(blocking=False):
            try:
                if self.at < self.end and len(self._held) < self.kept:
                    self._pull()
            finally:
                self.lock.release()

    def _pull(self) -> tuple[int, FloatArray]:
        found = self.at, next(self._blocks)  # which ends with an error, not before its time
        self._held.append(found)
        self.at += len(found[1])
        if len(self._held) > self.kept:
            self._held.popleft()
        self.first = self._held[0][0]
        return found


class _Expected:
    """Rows that are read in the order of the file, to be taken in any order, once each."""

    def __init__(self, numbers: IntArray, values: FloatArray, settled: bool = False) -> None:
        self.numbers, self.values = numbers, values
        self.settled = settled  # whether they are held until they are settled
        self.left = np.ones(len(numbers), dtype=bool)
        self.reading: list[Future[None]] = []
        self.lock = threading.Lock()

    def take(self, chosen: IntArray, give_up: bool) -> tuple[npt.NDArray[np.bool_], FloatArray]:
        """Tell which of the chosen rows are here, and return them once they have been read."""
        if self.reading and self.holds(chosen).any():
            for part in self.reading:
                part.result()
        with self.lock:
            here, places = self._find(chosen)
            found: FloatArray = self.values[places]
            if give_up:
                self._release(places)
        return here, found

    def holds(self, chosen: IntArray) -> npt.NDArray[np.bool_]:
        """Tell which of the chosen rows are here."""
        with self.lock:
            return self._find(chosen)[0]

    def release(self, numbers: IntArray) -> None:
        """Give rows up."""
        with self.lock:
            self._release(self._find(numbers)[1])

    def _find(self, chosen: IntArray) -> tuple[npt.NDArray[np.bool_], IntArray]:
        if not len(self.numbers):
            return np.zeros(len(chosen), dtype=bool), np.empty(0, np.int64)
        places = np.searchsorted(self.numbers, chosen)
        places[places == len(self.numbers)] = 0
        here = (self.numbers[places] == chosen) & self.left[places]
        return here, places[here]

    def _release(self, places: IntArray) -> None:
        self.left[places] = False
        n_left = int(np.count_nonzero(self.left))
        if 4 * n_left < len(self.left) and all(part.done() for part in self.reading):
            self.numbers, self.values = self.numbers[self.left], self.values[self.left]
            self.left = np.ones(n_left, dtype=bool)

    def __len__(self) -> int:
        return int(np.count_nonzero(self.left))


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
        self._expected: list[_Expected] = []
        self._sample: _Expected | None = None
        self._kept: list[tuple[IntArray, FloatArray]] = []
        self.room = _KEPT_BYTES // (width * self.itemsize)  # for rows that are kept when they are settled
        self._pool: ThreadPoolExecutor | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return PieceRows, (self.pieces, self.shape[1], self.dtype, self.stamp)

    @property
    def can_travel(self) -> bool:
        """Whether another process can read the pieces."""
        return all(piece.travels for piece in self.pieces)

    def expect(self, numbers: npt.NDArray[Any], settled: bool = False) -> None:
        """Begin to read rows that will be asked for soon, in any order and once each.

        They are read in the order of the file while others are worked on, and held until they are asked for
        or, if they are to be `settled`, until then.
        """
        self._sample = None
        if not len(numbers):
            return
        numbers = np.sort(numbers).astype(np.int64)
        expected = _Expected(numbers, np.empty((len(numbers), self.shape[1]), self.dtype), settled)
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
        with self._lock:
            expected = [one for one in self._expected if one.settled]
            kept = kept if len(kept) <= self.room else kept[:0]
            self.room -= len(kept)
        if len(kept) and expected:
            self._kept.append((kept, self._take(kept)))
        for one in expected:
            one.release(numbers)
        self._drop_empty()

    def hold(self, numbers: IntArray, values: FloatArray) -> None:
        """Keep rows that will be asked for once; `numbers` are ascending."""
        if len(numbers):
            with self._lock:
                self._expected.append(_Expected(numbers, values))

    def unknown(self, numbers: IntArray) -> IntArray:
        """Return those rows that are not held."""
        self._hold_kept()
        for one in list(self._expected):
            numbers = numbers[~one.holds(numbers)]
        return numbers

    def _hold_kept(self) -> None:
        """Put the rows that were kept one by one in one place."""
        kept, self._kept = self._kept, []
        if kept:
            numbers = np.sort(np.concatenate([part[0] for part in kept]))
            values = np.empty((len(numbers), self.shape[1]), self.dtype)
            while kept:  # which shrinks while the other grows
                own, found = kept.pop()
                values[np.searchsorted(numbers, own)] = found
            self.hold(numbers, values)

    def forget(self) -> None:
        """Give up all rows that are held."""
        with self._lock:
            self._expected.clear()
            self._kept.clear()

    def remember(self, numbers: IntArray, values: FloatArray) -> None:
        """Keep rows that have been read, and will be asked for, until others are expected."""
        self._sample = _Expected(numbers, values, settled=True)

    def _drop_empty(self) -> None:
        with self._lock:
            self._expected = [one for one in self._expected if len(one)]

    def _background(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(8 if self.far else self.threads, "gmmatch-reading")
        return self._pool

    def _step(self) -> int:
        return rows_per_block(self.shape[1] * self.itemsize)

    def _fill(self, expected: _Expected, run: tuple[int, int], before: list[Future[None]]) -> None:
        """Read a run of expected rows, which stand close to each other, after what was expected before."""
        wait(before)
        numbers = expected.numbers[run[0] : run[1]]
        for start in range(int(numbers[0]), int(numbers[-1]) + 1, self._step()):
            low, high = np.searchsorted(numbers, (start, start + self._step())).tolist()
            if high > low:
                part = numbers[low:high]
                block = self._between(start, int(part[-1]) + 1, kept=1)
                expected.values[run[0] + low : run[0] + high] = block[part - start]

    def _take(self, chosen: IntArray) -> FloatArray:
        """Return rows by their numbers: those that are held first, the others from the files."""
        rows = np.empty((len(chosen), self.shape[1]), self.dtype)
        missing = np.ones(len(chosen), dtype=bool)
        if self._kept and not any(one.settled for one in self._expected):
            self._hold_kept()  # nothing is being matched any more
        with self._lock:
            expected = list(self._expected)
        for one in (*expected, *([self._sample] if self._sample is not None else [])):
            if missing.any():
                here, found = one.take(chosen, not one.settled)
                rows[here] = found
                missing &= ~here
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

    def _between(self, start: int, stop: int, kept: int = _KEPT_BLOCKS) -> FloatArray:
        parts: list[FloatArray] = []
        first = int(np.searchsorted(self.ends, start, side="right"))
        for number in range(first, len(self.pieces)):
            begin = int(self.ends[number]) - self.pieces[number].n_rows
            if begin >= stop:
                break
            last = min(stop, int(self.ends[number])) - begin
            parts += self._span(number, max(start - begin, 0), last, kept)
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty((0, self.shape[1]), self.dtype)

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
            cursor = _Cursor(self.pieces[number], start, kept)
            self._cursors[id(cursor)] = number, cursor
            if len(self._cursors) > _MOST_CURSORS:
                self._cursors.popitem(last=False)
            return cursor
