"""What is in memory already: arrays, tensors, torch datasets, and lists of images, paths or texts."""

import os
from collections.abc import Sequence, Sized
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import AnyArray
from ...errors import InvalidInput, InvalidInputType
from ...validation import as_rows
from ..dataset import Dataset, Items, Unreadable, array_items, file_items, list_items
from ..images import SUFFIXES, as_pixels
from ..request import Place, Request
from .arrays import is_images
from .base import Format, is_instance, write_arrays, write_images

TENSOR, PICTURE = "torch:Tensor", "PIL.Image:Image"


def _open_array(x: Any, request: Request) -> Dataset:
    """Open rows of numbers, or uint8 images."""
    if is_instance(x, "torch.utils.data:DataLoader"):
        raise InvalidInputType(
            "a DataLoader gives batches, perhaps shuffled; pass what it reads from: loader.dataset"
        )
    request.refuse_columns("an array")
    array = np.asarray(x) if is_instance(x, TENSOR) and str(x.dtype) == "torch.uint8" else x
    if isinstance(array, np.ndarray) and (
        is_images(array) if request.wanted is None else request.wanted == "image"
    ):
        return Dataset(None, "the array", "array", content=array_items(np.asarray(array), "the array"))
    if request.wanted in ("text", "image"):
        raise InvalidInputType(
            f"expected a path, an array or a list of {request.wanted}s; got {type(x).__name__}"
        )
    return Dataset(as_rows(x, finite=False), "X", "array")


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
    return list_items("text", values, _text) if texts else list_items("image", values, _image)


def _text(item: object) -> object:
    return Unreadable("no value") if item is None else item


def _image(item: object) -> object:
    """Return the pixels of an image, by which the cache knows it; the bytes of a file do as they are."""
    try:
        return item if isinstance(item, bytes) else as_pixels(item, None)
    except Unreadable as error:
        return error


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
        value = item[0] if pair or isinstance(item, tuple) else item
        values.append(_value(value))
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
    texts = all(isinstance(value, str) for value in values)
    return found.replace(content=_content(values, texts))


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


ARRAY = Format("array", lambda x, request: not isinstance(x, (Place, str, bytes)), _open_array, write_arrays)
LIST = Format("list", _is_list, _open_list, write_images)
TORCH = Format(
    "torch",
    lambda x, request: is_instance(x, "torch.utils.data:Dataset"),
    _open_torch_dataset,
    write_images,
)
