"""Image arrays: checks, and reading them from files. NumPy alone; Pillow where images are JPEG."""

from __future__ import annotations

import io
import itertools
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, InvalidInputType, MissingExtra
from ..progress import task
from ..records import IntArray
from ..validation import as_rows

UInt8Array = npt.NDArray[np.uint8]
Inputs = UInt8Array | npt.NDArray[np.float32]

SMALLEST_SIDE = 8
_LARGEST_NUMBER = 1e30  # float32 has room for it after centring


def as_images(images: Any, name: str = "images") -> UInt8Array:
    """Return uint8 images of shape (rows, height, width, channels) without copying them.

    Examples
    --------
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

    Examples
    --------
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
    path: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    *,
    split: str = "train",
) -> tuple[UInt8Array, npt.NDArray[Any] | None]:
    """Read images and, where there are any, labels.

    Parameters
    ----------
    path
        ``.npy`` of uint8 images (opened as a memory map); or ``.npz`` with ``images`` and ``labels``;
        or ``.npz`` of JPEG bytes with ``{split}_jpeg``, ``{split}_offsets`` and ``{split}_labels``,
        image i being the bytes from offset i to offset i + 1.
    labels
        A ``.npy`` file of labels, or the name of an array in the ``.npz`` file.
    split
        Which images of an ``.npz`` file of JPEG bytes.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "pictures.npz"
    >>> np.savez(file, images=np.zeros((4, 28, 28), np.uint8), labels=np.array([0, 1, 1, 0]))
    >>> images, labels = read_images(file)
    >>> images.shape, labels
    ((4, 28, 28, 1), array([0, 1, 1, 0]))
    """
    source = Path(path)
    if source.suffix == ".npy":
        images, found = as_images(_load_npy(source), str(source)), None
    elif source.suffix == ".npz":
        with _open_npz(source) as arrays:
            images, found = _from_npz(arrays, source, split)
            if labels is not None and str(labels) in arrays:
                return images, _checked_length(arrays[str(labels)], images, f"{source}:{labels}")
    else:
        raise InvalidInput(f"{source} has the ending {source.suffix!r}; expected .npy or .npz")
    if labels is not None:
        found = _checked_length(_load_npy(Path(labels)), images, str(labels))
    return images, found


def _from_npz(
    arrays: Mapping[str, npt.NDArray[Any]], source: Path, split: str
) -> tuple[UInt8Array, npt.NDArray[Any] | None]:
    if "images" in arrays:
        images = as_images(arrays["images"], f"{source}:images")
        return images, _labels(arrays, "labels", images, source)
    parts = [f"{split}_jpeg", f"{split}_offsets"]
    if not all(part in arrays for part in parts):
        raise InvalidInput(
            f"{source} holds the arrays {', '.join(sorted(arrays))};"
            f" expected images and labels, or {parts[0]} and {parts[1]}"
        )
    images = decode_jpeg(arrays[parts[0]], arrays[parts[1]])
    return images, _labels(arrays, f"{split}_labels", images, source)


def _labels(
    arrays: Mapping[str, npt.NDArray[Any]], name: str, images: UInt8Array, source: Path
) -> npt.NDArray[Any] | None:
    return _checked_length(arrays[name], images, f"{source}:{name}") if name in arrays else None


def decode_jpeg(data: UInt8Array, offsets: npt.NDArray[np.integer[Any]]) -> UInt8Array:
    """Return images of one size from their JPEG bytes, laid end to end."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise MissingExtra("pillow", "images") from None
    images: UInt8Array | None = None
    with task("decoding images", total=len(offsets) - 1) as advance:
        for row, (start, stop) in enumerate(itertools.pairwise(offsets)):
            try:
                pixels = np.asarray(Image.open(io.BytesIO(data[start:stop].tobytes())))
            except (UnidentifiedImageError, OSError) as error:
                raise InvalidInput(f"image {row} is not a readable JPEG: {error}") from error
            if images is None:
                images = np.empty((len(offsets) - 1, *pixels.shape), dtype=np.uint8)
            if pixels.shape != images.shape[1:]:
                raise InvalidInput(
                    f"image {row} has the shape {pixels.shape}; expected {images.shape[1:]} like image 0"
                )
            images[row] = pixels
            advance(1)
    return as_images(np.empty((0, 0, 0), np.uint8) if images is None else images)


def _load_npy(path: Path) -> npt.NDArray[Any]:
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InvalidInput(f"cannot read {path}: {error}") from error
    if not isinstance(array, np.ndarray):
        raise InvalidInput(f"{path} is not a single array; expected a .npy file")
    return array


def _open_npz(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"cannot read {path}: {error}") from error


def _checked_length(labels: npt.NDArray[Any], images: UInt8Array, name: str) -> npt.NDArray[Any]:
    if labels.ndim != 1 or len(labels) != len(images):
        raise InvalidInput(
            f"{name} has shape {labels.shape} for {len(images)} images; expected one per image"
        )
    return np.asarray(labels)
