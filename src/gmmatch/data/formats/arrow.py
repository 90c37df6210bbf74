"""Columns that Arrow reads where they are, as a table and as rows of numbers: Parquet and Arrow files."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...arrays import AnyArray, DType, FloatArray, IntArray, Rows
from ...errors import InvalidInput
from ...files import SHARDS
from ..dataset import Dataset, Entries
from ..remote import ask, file_stamp, is_http, is_remote, is_text, open_bytes, resumed, shown
from ..request import Place, Request, ending_of, refuse_bad
from ..spill import ForwardRows, rows_per_block
from .base import Format, file_errors, is_shards, npy_header
from .tables import Table, table_dataset

BATCH_ROWS = 8192
_HELD_BYTES = 128 << 20  # columns up to this size are decoded once, and held
_PACKED = ("bfloat16", "float16", "float32", "float64", "int8")
_BUFFER = 1 << 18  # bytes of Parquet that are read in one go
_FAR_BUFFER = 8 << 20  # behind an address, where each go is a request
_REQUEST_BYTES = 4 << 20  # of .npy


Part = tuple[int, pa.RecordBatch]
"""The number of the first row, and the rows."""


@dataclass(frozen=True, eq=False)
class File(ABC):
    """What Arrow reads from the front on: a file, or a part of a table in memory."""

    name: str
    n_rows: int
    travels: bool = field(default=True, kw_only=True)  # whether another process can read it
    # How columns become rows, and the number of the first row among all, once these are chosen.
    decoder: Decoder | None = field(default=None, kw_only=True)
    first: int = field(default=0, kw_only=True)

    @property
    @abstractmethod
    def begins(self) -> Sequence[int]:
        """The rows that reading can begin at without decoding others; 0 is the first."""

    @abstractmethod
    def read(self, names: list[str], start: int, stop: int, rows: int) -> Iterator[Part]:
        """Yield some columns, at most `rows` rows at a time, each part with the number of its first row.

        The first may begin before `start`, the last go on beyond `stop`; those of files are checked in full.
        """

    def batches(self, names: list[str], start: int, stop: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns between two rows, at most `rows` rows at a time."""
        for first, batch in self.read(names, start, stop, rows):
            skipped = max(start - first, 0)
            if skipped < batch.num_rows:
                yield batch.slice(skipped, stop - first - skipped)
            if first + batch.num_rows >= stop:
                return

    def check(self) -> None:
        """Refuse other content than what was described."""
        found = ask(self.name, _describe, self.name)[1].n_rows
        if found != self.n_rows:
            raise InvalidInput(f"{self.name} has {found} rows; expected {self.n_rows}")

    def blocks(self, start: int, stop: int) -> Iterator[FloatArray]:
        """Yield the rows between two; where a connection is lost, the rest is requested again."""
        decoder = self.decoder
        assert decoder is not None
        size = rows_per_block(decoder.width * np.dtype(decoder.dtype).itemsize)

        def blocks(at: int) -> Iterator[FloatArray]:
            for batch in self.batches(list(decoder.names), at, stop, size):
                yield decoder.rows(batch, self.first + at)
                at += batch.num_rows

        return resumed(self.name, blocks, start, stop)


