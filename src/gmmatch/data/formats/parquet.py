"""Parquet files, one or many, here or behind an address."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import InvalidInput
from ...records import IntArray
from ..arrow import BATCH_ROWS, Columns, arrow_errors, arrow_table, file_stamp, take_table
from ..dataset import Dataset
from ..places import Place
from ..request import Request
from ..tables import table_dataset
from .base import Format, is_shards


def parquet_columns(place: Place) -> Columns:
    """Describe Parquet files of one schema; a piece is a row group."""
    opener = place.opener()
    schema: pa.Schema | None = None
    groups: list[tuple[str, int]] = []
    counts, stamps = [], []
    for file in place.files:
        with arrow_errors(file, "Parquet"), opener(file) as handle:
            reader = pq.ParquetFile(handle)
            if schema is not None and not reader.schema_arrow.equals(schema):
                raise InvalidInput(f"{file} has other columns than {place.files[0]}")
            schema = reader.schema_arrow
            groups += [(file, group) for group in range(reader.num_row_groups)]
            counts += [reader.metadata.row_group(group).num_rows for group in range(reader.num_row_groups)]
            stamps.append(f"{file} {reader.metadata.serialized_size} {file_stamp(file)}")

    def read_piece(index: int, names: list[str]) -> pa.Table:
        file, group = groups[index]
        with arrow_errors(file, "Parquet"), opener(file) as handle:
            table = pq.ParquetFile(handle).read_row_group(group, columns=names)
            table.validate(full=True)
            return table

    def batches(names: list[str]) -> Iterator[pa.RecordBatch]:
        for file in place.files:
            with arrow_errors(file, "Parquet"), opener(file) as handle:
                for batch in pq.ParquetFile(handle).iter_batches(BATCH_ROWS, columns=names):
                    batch.validate(full=True)
                    yield batch

    base = None if "://" in place.name else place.folder or place.path.parent
    return Columns(place.name, schema, counts, read_piece, " ".join(stamps), base, batches)


def _open(place: Place, request: Request) -> Dataset:
    place = place.of_kind(".parquet", ".pq")
    return table_dataset(arrow_table(parquet_columns(place)), request, "parquet", place.files)


def _write(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    opener = Place(dataset.name, dataset.files).opener()

    def tables() -> Iterator[pa.Table]:
        for file in dataset.files:
            with opener(file) as handle:
                yield pq.read_table(handle)

    pq.write_table(take_table(tables(), rows), folder / "kept.parquet")


FORMAT = Format("parquet", lambda x, request: is_shards(x, request, "parquet"), _open, _write)
