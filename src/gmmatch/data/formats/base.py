"""What a format is: how to recognise a kind of data, open it, and write some of its rows back."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from ...arrays import Arrays, DType, IntArray
from ...errors import DAMAGED, GmmatchError, InvalidInput, first_line
from ...files import SHARDS, machine_memory
from ..dataset import Dataset, Unreadable
from ..remote import Lost, is_remote, shown
from ..request import Place, Request

# How image files begin.
_HEADS = {
    rb"\xff\xd8": ".jpg", rb"\x89PNG": ".png", rb"GIF8": ".gif", rb"BM": ".bmp", rb"(?s).{8}WEBP": ".webp",
    rb"II|MM": ".tif",
}  # fmt: skip


@dataclass(frozen=True)
class Format:
    """One kind of data.

    Attributes
    ----------
    name
        What a dataset of this kind says in `kind`.
    recognise
        Function of what was given and of the request: is it of this kind? A path, a glob or an address
        is given as a :class:`gmmatch.data.request.Place`, anything else as it is.
    open
        Function of the same that returns the dataset, without labels and ids that a file or column names.
    write
        Function of a dataset of this kind, row numbers and an empty folder: writes those rows there, in
        their order, as this kind of data.
    """

    name: str
    recognise: Callable[[Any, Request], bool]
    open: Callable[[Any, Request], Dataset]
    write: Callable[[Dataset, IntArray, Path], None]


def check_room(size: int, name: str, most: int | None = None) -> None:
    """Refuse what would unpack to more than the memory that may be used, before it is unpacked."""
    room = machine_memory() if most is None else most
    if size > room:
        needed = f"{size / 1e6:,.0f} MB" if size < 1 << 63 else "more than any machine holds"
        there = f"the {room / 1e6:,.0f} MB of memory that there are (memory=...)"
        raise InvalidInput(f"{name} unpacks to {needed}; expected at most {there}")


def is_shards(x: object, request: Request, kind: str) -> bool:
    """Return True if a place is files of one kind that follow each other."""
    if not isinstance(x, Place):
        return False
    kinds = {SHARDS.get(ending) for ending in x.endings}
    if x.folder is not None and request.wanted not in ("text", "image"):
        kinds.discard(None)
    if len(kinds) > 1 and kind in kinds and (x.folder is None or None not in kinds):
        raise InvalidInput(f"{x.name} mixes files of several kinds; expected one kind")
    return kinds == {kind}


def is_file(x: object, *endings: str) -> bool:
    """Return True if a place is files, not a folder, whose names end so."""
    return isinstance(x, Place) and x.folder is None and x.endings <= set(endings)


def is_instance(x: object, *kinds: str) -> bool:
    """Return True if an object is of one of some classes, named as ``module:Class``; none is imported.

    >>> is_instance(np.eye(2), "numpy:ndarray"), is_instance([], "numpy:ndarray", "no.such.module:Class")
    (True, False)
    """
    named = (kind.partition(":") for kind in kinds)
    found = (getattr(sys.modules.get(module), name, None) for module, _, name in named)
    return any(isinstance(kind, type) and isinstance(x, kind) for kind in found)


@contextmanager
def file_errors(file: str | Path, kind: str) -> Iterator[None]:
    """Turn what is raised on a damaged or missing file into one sentence; `kind`: what it should be."""
    name = str(file)
    try:
        yield
    except (GmmatchError, Lost):
        raise
    except FileNotFoundError:
        raise Lost("404") if is_remote(name) else InvalidInput(f"there is no file {name}") from None
    except PermissionError:
        raise InvalidInput(f"{name} may not be read: permission denied") from None
    except (*DAMAGED, pa.ArrowException) as error:
        if is_remote(name) and isinstance(error, OSError):
            raise Lost(first_line(error)) from None
        reason = "it holds Python objects" if "allow_pickle" in str(error) else first_line(error)[:300]
        raise InvalidInput(f"{shown(name)} is not a readable {kind}: {reason}") from None


def npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, DType]:
    """Return the shape of an array, whether it is stored by column, and its type, from its header."""
    first = np.lib.format.read_magic(file) == (1, 0)
    read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    return read(file)


def write_arrays(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    """Write the rows, labels and ids as .npy files."""
    for name, array in kept_arrays(dataset, rows).items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)


def kept_arrays(dataset: Dataset, rows: IntArray) -> Arrays:
    """Return the images or embeddings, the labels and the ids of some rows, as arrays by name."""
    images = None if dataset.content is None else dataset.content.array
    arrays = {"embeddings": dataset.take(rows)} if images is None else {"images": images[rows]}
    for name, values in (("labels", dataset.labels), ("ids", dataset.ids)):
        if values is not None:
            arrays[name] = values[rows].astype(str) if values.dtype.kind == "O" else values[rows]
    return arrays


def write_images(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    """Write images as files, in a folder per class where there are labels."""
    from ..images import as_pixels, image_of

    if dataset.content is None or dataset.content.kind != "image":
        write_arrays(dataset, rows, folder)
        return
    width = len(str(len(dataset)))
    for row in rows.tolist():
        (item,) = dataset.content.read(row, row + 1)
        if isinstance(item, Unreadable):
            raise InvalidInput(f"row {row} of {dataset.name} cannot be written: {item}")
        home = folder
        if dataset.labels is not None:
            home = folder / (re.sub(r"[/\\\0]|^\.+", "_", str(dataset.labels[row])) or "_")
            home.mkdir(exist_ok=True)
        if isinstance(item, bytes):
            ending = next((ending for head, ending in _HEADS.items() if re.match(head, item)), ".img")
            (home / f"{row:0{width}d}{ending}").write_bytes(item)
        else:
            image_of(as_pixels(item, None)).save(home / f"{row:0{width}d}.png")
