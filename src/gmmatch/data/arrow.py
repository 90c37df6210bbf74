"""Columns that Arrow reads where they are: Parquet, Arrow IPC, Hugging Face datasets, tables in memory."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..arrays import FloatArray
from ..errors import InvalidInput, first_line
from .http import shown
from .remote import LOST, Lost, is_remote, patiently, remote_stamp
from .request import Request, refuse_bad
from .spill import ForwardRows, Source, rows_per_block
from .tables import Table, list_matrix, plain_numbers

BATCH_ROWS = 8192
_HELD_BYTES = 128 << 20  # columns up to this size are decoded once, and held
_NO_ROWS = np.empty((0, 0))


class File(Source, Protocol):
    """What Arrow reads from the front on."""

    @property
    def name(self) -> str:
        """What to call it."""

    def batches(self, names: list[str], start: int, stop: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns between two rows, `rows` at a time, each batch checked in full.

        The last batch may go on beyond `stop`.
        """


@dataclass(frozen=True, eq=False)
class InMemory:
    """A table that is in memory, or that a library maps: `read` returns columns between two rows."""

    name: str
    n_rows: int
    read: Callable[[list[str], int, int], pa.Table]
    travels: bool = False

    @property
    def begins(self) -> Sequence[int]:
        """Any row."""
        return range(0, self.n_rows, BATCH_ROWS)

    def check(self) -> None:
        """Nothing could have changed."""

    def batches(self, names: list[str], start: int, stop: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns."""
        for first in range(start, stop, rows):
            part = self.read(names, first, min(first + rows, stop)).combine_chunks()
            yield from part.to_batches()


@dataclass(frozen=True, eq=False)
class Columns:
    """A source that Arrow reads in pieces, and what its schema says before anything is read."""

    name: str
    schema: pa.Schema
    files: Sequence[File]
    base: Path | None = None  # the folder that relative paths of images begin at

    @property
    def n_rows(self) -> int:
        """All rows."""
        return sum(file.n_rows for file in self.files)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The rows of each file."""
        return tuple(file.n_rows for file in self.files)

    def batches(self, names: list[str], start: int = 0, stop: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows between two, in order, some thousand at a time."""
        begin, stop = 0, self.n_rows if stop is None else stop
        for file in self.files:
            at, end = max(start - begin, 0), min(stop - begin, file.n_rows)
            if at < end:
                for batch in file.batches(names, at, end, BATCH_ROWS):
                    yield batch.slice(0, end - at)
                    at += batch.num_rows
                    if at >= end:
                        break
            begin += file.n_rows


def arrow_table(columns: Columns) -> Table:
    """Return the columns as a table whose values are read when they are asked for."""
    schema = columns.schema
    twice, times = Counter(schema.names).most_common(1)[0] if schema.names else ("", 0)
    if times > 1:
        raise InvalidInput(f"{columns.name} has {times} columns called {twice!r}; expected one of each name")

    def read(name: str, start: int, stop: int) -> Any:
        parts = [batch.column(0) for batch in columns.batches([name], start, stop)]
        if pa.types.is_integer(schema.field(name).type) and not any(part.null_count for part in parts):
            return np.concatenate([plain_numbers(part) for part in parts] or [_NO_ROWS[0:]])
        return [value for part in parts for value in part.to_pylist()]

    return Table(
        columns.name,
        tuple(schema.names),
        columns.n_rows,
        read,
        base=columns.base,
        lists=tuple(entry.name for entry in schema if _is_list(entry.type) or _packed(entry)),
        numbers=tuple(entry.name for entry in schema if _is_number(entry.type)),
        vectors=lambda name, request: _rows(columns, [name], request),
        features=lambda names, request: _rows(columns, names, request),
    )


@dataclass(frozen=True)
class Decoder:
    """How columns become rows: a column of lists, or one column per feature."""

    names: tuple[str, ...]
    width: int
    dtype: str
    packed: str  # type of the numbers where the column does not say so: `bfloat16`, or of a binary column
    scale: float  # that whole numbers are to be multiplied by
    scales: str | None  # column with a scale for each row
    where: str
    drop: bool  # whether rows without numbers are NaN; else they are refused

    def rows(self, batch: pa.RecordBatch, start: int) -> FloatArray:
        """Return the rows of a batch that begins at row `start`, NaN where there are no numbers."""
        bad: dict[int, str] = {}
        if len(self.names) > 1 or not (_is_list(batch.column(0).type) or self.packed):
            rows = np.empty((batch.num_rows, self.width), self.dtype)
            for place, name in enumerate(self.names):
                column = batch.column(place)
                rows[:, place] = column.to_numpy(zero_copy_only=False)
                for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
                    bad.setdefault(start + row, f"no number in column {name!r}")
        else:
            rows = self._unpacked(batch, start, bad)
        if bad and not self.drop:
            last = start + batch.num_rows - 1
            raise refuse_bad(bad, batch.num_rows, f"{self.where} (of rows {start} to {last})")
        return rows

    def _unpacked(self, batch: pa.RecordBatch, start: int, bad: dict[int, str]) -> FloatArray:
        column, name = batch.column(0), self.names[0]
        if pa.types.is_fixed_size_binary(column.type):
            bad |= {start + int(row): f"no value in column {name!r}"
                    for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))}  # fmt: skip
            kind = "uint16" if self.packed == "bfloat16" else self.packed
            size = column.type.byte_width
            begin = column.offset * size
            values = np.frombuffer(column.buffers()[1], np.uint8)[begin : begin + size * len(column)]
            matrix = values.reshape(len(column), size).view(kind)
        else:
            matrix = list_matrix(column, self.width, name, start, bad)
        if self.packed == "bfloat16":
            matrix = (matrix.astype(np.uint32) << 16).view(np.float32)
        rows = matrix.astype(self.dtype, copy=False)
        if self.scales is not None:
            rows = rows * batch.column(1).to_numpy(zero_copy_only=False).astype(self.dtype)[:, None]
        if self.scale != 1.0:
            rows = rows * np.dtype(self.dtype).type(self.scale)
        if bad:
            rows = rows.copy()
            rows[np.array(sorted(bad)) - start] = np.nan
        return rows


@dataclass(frozen=True, eq=False)
class ColumnShard:
    """The rows that columns of a file hold."""

    file: File
    decoder: Decoder
    first: int  # number of its first row among all

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return self.file.n_rows

    @property
    def begins(self) -> Sequence[int]:
        """The rows that reading can begin at without decoding others."""
        return self.file.begins

    @property
    def travels(self) -> bool:
        """Whether another process can read it."""
        return self.file.travels

    def check(self) -> None:
        """Refuse other content than what was described."""
        self.file.check()

    def blocks(self, start: int, stop: int) -> Iterator[FloatArray]:
        """Yield the rows between two; where a connection is lost, the rest is asked for again."""
        decoder, at = self.decoder, start
        names = [*decoder.names, *([decoder.scales] if decoder.scales else [])]
        size = rows_per_block(decoder.width * np.dtype(decoder.dtype).itemsize)
        for attempt in patiently(self.file.name):
            try:
                for batch in self.file.batches(names, at, stop, size):
                    rows = decoder.rows(batch.slice(0, stop - at), self.first + at)
                    at += len(rows)
                    attempt.succeeded()
                    yield rows
                    if at == stop:
                        return
                break
            except LOST as error:
                attempt.failed(error)
        raise InvalidInput(f"{self.file.name} changed while it was read: {self.n_rows} rows were expected")


def _rows(columns: Columns, names: Sequence[str], request: Request) -> tuple[Any, dict[int, str]]:
    """Return the rows that columns hold, decoded as they are read or, where they are few, held in memory."""
    decoder = _decoder(columns, names, request.drop)
    begins = np.cumsum([0, *(file.n_rows for file in columns.files)]).tolist()
    shards = [
        ColumnShard(file, decoder, first) for file, first in zip(columns.files, begins, strict=False)
        if file.n_rows
    ]  # fmt: skip
    rows = ForwardRows(shards, decoder.width, decoder.dtype)
    if rows.nbytes > min(_HELD_BYTES, request.memory // 2):
        return rows, {}
    held = np.concatenate([block for shard in shards for block in shard.blocks(0, shard.n_rows)])
    bad: dict[int, str] = {}
    if request.drop:
        bad = {int(row): f"no number in column {names[0]!r}" for row in np.flatnonzero(np.isnan(held).any(1))}
    return held, bad


def _decoder(columns: Columns, names: Sequence[str], drop: bool) -> Decoder:
    schema, first = columns.schema, columns.schema.field(names[0])
    many = len(names) > 1 or not (_is_list(first.type) or _packed(first))
    kinds = [schema.field(name).type for name in names] if many else [getattr(first.type, "value_type", None)]
    packed = "" if many else _packed(first)
    facts = first.metadata or {}
    try:
        scale = float(facts.get(b"scale", b"1")) if not many else 1.0
    except ValueError:
        raise InvalidInput(
            f"the scale of column {names[0]!r} is {facts[b'scale']!r}; expected a number"
        ) from None
    scales = f"{names[0]}_scale" if not many and f"{names[0]}_scale" in schema.names else None
    small = packed not in ("float64", "") or all(kind is not None and _is_small(kind) for kind in kinds)
    small = small or ((scale != 1.0 or scales is not None) and kinds[0] == pa.int8())
    width = len(names) if many else _width(columns, first, packed)
    return Decoder(
        tuple(names), width, "float32" if small else "float64", packed, scale, scales, columns.name, drop
    )


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
    return bool(pa.types.is_float16(kind) or pa.types.is_float32(kind))


def _packed(entry: pa.Field) -> str:
    """Return the type of numbers that a column's metadata names, where the column itself cannot."""
    named: str = (entry.metadata or {}).get(b"dtype", b"").decode(errors="replace")
    if named == "bfloat16" and _is_list(entry.type) and entry.type.value_type == pa.uint16():
        return named
    known = named in ("bfloat16", "float16", "float32", "float64", "int8")
    return named if known and pa.types.is_fixed_size_binary(entry.type) else ""


@contextmanager
def arrow_errors(file: str, kind: str) -> Iterator[None]:
    """Turn what Arrow raises on a damaged or missing file into one sentence."""
    try:
        yield
    except FileNotFoundError:
        if is_remote(file):
            raise Lost("404") from None
        raise InvalidInput(f"there is no file {file}") from None
    except PermissionError:
        raise InvalidInput(f"{file} may not be read: permission denied") from None
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        if isinstance(error, InvalidInput):
            raise
        if is_remote(file) and isinstance(error, OSError):
            raise Lost(first_line(error)) from None
        raise InvalidInput(
            f"{shown(file)} is not a readable {kind} file: {first_line(error)[:300]}"
        ) from None


def file_stamp(file: str) -> str:
    """Return what changes when a file does."""
    if is_remote(file):
        return remote_stamp(file)
    try:
        facts = os.stat(file)
    except OSError:
        return file
    return f"{os.path.abspath(file)} {facts.st_size} {facts.st_mtime_ns}"


def take_table(pieces: Iterable[pa.Table], rows: npt.NDArray[np.int64]) -> pa.Table:
    """Return some rows of tables that follow each other, in the order asked for."""
    order = np.argsort(rows, kind="stable")
    wanted = rows[order]
    taken, start = [], 0
    for table in pieces:
        here = wanted[(wanted >= start) & (wanted < start + table.num_rows)] - start
        taken.append(table.take(pa.array(here)))
        start += table.num_rows
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_tables(taken).take(pa.array(back))
