"""CIFAR-10 and CIFAR-100, python and binary versions; the python version is read without unpickling."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import UInt8Array
from ...errors import InvalidInput
from ..dataset import Dataset
from ..items import array_items
from ..pickles import read_pickle
from ..places import Place
from ..request import Request
from .base import Format, write_images

PIXELS = 3 * 32 * 32

# For each version: files of the training set and of the test set.
_VERSIONS: tuple[Mapping[str, tuple[str, ...]], ...] = (
    {"train": tuple(f"data_batch_{part}" for part in range(1, 6)), "test": ("test_batch",)},
    {"train": tuple(f"data_batch_{part}.bin" for part in range(1, 6)), "test": ("test_batch.bin",)},
    {"train": ("train",), "test": ("test",)},
    {"train": ("train.bin",), "test": ("test.bin",)},
)


def _recognise(x: Any, request: Request) -> bool:
    if not isinstance(x, Place) or "://" in x.name:
        return False
    if x.folder is not None:
        return _version(x.folder) is not None
    return len(x.files) == 1 and _is_batch(x.path)


def _is_batch(path: Path) -> bool:
    """Tell whether a file is a CIFAR batch by its name or its first bytes."""
    if path.suffix == ".bin":
        return True
    with path.open("rb") as stream:
        return path.suffix in ("", ".pkl", ".pickle") and stream.read(1) in (b"\x80", b"(")


def _open(place: Place, request: Request) -> Dataset:
    """Open one batch, or the training or the test set of a folder of them."""
    request.refuse_columns(place.name)
    paths = [place.path]
    if place.folder is not None:
        names = (_version(place.folder) or _VERSIONS[0])[request.check_split()]
        missing = [name for name in names if not (place.folder / name).is_file()]
        if missing:
            raise InvalidInput(f"{place.name} holds CIFAR batches, but not {', '.join(missing)}")
        paths = [place.folder / name for name in names]
    batches = [_read(path) for path in paths]
    images = batches[0][0] if len(batches) == 1 else np.concatenate([images for images, _ in batches])
    labels = [labels for _, labels in batches if labels is not None]
    return Dataset(
        None,
        place.name,
        "cifar",
        labels=np.concatenate(labels) if len(labels) == len(batches) else None,
        files=tuple(map(str, paths)),
        content=array_items(images, place.name),
    )


def _read(path: Path) -> tuple[UInt8Array, npt.NDArray[np.int64] | None]:
    """Return the images and labels of one batch."""
    try:
        return _read_binary(path) if path.suffix == ".bin" else _read_python(path)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from error


def _version(folder: Path) -> Mapping[str, tuple[str, ...]] | None:
    for version in _VERSIONS:
        files = [folder / name for names in version.values() for name in names]
        if any(file.is_file() and _is_batch(file) for file in files):
            return version
    return None


def _read_binary(path: Path) -> tuple[UInt8Array, npt.NDArray[np.int64]]:
    """Each record is one label (CIFAR-10) or a coarse and a fine one (CIFAR-100), then the pixels."""
    content = np.fromfile(path, dtype=np.uint8)
    for labels in (1, 2):
        if content.size and content.size % (labels + PIXELS) == 0:
            records = content.reshape(-1, labels + PIXELS)
            fine = records[:, labels - 1].astype(np.int64)
            return _upright(records[:, labels:]), fine
    raise InvalidInput(
        f"{path} has {content.size} bytes; expected whole records of {1 + PIXELS} (CIFAR-10)"
        f" or {2 + PIXELS} (CIFAR-100)"
    )


def _read_python(path: Path) -> tuple[UInt8Array, npt.NDArray[np.int64] | None]:
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
    return _upright(pixels), classes


def _upright(pixels: UInt8Array) -> UInt8Array:
    """Turn rows of red, green and blue planes into images."""
    return np.ascontiguousarray(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _text(key: Any) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else str(key)


FORMAT = Format("cifar", _recognise, _open, write_images)
