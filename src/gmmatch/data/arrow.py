"""Columns that Arrow reads: Parquet, Arrow IPC, Hugging Face datasets, tables in memory.

Embeddings are decoded once, batch by batch, into plain float rows: in memory where they fit the cap,
else in a raw file in the cache that later passes (and later runs) map into memory.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..errors import InvalidInput
from ..files import make_folder, whole_file
from ..progress import task
from .request import Request
from .tables import Table, list_matrix

BATCH_ROWS = 8192


@dataclass(frozen=True, eq=False)
class Columns:
    """What Arrow can read piece by piece, and what is known before reading it."""

    name: str
    schema: pa.Schema  # its columns
    piece_rows: Sequence[int]  # rows of each piece
    # Function of a piece's number and column names that returns a table.
    read_piece: Callable[[int, list[str]], pa.Table]
    stamp: str  # what identifies the content: a decoded copy with the same stamp is used again
    base: Path | None = None  # the folder that relative paths of images begin at

    # Function of column names that yields record batches in order, where pieces are too large to read whole.
    stream: Callable[[list[str]], Iterator[pa.RecordBatch]] | None = None

    @property
    def n_rows(self) -> int:
        """All rows."""
        return sum(self.piece_rows)

    def batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order, some thousand at a time."""
        if self.stream is not None:
            yield from self.stream(names)
            return
        for index in range(len(self.piece_rows)):
            yield from self.read_piece(index, names).to_batches()


def arrow_table(columns: Columns) -> Table:
    """Return the columns as a table whose values are read piece by piece."""
    starts = np.cumsum([0, *columns.piece_rows]).tolist()
    held: dict[str, tuple[int, list[Any]]] = {}

    def piece(name: str, index: int) -> list[Any]:
        if name not in held or held[name][0] != index:
            held[name] = (index, columns.read_piece(index, [name]).column(0).to_pylist())
        return held[name][1]

    def read(name: str, start: int, stop: int) -> list[Any]:
        found: list[Any] = []
        for index, first in enumerate(starts[:-1]):
            if first < stop and starts[index + 1] > start:
                found += piece(name, index)[max(start - first, 0) : stop - first]
        return found

    def floats(name: str) -> npt.NDArray[Any]:
        kind = columns.schema.field(name).type
        small = pa.types.is_float16(kind) or pa.types.is_float32(kind)
        parts = [batch.column(0).to_numpy(zero_copy_only=False) for batch in columns.batches([name])]
        return np.concatenate(parts).astype(np.float32 if small else np.float64)

    return Table(
        columns.name,
        tuple(columns.schema.names),
        columns.n_rows,
        read,
        base=columns.base,
        lists=tuple(entry.name for entry in columns.schema if _is_list(entry.type)),
        numbers=tuple(entry.name for entry in columns.schema if _is_number(entry.type)),
        vectors=lambda name, request: decode(columns, name, request),
        floats=floats,
    )


def decode(columns: Columns, embedding: str, request: Request) -> tuple[npt.NDArray[Any], dict[int, str]]:
    """Return the rows of a column of lists, in memory or mapped from the cache, and why rows have none."""
    width, dtype = _width_and_type(columns, embedding)
    shape = (columns.n_rows, width)
    if columns.n_rows * width * dtype.itemsize <= request.memory // 2:
        rows = np.empty(shape, dtype)
        return rows, _fill(rows, columns, embedding, request.drop)
    key = f"{columns.stamp} {embedding} {width} {dtype} {request.drop}"
    target = request.cache / f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}.npy"
    bad: dict[int, str] = {}
    if not target.exists():
        make_folder(request.cache)
        with whole_file(target) as partial:
            mapped = np.lib.format.open_memmap(partial, mode="w+", dtype=dtype, shape=shape)
            bad = _fill(mapped, columns, embedding, request.drop)
            mapped.flush()
            del mapped
    decoded: npt.NDArray[Any] = np.load(target, mmap_mode="r", allow_pickle=False)
    return decoded, bad


def _is_list(kind: pa.DataType) -> bool:
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(lists and _is_number(kind.value_type))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _width_and_type(columns: Columns, embedding: str) -> tuple[int, np.dtype[Any]]:
    kind = columns.schema.field(embedding).type
    small = pa.types.is_float16(kind.value_type) or pa.types.is_float32(kind.value_type)
    dtype = np.dtype(np.float32 if small else np.float64)
    if pa.types.is_fixed_size_list(kind):
        return kind.list_size, dtype
    for batch in columns.batches([embedding]):
        for entry in batch.column(0):
            if entry.is_valid and len(entry):
                return len(entry), dtype
    raise InvalidInput(f"column {embedding!r} of {columns.name} has no values")


def _fill(rows: npt.NDArray[Any], columns: Columns, embedding: str, drop: bool) -> dict[int, str]:
    """Write the rows of a column; return why rows have no numbers, or refuse the first ten such."""
    start = 0
    bad: dict[int, str] = {}
    with task(f"reading {columns.name}", len(rows)) as advance:
        for batch in columns.batches([embedding]):
            part = list_matrix(batch.column(0), rows.shape[1], embedding, start, bad)
            if start + len(part) > len(rows):
                break
            rows[start : start + len(part)] = part
            start += len(part)
            advance(len(part))
    if start != len(rows):
        raise InvalidInput(f"{columns.name} changed while it was read: {len(rows)} rows were expected")
    if bad and not drop:
        raise refuse_bad(bad, len(rows), columns.name)
    return bad


def refuse_bad(bad: dict[int, str], n_rows: int, name: str, unlabelled: bool = False) -> InvalidInput:
    """Return the sentence that names bad rows and the way out."""
    first = "; ".join(f"row {row}: {bad[row]}" for row in sorted(bad)[:10])
    more = " (first ten)" if len(bad) > 10 else ""
    advice = "; --on-bad-rows drop leaves them out"
    if unlabelled:
        advice += ", --unlabelled class makes them a class of their own"
    return InvalidInput(f"{len(bad)} of {n_rows} rows of {name} cannot be used{more}: {first}{advice}")


@contextmanager
def arrow_errors(file: str, kind: str) -> Iterator[None]:
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


def file_stamp(file: str) -> str:
    """Return what changes when a file does."""
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
