"""What is in memory already: arrays, tensors, lists, and the tables and datasets of other libraries.

None of these libraries (pandas, polars, Hugging Face `datasets`, Ray Data, torch) is imported. A folder that
`save_to_disk` of `datasets` left is opened as well, without that library.
"""

import io
import json
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ...arrays import AnyArray, IntArray, Labels, is_lazy
from ...errors import InvalidInput, InvalidInputType, first_line
from ...handover import in_order
from ...validation import as_rows
from ..dataset import Dataset, Items, Unreadable, array_items, file_items, list_items
from ..images import SUFFIXES, as_pixels
from ..request import Place, Request
from ..rows import LazyRows
from .arrays import is_images
from .arrow import BATCH_ROWS, Columns, File, Part, file_columns
from .base import Format, is_instance, write_arrays, write_images
from .tables import table_dataset

TENSOR, PICTURE, FRAME = "torch:Tensor", "PIL.Image:Image", "pandas:DataFrame"
TABLES = (FRAME, "polars:DataFrame", "polars:LazyFrame", "pyarrow:Table", "pyarrow:RecordBatch")
# Where the library defines them: modules of users are called `datasets` as well.
SPLITS = "datasets.dataset_dict:DatasetDict"
_STATE: dict[str, object] = {
    "_format_columns": None, "_format_kwargs": {}, "_format_type": None, "_output_all_columns": False,
    "_split": None,
}  # fmt: skip


def as_list(given: object) -> Any:
    """Return what an iterator gives, as a generator does once, as a list; anything else as it is."""
    return list(given) if isinstance(given, Iterator) and not isinstance(given, io.IOBase) else given


def as_collection(collection: object) -> Any:
    """Return rows that come one by one as a list, and columns or records in Python's own objects as a table.

    >>> as_collection({"a": [1.0, 2.0], "topic": ["x", "y"]}).num_rows, as_collection(iter([[1], [2]]))
    (2, [[1], [2]])
    """
    given = as_list(collection)
    columns = type(given) is dict and all(isinstance(name, str) for name in given)
    records = type(given) is list and all(type(record) is dict for record in given)
    if not (columns or records) or not given:
        return given
    try:
        if records:
            return pa.Table.from_pylist(given)
        arrays = {name: np.asarray(values) for name, values in given.items()}
        return pa.table({name: list(a) if a.ndim > 1 else given[name] for name, a in arrays.items()})
    except (pa.ArrowException, ValueError, TypeError) as error:
        what = f"the {type(given).__name__} is no table of columns"
        raise InvalidInput(f"{what}: {first_line(error)}") from None


# ---- arrays, tensors and lists ----


def _open_array(x: Any, request: Request) -> Dataset:
    """Open rows of numbers, or uint8 images."""
    if is_instance(x, "torch.utils.data:DataLoader"):
        what = "a DataLoader gives batches, perhaps shuffled"
        raise InvalidInputType(f"{what}; pass what it reads from: loader.dataset")
    pair = isinstance(x, tuple) and len(x) == 2 and all(isinstance(own, np.ndarray) for own in x)
    if pair and (x[0].ndim, x[1].ndim) == (2, 1):
        raise InvalidInputType("got a pair; pass rows and labels one after the other: (data, labels, ...)")
    request.refuse_columns("an array")
    array = np.asarray(x) if is_instance(x, TENSOR) and str(x.dtype) == "torch.uint8" else x
    is_array = isinstance(array, np.ndarray)
    if is_array and (request.wanted == "image" or (request.wanted is None and is_images(array))):
        return Dataset(None, "the array", "array", content=array_items(np.asarray(array), "the array"))
    if request.wanted in ("text", "image"):
        expected = f"expected a path, an array or a list of {request.wanted}s"
        raise InvalidInputType(f"{expected}; got {type(x).__name__}")
    return Dataset(as_rows(LazyRows(x, "X") if is_lazy(x) else x, finite=False), "X", "array")


