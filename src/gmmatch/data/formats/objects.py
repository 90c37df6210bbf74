"""What is in memory already: arrays, tensors, torch datasets, and lists of images, paths or texts."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput, InvalidInputType
from ...validation import as_rows
from ..dataset import Dataset
from ..images import SUFFIXES, as_pixels
from ..items import Items, Unreadable, array_items, file_items
from ..places import Place
from ..request import Request
from .base import Format, write_arrays, write_images
from .npy import is_images


def _open_array(x: Any, request: Request) -> Dataset:
    """Open rows of numbers, or uint8 images."""
    if hasattr(x, "dataset") and hasattr(x, "batch_size"):
        raise InvalidInputType(
            "a DataLoader gives batches, perhaps shuffled; pass what it reads from: loader.dataset"
        )
    request.refuse_columns("an array")
    array = np.asarray(x) if hasattr(x, "detach") and str(x.dtype) == "torch.uint8" else x
    if isinstance(array, np.ndarray) and (
        is_images(array) if request.wanted is None else request.wanted == "image"
    ):
        return Dataset(None, "the array", "array", content=array_items(np.asarray(array), "the array"))
    if request.wanted in ("text", "image"):
        raise InvalidInputType(
            f"expected a path, an array or a list of {request.wanted}s; got {type(x).__name__}"
        )
    return Dataset(as_rows(x, finite=False), "X", "array")


def _is_list(x: Any, request: Request) -> bool:
    if not isinstance(x, (list, tuple)) and not (isinstance(x, np.ndarray) and x.dtype.kind in "OU"):
        return False
    if request.wanted in ("text", "image"):
        return not isinstance(x, np.ndarray) or x.dtype.kind in "OU"
    present = [item for item in x if item is not None]
    return bool(present) and (
        all(isinstance(item, (str, os.PathLike, bytes)) or hasattr(item, "convert") for item in present)
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
    content = _text if texts else _image

    def read(start: int, stop: int) -> list[Any]:
        return [content(item) for item in x[start:stop]]

    return found.replace(content=Items("text" if texts else "image", len(x), read))


def _text(item: Any) -> Any:
    return Unreadable("no value") if item is None else item


def _image(item: Any) -> Any:
    """Return the pixels of an image, by which the cache knows it; the bytes of a file do as they are."""
    try:
        return item if isinstance(item, bytes) else as_pixels(item, None)
    except Unreadable as error:
        return error


def _is_torch_dataset(x: Any, request: Request) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.utils.data.Dataset)


def _open_torch_dataset(x: Any, request: Request) -> Dataset:
    """Open a map-style dataset of (value, label) pairs or of values: vectors, images or texts."""
    request.refuse_columns("a torch dataset")
    if not hasattr(x, "__len__") or len(x) == 0:
        raise InvalidInputType("the torch dataset has no length or no items; expected a map-style dataset")
    values, labels = [], []
    for row in range(len(x)):
        item = x[row]
        pair = isinstance(item, (tuple, list)) and len(item) == 2
        value = item[0] if pair or isinstance(item, tuple) else item
        values.append(_value(value))
        if pair:
            labels.append(item[1].item() if hasattr(item[1], "item") else item[1])
    known = len(labels) == len(values) and all(isinstance(label, (int, str, np.integer)) for label in labels)
    given = np.array(labels) if known else None
    found = Dataset(None, "the dataset", "torch", labels=given, original=x)
    if all(isinstance(value, np.ndarray) and value.ndim == 1 for value in values):
        if len({value.shape for value in values}) > 1:
            raise InvalidInput("the rows of the dataset differ in length; expected one length for all")
        return found.replace(rows=as_rows(np.stack(values), "the dataset", finite=False))
    texts = all(isinstance(value, str) for value in values)
    content = _text if texts else _image

    def read(start: int, stop: int) -> list[Any]:
        return [content(value) for value in values[start:stop]]

    return found.replace(content=Items("text" if texts else "image", len(values), read))


def _value(value: Any) -> Any:
    """Return a tensor as an array: a vector as floats, an image as uint8 of (height, width, channels)."""
    if not hasattr(value, "detach"):
        return value
    value = value.detach().cpu()
    array: npt.NDArray[Any] = np.asarray(value.float() if value.is_floating_point() else value)
    if array.ndim < 2:
        return np.atleast_1d(array)
    if array.dtype.kind == "f" and array.min() >= 0 and array.max() <= 1:
        array = np.rint(array * 255).astype(np.uint8)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
        array = np.ascontiguousarray(array.transpose(1, 2, 0))
    return array


ARRAY = Format("array", lambda x, request: not isinstance(x, (Place, str, bytes)), _open_array, write_arrays)
LIST = Format("list", _is_list, _open_list, write_images)
TORCH = Format("torch", _is_torch_dataset, _open_torch_dataset, write_images)
