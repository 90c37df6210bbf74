"""IDX files, the format of MNIST and Fashion-MNIST, plain or compressed."""

import gzip
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput
from ..dataset import Dataset
from ..items import array_items
from ..places import Place
from ..request import Request
from .base import Format, write_images

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_PREFIXES = {"train": ("train",), "test": ("t10k", "test")}
_MOST_BYTES = 8 << 30  # MNIST has 47 MB; compressed zeros would fill any memory
_IMAGES = re.compile(r"images[-.]idx3-ubyte(\.gz)?$")


def is_idx(path: Path) -> bool:
    """Tell whether a file is IDX by its name or its first bytes."""
    if re.search(r"idx\d-ubyte(\.gz)?$", path.name):
        return True
    with path.open("rb") as stream:
        head = stream.read(4)
    return len(head) == 4 and head[:2] == b"\0\0" and head[2] in _TYPES and 1 <= head[3] <= 4


def _recognise(x: Any, request: Request) -> bool:
    if not isinstance(x, Place) or "://" in x.name:
        return False
    if x.folder is not None:
        return any(_IMAGES.search(Path(file).name) for file in x.files)
    return len(x.files) == 1 and is_idx(x.path)


def _open(place: Place, request: Request) -> Dataset:
    """Open the images of an IDX file, with the labels of the file beside it, if there is one."""
    request.refuse_columns(place.name)
    request.check_columns((), place.name)
    path = place.path if place.folder is None else _of_split(place, request)
    images = read_idx(path)
    twin = path.with_name(re.sub(r"images([-.])idx3", r"labels\1idx1", path.name))
    labels = read_idx(twin).astype(np.int64) if twin != path and twin.is_file() else None
    found = Dataset(None, place.name, "idx", labels=labels, files=(str(path),))
    return found.replace(content=array_items(images, str(path)))


def _of_split(place: Place, request: Request) -> Path:
    prefixes = _PREFIXES[request.check_split()]
    found = [Path(file) for file in place.files if _IMAGES.search(Path(file).name)]
    for path in found:
        if path.name.startswith(prefixes):
            return path
    names = ", ".join(path.name for path in found)
    raise InvalidInput(
        f"{place.name} holds {names}; expected a name that begins with {' or '.join(prefixes)}"
    )


def read_idx(path: Path) -> npt.NDArray[Any]:
    """Return the array in an IDX file.

    Raises `InvalidInput`: not IDX, cut short, or longer than its head says.
    """
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            with gzip.open(path) as stream:
                content = stream.read(_MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(f"cannot read {path}: {error}") from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise InvalidInput(f"{path} begins with {content[:4]!r}; expected an IDX file")
    dtype, dimensions = np.dtype(_TYPES[content[2]]), content[3]
    if len(content) > _MOST_BYTES:
        raise InvalidInput(f"{path} is larger than the {_MOST_BYTES >> 30} GB that are unpacked at most")
    head = 4 + 4 * dimensions
    if len(content) < head:
        raise InvalidInput(f"{path} is cut short: {len(content)} bytes, expected at least {head}")
    shape = tuple(np.frombuffer(content, ">u4", count=dimensions, offset=4).tolist())
    expected = head + int(np.prod(shape, dtype=object)) * dtype.itemsize
    if len(content) != expected:
        raise InvalidInput(f"{path} has {len(content)} bytes; its head promises {expected} (shape {shape})")
    return np.frombuffer(content, dtype, offset=head).reshape(shape)


FORMAT = Format("idx", _recognise, _open, write_images)
