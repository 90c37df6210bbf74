"""Rows that can only be read forward, decoded once: Parquet, Arrow, and files behind an address.

`ForwardRows` decodes rows when they are first requested, in the order of the file, writes them to an unnamed
file in the temporary folder and maps it: whoever asks again, in any order, reads the map. The file takes no
name and no anonymous memory, and is gone with the process.

Where the temporary folder has no room, rows are decoded at every read. Rows that are requested by their
numbers must then be announced (`expect`), so that those of many requests are decoded in one go.
"""

import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..arrays import AnyArray, DType, FloatArray, IntArray, Mask
from ..files import write_all
from .rows import JoinedRows

BLOCK_BYTES = 1 << 20
"""What is decoded in one go: little enough to stay in the cache until it is used."""

_CHUNK_BYTES = 16 << 20  # of rows that one thread decodes, at least
_MOST_SHARE = 0.9  # of what is free in the temporary folder
_KEPT_REQUESTS = 4  # whose rows are held where rows are decoded at every read: threads do not ask in order


def rows_per_block(row_bytes: int) -> int:
    """Return how many rows of so many bytes are decoded in one go."""
    return max(1, BLOCK_BYTES // row_bytes)


class Shard(Protocol):
    """Rows of numbers that are read forward: a file of Parquet or Arrow, or a file behind an address."""

    @property
    def n_rows(self) -> int:
        """How many rows it has."""

    @property
    def begins(self) -> Sequence[int]:
        """The rows that reading can begin at without decoding others; 0 is the first."""

    @property
    def travels(self) -> bool:
        """Whether another process can read it."""

    def check(self) -> None:
        """Refuse other content than what was described."""

    def blocks(self, start: int, stop: int) -> Iterator[FloatArray]:
        """Yield the rows between two, about a megabyte at a time."""


def temporary_room() -> int:
    """Return the bytes that rows may take in the temporary folder."""
    try:
        return int(shutil.disk_usage(tempfile.gettempdir()).free * _MOST_SHARE)
    except OSError:
        return 0


class NoRoom(Exception):
    """The disk is full."""


class Spill:
    """Rows in an unnamed file: written in any order, and mapped; `NoRoom` if the disk does not take them."""

    def __init__(self, shape: tuple[int, ...], dtype: DType) -> None:
        size = shape[0] * shape[1] * dtype.itemsize
        if not 0 < size <= temporary_room():
            raise NoRoom
        try:
            self._file = tempfile.TemporaryFile(prefix="gmmatch-", buffering=0)  # noqa: SIM115
            weakref.finalize(self, self._file.close)
            self._file.truncate(size)
            self.rows: np.memmap[Any, Any] = np.memmap(self._file, dtype, "r", shape=shape)
        except OSError:
            raise NoRoom from None
        self._lock = threading.Lock()

    def write(self, first: int, values: FloatArray) -> None:
        """Write rows from row `first` on; through the map, a full disk would end the process."""
        try:
            with self._lock:
                self._file.seek(first * self.rows.strides[0])
                write_all(self._file, np.ascontiguousarray(values).data.cast("B"))
        except OSError:
            raise NoRoom from None


class Chunk:
    """Rows of a shard that are decoded in their order; `first`: the number of its first row among all."""

    def __init__(self, shard: Shard, start: int, stop: int, first: int) -> None:
        self._shard, self._start, self._stop = shard, start, stop
        self.first, self.n_rows = first, stop - start
        self._written = 0
        self._lock = threading.Lock()
        self._blocks: Iterator[FloatArray] | None = None

    def blocks(self, start: int) -> Iterator[FloatArray]:
        """Yield the rows from `start` on."""
        return self._shard.blocks(self._start + start, self._stop)

    def fill(self, spill: Spill, stop: int) -> None:
        """Decode the rows before row `stop` among all that are not in the file yet."""
        stop -= self.first
        if self._written >= stop:
            return
        with self._lock:
            while self._written < stop:
                if self._blocks is None:
                    self._blocks = self.blocks(self._written)
                try:
                    block = next(self._blocks)
                    spill.write(self.first + self._written, block)
                except BaseException:
                    self._blocks = None  # whoever asks again goes on from here
                    raise
                self._written += len(block)
            if self.is_done:
                self._blocks = None

    @property
    def is_done(self) -> bool:
        """Whether all rows are in the file."""
        return self._written >= self.n_rows


class Scan:
    """A place in the rows that goes on block by block, for rows that are decoded at every read.

    Threads share it: blocks are held until it is some requests beyond them.
    """

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = chunks
        self._lock = threading.Lock()
        self._begin(0)

    def _begin(self, start: int) -> None:
        self._at = start
        self._held: list[tuple[int, FloatArray]] = []  # blocks, and the number of the first row of each
        ahead = [own for own in self._chunks if own.first + own.n_rows > start]
        self._blocks = (block for own in ahead for block in own.blocks(max(start - own.first, 0)))

    def between(self, start: int, stop: int) -> FloatArray:
        """Return the rows between two, decoded from the first of them on if they are not just ahead."""
        reach = _KEPT_REQUESTS * (stop - start)
        with self._lock:
            first = self._held[0][0] if self._held else self._at
            if not first <= start <= self._at + reach:
                self._begin(start)
            try:
                while self._at < stop:
                    self._held.append((self._at, next(self._blocks)))
                    self._at += len(self._held[-1][1])
            except BaseException:
                self._begin(0)  # it cannot go on
                raise
            parts = [rows[max(start - first, 0) : max(stop - first, 0)] for first, rows in self._held]
            self._held = [own for own in self._held if own[0] + len(own[1]) > self._at - reach]
        parts = [rows for rows in parts if len(rows)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


class ForwardRows(JoinedRows):
    """The rows of shards that follow each other, decoded once if the temporary folder has room.

    `shards`: where the rows are.
    """

    def __init__(self, shards: Sequence[Shard], width: int, dtype: npt.DTypeLike) -> None:
        self.shards = list(shards)
        super().__init__((sum(shard.n_rows for shard in self.shards), width), dtype)
        self.mapped: FloatArray | None = None
        """All rows, mapped, once they have been decoded."""
        self._lock = threading.Lock()
        self._layout: _Layout | None = None
        self._held: list[_Held] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return ForwardRows, (self.shards, self.shape[1], self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.shape[0] * self.shape[1] * self.itemsize

    @property
    def can_travel(self) -> bool:
        """Whether another process can read the shards."""
        return all(shard.travels for shard in self.shards)

    @property
    def spills(self) -> bool:
        """Whether rows are decoded once; False: at every read, for want of room."""
        return self._laid_out().spill is not None

    def undecoded(self) -> Sequence[int]:
        """Return the numbers of the chunks that have yet to be decoded, if there is room for them."""
        layout = self._laid_out()
        if self.mapped is not None or layout.spill is None:
            return ()
        return [number for number, chunk in enumerate(layout.chunks) if not chunk.is_done]

    def decode(self, number: int) -> int:
        """Decode a chunk, several of which may be decoded side by side; return how many rows it has."""
        layout = self._laid_out()
        self._fill(layout, {number: int(layout.ends[number])})
        return layout.chunks[number].n_rows

    def remember(self, numbers: IntArray, values: FloatArray) -> None:
        """Hold rows that were read elsewhere, in ascending order, on disk if there is room."""
        try:
            spill = Spill(values.shape, values.dtype)
            spill.write(0, values)
            values = spill.rows
        except NoRoom:
            pass
        self._hold(_Held(numbers, values, often=True))

    def expect(self, numbers: AnyArray) -> None:
        """Announce rows that will be requested by their numbers, once each.

        Where rows are decoded at every read, these are decoded now, in one go, and held until requested.
        """
        if self.spills:
            return
        numbers = np.sort(numbers).astype(np.int64)
        for held in self._held:
            numbers = numbers[~held.holds(numbers)]
        if len(numbers):
            self._hold(_Held(numbers, self._scan(numbers)))

    def _laid_out(self) -> "_Layout":
        with self._lock:
            if self._layout is None:
                self._layout = _Layout(self.shards, self.shape, self.dtype)
            return self._layout

    def _between(self, start: int, stop: int) -> FloatArray:
        if self.mapped is not None:
            return self.mapped[start:stop]
        if start >= stop:
            return np.empty((0, self.shape[1]), self.dtype)
        layout = self._laid_out()
        first, last = np.searchsorted(layout.ends, (start, stop - 1), side="right").tolist()
        wanted = [*layout.ends[first:last].tolist(), stop]
        if self._fill(layout, dict(zip(range(first, last + 1), wanted, strict=True))):
            return layout.rows[start:stop]
        return layout.scan.between(start, stop)

    def _take(self, chosen: IntArray) -> FloatArray:
        if self.mapped is not None:
            return np.take(self.mapped, chosen, axis=0)
        rows = np.empty((len(chosen), self.shape[1]), self.dtype)
        missing = np.ones(len(chosen), dtype=bool)
        for held in self._held:
            missing &= ~held.take(chosen, rows)
        if missing.any():
            layout, order = self._laid_out(), np.unique(chosen[missing])
            homes = np.searchsorted(layout.ends, order, side="right")
            if self._fill(layout, dict(zip(homes.tolist(), (order + 1).tolist(), strict=True))):
                rows[missing] = layout.rows[chosen[missing]]
            else:
                rows[missing] = self._scan(order)[np.searchsorted(order, chosen[missing])]
        return rows

    def _fill(self, layout: "_Layout", wanted: dict[int, int]) -> bool:
        """Decode chunks, each up to a row, into the file; return False if there is no room."""
        spill = layout.spill
        if spill is None:
            return False
        try:
            for place, stop in wanted.items():
                layout.chunks[place].fill(spill, stop)
        except NoRoom:
            layout.spill = None
            return False
        if self.mapped is None and all(chunk.is_done for chunk in layout.chunks):
            self.mapped, self._held = layout.rows, []
        return True

    def _scan(self, numbers: IntArray) -> FloatArray:
        """Decode rows, ascending, that stand anywhere in the files."""
        rows, scan = np.empty((len(numbers), self.shape[1]), self.dtype), self._laid_out().scan
        step, done = rows_per_block(self.shape[1] * self.itemsize), 0
        while done < len(numbers):
            start = int(numbers[done])
            upto = int(np.searchsorted(numbers, start + step))
            block = scan.between(start, int(numbers[upto - 1]) + 1)
            rows[done:upto] = block[numbers[done:upto] - start]
            done = upto
        return rows

    def _hold(self, held: "_Held") -> None:
        with self._lock:
            self._held = [*(one for one in self._held if len(one)), held]


class _Layout:
    """How rows are decoded: in chunks, each by one thread at a time, into a file if there is room."""

    def __init__(self, shards: Sequence[Shard], shape: tuple[int, ...], dtype: DType) -> None:
        least = -(-_CHUNK_BYTES // (shape[1] * dtype.itemsize))
        self.chunks: list[Chunk] = []
        first = 0
        for shard in shards:
            cuts = [0]
            for begin in shard.begins:
                if begin - cuts[-1] >= least:
                    cuts.append(begin)
            for start, stop in pairwise([*cuts, shard.n_rows]):
                self.chunks.append(Chunk(shard, start, stop, first + start))
            first += shard.n_rows
        self.ends = np.cumsum([chunk.n_rows for chunk in self.chunks])
        self.scan = Scan(self.chunks)
        self.spill: Spill | None = None
        try:
            self.spill = Spill(shape, dtype)
            self.rows: FloatArray = np.asarray(self.spill.rows)
        except NoRoom:
            pass


class _Held:
    """Rows that wait to be requested: once each, or `often`."""

    def __init__(self, numbers: IntArray, values: FloatArray, often: bool = False) -> None:
        self._numbers, self._values, self._often = numbers, values, often
        self._left = np.ones(len(numbers), dtype=bool)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return int(np.count_nonzero(self._left))

    def holds(self, chosen: IntArray) -> Mask:
        """Return which of the chosen rows are here."""
        with self._lock:
            return self._find(chosen)[0]

    def take(self, chosen: IntArray, rows: FloatArray) -> Mask:
        """Write the chosen rows that are here to their places; return which."""
        with self._lock:
            here, places = self._find(chosen)
            rows[here] = self._values[places]
            if not self._often:
                self._left[places] = False
                if 4 * len(self) < len(self._left):
                    self._numbers, self._values = self._numbers[self._left], self._values[self._left]
                    self._left = np.ones(len(self._numbers), dtype=bool)
        return here

    def _find(self, chosen: IntArray) -> tuple[Mask, IntArray]:
        if not len(self._numbers):
            return np.zeros(len(chosen), dtype=bool), np.empty(0, np.int64)
        found = np.minimum(np.searchsorted(self._numbers, chosen), len(self._numbers) - 1)
        here = (self._numbers[found] == chosen) & self._left[found]
        return here, found[here]
