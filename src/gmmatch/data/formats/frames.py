"""Tables that a library holds: pandas, polars, Arrow, Hugging Face and Ray Data; none of them is imported.

A folder that `save_to_disk` of Hugging Face `datasets` left is opened as well, without that library.
"""

import json
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ...arrays import IntArray, Labels
from ...errors import InvalidInput, first_line
from ...handover import in_order
from ..dataset import Dataset
from ..request import Place, Request
from .arrow import BATCH_ROWS, Columns, File, ipc_columns
from .base import Format, is_instance
from .tables import table_dataset

# Where the library defines them: modules of users are called `datasets` as well.
SPLITS = "datasets.dataset_dict:DatasetDict"
_STATE: dict[str, object] = {
    "_format_columns": None, "_format_kwargs": {}, "_format_type": None, "_output_all_columns": False,
    "_split": None,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class InMemory(File):
    """Rows that are in memory, or that a library maps: `read` returns columns between two rows."""

    name: str
    n_rows: int
    read: Callable[[list[str], int, int], pa.Table]
    travels: bool = False

    @property
    def begins(self) -> Sequence[int]:
        """Any row; those that travel come whole."""
        return (0,) if self.travels else range(0, self.n_rows, BATCH_ROWS)

    def batches(self, names: list[str], start: int, stop: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns."""
        for first in range(start, stop, rows):
            yield from self.read(names, first, min(first + rows, stop)).combine_chunks().to_batches()


def _part(table: pa.Table, names: list[str], start: int, stop: int) -> pa.Table:
    return table.select(names).slice(start, stop - start)


# ---- pandas, polars, Arrow ----


def _is_table(x: object, request: Request) -> bool:
    frames = ("pandas:DataFrame", "polars:DataFrame", "polars:LazyFrame")
    return isinstance(x, (pa.Table, pa.RecordBatch)) or is_instance(x, *frames)


def _columns(x: Any) -> Columns:
    """Return a table as Arrow's; numbers are shared where that is possible."""
    if isinstance(x, pa.Table):
        table = x
    elif isinstance(x, pa.RecordBatch):
        table = pa.Table.from_batches([x])
    elif is_instance(x, "pandas:DataFrame"):
        try:
            table = pa.Table.from_pandas(x, preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidInput(f"the table cannot be read: {first_line(error)}") from error
    else:
        try:
            table = (x.collect() if is_instance(x, "polars:LazyFrame") else x).to_arrow()
        except (pa.ArrowException, sys.modules["polars"].exceptions.PolarsError) as error:
            raise InvalidInput(f"the table cannot be read: {first_line(error)}") from error
    return Columns("the table", table.schema, [InMemory("the table", table.num_rows, partial(_part, table))])


def _open_table(x: Any, request: Request) -> Dataset:
    found = table_dataset(_columns(x), request, "table", ()).replace(original=x)
    return found.replace(ids=_index(x.index)) if is_instance(x, "pandas:DataFrame") else found


def _index(index: Any) -> Labels | None:
    """Return the index of a pandas table where it names the rows: no count, every value once."""
    counts = is_instance(index, "pandas:RangeIndex") and (index.start, index.step) == (0, 1)
    if counts or index.nlevels > 1 or not index.is_unique or index.hasnans:
        return None
    values: Labels = index.to_numpy()
    if values.dtype.kind in "iu" and (values == np.arange(len(values))).all():
        return None
    return values if values.dtype.kind in "iuU" else np.array([str(value) for value in values])


# ---- Hugging Face ----


def _is_hugging_face(x: object, request: Request) -> bool:
    if isinstance(x, Place):
        names = {Path(file).name for file in x.files}
        saved = {"state.json", "dataset_info.json"} <= names or "dataset_dict.json" in names
        return x.folder is not None and saved
    return is_instance(x, "datasets.arrow_dataset:Dataset", SPLITS)


def _open_hugging_face(x: Any, request: Request) -> Dataset:
    if is_instance(x, SPLITS):
        raise InvalidInput(f"the dataset holds the splits {', '.join(x)}; name one, for example x['train']")
    if isinstance(x, Place):
        files = _saved_files(x)
        return table_dataset(ipc_columns(files, x.name, x.path), request, "hugging-face", files)
    arrow = x.with_format("arrow")

    def read(names: list[str], start: int, stop: int) -> pa.Table:
        return arrow.select_columns(names)[start:stop]

    columns = Columns("the dataset", x.features.arrow_schema, [InMemory("the dataset", len(x), read)])
    return table_dataset(columns, request, "hugging-face", ()).replace(original=x)


def _saved_files(place: Place) -> list[str]:
    """Return the Arrow files of a folder that `save_to_disk` left."""
    folder = place.path
    if (folder / "dataset_dict.json").exists():
        written = _json(folder / "dataset_dict.json")
        named = written.get("splits") if isinstance(written, dict) else None
        splits = [str(split) for split in named] if isinstance(named, list) else []
        example = folder / (splits[0] if splits else "train")
        raise InvalidInput(
            f"{place.name} holds the splits {', '.join(splits)}; name one, for example {example}"
        )
    try:
        names = [Path(entry["filename"]) for entry in _json(folder / "state.json")["_data_files"]]
    except (KeyError, TypeError) as error:
        raise InvalidInput(f"{folder / 'state.json'} names no data files: {error!r}") from None
    for name in names:
        if name.is_absolute() or ".." in name.parts:
            raise InvalidInput(f"{folder / 'state.json'} names {name}, a file outside the folder")
    return [str(folder / name) for name in names]


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is not readable JSON: {first_line(error)}") from None


def _write_hugging_face(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    """Write a folder that `datasets.load_from_disk` opens."""
    if not dataset.files:
        dataset.original.select(rows).save_to_disk(folder)
        return
    kept = ipc_columns(dataset.files, dataset.name).take(rows)
    name = "data-00000-of-00001.arrow"
    with (folder / name).open("wb") as file, pa.ipc.new_stream(file, kept.schema) as writer:
        writer.write_table(kept)
    home = Path(dataset.files[0]).parent
    state = _STATE | _json(home / "state.json")
    state |= {"_data_files": [{"filename": name}], "_fingerprint": uuid.uuid4().hex[:16]}
    (folder / "state.json").write_text(json.dumps(state, indent=2), encoding="utf-8")
    shutil.copyfile(home / "dataset_info.json", folder / "dataset_info.json")


# ---- Ray Data ----


def _block_part(reference: Any, names: list[str], start: int, stop: int) -> pa.Table:
    """Return a part of a block where Ray keeps it, to this process or to a worker."""
    part = _part(sys.modules["ray"].get(reference), names, start, stop)
    part.validate(full=True)
    return part


def _open_ray(x: object, request: Request) -> Dataset:
    ray = sys.modules["ray"]
    held = in_order(x)
    references = held.to_arrow_refs()
    describe = ray.remote(lambda block: (block.num_rows, block.schema))
    described = ray.get([describe.remote(reference) for reference in references])
    blocks = [
        InMemory("the dataset", n_rows, partial(_block_part, reference), travels=True)
        for (n_rows, _), reference in zip(described, references, strict=True)
        if n_rows
    ]
    if not blocks:
        raise InvalidInput("the dataset has no rows")
    schema = next(schema for n_rows, schema in described if n_rows)
    columns = Columns("the dataset", schema, blocks)
    return table_dataset(columns, request, "ray", ()).replace(original=(held, columns))


TABLE = Format(
    "table",
    _is_table,
    _open_table,
    lambda dataset, rows, folder: _columns(dataset.original).write(rows, folder),
)
HUGGING_FACE = Format("hugging-face", _is_hugging_face, _open_hugging_face, _write_hugging_face)
RAY = Format(
    "ray",
    lambda x, request: is_instance(x, "ray.data:Dataset"),
    _open_ray,
    lambda dataset, rows, folder: dataset.original[1].write(np.asarray(rows), folder),
)
