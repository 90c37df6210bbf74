"""The numbers in a Parquet file's column of lists, copied from its pages as they are stored.

Parquet stores the numbers of lists one after the other, in *pages* of about a megabyte, and beside each
number two *levels*, which say where a list begins and what is missing. Arrow builds lists from the levels of
every number, which takes longer than all the rest. Where the lists of a row group are all of one length and
nothing is missing, the levels repeat themselves: it is enough to see that they do. Numbers that are not
stored so (few different ones, lists of several lengths, gaps) are left to Arrow.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .thrift import BYTES, I32, I64, STRUCTURE, Odd, Structure, structure, varint

_DTYPES = {pa.float16(): "<f2", pa.float32(): "<f4", pa.float64(): "<f8"}
_CODECS = {0: None, 1: "snappy", 2: "gzip", 6: "zstd"}
_HEADER_BYTES = 512  # more than the header of a page of numbers takes
_MOST_BYTES = 2**31 - 1
_MOST_FOOTER = 1 << 22  # bytes of the end of a file that are worth looking at: it takes a second
_MOST_VALUES = 1 << 24  # of a page; usual are some hundred thousand
_PLAIN, _RUNS = 0, 3  # how numbers and levels are stored
_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3  # kinds of pages
_BITS = [bytes(byte >> bit & 1 for bit in range(8)) for byte in range(256)]


@dataclass(frozen=True)
class Chunk:
    """Where a row group has its part of a column."""

    name: str  # of the column of the table that it belongs to
    codec: int
    n_values: int
    size: int  # bytes, compressed
    begin: int  # where its first page is


@dataclass(frozen=True)
class Page:
    """Where numbers are in a file, and how many."""

    begin: int
    size: int
    unpacked: int  # bytes of it, decompressed
    first: int  # number of its first value in the row group
    count: int
    levels: tuple[int, int] | None  # bytes of its levels, where they stand before what is compressed
    packed: bool  # whether its numbers are compressed
    plain: bool


@dataclass(eq=False)
class PlainColumn:
    """The part of a column in one row group of which all pages, from some row on, hold plain numbers."""

    pages: list[Page]  # of all its numbers
    schema: pa.Schema  # of this column
    width: int
    dtype: str
    codec: str | None
    most: int  # the level of a number that is there
    checked: int = 0  # pages from the front on whose levels were seen to be even

    @property
    def first(self) -> int:
        """The first row that is in plain pages as a whole."""
        after = max((page.first + page.count for page in self.pages if not page.plain), default=0)
        return -(-after // self.width)

    def batches(self, handle: Any, start: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from `start` on, about `rows` at a time, as far as no page is odd up to there."""
        kind = self.schema.types[0]
        for block in self._blocks(handle, start, rows):
            numbers = pa.Array.from_buffers(kind.value_type, block.size, [None, pa.py_buffer(block)])
            buffers = [None]
            if not pa.types.is_fixed_size_list(kind):
                begins = np.arange(len(block) + 1) * self.width
                offset = np.int64 if pa.types.is_large_list(kind) else np.int32
                buffers.append(pa.py_buffer(begins.astype(offset)))
            column = pa.Array.from_buffers(kind, len(block), buffers, children=[numbers])
            yield pa.RecordBatch.from_arrays([column], schema=self.schema)

    def _blocks(self, handle: Any, start: int, rows: int) -> Iterator[npt.NDArray[Any]]:
        begin = start * self.width
        last = self.pages[-1].first + self.pages[-1].count
        scratch = bytearray(max(page.size for page in self.pages))
        block = np.empty((0, self.width), self.dtype)
        filled = 0
        for number, page in enumerate(self.pages):
            before = page.first + page.count <= begin
            if before and number < self.checked:
                continue
            try:
                data = self._numbers(handle, page, scratch)
                values = np.empty(0) if before else self._values(data, page)[max(begin - page.first, 0) :]
            except Odd:
                break
            self.checked = max(self.checked, number + 1)
            if before:
                continue
            whole = not filled and not len(values) % self.width and len(values) <= rows * self.width
            if whole and values.flags.aligned:
                begin += len(values)
                yield values.reshape(-1, self.width)
                continue
            while len(values):
                if not filled:
                    block = np.empty((min(rows, (last - begin) // self.width), self.width), self.dtype)
                flat = block.reshape(-1)
                taken = values[: len(flat) - filled]
                flat[filled : filled + len(taken)] = taken
                values, filled, begin = values[len(taken) :], filled + len(taken), begin + len(taken)
                if filled == len(flat):
                    yield block
                    filled = 0
        if filled >= self.width:
            yield block[: filled // self.width]

    def _values(self, data: memoryview, page: Page) -> npt.NDArray[Any]:
        if not page.plain or len(data) != page.count * np.dtype(self.dtype).itemsize:
            raise Odd
        return np.frombuffer(data, self.dtype)

    def _numbers(self, handle: Any, page: Page, scratch: bytearray) -> memoryview:
        """Return what a page holds beside its levels, once these were seen to be even."""
        stored = memoryview(scratch)[: page.size]
        handle.seek(page.begin)
        if handle.readinto(stored) != page.size:
            raise Odd
        if page.levels is None:
            data = self._unpacked(stored, page.unpacked)
            begins, data = _prefixed(data)
            gaps, data = _prefixed(data)
        else:
            one, two = page.levels
            begins, gaps = bytes(stored[:one]), bytes(stored[one : one + two])
            size = page.unpacked - one - two
            data = self._unpacked(stored[one + two :], size, page.packed)
        regular = _lists_begin_evenly(begins, page.count, page.first % self.width, self.width)
        if not regular or not _all_there(gaps, page.count, self.most):
            raise Odd
        return data

    def _unpacked(self, stored: memoryview, size: int, packed: bool = True) -> memoryview:
        if self.codec is None or not packed:
            return memoryview(bytes(stored))  # the scratch will be written to again
        return memoryview(_decompressed(self.codec, stored, size))


def column_chunks(handle: Any, size: int) -> list[list[Chunk]] | None:
    """Return by row group the parts of its columns; None where what is told of them is not plain.

    `handle`: the open file. `size`: bytes of its footer, which tells it.
    """
    begin = handle.seek(0, os.SEEK_END) - 8 - size
    if begin < 0 or size > _MOST_FOOTER:
        return None
    handle.seek(begin)
    stored = handle.read(size + 8)
    if stored[size:] != struct.pack("<I4s", size, b"PAR1"):
        return None
    try:
        groups = structure(stored)[0].many(4, STRUCTURE)
        return [[_chunk(column) for column in group.many(1, STRUCTURE)] for group in groups]
    except Odd:
        return None


def _chunk(column: Structure) -> Chunk:
    if column.may(1, BYTES):  # it is in another file
        raise Odd
    facts = column.get(3, STRUCTURE)
    n_values, size, begin = facts.numbers(I64, 5, 7, 9)
    dictionary = facts.may(11, I64)
    begin = begin if dictionary is None else min(begin, dictionary)
    name = b"".join(facts.many(3, BYTES)[:1]).decode(errors="replace")
    return Chunk(name, facts.get(4, I32), n_values, size, begin)


def plain_column(handle: Any, facts: Any, chunks: list[Chunk], n_rows: int, name: str) -> PlainColumn | None:
    """Return the pages of a column in a row group; None where they are to be read by Arrow.

    `handle`: the open file. `facts`: what the end of the file says of it. `chunks`, `n_rows`: the parts of
    the columns in the row group, and how many rows it has.
    """
    schema = facts.schema.to_arrow_schema()
    places = [at for at, chunk in enumerate(chunks) if chunk.name == name]
    if len(places) != 1 or schema.get_field_index(name) < 0 or len(chunks) != len(facts.schema):
        return None
    entry, chunk, levels = schema.field(name), chunks[places[0]], facts.schema.column(places[0])
    kind = entry.type
    fixed = pa.types.is_fixed_size_list(kind)
    if not (fixed or pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return None
    width, rest = divmod(chunk.n_values, max(n_rows, 1))
    if fixed and kind.list_size != width:
        return None
    dtype = _DTYPES.get(kind.value_type)
    if dtype is None or levels.max_repetition_level != 1 or rest or width < 1:
        return None
    end = handle.seek(0, os.SEEK_END)
    # What is claimed may not be there.
    if chunk.codec not in _CODECS or not 0 <= chunk.begin <= chunk.begin + chunk.size <= end:
        return None
    try:
        pages = _pages(handle, chunk, end, np.dtype(dtype).itemsize, width)
    except (Odd, OSError):
        return None
    if not pages or not pages[-1].plain:
        return None
    own = pa.schema([entry], schema.metadata)
    return PlainColumn(pages, own, width, dtype, _CODECS[chunk.codec], levels.max_definition_level)


def _pages(handle: Any, chunk: Chunk, last: int, item: int, width: int) -> list[Page]:
    """Return where the numbers of a column are, from the headers of its pages; `last`: the file's size."""
    pages: list[Page] = []
    first, at, end = 0, chunk.begin, chunk.begin + chunk.size
    while at < end:
        handle.seek(at)
        header, length = structure(handle.read(min(_HEADER_BYTES, end - at)))
        kind, unpacked, size = header.numbers(I32, 1, 2, 3)
        at += length
        if size > last - at:  # Arrow would make room for it first
            raise pa.ArrowInvalid(f"a page of {size} bytes begins {last - at} bytes before the end")
        if not 0 <= size <= end - at:
            raise Odd
        if kind in (_DATA, _DATA_2):
            page = _data_page(header, at, first, width)
            # What a page may take, decompressed, follows from its numbers, and is told in 32 bits.
            least, most = page.count * item * page.plain, page.count * (item + 2) + _HEADER_BYTES
            if page.count > chunk.n_values - first or not least <= unpacked <= min(most, _MOST_BYTES):
                raise Odd
            pages.append(page)
            first += page.count
        elif kind != _DICTIONARY:
            raise Odd
        at += size
    if first != chunk.n_values:
        raise Odd
    return pages


def _data_page(header: Structure, at: int, first: int, width: int) -> Page:
    kind, unpacked, size = header.numbers(I32, 1, 2, 3)
    levels, packed = None, True
    if kind == _DATA_2:
        facts = header.get(8, STRUCTURE)
        count, gaps, lists, encoding, after, before = facts.numbers(I32, 1, 2, 3, 4, 5, 6)
        levels, packed = (before, after), facts.truth(7, usual=True)
        if gaps or lists != -(-(first + count) // width) + -first // width:
            raise Odd
    else:
        count, encoding, *stored = header.get(5, STRUCTURE).numbers(I32, 1, 2, 3, 4)
        if stored != [_RUNS, _RUNS]:
            raise Odd
    if not 0 < count <= _MOST_VALUES or unpacked < 0:
        raise Odd
    if levels and (min(levels) < 0 or sum(levels) > min(size, unpacked)):
        raise Odd
    return Page(at, size, unpacked, first, count, levels, packed, encoding == _PLAIN)


def _prefixed(data: memoryview) -> tuple[bytes, memoryview]:
    """Divide what begins with its length from what follows."""
    if len(data) < 4:
        raise Odd
    (size,) = struct.unpack_from("<I", data)
    return bytes(data[4 : 4 + size]), data[4 + size :]


@lru_cache(maxsize=256)
def _lists_begin_evenly(levels: bytes, count: int, phase: int, width: int) -> bool:
    """Whether a list begins every `width` numbers and nowhere else; pages of one size have the same levels.

    `phase`: how many numbers of the first list stand in the page before.
    """
    within = np.ones(count, np.uint8)
    within[-phase % width :: width] = 0
    return bool(_expanded(levels, count) == within.tobytes())


def _expanded(levels: bytes, count: int) -> bytes:
    """Return levels of one bit, a byte for each: runs of one value, or eight values to a byte."""
    found = bytearray()
    at = 0
    try:
        while len(found) < count:
            run, at = varint(levels, at)
            if run & 1:
                for byte in levels[at : at + (run >> 1)]:
                    found += _BITS[byte]
                if at + (run >> 1) > len(levels):
                    raise Odd
                at += run >> 1
            elif run >> 1 > count - len(found):
                raise Odd
            else:
                found += levels[at : at + 1] * (run >> 1)
                at += 1
            if not run >> 1:
                raise Odd
    except IndexError:
        raise Odd from None
    return bytes(found[:count])


def _all_there(levels: bytes, count: int, most: int) -> bool:
    """Whether one run of the highest level says that all numbers are there."""
    try:
        run, at = varint(levels, 0)
        return bool(not run & 1 and run >> 1 >= count and levels[at] == most)
    except IndexError:
        return False


def _decompressed(codec: str, stored: memoryview, size: int) -> Any:
    """Return what was compressed; it must be as long as is said: Arrow does not tell what it leaves out."""
    if codec == "gzip":
        unpacking = zlib.decompressobj(wbits=31)
        try:
            data = unpacking.decompress(stored, size + 1)
        except zlib.error:
            raise Odd from None
        if len(data) != size or not unpacking.eof or unpacking.unused_data:
            raise Odd
        return data
    if codec == "snappy" and _snappy_size(stored) != size:
        raise Odd
    return _codec(codec).decompress(stored, size)


def _snappy_size(stored: memoryview) -> int:
    try:
        return varint(bytes(stored[:10]), 0)[0]
    except IndexError:
        return -1


@lru_cache(maxsize=8)
def _codec(name: str) -> Any:
    return pa.Codec(name)
