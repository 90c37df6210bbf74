"""The numbers in a Parquet file's column of lists, copied from its pages as they are stored.

Parquet stores the numbers of lists one after the other, in *pages* of about a megabyte, and beside each
number two *levels*, which say where a list begins and what is missing. Arrow builds lists from the levels of
every number, which takes longer than all the rest. Where the lists of a row group are all of one length and
nothing is missing, the levels repeat themselves: it is enough to see that they do. Numbers that are not
stored so (few different ones, lists of several lengths, gaps) are left to Arrow.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_DTYPES = {pa.float16(): "<f2", pa.float32(): "<f4", pa.float64(): "<f8"}
_CODECS = {"UNCOMPRESSED": None, "SNAPPY": "snappy", "ZSTD": "zstd", "GZIP": "gzip"}
_HEADER_BYTES = 512  # more than the header of a page of numbers takes
_MOST_BYTES = 2**31 - 1
_PLAIN = 0
_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3  # kinds of pages
_NESTED = 8  # structures in structures, at most
_BITS = [bytes(byte >> bit & 1 for bit in range(8)) for byte in range(256)]


class Odd(Exception):
    """A page that is not stored as plain numbers in lists of one length."""


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
        return memoryview(_codec(self.codec).decompress(stored, size))


def plain_column(handle: Any, facts: Any, group: int, name: str) -> PlainColumn | None:
    """Return the pages of a column in a row group; None where they are to be read by Arrow.

    `handle`: the open file. `facts`: what the end of the file says of it.
    """
    found, schema = facts.row_group(group), facts.schema.to_arrow_schema()
    places = [at for at in range(found.num_columns) if found.column(at).path_in_schema.split(".")[0] == name]
    if len(places) != 1 or schema.get_field_index(name) < 0:
        return None
    entry = schema.field(name)
    column, levels = found.column(places[0]), facts.schema.column(places[0])
    dtype = _DTYPES.get(getattr(entry.type, "value_type", None))
    width, rest = divmod(column.num_values, max(found.num_rows, 1))
    if pa.types.is_fixed_size_list(entry.type) and entry.type.list_size != width:
        return None
    if dtype is None or levels.max_repetition_level != 1 or rest or not width:
        return None
    if column.compression not in _CODECS:
        return None
    begin = column.data_page_offset
    if column.dictionary_page_offset is not None:
        begin = min(begin, column.dictionary_page_offset)
    end = begin + column.total_compressed_size
    if not 0 <= begin <= end <= handle.seek(0, os.SEEK_END):  # what is claimed is not there
        return None
    try:
        pages = _pages(handle, begin, end, column.num_values, np.dtype(dtype).itemsize)
    except (Odd, IndexError, OSError):
        return None
    if not pages[-1].plain:
        return None
    own, codec = pa.schema([entry], schema.metadata), _CODECS[column.compression]
    return PlainColumn(pages, own, width, dtype, codec, levels.max_definition_level)


def _pages(handle: Any, at: int, end: int, n_values: int, item: int) -> list[Page]:
    """Return where the numbers of a column are, from the headers of its pages."""
    pages: list[Page] = []
    first = 0
    while at < end:
        handle.seek(at)
        stored = handle.read(min(_HEADER_BYTES, end - at))
        header, size = _structure(stored, 0)
        kind, unpacked, size, at = *_numbers(header, 1, 2, 3), at + size
        if not 0 <= size <= end - at:
            raise Odd
        if kind in (_DATA, _DATA_2):
            page = _data_page(header, at, first)
            # What a page may take, decompressed, follows from its numbers, and is told in 32 bits.
            most = min(page.count * (item + 2) + _HEADER_BYTES, _MOST_BYTES)
            if page.count > n_values - first or unpacked > most:
                raise Odd
            pages.append(page)
            first += page.count
        elif kind != _DICTIONARY:
            raise Odd
        at += size
    if first != n_values:
        raise Odd
    return pages


def _data_page(header: dict[int, Any], at: int, first: int) -> Page:
    kind, unpacked, size = _numbers(header, 1, 2, 3)
    facts = header.get(8 if kind == _DATA_2 else 5)
    if not isinstance(facts, dict):
        raise Odd
    levels = None
    if kind == _DATA_2:
        count, encoding, after, before = _numbers(facts, 1, 4, 5, 6)
        levels = before, after
    else:
        count, encoding = _numbers(facts, 1, 2)
    if count < 1 or unpacked < 0 or (levels and (min(levels) < 0 or sum(levels) > min(size, unpacked))):
        raise Odd
    return Page(at, size, unpacked, first, count, levels, facts.get(7) is not False, encoding == _PLAIN)


def _numbers(fields: dict[int, Any], *wanted: int) -> list[int]:
    found = [fields.get(number) for number in wanted]
    if not all(type(value) is int for value in found):
        raise Odd
    return found  # type: ignore[return-value]


def _structure(stored: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Return the fields of a structure in Thrift's compact form, by number, and where it ends.

    Of fields other than whole numbers, truths and structures nothing is returned.
    """
    fields: dict[int, Any] = {}
    number = 0
    if depth > _NESTED:
        raise Odd
    while stored[at]:
        step, kind = stored[at] >> 4, stored[at] & 15
        at += 1
        if step:
            number += step
        else:
            number, at = _whole(stored, at)
        if kind in (1, 2):
            fields[number] = kind == 1
        elif kind in (4, 5, 6):
            fields[number], at = _whole(stored, at)
        elif kind == 8:
            size, at = _varint(stored, at)
            at += size
        elif kind == 12:
            fields[number], at = _structure(stored, at, depth + 1)
        else:
            raise Odd
    return fields, at + 1


def _whole(stored: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(stored, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(stored: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = stored[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


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
    within = np.arange(phase, phase + count) % width != 0
    return bool(_expanded(levels, count) == within.astype(np.uint8).tobytes())


def _expanded(levels: bytes, count: int) -> bytes:
    """Return levels of one bit, a byte for each: runs of one value, or eight values to a byte."""
    found = bytearray()
    at = 0
    try:
        while len(found) < count:
            run, at = _varint(levels, at)
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
        run, at = _varint(levels, 0)
        return bool(not run & 1 and run >> 1 >= count and levels[at] == most)
    except IndexError:
        return False


@lru_cache(maxsize=8)
def _codec(name: str) -> Any:
    return pa.Codec(name)