class Columns(Table):
    """A table that Arrow reads in chunks, and what its schema says before anything is read."""

    def __init__(self, name: str, schema: pa.Schema, files: Sequence[File], base: Path | None = None) -> None:
        twice, times = Counter(schema.names).most_common(1)[0] if schema.names else ("", 0)
        if times > 1:
            raise InvalidInput(f"{name} has {times} columns called {twice!r}; expected one of each name")
        self.name, self.names, self.base = name, tuple(schema.names), base
        self.schema, self.files = schema, files
        self.sizes = tuple(file.n_rows for file in files)
        self.n_rows = sum(self.sizes)
        self.lists = tuple(field.name for field in schema if _is_list(field.type) or _packed(field))
        self.numbers = tuple(field.name for field in schema if _is_number(field.type))

    def batches(self, names: list[str], start: int = 0, stop: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows between two, in order, some thousand at a time."""
        begin, stop = 0, self.n_rows if stop is None else stop
        for file in self.files:
            first, last = max(start - begin, 0), min(stop - begin, file.n_rows)
            if first < last:
                yield from file.batches(names, first, last, BATCH_ROWS)
            begin += file.n_rows

    def values(self, name: str, start: int = 0, stop: int | None = None) -> Entries:
        """Return values of a column."""
        parts = [batch.column(0) for batch in self.batches([name], start, stop)]
        if parts and pa.types.is_integer(parts[0].type) and not any(part.null_count for part in parts):
            return np.concatenate([plain_numbers(part) for part in parts])
        return [value for part in parts for value in part.to_pylist()]

    def rows(self, names: Sequence[str], request: Request) -> tuple[Rows, dict[int, str]]:
        """Return the rows that columns hold, decoded as they are read or, where they are few, in memory."""
        decoder = _decoder(self, names, request.drop)
        begins = itertools.accumulate(self.sizes, initial=0)
        shards = [
            replace(file, decoder=decoder, first=first)
            for file, first in zip(self.files, begins, strict=False)
            if file.n_rows
        ]
        size = self.n_rows * decoder.width * np.dtype(decoder.dtype).itemsize
        if size > min(_HELD_BYTES, request.memory // 2):
            return ForwardRows(shards, decoder.width, decoder.dtype), {}
        held = np.concatenate([block for shard in shards for block in shard.blocks(0, shard.n_rows)])
        bad = np.flatnonzero(np.isnan(held).any(1)).tolist() if request.drop else []
        return held, dict.fromkeys(bad, f"no number in column {names[0]!r}")

    def take(self, rows: IntArray) -> pa.Table:
        """Return some rows with all their columns, in the order requested."""
        order = np.argsort(rows, kind="stable")
        wanted, taken, start = rows[order], [], 0
        for batch in self.batches(list(self.names)):
            low, high = np.searchsorted(wanted, (start, start + batch.num_rows))
            taken.append(batch.take(pa.array(wanted[low:high] - start)))
            start += batch.num_rows
        return pa.Table.from_batches(taken).take(pa.array(np.argsort(order)))

    def write(self, rows: IntArray, folder: Path) -> None:
        """Write some rows, with all their columns, as Parquet."""
        with (folder / "kept.parquet").open("wb") as file:  # whose name may be none that Arrow opens
            pq.write_table(self.take(rows), file)


@dataclass(frozen=True)
class Decoder:
    """How columns become rows: a column of lists, perhaps with one of scales, or one column per feature."""

    names: tuple[str, ...]
    width: int
    dtype: str
    where: str
    drop: bool  # whether rows without numbers are NaN; else they are refused
    of_lists: bool = False
    packed: str = ""  # type of numbers where the column does not name it: `bfloat16`, or of a binary column
    scale: float = 1.0  # that whole numbers are multiplied by

    def rows(self, batch: pa.RecordBatch, start: int) -> FloatArray:
        """Return the rows of a batch that begins at row `start`, NaN where there are no numbers."""
        bad: dict[int, str] = {}
        column, name = batch.column(0), self.names[0]
        rows: FloatArray
        if not self.of_lists:
            rows = np.empty((batch.num_rows, self.width), self.dtype)
            for place, name in enumerate(self.names):
                column = batch.column(place)
                rows[:, place] = column.to_numpy(zero_copy_only=False)
                for row in _nulls(column):
                    bad.setdefault(start + row, f"no number in column {name!r}")
        else:
            if pa.types.is_fixed_size_binary(column.type):
                bad |= {start + row: f"no value in column {name!r}" for row in _nulls(column)}
                size = column.type.byte_width
                begin = column.offset * size
                content = np.frombuffer(column.buffers()[1], np.uint8)[begin : begin + size * len(column)]
                kind = "uint16" if self.packed == "bfloat16" else self.packed
                matrix: AnyArray = content.reshape(len(column), size).view(kind)
            else:
                matrix = list_matrix(column, self.width, name, start, bad)
            if self.packed == "bfloat16":
                matrix = (matrix.astype(np.uint32) << 16).view(np.float32)
            rows = matrix.astype(self.dtype, copy=False)
            if len(self.names) > 1:
                rows = rows * batch.column(1).to_numpy(zero_copy_only=False).astype(self.dtype)[:, None]
            if self.scale != 1.0:
                rows = rows * np.dtype(self.dtype).type(self.scale)
            if bad:
                rows = rows.copy()
                rows[np.array(sorted(bad)) - start] = np.nan
        if bad and not self.drop:
            last = start + batch.num_rows - 1
            raise refuse_bad(bad, batch.num_rows, f"{self.where} (of rows {start} to {last})")
        return rows


def _decoder(columns: Columns, names: Sequence[str], drop: bool) -> Decoder:
    first = columns.schema.field(names[0])
    packed = _packed(first)
    if not (_is_list(first.type) or packed):
        small = all(_is_small(columns.schema.field(name).type) for name in names)
        return Decoder(tuple(names), len(names), "float32" if small else "float64", columns.name, drop)
    written = (first.metadata or {}).get(b"scale", b"1")
    try:
        scale = float(written)
    except ValueError:
        raise InvalidInput(f"the scale of column {names[0]!r} is {written!r}; expected a number") from None
    scales = [name for name in columns.names if name == f"{names[0]}_scale"]
    kind, scaled = None if packed else first.type.value_type, scale != 1.0 or bool(scales)
    small = packed != "float64" if packed else _is_small(kind) or (scaled and kind == pa.int8())
    dtype, width = "float32" if small else "float64", _width(columns, first, packed)
    return Decoder((names[0], *scales), width, dtype, columns.name, drop, True, packed, scale)


def _width(columns: Columns, entry: pa.Field, packed: str) -> int:
    if pa.types.is_fixed_size_list(entry.type) and entry.type.list_size:
        return int(entry.type.list_size)
    if pa.types.is_fixed_size_binary(entry.type) and entry.type.byte_width:
        return int(entry.type.byte_width) // (2 if packed == "bfloat16" else np.dtype(packed).itemsize)
    for batch in columns.batches([entry.name]):
        for value in batch.column(0):
            if value.is_valid and len(value):
                return len(value)
    raise InvalidInput(f"column {entry.name!r} of {columns.name} has no values")


def _is_list(kind: pa.DataType) -> bool:
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(lists and _is_number(kind.value_type))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _is_small(kind: pa.DataType) -> bool:
    return kind in (pa.float16(), pa.float32())


def _packed(entry: pa.Field) -> str:
    """Return the type of numbers that a column's metadata names, where the column itself cannot."""
    named: str = (entry.metadata or {}).get(b"dtype", b"").decode(errors="replace")
    if named == "bfloat16" and _is_list(entry.type) and entry.type.value_type == pa.uint16():
        return named
    return named if named in _PACKED and pa.types.is_fixed_size_binary(entry.type) else ""


def _nulls(column: pa.Array) -> list[int]:
    return np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist()


def plain_numbers(column: pa.Array) -> AnyArray:
    """Return numbers without gaps as they lie in memory; `to_numpy` imports pandas, where that is there."""
    kind = np.dtype(column.type.to_pandas_dtype())
    buffer = column.buffers()[1]
    if buffer is None:
        return np.empty(0, kind)
    return np.frombuffer(buffer, kind, len(column), column.offset * kind.itemsize)


def list_matrix(column: pa.Array, width: int, name: str, start: int, bad: dict[int, str]) -> AnyArray:
    """Return a list column as a matrix, NaN where a row has no list, another length or a missing number.

    `bad`: gets the reasons for such rows, of which the first has the number `start`.
    """
    if pa.types.is_fixed_size_list(column.type) and column.type.list_size == width and not column.null_count:
        values = column.values.slice(column.offset * width, len(column) * width)  # flatten() would copy
        if not values.null_count:
            return plain_numbers(values).reshape(len(column), width)
    lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(lengths != width).tolist():
        found = f"{lengths[row]} numbers in column {name!r}, expected {width}"
        bad[start + row] = f"no value in column {name!r}" if lengths[row] < 0 else found
    whole = lengths == width
    good = column if whole.all() else column.filter(pa.array(whole))
    values = good.flatten()
    numbers = np.flatnonzero(whole)
    for row in np.unique(np.array(_nulls(values), np.int64) // width).tolist():
        bad[start + int(numbers[row])] = f"a missing number in column {name!r}"
    matrix = np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(good), width)
    if whole.all():
        return matrix
    spread = np.full((len(column), width), np.nan)
    spread[whole] = matrix
    return spread


# ---- Arrow IPC ----


@dataclass(frozen=True, eq=False)
class ArrowFile(File):
    """One file or stream: its batches are mapped where that is possible, and checked before they are used."""

    ends: tuple[int, ...]  # rows up to the end of each batch

    @property
    def begins(self) -> Sequence[int]:
        """The first row of each batch."""
        return (0, *self.ends[:-1])

    def read(self, names: list[str], start: int, stop: int, rows: int) -> Iterator[Part]:
        """Yield some columns of each batch, in parts."""
        number = bisect_right(self.ends, start)
        with file_errors(self.name, "Arrow file"), _reading(self.name, names) as reader:
            for begin, batch in zip(self.begins[number:], _ipc_batches(reader, number), strict=False):
                batch.validate(full=True)  # before anybody looks at its buffers
                for at in range(max(start - begin, 0), batch.num_rows, rows):
                    yield begin + at, batch.select(names).slice(at, rows)


@contextmanager
def _reading(file: str, names: list[str] | None = None) -> Iterator[Any]:
    """Open a file or a stream, of which only some columns are read if they are named."""
    near = not is_remote(file) and is_text(file)
    with pa.memory_map(file) if near else open_bytes(file) as handle:
        reader = _reader(handle)
        if names is not None:
            fields = [reader.schema.get_field_index(name) for name in names]
            reader = _reader(handle, pa.ipc.IpcReadOptions(included_fields=fields))
        yield reader


def _reader(handle: Any, options: pa.ipc.IpcReadOptions | None = None) -> Any:
    handle.seek(0)
    try:
        return pa.ipc.open_file(handle, options=options)
    except pa.ArrowInvalid:
        handle.seek(0)
        return pa.ipc.open_stream(handle, options=options)


def _ipc_batches(reader: Any, first: int = 0) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, pa.ipc.RecordBatchFileReader):
        return (reader.get_batch(number) for number in range(first, reader.num_record_batches))
    return itertools.islice(reader, first, None)


