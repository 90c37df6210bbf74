"""IDX files, the format of MNIST and Fashion-MNIST, plain or compressed."""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput
from .base import Input, check_split, images_input

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_PREFIXES = {"train": ("train",), "test": ("t10k", "test")}
_IMAGES = re.compile(r"images[-.]idx3-ubyte(\.gz)?$")


def is_idx(path: Path) -> bool:
    """Tell whether a file is IDX by its name or its first bytes."""
    if re.search(r"idx\d-ubyte(\.gz)?$", path.name):
        return True
    with path.open("rb") as stream:
        head = stream.read(4)
    return len(head) == 4 and head[:2] == b"\0\0" and head[2] in _TYPES and 1 <= head[3] <= 4


def has_idx(folder: Path) -> bool:
    """Tell whether a folder holds IDX files of images."""
    return any(_IMAGES.search(path.name) for path in folder.iterdir())


def open_idx_folder(folder: Path, split: str) -> Input:
    """Return the training or the test images in a folder of IDX files."""
    prefixes = _PREFIXES[check_split(split)]
    found = [path for path in sorted(folder.iterdir()) if _IMAGES.search(path.name)]
    for path in found:
        if path.name.startswith(prefixes):
            return open_idx(path)
    names = ", ".join(path.name for path in found)
    raise InvalidInput(f"{folder} holds {names}; expected a name that begins with {' or '.join(prefixes)}")


def open_idx(path: Path) -> Input:
    """Return the images of an IDX file, with the labels of the file beside it, if there is one."""
    images = read_idx(path)
    twin = path.with_name(re.sub(r"images([-.])idx3", r"labels\1idx1", path.name))
    labels = read_idx(twin).astype(np.int64) if twin != path and twin.is_file() else None
    return images_input(images, labels, str(path))


def read_idx(path: Path) -> npt.NDArray[Any]:
    """Return the array in an IDX file.

    Raises
    ------
    InvalidInput
        Not IDX, cut short, or longer than its head says.
    """
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(f"cannot read {path}: {error}") from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise InvalidInput(f"{path} begins with {content[:4]!r}; expected an IDX file")
    dtype, dimensions = np.dtype(_TYPES[content[2]]), content[3]
    head = 4 + 4 * dimensions
    if len(content) < head:
        raise InvalidInput(f"{path} is cut short: {len(content)} bytes, expected at least {head}")
    shape = tuple(np.frombuffer(content, ">u4", count=dimensions, offset=4).tolist())
    expected = head + int(np.prod(shape, dtype=object)) * dtype.itemsize
    if len(content) != expected:
        raise InvalidInput(f"{path} has {len(content)} bytes; its head promises {expected} (shape {shape})")
    return np.frombuffer(content, dtype, offset=head).reshape(shape)
