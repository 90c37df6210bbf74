"""Image arrays: checks, and opening them through the door."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray, UInt8Array
from ...data import open_dataset
from ...data.images import stack_images
from ...errors import InvalidInput, InvalidInputType
from ...validation import as_rows

Inputs = UInt8Array | npt.NDArray[np.float32]

SMALLEST_SIDE = 8
_LARGEST_NUMBER = 1e30  # float32 has room for it after centring


def as_images(images: Any, name: str = "images") -> UInt8Array:
    """Return uint8 images of shape (rows, height, width, channels) without copying them.

    >>> as_images(np.zeros((5, 28, 28), dtype=np.uint8)).shape
    (5, 28, 28, 1)
    """
    array = images if isinstance(images, np.ndarray) else np.asarray(images)
    if array.dtype != np.uint8:
        raise InvalidInputType(f"{name} must be of type uint8 (0 to 255); got {array.dtype}")
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim != 4 or array.shape[3] not in (1, 3):
        raise InvalidInput(
            f"{name} must have the shape (rows, height, width) or (rows, height, width, 1 or 3);"
            f" got {array.shape}"
        )
    if len(array) == 0 or min(array.shape[1:3]) < SMALLEST_SIDE:
        raise InvalidInput(
            f"{name} must hold at least one image of at least {SMALLEST_SIDE} x {SMALLEST_SIDE} pixels;"
            f" got shape {array.shape}"
        )
    return array


def as_inputs(inputs: Any, name: str = "images") -> Inputs:
    """Return what a network takes: uint8 images as `as_images` does, or rows of numbers as float32.

    >>> as_inputs(np.zeros((5, 28, 28), dtype=np.uint8)).shape, as_inputs([[1, 2], [3, 4]]).dtype
    ((5, 28, 28, 1), dtype('float32'))
    """
    if np.ndim(inputs) != 2:
        return as_images(inputs, name)
    rows = as_rows(inputs, name)[:]
    if max(float(rows.max()), -float(rows.min())) > _LARGEST_NUMBER:
        far = np.flatnonzero((np.abs(rows) > _LARGEST_NUMBER).any(axis=1))
        raise InvalidInput(
            f"{name} has numbers beyond {_LARGEST_NUMBER:g} in {far.size} rows (first: {far[0]}), which a"
            " training run cannot use"
        )
    return np.asarray(rows, dtype=np.float32)


def as_codes(labels: Any, n_rows: int, classes: int, name: str = "labels") -> IntArray:
    """Return labels as int64 class numbers from 0 to `classes` - 1, one per row.

    They are class numbers and not any values, because a subset need not hold every class.
    """
    array = np.asarray(labels)
    if array.dtype.kind not in "iu":
        raise InvalidInputType(
            f"{name} must be whole class numbers from 0 to {classes - 1}; got values of type {array.dtype}"
        )
    if array.shape != (n_rows,):
        raise InvalidInput(f"{name} has shape {array.shape} for {n_rows} images; expected ({n_rows},)")
    wrong = np.flatnonzero((array < 0) | (array >= classes))
    if wrong.size:
        raise InvalidInput(
            f"{name} must be class numbers from 0 to {classes - 1}; got {array[wrong[0]]} at row {wrong[0]}"
        )
    return array.astype(np.int64)


def read_images(
    x: Any, labels: Any = None, *, split: str = "train", size: int | None = None
) -> tuple[UInt8Array, npt.NDArray[Any] | None]:
    """Open images and, where there are any, labels.

    `x`: whatever :func:`gmmatch.open` opens that holds images. `labels`: a column or array of it, a file, or
    the labels. `split`: `train` or `test`, where `x` has both. `size`: side that the images are resampled to;
    see :func:`gmmatch.data.images.stack_images`.

    >>> images, labels = read_images(np.zeros((4, 28, 28), np.uint8), labels=[0, 1, 1, 0])
    >>> images.shape, labels
    ((4, 28, 28, 1), array([0, 1, 1, 0]))
    """
    found = open_dataset(x, labels, holds="image", split=split)
    assert found.content is not None
    return as_images(stack_images(found.content, found.name, size)[0], found.name), found.labels