# ---- Parquet ----


@dataclass(frozen=True, eq=False)
class ParquetFile(File):
    """One file: its row groups are read from the front on, those before the first row wanted not at all."""

    stamp: str

    @property
    def begins(self) -> Sequence[int]:
        """The first row of each row group; on the web, where an answer goes on to its end, of the file."""
        return [0] if is_http(self.name) else [0, *ask(self.name, _footer, self.name, self.stamp)[1][:-1]]

    def read(self, names: list[str], start: int, stop: int, rows: int) -> Iterator[Part]:
        """Yield some columns of the row groups, each batch checked in full."""
        far = is_remote(self.name)
        with file_errors(self.name, "Parquet file"), open_bytes(self.name) as handle:
            metadata, ends = _footer(self.name, self.stamp)
            groups = range(bisect_right(ends, start), bisect_left(ends, stop) + 1)
            at = [0, *ends][groups[0]]
            for run in _runs(metadata, groups) if far else [list(groups)]:
                # Small row groups behind an address are requested together, large ones bit by bit.
                reader = pq.ParquetFile(
                    handle,
                    metadata=metadata,
                    buffer_size=_FAR_BUFFER if far else _BUFFER,
                    pre_buffer=len(run) > 1 and far,
                )
                for batch in reader.iter_batches(rows, row_groups=run, columns=names, use_threads=False):
                    batch.validate(full=True)
                    yield at, batch.select(names)
                    at += batch.num_rows


