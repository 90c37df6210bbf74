"""NumPy files: images as uint8 or as JPEG bytes, or rows that are embeddings already."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput
from ..base import Kind, UInt8Array
from .base import Input, check_column, check_split, images_input

Arrays = Mapping[str, npt.NDArray[Any]]


def open_npy(path: Path, kind: Kind) -> Input:
    """Return the rows of a ``.npy`` file, which stays on disk."""
    array = load_npy(path)
    if kind == "image":
        return images_input(array, None, str(path))
    return _rows(array, str(path))


def open_npz(path: Path, kind: Kind, labels: str | None, split: str) -> Input:
    """Return the rows of a ``.npz`` file.

    Either ``images`` (or ``embeddings``) and ``labels``, or images as file bytes laid end to end:
    ``{split}_jpeg``, ``{split}_offsets`` and ``{split}_labels``, image i being the bytes from offset i
    to offset i + 1. `labels` names another array of labels.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            found = _from_npz(arrays, path, kind, check_split(split))
            default = "labels" if "labels" in arrays else f"{split}_labels"
            wanted = default if labels is None else check_column(labels, arrays, path, "--labels")
            return found.with_labels(arrays[wanted], f"{path}:{wanted}") if wanted in arrays else found
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"cannot read {path}: {error}") from error


def load_npy(path: Path) -> npt.NDArray[Any]:
    """Return the array of a ``.npy`` file as a memory map."""
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InvalidInput(f"cannot read {path}: {error}") from error
    return array


def _from_npz(arrays: Arrays, path: Path, kind: Kind, split: str) -> Input:
    name = "images" if kind == "image" else "embeddings"
    if name in arrays:
        return (
            images_input(arrays[name], None, f"{path}:{name}")
            if kind == "image"
            else _rows(arrays[name], f"{path}:{name}")
        )
    files, offsets = f"{split}_jpeg", f"{split}_offsets"
    if kind != "image" or files not in arrays or offsets not in arrays:
        raise InvalidInput(
            f"{path} holds the arrays {', '.join(sorted(arrays))}; expected {name} and labels"
            + (f", or {files} and {offsets}" if kind == "image" else "")
        )
    return _end_to_end(arrays[files], arrays[offsets].astype(np.int64), path)


def _end_to_end(content: UInt8Array, offsets: npt.NDArray[np.int64], path: Path) -> Input:
    inside = len(offsets) > 1 and offsets[0] >= 0 and offsets[-1] <= len(content)
    if content.dtype != np.uint8 or content.ndim != 1 or not inside or (np.diff(offsets) < 0).any():
        raise InvalidInput(f"{path} has offsets that do not fit its {len(content)} bytes of images")
    cuts = offsets.tolist()

    def read(start: int, stop: int) -> list[Any]:
        return [content[cuts[row] : cuts[row + 1]].tobytes() for row in range(start, stop)]

    return Input("image", np.arange(len(cuts) - 1), read)


def _rows(array: npt.NDArray[Any], name: str) -> Input:
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise InvalidInput(
            f"{name} holds {array.dtype} of shape {array.shape}; expected numbers of shape (rows, features)"
        )
    return Input("rows", np.arange(len(array)), lambda start, stop: list(np.asarray(array[start:stop])))
