"""`.npy` files, one or many: rows of numbers, or images as uint8. Nothing is ever unpickled."""

from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput
from ...records import IntArray
from ..dataset import Dataset
from ..items import array_items, joined_items
from ..places import Place
from ..request import Request
from ..rows import StackedRows, as_floats
from .base import Format, is_shards, write_arrays

# What NumPy raises for headers that are not what they should be.
_DAMAGED = (
    OSError,
    ValueError,
    EOFError,
    TypeError,
    SyntaxError,
    MemoryError,
    OverflowError,
    RecursionError,
    TokenError,
)


def map_npy(path: Path) -> npt.NDArray[Any]:
    """Map a `.npy` file into memory."""
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    except PermissionError:
        raise InvalidInput(f"{path} may not be read: permission denied") from None
    except _DAMAGED as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        first = "it holds Python objects" if "pickle" in first else first
        raise InvalidInput(f"{path} is not a readable .npy file of numbers: {first}") from None
    if not isinstance(array, np.ndarray):
        raise InvalidInput(f"{path} holds several arrays; expected one")
    return array


def _open(place: Place, request: Request) -> Dataset:
    """Open `.npy` files as one dataset, in the order of their names."""
    place = place.of_kind(".npy")
    request.refuse_columns(place.name)
    request.check_columns((), place.name)
    if request.wanted == "text":
        raise InvalidInput(f"{place.name} holds no texts; expected a table or lines of text")
    arrays = [map_npy(Path(file)) for file in place.files]
    found = Dataset(None, place.name, "npy", files=place.files)
    if request.wanted == "image" or (request.wanted is None and is_images(arrays[0])):
        images = [array_items(array, file) for array, file in zip(arrays, place.files, strict=True)]
        return found.replace(content=images[0] if len(images) == 1 else joined_items(images))
    if len(arrays) == 1:
        return found.replace(rows=as_floats(arrays[0], place.name))
    return found.replace(rows=StackedRows(arrays, place.files))


def is_images(array: npt.NDArray[Any]) -> bool:
    """Tell images from rows of numbers."""
    return array.dtype == np.uint8 and array.ndim in (3, 4)


def _write(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    """Write rows in pick order; shards keep their names, each with its own rows."""
    if len(dataset.files) < 2 or dataset.content is not None:
        write_arrays(dataset, rows, folder)
        return
    ends = np.cumsum([len(map_npy(Path(file))) for file in dataset.files])
    home = np.searchsorted(ends, rows, side="right")
    for number, file in enumerate(dataset.files):
        np.save(folder / Path(file).name, dataset.take(rows[home == number]), allow_pickle=False)
    lines = ["shard,row,label\n"]
    for row, number in zip(rows.tolist(), home.tolist(), strict=True):
        label = "" if dataset.labels is None else dataset.labels[row]
        lines.append(f"{Path(dataset.files[number]).name},{row},{label}\n")
    (folder / "rows.csv").write_text("".join(lines), encoding="utf-8")


FORMAT = Format("npy", lambda x, request: is_shards(x, request, "npy"), _open, _write)
