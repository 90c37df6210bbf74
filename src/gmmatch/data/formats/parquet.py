"""Parquet files, one or many, here or behind an address."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ...arrays import IntArray
from ...errors import InvalidInput
from ..dataset import Dataset
from ..remote import ask, file_stamp, is_http, is_remote, open_bytes
from ..request import Place, Request
from .arrow import Columns, File
from .base import Format, file_errors, is_shards
from .tables import table_dataset

_BUFFER = 1 << 18  # bytes that are read in one go
_FAR_BUFFER = 8 << 20  # behind an address, where each go is a request


@dataclass(frozen=True)
class ParquetFile(File):
    """One file: its row groups are read from the front on, those before the first row wanted not at all."""

    name: str
    n_rows: int
    stamp: str

    @property
    def far(self) -> bool:
        """Whether it is behind an address."""
        return is_remote(self.name)

    @property
    def begins(self) -> Sequence[int]:
        """The first row of each row group; on the web, where an answer goes on to its end, of the file."""
        return [0] if is_http(self.name) else [0, *ask(self.name, _ends, self.name, self.stamp)[:-1]]

    def count_rows(self) -> int:
        """Return how many rows there are now."""
        metadata = ask(self.name, _metadata, self.name, ask(self.name, file_stamp, self.name))
        return int(metadata.num_rows)

    def batches(self, names: list[str], start: int, stop: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns between two rows, each batch checked in full."""
        with file_errors(self.name, "Parquet file"), open_bytes(self.name) as handle:
            metadata, ends = _metadata(self.name, self.stamp), _ends(self.name, self.stamp)
            first, last = bisect_right(ends, start), bisect_left(ends, stop)
            start -= ends[first - 1] if first else 0
            groups = range(first, last + 1)
            for run in _runs(metadata, groups) if self.far else [list(groups)]:
                # Small row groups behind an address are requested together, large ones bit by bit.
                reader = pq.ParquetFile(
                    handle,
                    metadata=metadata,
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
def _metadata(file: str, stamp: str) -> pq.FileMetaData:
    """Return what the end of a file says of it; read once for each content."""
    with file_errors(file, "Parquet file"):
        with open_bytes(file) as handle:
            metadata = pq.read_metadata(handle)
        n_rows = sum(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
    if n_rows != metadata.num_rows:
        raise InvalidInput(f"{file} is damaged: {metadata.num_rows} rows are claimed, and it holds {n_rows}")
    return metadata


@lru_cache(maxsize=256)
def _ends(file: str, stamp: str) -> list[int]:
    """Return the row after each row group; found once for each content."""
    metadata = _metadata(file, stamp)
    return list(accumulate(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)))


def parquet_columns(place: Place) -> Columns:
    """Describe Parquet files of one schema."""
    schema: pa.Schema | None = None
    files = []
    for file in place.files:
        stamp = ask(file, file_stamp, file)
        metadata = ask(file, _metadata, file, stamp)
        found = metadata.schema.to_arrow_schema()
        if schema is not None and not found.equals(schema):
            raise InvalidInput(f"{file} has other columns than {place.files[0]}")
        schema = found
        files.append(ParquetFile(file, metadata.num_rows, stamp))
    return Columns(place.name, schema, files, place.base)


def _open(place: Place, request: Request) -> Dataset:
    place = place.of_kind("parquet")
    columns = parquet_columns(place)
    return table_dataset(columns, request, "parquet", place.files).replace(sizes=columns.sizes)


def _write(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    parquet_columns(Place(dataset.name, dataset.files)).write(rows, folder)


FORMAT = Format("parquet", lambda x, request: is_shards(x, request, "parquet"), _open, _write)
