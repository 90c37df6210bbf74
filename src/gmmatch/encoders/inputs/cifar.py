"""CIFAR-10 and CIFAR-100, python and binary versions; the python version is read without unpickling."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InvalidInput
from ..base import UInt8Array
from ..safe_pickle import read_pickle
from .base import Input, check_split, images_input, joined

PIXELS = 3 * 32 * 32

# For each version: files of the training set and of the test set.
_VERSIONS: tuple[Mapping[str, tuple[str, ...]], ...] = (
    {"train": tuple(f"data_batch_{part}" for part in range(1, 6)), "test": ("test_batch",)},
    {"train": tuple(f"data_batch_{part}.bin" for part in range(1, 6)), "test": ("test_batch.bin",)},
    {"train": ("train",), "test": ("test",)},
    {"train": ("train.bin",), "test": ("test.bin",)},
)


def is_cifar(path: Path) -> bool:
    """Tell whether a file is a CIFAR batch by its name or its first bytes."""
    if path.suffix == ".bin":
        return True
    with path.open("rb") as stream:
        return path.suffix in ("", ".pkl", ".pickle") and stream.read(1) in (b"\x80", b"(")


def has_cifar(folder: Path) -> bool:
    """Tell whether a folder holds CIFAR batches."""
    return _version(folder) is not None


def open_cifar_folder(folder: Path, split: str) -> Input:
    """Return the training or the test set of a folder of CIFAR batches."""
    version = _version(folder) or _VERSIONS[0]
    names = version[check_split(split)]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise InvalidInput(f"{folder} holds CIFAR batches, but not {', '.join(missing)}")
    return joined([open_cifar(folder / name) for name in names])


def open_cifar(path: Path) -> Input:
    """Return one batch."""
    try:
        return _open_binary(path) if path.suffix == ".bin" else _open_python(path)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from error


def _version(folder: Path) -> Mapping[str, tuple[str, ...]] | None:
    for version in _VERSIONS:
        files = [folder / name for names in version.values() for name in names]
        if any(file.is_file() and is_cifar(file) for file in files):
            return version
    return None


def _open_binary(path: Path) -> Input:
    """Each record is one label (CIFAR-10) or a coarse and a fine one (CIFAR-100), then the pixels."""
    content = np.fromfile(path, dtype=np.uint8)
    for labels in (1, 2):
        if content.size and content.size % (labels + PIXELS) == 0:
            records = content.reshape(-1, labels + PIXELS)
            fine = records[:, labels - 1].astype(np.int64)
            return images_input(_upright(records[:, labels:]), fine, str(path))
    raise InvalidInput(
        f"{path} has {content.size} bytes; expected whole records of {1 + PIXELS} (CIFAR-10)"
        f" or {2 + PIXELS} (CIFAR-100)"
    )


def _open_python(path: Path) -> Input:
    try:
        with path.open("rb") as stream:
            content = read_pickle(stream)
    except InvalidInput as error:
        raise InvalidInput(f"cannot read {path} as a CIFAR batch: {error}") from error
    batch = {_text(key): value for key, value in content.items()} if isinstance(content, dict) else {}
    pixels = batch.get("data")
    labels = batch.get("fine_labels", batch.get("labels"))
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (PIXELS,):
        raise InvalidInput(
            f"{path} holds {', '.join(sorted(batch)) or type(content).__name__};"
            f" expected data, uint8 of shape (rows, {PIXELS}), and labels"
        )
    classes = None if labels is None else np.asarray(labels, dtype=np.int64)
    return images_input(_upright(pixels), classes, str(path))


def _upright(pixels: UInt8Array) -> UInt8Array:
    """Turn rows of red, green and blue planes into images."""
    return np.ascontiguousarray(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _text(key: Any) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else str(key)
