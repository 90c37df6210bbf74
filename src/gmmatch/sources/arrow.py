"""Columns of embeddings: Parquet, Arrow IPC, Hugging Face datasets.

Their rows are decoded once, batch by batch, into plain float rows: in memory where they fit the cap,
else in a raw file in the cache that later passes (and later runs) map into memory.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import InvalidInput
from ..progress import task
from .base import Source

_BATCH_ROWS = 8192


@dataclass(frozen=True, eq=False)
class Columns:
    """Record batches that can be read once, and what is known before reading them.

    Attributes
    ----------
    name, kind
        What to call it in messages, and the kind of file.
    schema
        Its columns.
    n_rows
        Its rows.
    batches
        Function of column names that yields record batches, each with the name of its file.
    files
        The files behind it.
    stamp
        What identifies the content: a decoded copy with the same stamp is used again.
    """

    name: str
    kind: str
    schema: pa.Schema
    n_rows: int
    batches: Any
    files: tuple[str, ...]
    stamp: str


def open_columns(
    columns: Columns,
    embedding: str | None,
    labels: str | None,
    ids: str | None,
    memory: int,
    cache: Path,
) -> Source:
    """Decode the embedding column and load the ids and labels."""
    embedding = embedding or _only_list_column(columns)
    for wanted in (embedding, labels, ids):
        if wanted is not None and wanted not in columns.schema.names:
            listed = ", ".join(columns.schema.names)
            raise InvalidInput(f"{columns.name} has no column {wanted!r}; it has: {listed}")
    if columns.n_rows == 0:
        raise InvalidInput(f"{columns.name} has no rows")
    width, dtype = _width_and_type(columns, embedding)
    target: Path | None = None
    if columns.n_rows * width * dtype.itemsize > memory // 2:
        key = f"{columns.stamp} {embedding} {width} {dtype}"
        target = cache / f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}.npy"
    rows = _decode(columns, embedding, width, dtype, target)
    return Source(
        rows,
        columns.name,
        columns.kind,
        ids=None if ids is None else _plain_column(columns, ids),
        labels=None if labels is None else _plain_column(columns, labels),
        files=columns.files,
    )


def _only_list_column(columns: Columns) -> str:
    lists = [field.name for field in columns.schema if _list_type(field.type)]
    if len(lists) != 1:
        found = "no column" if not lists else "several columns"
        raise InvalidInput(
            f"{columns.name} has {found} of lists of numbers to take as embeddings; name one with"
            f" --embedding (it has: {', '.join(columns.schema.names)})"
        )
    return str(lists[0])


def _list_type(kind: pa.DataType) -> bool:
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(lists and (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)))


def _width_and_type(columns: Columns, embedding: str) -> tuple[int, np.dtype[Any]]:
    kind = columns.schema.field(embedding).type
    if not _list_type(kind):
        raise InvalidInput(
            f"column {embedding!r} of {columns.name} is of type {kind}; expected lists of numbers"
        )
    small = pa.types.is_float16(kind.value_type) or pa.types.is_float32(kind.value_type)
    dtype = np.dtype(np.float32 if small else np.float64)
    if pa.types.is_fixed_size_list(kind):
        return kind.list_size, dtype
    for _, batch in columns.batches([embedding]):
        for entry in batch.column(0):
            if entry.is_valid:
                return len(entry), dtype
    raise InvalidInput(f"column {embedding!r} of {columns.name} has no values")


def _decode(
    columns: Columns, embedding: str, width: int, dtype: np.dtype[Any], target: Path | None
) -> npt.NDArray[Any]:
    """Return the rows, in memory or mapped from `target`, which is written whole or not at all."""
    shape = (columns.n_rows, width)
    if target is None:
        rows = np.empty(shape, dtype)
        _fill(rows, columns, embedding)
        return rows
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f"{target.stem}.{os.getpid()}.partial")
        try:
            mapped = np.lib.format.open_memmap(partial, mode="w+", dtype=dtype, shape=shape)
            _fill(mapped, columns, embedding)
            mapped.flush()
            del mapped
            os.replace(partial, target)
        except OSError as error:
            raise InvalidInput(f"cannot decode {columns.name} into {target.parent}: {error}") from error
        finally:
            partial.unlink(missing_ok=True)
    decoded: npt.NDArray[Any] = np.load(target, mmap_mode="r", allow_pickle=False)
    return decoded


def _fill(rows: npt.NDArray[Any], columns: Columns, embedding: str) -> None:
    start = 0
    with task(f"reading {columns.name}", len(rows)) as advance:
        for file, batch in columns.batches([embedding]):
            part = _matrix(batch.column(0), rows.shape[1], embedding, file, start)
            if start + len(part) > len(rows):
                break
            rows[start : start + len(part)] = part
            start += len(part)
            advance(len(part))
    if start != len(rows):
        raise InvalidInput(f"{columns.name} changed while it was read: {len(rows)} rows were expected")


def _matrix(column: pa.Array, width: int, name: str, file: str, start: int) -> npt.NDArray[Any]:
    """Return a list column as a matrix, or say which row has no value or another length."""
    if column.null_count:
        row = start + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise InvalidInput(f"column {name!r} of {file} has no value at row {row}; expected {width} numbers")
    lengths = pa.compute.list_value_length(column).to_numpy(zero_copy_only=False)
    odd = np.flatnonzero(lengths != width)
    if odd.size:
        raise InvalidInput(
            f"column {name!r} of {file} has {lengths[odd[0]]} numbers at row {start + odd[0]};"
            f" expected {width}, as in the rows before"
        )
    values = column.flatten()
    if values.null_count:
        place = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise InvalidInput(
            f"column {name!r} of {file} has a missing number at row {start + place // width};"
            f" expected {width} numbers"
        )
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(column), width)


def _plain_column(columns: Columns, name: str) -> npt.NDArray[Any]:
    """Return a column of ids or labels as an array."""
    pieces = [batch.column(0) for _, batch in columns.batches([name])]
    column = pa.chunked_array([_readable(piece) for piece in pieces])
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise InvalidInput(
            f"column {name!r} of {columns.name} has no value in {column.null_count} rows (first: {row})"
        )
    array: npt.NDArray[Any] = column.to_numpy()
    return array.astype(str) if array.dtype.kind == "O" else array


def _readable(column: pa.Array) -> pa.Array:
    """Spell dictionary-encoded values out."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def parquet_columns(files: list[str], name: str, opener: Any) -> Columns:
    """Describe Parquet files of one schema; `opener` turns a name into something Arrow can read."""
    schema: pa.Schema | None = None
    counts, stamps = [], []
    for file in files:
        with _arrow_errors(file, "Parquet"), opener(file) as handle:
            reader = pq.ParquetFile(handle)
            if schema is not None and not reader.schema_arrow.equals(schema):
                raise InvalidInput(f"{file} has other columns than {files[0]}")
            schema = reader.schema_arrow
            counts.append(reader.metadata.num_rows)
            stamps.append(f"{file} {reader.metadata.serialized_size} {_stamp(file)}")

    def batches(names: list[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
        for file in files:
            with _arrow_errors(file, "Parquet"), opener(file) as handle:
                for batch in pq.ParquetFile(handle).iter_batches(_BATCH_ROWS, columns=names):
                    yield file, batch

    return Columns(name, "parquet", schema, sum(counts), batches, tuple(files), " ".join(stamps))


def ipc_columns(files: list[str], name: str, kind: str) -> Columns:
    """Describe Arrow IPC files or streams of one schema."""

    def read(file: str) -> Iterator[pa.RecordBatch]:
        with _arrow_errors(file, "Arrow"), pa.memory_map(file) as handle:
            try:
                reader = pa.ipc.open_file(handle)
                for number in range(reader.num_record_batches):
                    yield reader.get_batch(number)
            except pa.ArrowInvalid:
                handle.seek(0)
                yield from pa.ipc.open_stream(handle)

    schema, n_rows = None, 0
    for file in files:
        for batch in read(file):
            if schema is not None and not batch.schema.equals(schema):
                raise InvalidInput(f"{file} has other columns than {files[0]}")
            schema = batch.schema
            n_rows += batch.num_rows
    if schema is None:
        raise InvalidInput(f"{name} has no rows")

    def batches(names: list[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
        for file in files:
            for batch in read(file):
                yield file, batch.select(names)

    return Columns(name, kind, schema, n_rows, batches, tuple(files), " ".join(map(_stamp, files)))


def dataset_columns(dataset: Any) -> Columns:
    """Describe a `datasets.Dataset` object."""
    arrow = dataset.with_format("arrow")

    def batches(names: list[str]) -> Iterable[tuple[str, pa.RecordBatch]]:
        for table in arrow.select_columns(names).iter(_BATCH_ROWS):
            for batch in table.to_batches():
                yield "the dataset", batch

    schema = dataset.features.arrow_schema
    stamp = str(getattr(dataset, "_fingerprint", id(dataset)))
    return Columns("the dataset", "hugging-face", schema, len(dataset), batches, (), stamp)


@contextmanager
def _arrow_errors(file: str, kind: str) -> Iterator[None]:
    """Turn what Arrow raises on a damaged or missing file into one sentence."""
    try:
        yield
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {file}") from None
    except PermissionError:
        raise InvalidInput(f"{file} may not be read: permission denied") from None
    except (pa.ArrowException, OSError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(f"{file} is not a readable {kind} file: {first}") from None


def _stamp(file: str) -> str:
    try:
        facts = os.stat(file)
    except OSError:
        return file
    return f"{os.path.abspath(file)} {facts.st_size} {facts.st_mtime_ns}"
