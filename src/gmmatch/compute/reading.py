"""What is about to be read, said before it is, so that it is read in the order of the file."""

import mmap
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..data import ForwardRows, machine_memory
from .counting import source_of

Item = TypeVar("Item")

_BLOCK_ROWS = 256
_DENSE = 1 / 4  # share of a block's rows from which it pays to read the block as a whole
_MEMORY_SHARE = 1 / 8  # of the machine, for rows that are held until they are asked for


def read_ahead(rows: Any, numbers: npt.NDArray[Any]) -> None:
    """Let rows that will be asked for, each once and then settled, be read in large pieces."""
    source = source_of(rows)
    if isinstance(source, ForwardRows):
        source.expect(numbers)
        source = None if source.mapped is None else source.mapped.base
    advise = getattr(getattr(source, "base", None), "madvise", None)
    if advise is None:
        return
    width = source.shape[1] * source.itemsize
    header = source.offset % mmap.ALLOCATIONGRANULARITY
    for block in np.flatnonzero(np.bincount(numbers // _BLOCK_ROWS) >= _DENSE * _BLOCK_ROWS):
        start = header + int(block) * _BLOCK_ROWS * width
        page = start // mmap.PAGESIZE * mmap.PAGESIZE
        advise(mmap.MADV_WILLNEED, page, start - page + _BLOCK_ROWS * width)


def announced(rows: Any, items: Iterable[Item], memory: int | None = None) -> Iterator[Item]:
    """Yield items; where rows are decoded at every read, the `rows` of as many as fit in memory at once.

    `memory`: bytes that may be used in all.
    """
    source = source_of(rows)
    if not isinstance(source, ForwardRows) or source.spills:
        yield from items
        return
    most = (memory // 4 if memory else machine_memory() * _MEMORY_SHARE) // (
        source.shape[1] * source.itemsize
    )
    waiting: list[Any] = []
    size = 0
    for item in items:
        if waiting and size + len(item.rows) > most:  # type: ignore[attr-defined]
            source.expect(np.unique(np.concatenate([one.rows for one in waiting])))
            yield from waiting
            waiting, size = [], 0
        waiting.append(item)
        size += len(item.rows)  # type: ignore[attr-defined]
    if waiting:
        source.expect(np.unique(np.concatenate([one.rows for one in waiting])))
        yield from waiting
