"""Rows in blocks of a fixed size, so that a sum does not depend on how the rows are held.

Floating-point sums depend on their order. Everything that sums over rows therefore sums inside blocks
whose size follows from the number of features alone, and adds the blocks' results in the order of the
rows. Inside a block only element-wise operations and NumPy's own reductions are used, whose order of
additions is fixed, unlike that of a multi-threaded BLAS.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Item = TypeVar("Item")
Result = TypeVar("Result")

_BLOCK_VALUES = 1 << 19  # four megabytes of float64: enough work for a thread, little memory
_LARGEST_BLOCK = 32768
SINGLE_RUN = 128  # rows that may be added up in float32
_AHEAD = 4  # results under way per thread

_threads: ContextVar[int | None] = ContextVar("gmmatch_threads", default=None)


def block_rows(n_features: int) -> int:
    """Return the number of rows in a block: a power of two that follows from the width alone.

    Examples
    --------
    >>> block_rows(2), block_rows(512), block_rows(1280)
    (32768, 1024, 256)
    """
    fitting = max(1, _BLOCK_VALUES // n_features)
    return min(_LARGEST_BLOCK, 1 << (fitting.bit_length() - 1))


def blocks(rows: npt.NDArray[Any]) -> Iterator[slice]:
    """Yield the slices that cut `rows` into blocks."""
    step = block_rows(rows.shape[1])
    for start in range(0, len(rows), step):
        yield slice(start, min(start + step, len(rows)))


def row_norms(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the Euclidean norm of each row of a block, in float64."""
    squares: npt.NDArray[np.float64] = np.add.reduce(rows * rows, axis=1).astype(np.float64, copy=False)
    return np.sqrt(squares)


@dataclass(frozen=True, eq=False)
class Grouped:
    """A block of rows sorted by group.

    Attributes
    ----------
    rows, weights, codes
        The rows, their weights and their groups, in the order of the groups.
    groups, starts
        The groups present, ascending, and where the run of each begins.
    member
        For each row, the position of its group in `groups`.
    """

    rows: npt.NDArray[Any]
    weights: npt.NDArray[np.float64]
    codes: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    member: npt.NDArray[np.int64]


def group_block(
    rows: npt.NDArray[Any], codes: npt.NDArray[Any] | None, weights: npt.NDArray[np.float64] | None
) -> Grouped:
    """Sort a block of rows by group; rows of a negative group belong to none and are left out.

    Examples
    --------
    >>> block = group_block(np.array([[1.0], [2.0], [3.0]]), np.array([4, -1, 2]), None)
    >>> block.rows.ravel().tolist(), block.groups.tolist(), block.starts.tolist()
    ([3.0, 1.0], [2, 4], [0, 1])
    """
    weight = np.ones(len(rows)) if weights is None else weights
    if codes is None or (len(codes) and codes[0] >= 0 and (codes == codes[0]).all()):
        start, zeros = np.zeros(1, np.int64), np.zeros(len(rows), np.int64)
        own = zeros if codes is None else codes
        return Grouped(rows, weight, own, own[:1], start, zeros)
    order, groups, starts = group_order(codes)
    member = np.repeat(np.arange(len(groups)), np.diff([*starts, len(order)]))
    return Grouped(rows[order], weight[order], codes[order], groups, starts, member)


def group_order(
    codes: npt.NDArray[Any],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return positions in the order of their groups, the groups, and where the run of each begins.

    Negative codes are left out.

    Examples
    --------
    >>> group_order(np.array([3, 1, -1, 3]))
    (array([1, 0, 3]), array([1, 3]), array([0, 1]))
    """
    order = np.argsort(codes, kind="stable")
    order = order[np.searchsorted(codes[order], 0) :]
    groups, starts = np.unique(codes[order], return_index=True)
    return order, groups, starts


def sum_runs(rows: npt.NDArray[Any], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the float64 sum of each run of consecutive rows; ten times as fast as ``numpy.add.reduceat``.

    Examples
    --------
    >>> sum_runs(np.array([[1.0], [2.0], [4.0]]), np.array([0, 2]))
    array([[3.],
           [4.]])
    """
    ends = [*starts[1:], len(rows)]
    if not len(starts):
        return np.zeros((0, rows.shape[1]))
    return np.stack([sum_rows(rows[start:end]) for start, end in zip(starts, ends, strict=True)])


def sum_rows(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the float64 sum of rows; single precision is trusted for a few rows at a time only."""
    if rows.dtype == np.float64 or len(rows) <= SINGLE_RUN:
        return np.asarray(np.add.reduce(rows), dtype=np.float64)
    parts = [np.add.reduce(rows[start : start + SINGLE_RUN]) for start in range(0, len(rows), SINGLE_RUN)]
    return np.asarray(np.add.reduce(np.stack(parts), dtype=np.float64))


@contextmanager
def limit_threads(threads: int) -> Iterator[None]:
    """Use so many threads, unless told otherwise, for what is called inside the ``with`` block."""
    token = _threads.set(threads)
    try:
        yield
    finally:
        _threads.reset(token)


def map_in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    threads: int | None = None,
    ahead: int = _AHEAD,
) -> Iterator[Result]:
    """Yield `function(item)` for each item in order, computed on `threads` (by default all) cores.

    NumPy lets go of the interpreter during array operations, so that threads run side by side. The
    results do not depend on the number of threads, because each is computed from its item alone.

    Examples
    --------
    >>> list(map_in_order(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    threads = threads or _threads.get() or os.cpu_count() or 1
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
