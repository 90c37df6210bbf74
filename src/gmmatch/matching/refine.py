"""Swaps after the greedy picks: another solver of the same objective."""

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..records import FloatArray, IntArray

Vector = npt.NDArray[np.float64]
_LEAST_GAIN = 1e-12  # of the squared error, below which a swap is rounding


def swap(rows: FloatArray, center: Vector, order: IntArray, swaps: int) -> tuple[IntArray, int]:
    """Exchange picks for other rows, each time the pair that brings the mean of the picks closest.

    Returns the picks, a new one in the place of the one that it replaced, and how many swaps were made: at
    most `swaps`, fewer where none helps any more.

    With m = x - center and s the sum of the picks' m, a swap of i for j leaves |s - m_i + m_j|^2. Time:
    O(n d k) once, then O(n (k + d)) per swap; memory: O(n (k + d)).

    >>> rows = np.array([[0.0], [1.0], [3.0], [10.0]])
    >>> swap(rows, np.array([2.0]), np.array([0, 1]), 5)
    (array([2, 1]), 1)
    """
    picks = order.copy()
    offsets = rows.astype(np.float64) - center
    squares = np.einsum("ij,ij->i", offsets, offsets)
    free = np.ones(len(rows), dtype=bool)
    free[picks] = False
    made = 0
    # One thread, so that every product is the same whatever else runs.
    with threadpool_limits(1):
        products = offsets[picks] @ offsets.T
        total = offsets[picks].sum(axis=0)
        while made < swaps and free.any():
            along = offsets @ total
            gains = (squares[picks] - 2 * along[picks])[:, None] + (squares + 2 * along) - 2 * products
            gains[:, ~free] = np.inf
            out, new = np.unravel_index(int(gains.argmin()), gains.shape)
            if gains[out, new] >= -_LEAST_GAIN * float(total @ total):
                break
            total += offsets[new] - offsets[picks[out]]
            free[picks[out]], free[new] = True, False
            picks[out] = new
            products[out] = offsets[new] @ offsets.T
            made += 1
    return picks, made
