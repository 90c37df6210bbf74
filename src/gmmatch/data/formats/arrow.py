"""Arrow IPC files and streams, one or many."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from ...errors import InvalidInput
from ...records import IntArray
from ..arrow import Columns, arrow_errors, arrow_table, file_stamp, take_table
from ..dataset import Dataset
from ..places import Place
from ..request import Request
from ..tables import table_dataset
from .base import Format, is_shards


def read_ipc(file: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file or a stream, each checked before it is used."""
    with arrow_errors(file, "Arrow"), pa.memory_map(file) as handle:
        try:
            reader = pa.ipc.open_file(handle)
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
        except pa.ArrowInvalid:
            handle.seek(0)
            batches = iter(pa.ipc.open_stream(handle))
        for batch in batches:
            batch.validate(full=True)
            yield batch


def ipc_columns(files: Sequence[str], name: str, base: Path | None) -> Columns:
    """Describe Arrow files of one schema; a piece is a file."""
    schema, counts = None, []
    for file in files:
        counts.append(0)
        for batch in read_ipc(file):
            if schema is not None and not batch.schema.equals(schema):
                raise InvalidInput(f"{file} has other columns than {files[0]}")
            schema = batch.schema
            counts[-1] += batch.num_rows
    if schema is None:
        raise InvalidInput(f"{name} has no rows")

    def read_piece(index: int, names: list[str]) -> pa.Table:
        return pa.Table.from_batches([batch.select(names) for batch in read_ipc(files[index])])

    def batches(names: list[str]) -> Iterator[pa.RecordBatch]:
        for file in files:
            for batch in read_ipc(file):
                yield batch.select(names)

    return Columns(name, schema, counts, read_piece, " ".join(map(file_stamp, files)), base, batches)


def ipc_table(file: str) -> pa.Table:
    """Return a whole file."""
    return pa.Table.from_batches(list(read_ipc(file)))


def _open(place: Place, request: Request) -> Dataset:
    place = place.of_kind(".arrow", ".feather", ".ipc")
    base = place.folder or place.path.parent
    columns = ipc_columns(place.files, place.name, base)
    return table_dataset(arrow_table(columns), request, "arrow", place.files)


def _write(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    kept = take_table((ipc_table(file) for file in dataset.files), rows)
    with pa.ipc.new_file(folder / "kept.arrow", kept.schema) as writer:
        writer.write_table(kept)


FORMAT = Format("arrow", lambda x, request: is_shards(x, request, "arrow"), _open, _write)
