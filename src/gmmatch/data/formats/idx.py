"""IDX files, the format of MNIST and Fashion-MNIST, plain or compressed."""

import gzip
import math
import re
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput
from ..dataset import Dataset
from ..items import array_items
from ..memory import check_room
from ..places import Place
from ..request import Request
from .base import Format, write_images

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


def _recognise(x: Any, request: Request) -> bool:
    if not isinstance(x, Place) or "://" in x.name:
        return False
    if x.folder is not None:
        return any(_IMAGES.search(Path(file).name) for file in x.files)
    return len(x.files) == 1 and is_idx(x.path)


def _open(place: Place, request: Request) -> Dataset:
    """Open the images of an IDX file, with the labels of the file beside it, if there is one."""
    request.refuse_columns(place.name)
    path = place.path if place.folder is None else _of_split(place, request)
    images = read_idx(path, request.most)
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


def read_idx(path: Path, most: int | None = None) -> npt.NDArray[Any]:
    """Return the array in an IDX file.

    `most`: bytes that it may have; those of the machine's memory by default.

    Raises `InvalidInput`: not IDX, cut short, or longer than its head says.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        opened: Any = gzip.open if packed else open
        with opened(path, "rb") as stream:
            return _array(stream, path, most)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(f"cannot read {path}: {error}") from error


def _array(stream: IO[bytes], path: Path, most: int | None) -> npt.NDArray[Any]:
    """Return the array, of which no more is unpacked than its head promises."""
    begin = stream.read(4)
    if len(begin) < 4 or begin[:2] != b"\0\0" or begin[2] not in _TYPES:
        raise InvalidInput(f"{path} begins with {begin!r}; expected an IDX file")
    dtype, sides = np.dtype(_TYPES[begin[2]]), stream.read(4 * begin[3])
    if len(sides) < 4 * begin[3]:
        raise InvalidInput(f"{path} is cut short: it ends inside its head")
    shape = tuple(np.frombuffer(sides, ">u4").tolist())
    expected = math.prod(shape) * dtype.itemsize
    check_room(expected, str(path), most)
    content = stream.read(expected)
    if len(content) != expected or stream.read(1):
        head, more = 4 + len(sides), "" if len(content) < expected else "more than "
        promised = f"its head promises {head + expected} (shape {shape})"
        raise InvalidInput(f"{path} has {more}{head + len(content)} bytes; {promised}")
    return np.frombuffer(content, dtype).reshape(shape)


FORMAT = Format("idx", _recognise, _open, write_images)
