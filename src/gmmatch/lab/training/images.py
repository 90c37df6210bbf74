"""Image arrays: checks, opening them through the door, and images of several shapes as one array."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray, UInt8Array
from ...data import Items, Unreadable, open_dataset
from ...data.images import as_pixels, check_pixels, open_image
from ...data.request import first_reasons
from ...errors import InvalidInput, InvalidInputType, first_line
from ...progress import task
from ...validation import as_rows

Inputs = UInt8Array | npt.NDArray[np.float32]

SMALLEST_SIDE = 8
_AS_THEY_ARE = 256  # pixels of a side: the most that is stacked as it is
_ORIENTATION, _LYING = 0x0112, 5  # the EXIF tag, and the first of its values that turns width into height
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
    see :func:`stack_images`.

    >>> images, labels = read_images(np.zeros((4, 28, 28), np.uint8), labels=[0, 1, 1, 0])
    >>> images.shape, labels
    ((4, 28, 28, 1), array([0, 1, 1, 0]))
    """
    found = open_dataset(x, labels, holds="image", split=split)
    assert found.content is not None
    return as_images(stack_images(found.content, found.name, size)[0], found.name), found.labels


def stack_images(
    items: Items, name: str, size: int | None = None, drop: bool = False, square: int = 64
) -> tuple[UInt8Array, dict[int, str], str | None]:
    """Return images as one array of shape (rows, height, width, channels).

    Images of one shape, and no larger than 256 pixels, stay as they are. Of others the centre squares are
    resampled, as RGB, to `square` pixels; with `size`, all are, to that many.

    `items`: the images; an array of them is not copied where they stay as they are. `drop`: whether images
    that cannot be read are left black and returned with the reason; otherwise they are refused.

    Returns the array, the rows that cannot be read with the reasons, and a note where images were resampled.
    """
    if items.array is not None and size is None and (items.array.ndim == 3 or items.array.shape[3] != 4):
        return items.array if items.array.ndim == 4 else items.array[..., None], {}, None
    bad: dict[int, str] = {}
    shapes = [_shape_of(item, bad, row) for row, item in _each(items)]
    known = {shape for shape in shapes if shape is not None}
    if not known or (bad and not drop):
        raise _unreadable(items, name, bad)
    note = None
    if size is None and (len(known) > 1 or max(max(shape[:2]) for shape in known) > _AS_THEY_ARE):
        size = square
        why = "differ in shape" if len(known) > 1 else f"are larger than {_AS_THEY_ARE} pixels"
        note = f"the images of {name} {why}: each is cut to a square of {size} pixels, as RGB"
    images: UInt8Array | None = None
    with task("decoding images", len(items)) as advance:
        for row, item in _each(items):
            try:
                pixels = None if row in bad else as_pixels(item, size)
            except Unreadable as error:
                bad[row], pixels = str(error), None
            if images is None and pixels is not None:
                images = np.zeros((len(items), *pixels.shape), dtype=np.uint8)
            if images is not None and pixels is not None:
                images[row] = pixels
            advance(1)
    if images is None or (bad and not drop):
        raise _unreadable(items, name, bad)
    return images, bad, note


def _each(items: Items) -> Iterator[tuple[int, object]]:
    for row in range(len(items)):
        yield row, items.read(row, row + 1)[0]


def _shape_of(item: object, bad: dict[int, str], row: int) -> tuple[int, int, int] | None:
    """Return height, width and channels, by the head of the file; None, and why, where there is none."""
    try:
        if isinstance(item, Unreadable):
            raise item
        if isinstance(item, np.ndarray):
            check_pixels(item)
            return item.shape[0], item.shape[1], 1 if item.ndim == 2 or item.shape[2] == 1 else 3
        with open_image(item, None) as image:
            width, height = image.size
            if image.getexif().get(_ORIENTATION, 1) >= _LYING:
                width, height = height, width
            grey = image.mode in ("1", "L") or image.mode.startswith("I")
            return height, width, 1 if grey and not image.has_transparency_data else 3
    except Unreadable as error:
        bad[row] = str(error)
    except Exception as error:  # decoders fail on hostile files in every way there is
        bad[row] = f"the image cannot be decoded: {first_line(error)}"
    return None


def _unreadable(items: Items, name: str, bad: dict[int, str]) -> InvalidInput:
    """Return the sentence that names the images that cannot be read, and the way out."""
    called = "image {}".format if items.paths is None else items.paths.__getitem__
    advice = "" if len(bad) == len(items) else "; on_bad_rows='drop' leaves them out"
    reasons = first_reasons(bad, called)
    return InvalidInput(f"{len(bad)} of {len(items)} images of {name} cannot be used{reasons}{advice}")
