"""Logical batches: seeded random samples of the rows that can be read almost in sequence.

The order is a property of the data's shape and the seed, never of memory or machine. Blocks of rows are
visited in random order; the rows of a window of blocks are shuffled together. A reader needs one window
in memory and reads whole blocks, and a file sorted by class, time or corruption does no harm.
"""

from __future__ import annotations

import numpy as np

from ..records import IntArray

BLOCK_ROWS = 256
_WINDOW_VALUES = 1 << 25  # 128 MB of float32
_MOST_BLOCKS = 256


def window_blocks(n_features: int) -> int:
    """Return how many blocks are shuffled together."""
    return max(8, min(_MOST_BLOCKS, _WINDOW_VALUES // (n_features * BLOCK_ROWS)))


def logical_order(n_rows: int, n_features: int, seed: int) -> IntArray:
    """Return the order in which the rows are visited.

    Examples
    --------
    >>> sorted(logical_order(1000, 8, seed=0).tolist()) == list(range(1000))
    True
    """
    rng = np.random.default_rng([seed, n_rows])
    n_blocks = -(-n_rows // BLOCK_ROWS)
    visits = rng.permutation(n_blocks)
    step = window_blocks(n_features)
    parts = []
    for start in range(0, n_blocks, step):
        window = visits[start : start + step]
        rows = (window[:, None] * BLOCK_ROWS + np.arange(BLOCK_ROWS)).ravel()
        parts.append(rng.permutation(rows[rows < n_rows]))
    return np.concatenate(parts)


def batch_quotas(n_rows: int, k: int, batch_size: int) -> IntArray:
    """Share `k` picks evenly among the batches of `n_rows` rows; they add up to `k`.

    Examples
    --------
    >>> batch_quotas(10, 5, 4)
    array([2, 2, 1])
    """
    ends = np.minimum(np.arange(batch_size, n_rows + batch_size, batch_size), n_rows)
    # The k-th pick falls due when the k-th equal part of the rows has been seen.
    due = ends * k // n_rows
    return np.diff(due, prepend=0)