def _is_list(x: object, request: Request) -> bool:
    if not isinstance(x, (list, tuple)) and not (isinstance(x, np.ndarray) and x.dtype.kind in "OU"):
        return False
    if request.wanted in ("text", "image"):
        return not isinstance(x, np.ndarray) or x.dtype.kind in "OU"
    present = [item for item in x if item is not None]
    return bool(present) and (
        all(isinstance(item, (str, os.PathLike, bytes)) or is_instance(item, PICTURE) for item in present)
        or all(isinstance(item, np.ndarray) and item.dtype == np.uint8 and item.ndim > 1 for item in present)
    )


def _open_list(x: Sequence[Any], request: Request) -> Dataset:
    """Open a list of images, paths or texts."""
    request.refuse_columns("a list")
    if len(x) == 0:
        raise InvalidInput(f"expected at least one {request.wanted}; got an empty {type(x).__name__}")
    words = all(isinstance(item, (str, os.PathLike)) for item in x)
    pictures = words and all(Path(item).suffix.lower() in SUFFIXES for item in x)
    found = Dataset(None, "the list", "list")
    if words and (request.wanted == "image" or (request.wanted is None and pictures)):
        return found.replace(content=file_items([Path(item) for item in x]))
    texts = request.wanted == "text" or (request.wanted is None and isinstance(x[0], str))
    return found.replace(content=_content(x, texts))


def _content(values: Sequence[object], texts: bool) -> Items:
    """Return texts, or images as pixels, by which the cache knows them, or as the bytes of a file."""

    def read(item: object) -> object:
        if texts or isinstance(item, bytes):
            return Unreadable("no value") if item is None else item
        try:
            return as_pixels(item, None)
        except Unreadable as error:
            return error

    return list_items("text" if texts else "image", values, read)


def _open_torch_dataset(x: Any, request: Request) -> Dataset:
    """Open a map-style dataset of (value, label) pairs or of values: vectors, images or texts."""
    request.refuse_columns("a torch dataset")
    n_rows = len(x) if isinstance(x, Sized) else 0
    if not n_rows:
        raise InvalidInputType("the torch dataset has no length or no items; expected a map-style dataset")
    values, labels = [], []
    for row in range(n_rows):
        item = x[row]
        pair = isinstance(item, (tuple, list)) and len(item) == 2
        values.append(_value(item[0] if pair or isinstance(item, tuple) else item))
        if pair:
            of_array = is_instance(item[1], TENSOR, "numpy:generic", "numpy:ndarray")
            labels.append(item[1].item() if of_array else item[1])
    known = len(labels) == len(values) and all(isinstance(label, (int, str, np.integer)) for label in labels)
    given = np.array(labels) if known else None
    found = Dataset(None, "the dataset", "torch", labels=given, original=x)
    if all(isinstance(value, np.ndarray) and value.ndim == 1 for value in values):
        if len({value.shape for value in values}) > 1:
            raise InvalidInput("the rows of the dataset differ in length; expected one length for all")
        return found.replace(rows=as_rows(np.stack(values), "the dataset", finite=False))
    return found.replace(content=_content(values, texts=all(isinstance(value, str) for value in values)))


def _value(value: Any) -> Any:
    """Return a tensor as an array: a vector as floats, an image as uint8 of (height, width, channels)."""
    if not is_instance(value, TENSOR):
        return value
    value = value.detach().cpu()
    array: AnyArray = np.asarray(value.float() if value.is_floating_point() else value)
    if array.ndim < 2:
        return np.atleast_1d(array)
    if array.dtype.kind == "f" and array.min() >= 0 and array.max() <= 1:
        array = np.rint(array * 255).astype(np.uint8)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
        array = np.ascontiguousarray(array.transpose(1, 2, 0))
    return array


# ---- tables ----


