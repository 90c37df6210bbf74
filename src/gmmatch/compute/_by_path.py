"""Rows that another process can open for itself: where they are, in place of the rows."""

import mmap
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data import ForwardRows, StackedRows
from ..data.formats.arrays import unheld
from ..errors import InvalidInput
from ..validation import glance


@dataclass(frozen=True)
class MappedFile:
    """An array in a file."""

    path: str  # the file, absolute
    # Type and shape of the array, and the byte of the file where it begins.
    dtype: str
    shape: tuple[int, ...]
    offset: int

    def open(self) -> npt.NDArray[Any]:
        """Map the array into memory."""
        try:
            return np.memmap(self.path, np.dtype(self.dtype), "r", self.offset, self.shape)
        except FileNotFoundError:
            raise InvalidInput(f"there is no file {self.path}") from None
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{self.path} cannot be read: {error}") from None


@dataclass(frozen=True)
class MappedFiles:
    """Arrays in files, stacked on top of each other."""

    parts: tuple[MappedFile, ...]

    def open(self) -> StackedRows:
        """Map the arrays into memory, without a file held open for each."""
        return StackedRows([unheld(part.open()) for part in self.parts], [part.path for part in self.parts])


@dataclass(frozen=True)
class Forward:
    """Rows that can only be read forward: whoever needs some of them decodes these for itself, once."""

    rows: ForwardRows

    def open(self) -> ForwardRows:
        """Return the rows, once the first and the last shard were seen to be what they should be."""
        for shard in {self.rows.shards[0], self.rows.shards[-1]}:
            shard.check()
        return self.rows


Place = MappedFile | MappedFiles | Forward


def by_path(rows: Any, name: str) -> Place:
    """Return where rows are that are mapped from files.

    `rows`: a memory map, a `StackedRows` of some, or `ForwardRows`.

    Raises `InvalidInput`: the rows are held in memory.
    """
    if isinstance(rows, ForwardRows) and rows.can_travel:
        return Forward(rows)
    if isinstance(rows, StackedRows):
        return MappedFiles(tuple(_locate(part, name) for part in rows.parts))
    return _locate(rows, name)


def glimpse(rows: Any) -> str:
    """Return what rows that a worker opens must look like; nothing of those that it checks by itself."""
    return "" if isinstance(rows, ForwardRows) else glance(rows)


def _locate(array: Any, name: str) -> MappedFile:
    filename, mapping = getattr(array, "filename", None), getattr(array, "_mmap", None)
    if filename is None or mapping is None or not array.flags.c_contiguous:
        raise InvalidInput(
            f"the rows of {name} are held in memory, and the engine 'ray' reads rows by path: give it a file:"
            " .npy, safetensors, Parquet or Arrow (small files of columns are opened with mapped=True)"
        )
    # A slice of a memory map has the offset of the whole: its own follows from where it is in memory.
    begin = np.frombuffer(mapping, np.uint8).ctypes.data
    first = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    return MappedFile(
        os.path.abspath(filename), array.dtype.str, array.shape, int(first + array.ctypes.data - begin)
    )