def _runs(metadata: pq.FileMetaData, groups: Sequence[int]) -> Iterator[list[int]]:
    """Put row groups together that are a few megabytes."""
    run: list[int] = []
    size = 0
    for number in groups:
        group_size = metadata.row_group(number).total_byte_size
        if run and size + group_size > _FAR_BUFFER:
            yield run
            run, size = [], 0
        run.append(number)
        size += group_size
    yield run


@lru_cache(maxsize=256)
def _footer(file: str, stamp: str) -> tuple[pq.FileMetaData, list[int]]:
    """Return the metadata of a file, and the row after each row group; read once for each content."""
    with file_errors(file, "Parquet file"):
        with open_bytes(file) as handle:
            metadata = pq.read_metadata(handle)
        groups = map(metadata.row_group, range(metadata.num_row_groups))
        ends = list(itertools.accumulate(group.num_rows for group in groups))
    n_rows = ends[-1] if ends else 0
    if n_rows != metadata.num_rows:
        raise InvalidInput(f"{file} is damaged: {metadata.num_rows} rows are claimed, and it holds {n_rows}")
    return metadata, ends


# ---- .npy behind an address ----


@dataclass(frozen=True, eq=False)
class NpyFile(File):
    """Rows that any span is requested of; `offset`: byte where they begin; `step`: rows of a request."""

    width: int
    kind: DType
    offset: int
    step: int

    @property
    def begins(self) -> Sequence[int]:
        """Any row; on the web, where an answer goes on to its end, the first one."""
        return [0] if is_http(self.name) else range(0, self.n_rows, self.step)

    def read(self, names: list[str], start: int, stop: int, rows: int) -> Iterator[Part]:
        """Yield the rows of each request."""
        size = self.width * self.kind.itemsize
        with file_errors(self.name, ".npy file"), open_bytes(self.name) as handle:
            handle.seek(self.offset + start * size)
            for at in range(start, stop, self.step):
                content = handle.read(min(self.step, stop - at) * size)
                if len(content) < min(self.step, stop - at) * size:
                    raise InvalidInput(f"{shown(self.name)} is shorter than it says")
                values = np.frombuffer(content, self.kind).astype(_native(self.kind), copy=False)
                lists = pa.FixedSizeListArray.from_arrays(pa.array(values), self.width)
                batch = pa.record_batch([lists], names)
                yield from ((at + first, batch.slice(first, rows)) for first in range(0, len(batch), rows))


