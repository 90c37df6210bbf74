"""Logical batches: random samples of the rows that are read in sequence.

The order is a property of the data's shape and the seed, never of memory, machine or kind of file. The rows
are cut into eight lanes of one length, which are read side by side, each from its front on: the rows of a
window, a stretch of every lane, are shuffled together. A reader holds one window at a time and reads nothing
twice, and a file sorted by class, time or corruption does no harm.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import IntArray
from ..compute.blocks import group_order

BLOCK_ROWS = 256
LANES = 8  # 2,000,000 rows in row groups of 100,000: a tenth of them is decoded to get to where lanes begin
_WINDOW_VALUES = 1 << 25  # 128 MB of float32
_MOST_BLOCKS = 256


def window_blocks(n_features: int) -> int:
    """Return how many blocks are shuffled together."""
    return max(8, min(_MOST_BLOCKS, _WINDOW_VALUES // (n_features * BLOCK_ROWS)))


def windows(n_rows: int, n_features: int, seed: int) -> Iterator[IntArray]:
    """Yield, window by window, the rows in the order to visit them."""
    n_blocks = -(-n_rows // BLOCK_ROWS)
    step = window_blocks(n_features)
    length, stretch = n_blocks, n_blocks
    lanes = np.zeros(1, np.int64)
    visits = np.random.default_rng([seed, n_rows]).permutation(n_blocks) if n_blocks <= step else None
    if visits is None:
        length, stretch = -(-n_blocks // LANES), max(1, step // LANES)
        lanes = np.arange(0, n_blocks, length)
    for number, start in enumerate(range(0, length, stretch)):
        ahead = np.arange(start, min(start + stretch, length)) if visits is None else visits
        chosen = (lanes[:, None] + ahead).ravel()
        rows = (chosen[:, None] * BLOCK_ROWS + np.arange(BLOCK_ROWS)).ravel()
        shuffle = np.random.default_rng([seed, n_rows, number])
        yield shuffle.permutation(rows[rows < n_rows])


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of one class that compete for the same picks."""

    code: int  # the class
    number: int  # how many batches of the class came before
    rows: IntArray  # row numbers, ascending, so that the smallest one wins exact ties


class Router:
    """Deals the rows of one window after the other out to batches of their classes.

    `codes`: class of each row; a negative one means that the row takes no part. `batch_size`: rows in a
    batch; the last one of a class may have fewer.
    """

    def __init__(self, codes: IntArray, n_classes: int, batch_size: int) -> None:
        self.codes = codes
        self.batch_size = batch_size
        self.waiting: list[IntArray] = [np.empty(0, np.int64) for _ in range(n_classes)]
        self.numbers = np.zeros(n_classes, np.int64)

    def feed(self, rows: IntArray) -> Iterator[Batch]:
        """Take the rows of a window in their order; yield the batches that became full."""
        order, present, starts = group_order(self.codes[rows])
        for code, own in zip(present, np.split(rows[order], starts[1:]), strict=False):
            queue = np.concatenate([self.waiting[code], own])
            full = len(queue) // self.batch_size * self.batch_size
            for start in range(0, full, self.batch_size):
                yield self._batch(int(code), queue[start : start + self.batch_size])
            self.waiting[code] = queue[full:]

    def flush(self) -> Iterator[Batch]:
        """Yield what is left, one last batch per class."""
        for code, queue in enumerate(self.waiting):
            if len(queue):
                yield self._batch(code, queue)

    def _batch(self, code: int, rows: IntArray) -> Batch:
        batch = Batch(code, int(self.numbers[code]), np.sort(rows))
        self.numbers[code] += 1
        return batch


def chain_sizes(n_rows: int, batch_size: int, streams: int) -> IntArray:
    """Return how many rows of a class each of its chains sees: each has a run of its batches.

    >>> chain_sizes(10, 4, 2)
    array([8, 2])
    """
    sizes = np.zeros(streams, np.int64)
    lengths = np.minimum(batch_size, n_rows - np.arange(0, n_rows, batch_size))
    np.add.at(sizes, chain_of(np.arange(len(lengths)), n_rows, batch_size, streams), lengths)
    return sizes


def chain_of(batch: Any, n_rows: int, batch_size: int, streams: int) -> Any:
    """Return which chain of a class of `n_rows` rows a batch belongs to, by the number of the batch.

    Runs of batches, not every other one: the rows of a chain are then those of a few windows, and whoever
    runs the chain reads no others.

    >>> [chain_of(batch, n_rows=10, batch_size=4, streams=2) for batch in range(3)]
    [0, 0, 1]
    """
    return batch * streams // -(-n_rows // batch_size)
