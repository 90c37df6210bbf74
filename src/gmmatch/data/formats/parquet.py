"""Parquet files, one or many, here or behind an address."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ...arrays import IntArray
from ...errors import InvalidInput
from ..arrow import Columns, arrow_errors, arrow_table, file_stamp, take_table
from ..dataset import Dataset
from ..http import is_http
from ..places import Place
from ..remote import ask, is_remote, open_bytes
from ..request import Request
from ..tables import table_dataset
from .base import Format, is_shards

_BUFFER = 1 << 18  # bytes that are read in one go
_FAR_BUFFER = 8 << 20  # behind an address, where each go is a request


@dataclass(frozen=True)
class ParquetFile:
    """One file: its row groups are read from the front on, those before the first row wanted not at all."""

    name: str
    n_rows: int
    stamp: str
    travels = True

    @property
    def far(self) -> bool:
        """Whether it is behind an address."""
        return is_remote(self.name)

    @property
    def begins(self) -> Sequence[int]:
        """The first row of each row group; on the web, where an answer goes on to its end, of the file."""
        return [0] if is_http(self.name) else [0, *ask(self.name, _ends, self.name, self.stamp)[:-1]]

    def check(self) -> None:
        """Refuse other content than what was described."""
        found = ask(self.name, _facts, self.name, ask(self.name, file_stamp, self.name)).num_rows
        if found != self.n_rows:
            raise InvalidInput(f"{self.name} has {found} rows; expected {self.n_rows}")

    def batches(self, names: list[str], start: int, stop: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns between two rows, each batch checked in full."""
        with arrow_errors(self.name, "Parquet"), open_bytes(self.name) as handle:
            facts, ends = _metadata(self.name, self.stamp), _ends(self.name, self.stamp)
            first, last = bisect_right(ends, start), bisect_left(ends, stop)
            start -= ends[first - 1] if first else 0
            groups = range(first, last + 1)
            for run in _runs(facts, groups) if self.far else [list(groups)]:
                # Small row groups behind an address are asked for together, large ones bit by bit.
                reader = pq.ParquetFile(
                    handle,
                    metadata=facts,
                    buffer_size=_FAR_BUFFER if self.far else _BUFFER,
                    pre_buffer=len(run) > 1 and self.far,
                )
                for batch in reader.iter_batches(rows, row_groups=run, columns=names, use_threads=False):
                    if start >= batch.num_rows:
                        start -= batch.num_rows
                        continue
                    batch.validate(full=True)
                    yield batch.slice(start).select(names)
                    start = 0


def _runs(facts: Any, groups: Sequence[int]) -> Iterator[list[int]]:
    """Put row groups together that are a few megabytes."""
    run: list[int] = []
    size = 0
    for number in groups:
        own = facts.row_group(number).total_byte_size
        if run and size + own > _FAR_BUFFER:
            yield run
            run, size = [], 0
        run.append(number)
        size += own
    yield run


@lru_cache(maxsize=256)
def _metadata(file: str, stamp: str) -> Any:
    """Return what the end of a file says of it; read once for each content."""
    with open_bytes(file) as handle:
        facts = pq.read_metadata(handle)
    held = sum(facts.row_group(number).num_rows for number in range(facts.num_row_groups))
    if held != facts.num_rows:
        raise InvalidInput(f"{file} is damaged: {facts.num_rows} rows are claimed, and it holds {held}")
    return facts


@lru_cache(maxsize=256)
def _ends(file: str, stamp: str) -> list[int]:
    """Return the row after each row group; found once for each content."""
    facts = _facts(file, stamp)
    return list(accumulate(facts.row_group(number).num_rows for number in range(facts.num_row_groups)))


def _facts(file: str, stamp: str) -> Any:
    with arrow_errors(file, "Parquet"):
        return _metadata(file, stamp)


def parquet_columns(place: Place) -> Columns:
    """Describe Parquet files of one schema."""
    schema: pa.Schema | None = None
    files = []
    for file in place.files:
        stamp = ask(file, file_stamp, file)
        facts = ask(file, _facts, file, stamp)
        found = facts.schema.to_arrow_schema()
        if schema is not None and not found.equals(schema):
            raise InvalidInput(f"{file} has other columns than {place.files[0]}")
        schema = found
        files.append(ParquetFile(file, facts.num_rows, stamp))
    base = None if is_remote(place.name) else place.folder or place.path.parent
    return Columns(place.name, schema, files, base)


def _open(place: Place, request: Request) -> Dataset:
    place = place.of_kind(".parquet", ".pq")
    columns = parquet_columns(place)
    return table_dataset(arrow_table(columns), request, "parquet", place.files).replace(sizes=columns.sizes)


def _write(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    columns = parquet_columns(Place(dataset.name, dataset.files))
    tables = (pa.Table.from_batches([batch]) for batch in columns.batches(columns.schema.names))
    with (folder / "kept.parquet").open("wb") as file:  # whose name may be none that Arrow opens
        pq.write_table(take_table(tables, rows), file)


FORMAT = Format("parquet", lambda x, request: is_shards(x, request, "parquet"), _open, _write)
