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
from contextlib import suppress
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
        self._chunks = list(_chunks(self.shards, -(-_CHUNK_BYTES // (width * self.itemsize))))
        self._ends = np.cumsum([chunk.n_rows for chunk in self._chunks])
        self._scan = Scan(self._chunks)
        self._held: list[_Held] = []
        self._rows: FloatArray = np.empty((0, width), dtype)
        self._spill: Spill | None = None
        with suppress(NoRoom):
            self._spill = Spill(self.shape, self.dtype)
            self._rows = np.asarray(self._spill.rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return ForwardRows, (self.shards, self.shape[1], self.dtype)

    @property
    def can_travel(self) -> bool:
        """Whether another process can read the shards."""
        return all(shard.travels for shard in self.shards)

    @property
    def spills(self) -> bool:
        """Whether rows are decoded once; False: at every read, for want of room."""
        return self._spill is not None

    def undecoded(self) -> Sequence[int]:
        """Return the numbers of the chunks that have yet to be decoded, if there is room for them."""
        chunks = self._chunks if self.spills else []
        return [number for number, chunk in enumerate(chunks) if not chunk.is_done]

    def decode(self, number: int) -> int:
        """Decode a chunk, several of which may be decoded side by side; return how many rows it has."""
        self._fill(self._ends[number : number + 1] - 1)
        return self._chunks[number].n_rows

    def remember(self, numbers: IntArray, values: FloatArray) -> None:
        """Hold rows that were read elsewhere, in ascending order, on disk if there is room."""
        with suppress(NoRoom):
            spill = Spill(values.shape, values.dtype)
            spill.write(0, values)
            values = spill.rows
        self._held.append(_Held(numbers, values, often=True))

    def expect(self, numbers: AnyArray) -> None:
        """Announce rows that will be requested by their numbers, once each.

        Where rows are decoded at every read, these are decoded now, in one go, and held until requested.
        """
        if self.spills:
            return
        self._held = [held for held in self._held if held.left.any()]
        numbers = np.sort(numbers).astype(np.int64)
        for held in self._held:
            numbers = numbers[~np.isin(numbers, held.numbers[held.left])]
        if len(numbers):
            self._held.append(_Held(numbers, self._decoded(numbers)))

    def _between(self, start: int, stop: int) -> FloatArray:
        if self.mapped is None and start < stop:
            first, last = np.searchsorted(self._ends, (start, stop - 1), side="right").tolist()
            if not self._fill(np.append(self._ends[first:last], stop) - 1):
                return self._scan.between(start, stop)
        return self._rows[start:stop]

    def _take(self, chosen: IntArray) -> FloatArray:
        if self.mapped is not None:
            return np.take(self.mapped, chosen, axis=0)
        rows = np.empty((len(chosen), self.shape[1]), self.dtype)
        missing = np.ones(len(chosen), dtype=bool)
        for held in self._held:
            missing &= ~held.take(chosen, rows)
        order, places = np.unique(chosen[missing], return_inverse=True)
        if len(order):
            rows[missing] = self._rows[order[places]] if self._fill(order) else self._decoded(order)[places]
        return rows

    def _fill(self, numbers: IntArray) -> bool:
        """Decode into the file up to each of some rows, ascending; return False if there is no room."""
        spill, homes = self._spill, np.searchsorted(self._ends, numbers, side="right")
        if spill is None:
            return False
        try:
            for place, last in dict(zip(homes.tolist(), numbers.tolist(), strict=True)).items():
                self._chunks[place].fill(spill, last + 1)
        except NoRoom:
            self._spill = None
            return False
        if self.mapped is None and not self.undecoded():
            self.mapped, self._held = self._rows, []
        return True

    def _decoded(self, numbers: IntArray) -> FloatArray:
        """Decode rows, ascending, that stand anywhere in the files, and hold them in memory."""
        rows, done = np.empty((len(numbers), self.shape[1]), self.dtype), 0
        step = rows_per_block(self.shape[1] * self.itemsize)
        while done < len(numbers):
            start = int(numbers[done])
            upto = int(np.searchsorted(numbers, start + step))
            block = self._scan.between(start, int(numbers[upto - 1]) + 1)
            rows[done:upto] = block[numbers[done:upto] - start]
            done = upto
        return rows


def _chunks(shards: Sequence[Shard], least: int) -> Iterator[Chunk]:
    """Yield what one thread decodes: rows of one shard, at least so many where reading can begin there."""
    first = 0
    for shard in shards:
        cuts = [0]
        for begin in shard.begins:
            if begin - cuts[-1] >= least:
                cuts.append(begin)
        for start, stop in pairwise([*cuts, shard.n_rows]):
            yield Chunk(shard, start, stop, first + start)
        first += shard.n_rows


class _Held:
    """Rows that wait to be requested: once each, or `often`."""

    def __init__(self, numbers: IntArray, values: FloatArray, often: bool = False) -> None:
        self.numbers, self.left = numbers, np.ones(len(numbers), dtype=bool)
        self._values, self._often = values, often

    def take(self, chosen: IntArray, rows: FloatArray) -> Mask:
        """Write the chosen rows that are here to their places; return which."""
        found = np.minimum(np.searchsorted(self.numbers, chosen), len(self.numbers) - 1)
        here: Mask = (self.numbers[found] == chosen) & self.left[found]
        rows[here] = self._values[found[here]]
        self.left[found[here]] = self._often
        return here
