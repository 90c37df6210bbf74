"""`.npy` files, one or many: rows of numbers, or images as uint8. Nothing is ever unpickled."""

import mmap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...arrays import FloatArray, IntArray
from ...errors import InvalidInput, first_line
from ..arrow import arrow_errors
from ..dataset import Dataset
from ..http import is_http, shown
from ..items import array_items, joined_items
from ..places import Place
from ..remote import LOST, ask, is_remote, is_text, open_bytes, patiently
from ..request import Request
from ..rows import StackedRows, as_floats
from ..spill import ForwardRows
from .base import Format, is_shards, write_arrays

_REQUEST_BYTES = 4 << 20  # of a file behind an address
# What NumPy raises for headers that are not what they should be.
DAMAGED = (
    OSError,
    ValueError,
    EOFError,
    TypeError,
    SyntaxError,
    MemoryError,
    OverflowError,
    RecursionError,
    TokenError,
)


def map_npy(path: Path) -> npt.NDArray[Any]:
    """Map a `.npy` file into memory."""
    try:
        with warnings.catch_warnings():  # of files that Python 2 wrote, which are read all the same
            warnings.simplefilter("ignore", UserWarning)
            array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    except PermissionError:
        raise InvalidInput(f"{path} may not be read: permission denied") from None
    except DAMAGED as error:
        first = "it holds Python objects" if "pickle" in str(error) else first_line(error)
        raise InvalidInput(f"{path} is not a readable .npy file of numbers: {first}") from None
    if not isinstance(array, np.ndarray):
        raise InvalidInput(f"{path} holds several arrays; expected one")
    return array


def _open(place: Place, request: Request) -> Dataset:
    """Open `.npy` files as one dataset, in the natural order of their names."""
    place = place.of_kind(".npy")
    request.refuse_columns(place.name)
    if request.wanted == "text":
        raise InvalidInput(f"{place.name} holds no texts; expected a table or lines of text")
    if is_remote(place.files[0]):
        shards = [ask(file, _describe, file) for file in place.files]
        sizes = tuple(shard.n_rows for shard in shards)
        return Dataset(_forward_rows(shards), place.name, "npy", files=place.files, sizes=sizes)
    if len(place.files) == 1:
        arrays = [map_npy(Path(place.files[0]))]
    else:
        arrays = [unheld(map_npy(Path(file))) for file in place.files]
    sizes = tuple(len(array) if array.ndim else 0 for array in arrays)
    found = Dataset(None, place.name, "npy", files=place.files, sizes=sizes)
    if request.wanted == "image" or (request.wanted is None and is_images(arrays[0])):
        images = [array_items(array, file) for array, file in zip(arrays, place.files, strict=True)]
        return found.replace(content=images[0] if len(images) == 1 else joined_items(images))
    if len(arrays) == 1:
        return found.replace(rows=as_floats(arrays[0], place.name))
    return found.replace(rows=StackedRows(arrays, place.files))


def unheld(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the same map of a file without an open file behind it, of which a process may have some hundred.

    Python's own maps hold their file open; Arrow's do not. Where Arrow cannot map it, it stays as it is.
    """
    if not isinstance(array, np.memmap) or not array.size:
        return array
    name, begin = str(array.filename), array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    if not is_text(name):
        return array
    with arrow_errors(name, ".npy"), pa.memory_map(name) as file:
        buffer = file.read_buffer().slice(begin)
    order: Any = "C" if array.flags.c_contiguous else "F"
    again: Any = np.ndarray(array.shape, array.dtype, buffer, array.offset - begin, order=order)
    again = again.view(np.memmap)
    again._mmap, again.filename, again.offset, again.mode = buffer, array.filename, array.offset, "r"
    return again  # type: ignore[no-any-return]


@dataclass(frozen=True)
class NpyShard:
    """The rows of a file behind an address, of which any span can be asked for."""

    name: str
    n_rows: int
    width: int
    kind: str  # type of the numbers
    offset: int  # byte where they begin
    travels = True

    @property
    def dtype(self) -> str:
        """Type of the rows as they are read."""
        kind = np.dtype(self.kind)
        return "float32" if kind.kind == "f" and kind.itemsize <= 4 else "float64"

    @property
    def begins(self) -> Sequence[int]:
        """Any row; on the web, where an answer goes on to its end, the first one."""
        return [0] if is_http(self.name) else range(0, self.n_rows, self._step)

    @property
    def _step(self) -> int:
        """Rows of a request."""
        return max(1, _REQUEST_BYTES // (self.width * np.dtype(self.kind).itemsize))

    def check(self) -> None:
        """Refuse other content than what was described."""
        if ask(self.name, _describe, self.name).n_rows != self.n_rows:
            raise InvalidInput(f"{shown(self.name)} has another number of rows than before")

    def blocks(self, start: int, stop: int) -> Iterator[FloatArray]:
        """Yield the rows between two; where a connection is lost, the rest is asked for again."""
        size, at = self.width * np.dtype(self.kind).itemsize, start
        for attempt in patiently(self.name):
            try:
                with arrow_errors(self.name, ".npy"), open_bytes(self.name) as handle:
                    handle.seek(self.offset + at * size)
                    while at < stop:
                        content = handle.read(min(self._step, stop - at) * size)
                        if len(content) % size or not content:
                            raise InvalidInput(f"{shown(self.name)} is shorter than it says")
                        values = np.frombuffer(content, self.kind).reshape(-1, self.width)
                        at += len(values)
                        attempt.succeeded()
                        yield values.astype(self.dtype, copy=False)
                return
            except LOST as error:
                attempt.failed(error)


def _describe(file: str) -> NpyShard:
    with arrow_errors(file, ".npy"), open_bytes(file) as handle:
        version = np.lib.format.read_magic(handle)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, by_column, dtype = read(handle)
        offset = handle.tell()
    if len(shape) != 2 or by_column or dtype.kind not in "fiub" or 0 in shape:
        raise InvalidInput(f"{shown(file)} holds {dtype} of shape {shape}; expected rows of numbers")
    return NpyShard(file, shape[0], shape[1], dtype.str, offset)


def _forward_rows(shards: list[NpyShard]) -> ForwardRows:
    for shard in shards:
        if (shard.width, shard.kind) != (shards[0].width, shards[0].kind):
            raise InvalidInput(f"{shard.name} has rows of another width or type than {shards[0].name}")
    return ForwardRows(shards, shards[0].width, shards[0].dtype)


def is_images(array: npt.NDArray[Any]) -> bool:
    """Tell images from rows of numbers."""
    return array.dtype == np.uint8 and array.ndim in (3, 4)


def _write(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    """Write rows in pick order; shards keep their names, each with its own rows."""
    if len(dataset.files) < 2 or dataset.content is not None:
        write_arrays(dataset, rows, folder)
        return
    ends = np.cumsum(dataset.sizes)
    home = np.searchsorted(ends, rows, side="right")
    for number, file in enumerate(dataset.files):
        np.save(folder / Path(file).name, dataset.take(rows[home == number]), allow_pickle=False)
    lines = ["shard,row,label\n"]
    for row, number in zip(rows.tolist(), home.tolist(), strict=True):
        label = "" if dataset.labels is None else dataset.labels[row]
        lines.append(f"{Path(dataset.files[number]).name},{row},{label}\n")
    (folder / "rows.csv").write_text("".join(lines), encoding="utf-8")


FORMAT = Format("npy", lambda x, request: is_shards(x, request, "npy"), _open, _write)
