"""Rows that stay where they are, and are read in pieces: from the front of a file on, each part once.

`PieceRows` is asked for rows in two ways, and answers from two places.

**Between two rows** (`rows[10:20]`), as passes over all rows do: cursors go through the files block by block
(`cursors`), and nothing is held beyond what threads side by side have yet to ask for.

**By their numbers** (`rows[numbers]`), in an order that is not that of the file. Files cannot be read so: the
rows must be *held* when they are asked for. They come to be held in four ways, each the caller's word on what
it will ask for:

- `remember`: rows that a pass came across and that will be asked for, the sample. They wait in a file without
  a name, until other rows are expected.
- `expect`: rows that will be asked for once. They are read in the order of the file, and given up as they are
  taken.
- `expect_window`: rows that are to be matched. They are read while those of the window before are being
  matched, into the memory that these give back; `settle` says which of them were dealt with, and which of
  those are picks. Picks wait in a file without a name, to be asked for once more at the end.
- `hold`: rows that others have read.

Rows that nobody spoke of are looked for in the files, at the price of a read (`_gather`).
"""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, IntArray
from .cursors import Cursors, Piece, rows_per_block
from .kept import Buffers, Expected, KeptRows, Slots, Window, spill
from .rows import JoinedRows

_KEPT_ASKS = 2  # per cursor: threads do not ask in strict order
_MOST_BLOCKS = 256  # per cursor, however much is asked for at once
_SETTLED_ROWS = 4096  # that are given up together
_ROOM = 3.0  # windows, should many rows wait for the next one
_ENOUGH = 1.1  # windows in memory, beyond which readers wait for rows to be given back


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
        self.keeps = True  # whether picks will be asked for once more, here
        self._lock = threading.Lock()
        self._giving = threading.RLock()
        self._cursors = Cursors(self.pieces, self.ends, self._submit if self.far else None)
        self._read = Buffers(width, self.dtype, self.threads + 1)
        self._pool: ThreadPoolExecutor | None = None
        self._sample: Expected | None = None
        self._expected: list[Expected] = []
        self._slots: Slots | None = None  # of the windows among those that are expected
        self._settled: list[tuple[IntArray, IntArray]] = []  # rows that were dealt with, and picks among them
        self._kept = KeptRows(width, self.dtype)

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

    # What callers say of the rows that they will ask for.

    def remember(self, numbers: IntArray, values: FloatArray) -> None:
        """Keep rows that have been read, and will be asked for, until others are expected."""
        self._rest()
        self._sample = Expected(numbers, spill(values), often=True)

    def expect(self, numbers: npt.NDArray[Any]) -> None:
        """Begin to read rows that will be asked for soon, in any order and once each."""
        numbers = np.sort(numbers).astype(np.int64)
        self._begin(Expected(numbers, self._empty(len(numbers))))

    def expect_window(self, numbers: npt.NDArray[Any]) -> None:
        """Begin to read rows that will be asked for soon, in any order, and then settled."""
        numbers = np.sort(numbers).astype(np.int64)
        if self._slots is None or not self._slots.promise(len(numbers)):
            # The first window, or one that is larger, or before which many rows wait for another.
            room, enough = (int(share * len(numbers)) for share in (_ROOM, _ENOUGH))
            self._slots = Slots(self.shape[1], self.dtype, room, enough)
            self._slots.promise(len(numbers))
        self._begin(Window(numbers, self._slots))

    def settle(self, numbers: IntArray, picks: IntArray) -> None:
        """Give up rows of windows, but for picks among them, to be asked for once more, if there is room."""
        with self._lock:
            self._settled.append((numbers, picks))
        # One thread gives rows up for all of them, also for those who come meanwhile.
        while self._many_settled() and self._giving.acquire(blocking=False):
            try:
                self._give_up()
            finally:
                self._giving.release()

    def hold(self, numbers: IntArray, values: FloatArray) -> None:
        """Keep rows that will be asked for once; `numbers` are ascending."""
        if len(numbers):
            self._add(Expected(numbers, values))

    def unknown(self, numbers: IntArray) -> IntArray:
        """Return those rows that are not held."""
        self._end_windows()
        for one in self._all_held():
            numbers = numbers[~one.holds(numbers)]
        return numbers

    def forget(self) -> None:
        """Give up all rows that are held."""
        with self._lock:
            for one in self._expected:
                one.stop_waiting()
            self._expected.clear()
            self._settled.clear()
            self._slots = None
            self._kept.release()

    # How rows that are expected come to be held.

    def _begin(self, expected: Expected) -> None:
        """Begin to read what is expected, in the background unless this thread is the only one."""
        if not self._expected:
            self._rest()
        self._sample = None
        if not len(expected.numbers):
            return
        gaps = np.flatnonzero(np.diff(expected.numbers) > self._step()) + 1
        runs = list(pairwise([0, *gaps.tolist(), len(expected.numbers)]))
        if self.threads == 1 and not self.far:
            expected.stop_waiting()
            for run in runs:
                self._fill(expected, run, [])
        else:
            # Cursors go on from where those before them stopped.
            before = [part for one in self._expected for part in one.reading]
            expected.reading = [self._background().submit(self._fill, expected, run, before) for run in runs]
        self._add(expected)

    def _fill(self, expected: Expected, run: tuple[int, int], before: list[Future[None]]) -> None:
        """Read a run of expected rows, which stand close to each other, after what was expected before."""
        wait(before)
        numbers, step = expected.numbers[run[0] : run[1]], self._step()
        for start in range(int(numbers[0]), int(numbers[-1]) + 1, step):
            low, high = np.searchsorted(numbers, (start, start + step)).tolist()
            if high > low:
                own = slice(run[0] + low, run[0] + high)
                self._copy(numbers[low:high], start, expected.values, expected.room(own))

    def _copy(self, numbers: IntArray, start: int, values: FloatArray, places: slice | IntArray) -> None:
        """Copy rows, ascending, from the blocks that begin at row `start` to their places."""
        found = []
        for block in self._parts(start, int(numbers[-1]) + 1, kept=1):
            low, high = np.searchsorted(numbers, (start, start + len(block))).tolist()
            found.append(np.take(block, numbers[low:high] - start, axis=0, mode="clip"))
            start += len(block)
        values[places] = found[0] if len(found) == 1 else np.concatenate(found)

    def _many_settled(self) -> bool:
        with self._lock:
            return sum(len(part[0]) for part in self._settled) >= _SETTLED_ROWS

    def _give_up(self) -> None:
        """Let go of rows that were settled; put picks among them where they can wait."""
        with self._lock:
            settled, self._settled = self._settled, []
        windows = [one for one in self._all_held() if isinstance(one, Window)]
        if not settled or not windows:
            return
        # Each part is in order already: a stable sort merges them.
        numbers, picks = (
            np.sort(np.concatenate(parts), kind="stable") for parts in zip(*settled, strict=True)
        )
        if self.keeps and len(picks):
            self._kept.add(picks, self._take)
        for one in windows:
            one.release(numbers)
        self._drop_empty()

    def _end_windows(self) -> None:
        """Let the picks be asked for: nothing is being matched any more."""
        with self._giving:
            self._give_up()
            self._slots = None
            picks = self._kept.release()
        if picks is not None:
            self._rest()
            self._add(picks)

    def _add(self, expected: Expected) -> None:
        with self._lock:
            self._expected.append(expected)

    def _all_held(self) -> list[Expected]:
        with self._lock:
            return list(self._expected)

    def _drop_empty(self) -> None:
        with self._lock:
            self._expected = [one for one in self._expected if len(one)]

    def _rest(self) -> None:
        """Let go of what a pass over the rows has left behind."""
        self._cursors.clear()
        self._read.clear()

    # How rows that are asked for are found.

    def _take(self, chosen: IntArray) -> FloatArray:
        """Return rows by their numbers: those that are held first, the others from the files."""
        rows = self._empty(len(chosen))
        missing = np.ones(len(chosen), dtype=bool)
        held = self._all_held()
        if len(self._kept) and not any(isinstance(one, Window) for one in held):
            self._end_windows()
            held = self._all_held()
        for one in (*held, *([] if self._sample is None else [self._sample])):
            if missing.any():
                missing &= ~one.take(chosen, rows)
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
        return self._cursors.between(start, stop, kept, self._step(), self.threads)

    def _background(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(8 if self.far else self.threads, "gmmatch-reading")
        return self._pool

    def _submit(self, function: Callable[[], None]) -> None:
        self._background().submit(function)

    def _empty(self, n_rows: int) -> FloatArray:
        return np.empty((n_rows, self.shape[1]), self.dtype)

    def _step(self) -> int:
        return rows_per_block(self.shape[1] * self.itemsize)
