"""Arrow IPC files and streams, one or many."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ...arrays import IntArray
from ...errors import InvalidInput
from ..arrow import Columns, arrow_errors, arrow_table, take_table
from ..dataset import Dataset
from ..places import Place
from ..remote import ask, is_remote, is_text, open_bytes
from ..request import Request
from ..tables import table_dataset
from .base import Format, is_shards


@dataclass(frozen=True)
class ArrowFile:
    """One file or stream: its batches are mapped where that is possible, and checked before they are used."""

    name: str
    ends: tuple[int, ...]  # rows up to the end of each batch
    travels = True

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return self.ends[-1] if self.ends else 0

    @property
    def begins(self) -> Sequence[int]:
        """The first row of each batch."""
        return (0, *self.ends[:-1])

    def check(self) -> None:
        """Refuse other content than what was described."""
        found = ask(self.name, _describe, self.name)[1].n_rows
        if found != self.n_rows:
            raise InvalidInput(f"{self.name} has {found} rows; expected {self.n_rows}")

    def batches(self, names: list[str], start: int, stop: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns between two rows."""
        first = int(np.searchsorted(self.ends, start, side="right"))
        with arrow_errors(self.name, "Arrow"), _reading(self.name, names) as (_, batches):
            begin = self.ends[first - 1] if first else 0
            for batch in batches(first):
                _check(batch)
                chosen = batch.select(names)
                for at in range(max(start - begin, 0), batch.num_rows, rows):
                    yield chosen.slice(at, rows)
                begin += batch.num_rows


def _check(batch: pa.RecordBatch) -> None:
    """Refuse a batch whose buffers do not hold what it says, before anybody looks at them."""
    batch.validate(full=True)


@contextmanager
def _reading(file: str, names: list[str] | None = None) -> Iterator[tuple[pa.Schema, Any]]:
    """Open a file or a stream; yield its schema, and what yields its batches from one on."""
    near = not is_remote(file)
    with pa.memory_map(file) if near and is_text(file) else open_bytes(file) as handle:
        try:
            whole = pa.ipc.open_file(handle)
        except pa.ArrowInvalid:
            whole = None
            handle.seek(0)
            stream = pa.ipc.open_stream(handle)
            schema = stream.schema
        else:
            schema = whole.schema
        if names is not None:
            fields = [schema.get_field_index(name) for name in names]
            options = pa.ipc.IpcReadOptions(included_fields=fields)
            handle.seek(0)
            if whole is not None:
                whole = pa.ipc.open_file(handle, options=options)
            else:
                stream = pa.ipc.open_stream(handle, options=options)

        def batches(first: int) -> Iterator[pa.RecordBatch]:
            if whole is not None:
                yield from (whole.get_batch(number) for number in range(first, whole.num_record_batches))
                return
            for number, batch in enumerate(stream):
                if number >= first:
                    yield batch

        yield schema, batches


def _describe(file: str) -> tuple[pa.Schema, ArrowFile]:
    with arrow_errors(file, "Arrow"), _reading(file) as (schema, batches):
        ends = np.cumsum([batch.num_rows for batch in batches(0)], dtype=np.int64).tolist()
    return schema, ArrowFile(file, tuple(ends))


def ipc_columns(files: Sequence[str], name: str, base: Path | None) -> Columns:
    """Describe Arrow files of one schema."""
    described = [ask(file, _describe, file) for file in files]
    for (before, _), (after, file) in pairwise(described):
        if not after.equals(before):
            raise InvalidInput(f"{file.name} has other columns than {files[0]}")
    if not sum(file.n_rows for _, file in described):
        raise InvalidInput(f"{name} has no rows")
    return Columns(name, described[0][0], [file for _, file in described], base)


def _open(place: Place, request: Request) -> Dataset:
    place = place.of_kind(".arrow", ".feather", ".ipc")
    base = None if is_remote(place.name) else place.folder or place.path.parent
    columns = ipc_columns(place.files, place.name, base)
    return table_dataset(arrow_table(columns), request, "arrow", place.files).replace(sizes=columns.sizes)


def kept_rows(files: Sequence[str], name: str, rows: IntArray) -> pa.Table:
    """Return some rows of Arrow files, with all their columns."""
    columns = ipc_columns(files, name, None)
    return take_table(
        (pa.Table.from_batches([batch]) for batch in columns.batches(columns.schema.names)), rows
    )


def _write(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    kept = kept_rows(dataset.files, dataset.name, rows)
    with (folder / "kept.arrow").open("wb") as file, pa.ipc.new_file(file, kept.schema) as writer:
        writer.write_table(kept)


FORMAT = Format("arrow", lambda x, request: is_shards(x, request, "arrow"), _open, _write)