def _native(kind: DType) -> DType:
    """Return the type that holds numbers of another order of bytes, or truth values, as Arrow has them."""
    return np.dtype(np.uint8) if kind.kind == "b" else kind.newbyteorder("=")


def _describe_npy(file: str) -> tuple[pa.Schema, File]:
    with file_errors(file, ".npy file"), open_bytes(file) as handle:
        shape, by_column, kind = npy_header(handle)
        offset = handle.tell()
    if len(shape) != 2 or by_column or kind.kind not in "fiub" or 0 in shape:
        raise InvalidInput(f"{shown(file)} holds {kind} of shape {shape}; expected rows of numbers")
    schema = pa.schema({"embeddings": pa.list_(pa.from_numpy_dtype(_native(kind)), shape[1])})
    step = max(1, _REQUEST_BYTES // (shape[1] * kind.itemsize))
    return schema, NpyFile(file, shape[0], shape[1], kind, offset, step)


# ---- all three ----


def _describe(file: str) -> tuple[pa.Schema, File]:
    """Return the schema of a file, and what reads it."""
    kind = SHARDS.get(ending_of(file))
    if kind == "npy":
        return _describe_npy(file)
    if kind == "parquet":
        stamp = file_stamp(file)
        metadata, _ = _footer(file, stamp)
        return metadata.schema.to_arrow_schema(), ParquetFile(file, metadata.num_rows, stamp)
    with file_errors(file, "Arrow file"), _reading(file) as reader:
        ends = tuple(itertools.accumulate(batch.num_rows for batch in _ipc_batches(reader)))
        return reader.schema, ArrowFile(file, ends[-1] if ends else 0, ends)


def file_columns(files: Sequence[str], name: str, base: Path | None = None) -> Columns:
    """Describe files of Parquet or Arrow, or of rows behind addresses, of one schema."""
    described = [ask(file, _describe, file) for file in files]
    for schema, file in described:
        if not schema.equals(described[0][0]):
            what = "rows of another width or type" if isinstance(file, NpyFile) else "other columns"
            raise InvalidInput(f"{shown(file.name)} has {what} than {shown(files[0])}")
    return Columns(name, described[0][0], [file for _, file in described], base)


def _open(kind: str, place: Place, request: Request) -> Dataset:
    place = place.of_kind(kind)
    columns = file_columns(place.files, place.name, place.base)
    return table_dataset(columns, request, kind, place.files).replace(sizes=columns.sizes)


def _write_ipc(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    kept = file_columns(dataset.files, dataset.name).take(rows)
    with (folder / "kept.arrow").open("wb") as file, pa.ipc.new_file(file, kept.schema) as writer:
        writer.write_table(kept)


PARQUET = Format(
    "parquet",
    partial(is_shards, kind="parquet"),
    partial(_open, "parquet"),
    lambda dataset, rows, folder: file_columns(dataset.files, dataset.name).write(rows, folder),
)
ARROW = Format("arrow", partial(is_shards, kind="arrow"), partial(_open, "arrow"), _write_ipc)
