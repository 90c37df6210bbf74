"""Rows in blocks of a fixed size, so that a sum does not depend on how the rows are held.

Floating-point sums depend on their order. Everything that sums over rows therefore sums inside blocks
whose size follows from the number of features alone, and adds the blocks' results in the order of the
rows. Inside a block only element-wise operations and NumPy's own reductions are used, whose order of
additions is fixed, unlike that of a multi-threaded BLAS.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..arrays import Rows

Item = TypeVar("Item")
Result = TypeVar("Result")

_BLOCK_VALUES = 1 << 20  # eight megabytes of float64: enough work for a thread, little memory
LARGEST_BLOCK = 32768
_TILE_VALUES = 1 << 19  # four megabytes of float64: small enough for the cache, few calls for each thread
_AHEAD = 4  # results under way per thread
_GROUPS_PER_ROW = 4  # beyond which sorting the rows is less work than counting them by group

_threads: ContextVar[int | None] = ContextVar("gmmatch_threads", default=None)


def block_rows(n_features: int) -> int:
    """Return the number of rows in a block: a power of two that follows from the width alone."""
    fitting = max(1, _BLOCK_VALUES // n_features)
    return min(LARGEST_BLOCK, 1 << (fitting.bit_length() - 1))


def blocks(rows: Rows) -> Iterator[slice]:
    """Yield the slices that cut `rows` into blocks."""
    step = block_rows(rows.shape[1])
    for start in range(0, len(rows), step):
        yield slice(start, min(start + step, len(rows)))


def tiles(n_rows: int, n_features: int) -> Iterator[slice]:
    """Yield the slices that cut a block into pieces that stay in cache while they are worked on."""
    step = max(1, _TILE_VALUES // n_features)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def row_norms(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the Euclidean norm of each row of a block, in float64."""
    squares = np.add.reduce(rows * rows, axis=1)
    return np.sqrt(np.asarray(squares, dtype=np.float64))


def by_group(codes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return positions in the order of their groups, those of a group in the order of the positions.

    >>> by_group(np.array([3, 1, -1, 3]))
    array([2, 1, 0, 3])
    """
    if codes.size and codes.min() >= -(2**15) and codes.max() < 2**15:
        codes = codes.astype(np.int16)  # numbers of 16 bits are sorted by counting
    return np.argsort(codes, kind="stable")


def turns(codes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return for each entry how many entries of its group come before it.

    >>> turns(np.array([1, 0, 1, 1]))
    array([0, 0, 1, 2])
    """
    order = by_group(codes)
    sizes = np.bincount(codes)
    found = np.empty(len(codes), np.int64)
    found[order] = np.arange(len(codes)) - (np.cumsum(sizes) - sizes)[codes[order]]
    return found


def group_order(
    codes: npt.NDArray[Any],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return positions in the order of their groups, the groups, and where the run of each begins.

    Negative codes are left out.

    >>> group_order(np.array([3, 1, -1, 3]))
    (array([1, 0, 3]), array([1, 3]), array([0, 1]))
    """
    order = by_group(codes)
    order = order[np.searchsorted(codes[order], 0) :]
    groups, starts = np.unique(codes[order], return_index=True)
    return order, groups, starts


def present_groups(
    codes: npt.NDArray[Any], n_groups: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return which of `n_groups` groups are there, and the place of each code among these; -1: of none.

    >>> present_groups(np.array([3, 1, -1, 3]), 5)
    (array([1, 3]), array([ 1,  0, -1,  1]))
    """
    if n_groups > _GROUPS_PER_ROW * len(codes):
        present, own = np.unique(np.maximum(codes, -1), return_inverse=True)
        skipped = int(np.searchsorted(present, 0))
        return present[skipped:], own - skipped
    codes = np.maximum(codes, -1)
    present = np.flatnonzero(np.bincount(codes + 1, minlength=n_groups + 1)[1:])
    place = np.full(n_groups + 1, -1)
    place[present] = np.arange(len(present))
    return present, place[codes]


@contextmanager
def limit_threads(threads: int) -> Iterator[None]:
    """Use so many threads, unless told otherwise, for what is called inside the ``with`` block."""
    token = _threads.set(threads)
    try:
        yield
    finally:
        _threads.reset(token)


def core_count() -> int:
    """Return how many threads to use: as many as cores that this process may use, or as it was told."""
    if told := _threads.get():
        return told
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None, ahead: int = _AHEAD
) -> Iterator[Result]:
    """Yield `function(item)` for each item in order, computed on `threads` (by default all) cores.

    NumPy lets go of the interpreter during array operations, so that threads run side by side. The
    results do not depend on the number of threads, because each is computed from its item alone.

    >>> list(map_in_order(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    threads = threads or core_count()
    if threads == 1:
        yield from map(function, items)
        return
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= threads * ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
