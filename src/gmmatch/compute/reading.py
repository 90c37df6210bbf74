"""What is about to be read, said before it is: rows in files are then read in the order of the file, once."""

import mmap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray
from ..data import machine_memory
from .counting import source_of
from .passes import Engine, PerRow, map_blocks

Item = TypeVar("Item")

_BLOCK_ROWS = 256
_DENSE = 1 / 4  # share of a block's rows from which it pays to read the block as a whole
_MEMORY_SHARE = 1 / 8  # of the machine, for rows that are held until they are asked for


def read_ahead(rows: Any, numbers: npt.NDArray[Any]) -> None:
    """Let rows that will be asked for, each once and then settled, be read in large pieces."""
    source = source_of(rows)
    if hasattr(source, "expect_window"):
        source.expect_window(numbers)
        return
    advise = getattr(getattr(source, "base", None), "madvise", None)
    if advise is None:
        return
    width = source.shape[1] * source.itemsize
    header = source.offset % mmap.ALLOCATIONGRANULARITY
    for block in np.flatnonzero(np.bincount(numbers // _BLOCK_ROWS) >= _DENSE * _BLOCK_ROWS):
        start = header + int(block) * _BLOCK_ROWS * width
        page = start // mmap.PAGESIZE * mmap.PAGESIZE
        advise(mmap.MADV_WILLNEED, page, start - page + _BLOCK_ROWS * width)


def settle(rows: Any, numbers: IntArray, kept: IntArray) -> None:
    """Say that rows were dealt with, and which of them will be asked for once more."""
    source = source_of(rows)
    if hasattr(source, "settle"):
        source.settle(numbers, kept)


def hold_picks(rows: Any, picks: IntArray) -> None:
    """Hold rows that were picked from a sample until they are requested once more."""
    source = source_of(rows)
    if hasattr(source, "hold"):
        numbers = np.sort(picks)
        source.hold(numbers, np.asarray(source[numbers]))


def announced(
    rows: Any, items: Iterable[Item], memory: int | None = None, engine: Engine | None = None
) -> Iterator[Item]:
    """Yield items whose `rows` are read together, in the order of the file, as many as fit in memory.

    `memory`: bytes that may be used in all. `engine`: who reads the rows, in place of this machine.
    """
    source = source_of(rows)
    if not hasattr(source, "expect"):
        yield from items
        return
    most = (memory // 4 if memory else machine_memory() * _MEMORY_SHARE) // (
        source.shape[1] * source.itemsize
    )
    waiting: list[Any] = []
    size = 0
    for item in items:
        if waiting and size + len(item.rows) > most:  # type: ignore[attr-defined]
            _expect(source, waiting, engine)
            yield from waiting
            waiting, size = [], 0
        waiting.append(item)
        size += len(item.rows)  # type: ignore[attr-defined]
    if waiting:
        _expect(source, waiting, engine)
        yield from waiting


def _expect(source: Any, items: Sequence[Any], engine: Engine | None) -> None:
    numbers = np.unique(np.concatenate([item.rows for item in items]))
    numbers = source.unknown(numbers)
    if engine is None:
        source.expect(numbers)
        return
    chosen = np.zeros(len(source), dtype=bool)
    chosen[numbers] = True
    own = PerRow(chosen)

    def part(block: slice) -> npt.NDArray[Any]:
        return np.asarray(source[block])[own[block]] if own[block].any() else np.empty((0, source.shape[1]))

    values = np.empty((len(numbers), source.shape[1]), source.dtype)
    done = 0
    for found in map_blocks(part, source, "reading picks", counted=False):
        values[done : done + len(found)] = found  # what workers sent gives its memory back at once
        done += len(found)
    source.hold(numbers, values)
