"""Parquet files, one or many, here or behind an address."""

from collections.abc import Iterator
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
from ..pages import Chunk, PlainColumn, column_chunks, plain_column
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
    def begins(self) -> list[int]:
        """The first row of each row group; behind an address, where reading overshoots, of the file."""
        if self.far:
            return [0]
        facts = ask(self.name, _facts, self.name, self.stamp)
        sizes = [facts.row_group(number).num_rows for number in range(facts.num_row_groups)]
        return [0, *accumulate(sizes[:-1])]

    @property
    def far(self) -> bool:
        """Whether it is behind an address."""
        return is_remote(self.name)

    def check(self) -> None:
        """Refuse other content than what was described."""
        found = ask(self.name, _facts, self.name, ask(self.name, file_stamp, self.name)).num_rows
        if found != self.n_rows:
            raise InvalidInput(f"{self.name} has {found} rows; expected {self.n_rows}")

    def batches(self, names: list[str], start: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns from row `start` on, each batch checked in full."""
        with arrow_errors(self.name, "Parquet"), open_bytes(self.name) as handle:
            facts = _metadata(self.name, self.stamp)
            group = 0
            while start >= facts.row_group(group).num_rows:
                start -= facts.row_group(group).num_rows
                group += 1
            lists = names[0] if len(names) == 1 and not self.far else None
            while lists is not None and group < facts.num_row_groups:
                plain = _plain(self.name, self.stamp, group, lists)
                if plain is None:
                    break
                yield from self._before(handle, facts, group, names, start, plain.first, rows)
                start = max(start, plain.first)
                for batch in plain.batches(handle, start, rows):
                    start += batch.num_rows
                    yield batch
                if start < facts.row_group(group).num_rows:
                    break
                group, start = group + 1, 0
            yield from self._arrow(handle, facts, group, names, start, rows)

    def _before(
        self, handle: Any, facts: Any, group: int, names: list[str], start: int, stop: int, rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows between two of a row group, by Arrow."""
        if start >= stop:
            return
        for batch in self._arrow(handle, facts, group, names, start, rows):
            yield batch.slice(0, stop - start)
            start += batch.num_rows
            if start >= stop:
                return

    def _arrow(
        self, handle: Any, facts: Any, group: int, names: list[str], start: int, rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield some columns from row `start` of a row group on, by Arrow."""
        if group == facts.num_row_groups:
            return
        last = facts.num_row_groups
        chunks = _chunks(self.name, self.stamp) if self.far else None
        for run in _runs(chunks, group, last, names) if self.far else [list(range(group, last))]:
            # Small row groups behind an address are asked for together, large ones bit by bit.
            buffer = {
                "buffer_size": _FAR_BUFFER if self.far else _BUFFER,
                "pre_buffer": len(run) > 1 and self.far,
            }
            reader = pq.ParquetFile(handle, metadata=facts, **buffer)
            for batch in reader.iter_batches(rows, row_groups=run, columns=names, use_threads=False):
                if start >= batch.num_rows:
                    start -= batch.num_rows
                    continue
                batch.validate(full=True)
                yield batch.slice(start).select(names)
                start = 0


def _runs(chunks: list[list[Chunk]] | None, first: int, stop: int, names: list[str]) -> Iterator[list[int]]:
    """Put row groups together whose columns are a few megabytes; one by one where that is not known."""
    run: list[int] = []
    size = 0
    for number in range(first, stop):
        own = _FAR_BUFFER
        if chunks is not None:
            own = sum(chunk.size for chunk in chunks[number] if chunk.name in names)
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
def _chunks(file: str, stamp: str) -> list[list[Chunk]] | None:
    """Return where the columns of each row group are; looked for once for each content."""
    facts = _metadata(file, stamp)
    with open_bytes(file) as handle:
        found = column_chunks(handle, facts.serialized_size)
    return found if found is not None and len(found) == facts.num_row_groups else None


@lru_cache(maxsize=256)
def _plain(file: str, stamp: str, group: int, name: str) -> PlainColumn | None:
    """Return where a row group has the plain numbers of a column; looked for once for each content."""
    facts, chunks = _metadata(file, stamp), _chunks(file, stamp)
    if chunks is None:
        return None
    with open_bytes(file) as handle:
        return plain_column(handle, facts, chunks[group], facts.row_group(group).num_rows, name)


def _facts(file: str, stamp: str) -> Any:
    with arrow_errors(file, "Parquet"):
        return _metadata(file, stamp)


def parquet_columns(place: Place) -> Columns:
    """Describe Parquet files of one schema."""
    schema: pa.Schema | None = None
    files, stamps = [], []
    for file in place.files:
        stamp = ask(file, file_stamp, file)
        facts = ask(file, _facts, file, stamp)
        found = facts.schema.to_arrow_schema()
        if schema is not None and not found.equals(schema):
            raise InvalidInput(f"{file} has other columns than {place.files[0]}")
        schema = found
        files.append(ParquetFile(file, facts.num_rows, stamp))
        stamps.append(f"{stamp} {facts.num_rows} {facts.serialized_size}")
    base = None if is_remote(place.name) else place.folder or place.path.parent
    return Columns(place.name, schema, files, " ".join(stamps), base)


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