@dataclass(frozen=True, eq=False)
class InMemory(File):
    """Rows that are in memory, or that a library maps: `part` returns columns between two rows."""

    part: Callable[[list[str], int, int], pa.Table]

    @property
    def begins(self) -> Sequence[int]:
        """Any row; those that travel come whole."""
        return (0,) if self.travels else range(0, self.n_rows, BATCH_ROWS)

    def check(self) -> None:
        """Accept it: nobody else changes it."""

    def read(self, names: list[str], start: int, stop: int, rows: int) -> Iterator[Part]:
        """Yield some columns."""
        for first in range(start, stop, rows):
            for batch in self.part(names, first, min(first + rows, stop)).combine_chunks().to_batches():
                yield first, batch
                first += batch.num_rows


def _part(table: pa.Table, names: list[str], start: int, stop: int) -> pa.Table:
    return table.select(names).slice(start, stop - start)


# ---- pandas, polars, Arrow ----


def _columns(x: Any) -> Columns:
    """Return a table as Arrow's; numbers are shared where that is possible."""
    try:
        if is_instance(x, FRAME):
            table = pa.Table.from_pandas(x, preserve_index=False)
        elif is_instance(x, "polars:LazyFrame", "polars:DataFrame"):
            table = x.lazy().collect().to_arrow()
        else:
            table = x if isinstance(x, pa.Table) else pa.Table.from_batches([x])
    except Exception as error:  # each library has its own
        raise InvalidInput(f"the table cannot be read: {first_line(error)}") from error
    part = InMemory("the table", table.num_rows, partial(_part, table), travels=False)
    return Columns("the table", table.schema, [part])


def _open_table(x: Any, request: Request) -> Dataset:
    found = table_dataset(_columns(x), request, "table", ()).replace(original=x)
    return found.replace(ids=_index(x.index)) if is_instance(x, FRAME) else found


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
        return table_dataset(file_columns(files, x.name, x.path), request, "hugging-face", files)
    arrow = x.with_format("arrow")

    def read(names: list[str], start: int, stop: int) -> pa.Table:
        return arrow.select_columns(names)[start:stop]

    part = InMemory("the dataset", len(x), read, travels=False)
    columns = Columns("the dataset", x.features.arrow_schema, [part])
    return table_dataset(columns, request, "hugging-face", ()).replace(original=x)


def _saved_files(place: Place) -> list[str]:
    """Return the Arrow files of a folder that `save_to_disk` left."""
    folder = place.path
    if (folder / "dataset_dict.json").exists():
        written = _json(folder / "dataset_dict.json")
        named = written.get("splits") if isinstance(written, dict) else None
        splits = list(map(str, named)) if isinstance(named, list) and named else ["train"]
        example = f"name one, for example {folder / splits[0]}"
        raise InvalidInput(f"{place.name} holds the splits {', '.join(splits)}; {example}")
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
    kept = file_columns(dataset.files, dataset.name).take(rows)
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
    describe = ray.remote(lambda block: (block.num_rows, block.schema))
    references = held.to_arrow_refs()
    described = zip(references, ray.get(list(map(describe.remote, references))), strict=True)
    filled = [(reference, *found) for reference, found in described if found[0]]
    if not filled:
        raise InvalidInput("the dataset has no rows")
    blocks = [InMemory("the dataset", size, partial(_block_part, block)) for block, size, _ in filled]
    columns = Columns("the dataset", filled[0][2], blocks)
    return table_dataset(columns, request, "ray", ()).replace(original=(held, columns))


TABLE = Format(
    "table",
    lambda x, request: is_instance(x, *TABLES),
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
ARRAY = Format("array", lambda x, request: not isinstance(x, (Place, str, bytes)), _open_array, write_arrays)
LIST = Format("list", _is_list, _open_list, write_images)
TORCH = Format(
    "torch", lambda x, request: is_instance(x, "torch.utils.data:Dataset"), _open_torch_dataset, write_images
)
