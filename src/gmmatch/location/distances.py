"""Distances of all rows to the points of their groups, and quantiles of values by group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..compute.blocks import tiles
from ..compute.passes import PerRow, map_blocks
from ..records import FloatArray, IntArray

Vector = npt.NDArray[np.float64]


def group_distances(rows: FloatArray, codes: IntArray | None, points: Vector) -> Vector:
    """Return the distance of each row to the point of its group, in float64.

    Parameters
    ----------
    rows
        Rows; only slices are read.
    codes
        Group of each row; None: all belong to the first. Rows of no group get a number without meaning.
    points
        One point per group, float64.

    Notes
    -----
    Every distance is a function of its row and point alone: no BLAS, a fixed order of additions.
    Time: one pass. Memory beyond the input: O(block) and 8 bytes per row.

    Examples
    --------
    >>> group_distances(np.array([[0.0], [5.0]]), np.array([0, 1]), np.array([[3.0], [4.0]]))
    array([3., 1.])
    """
    own_code = None if codes is None else PerRow(codes)

    def part(block: slice) -> Vector:
        values = np.asarray(rows[block])
        code = None if own_code is None else own_code[block]
        squares = np.empty(len(values))
        pieces = list(tiles(*values.shape))
        buffer = np.empty((pieces[0].stop, values.shape[1]))
        # Rows of no group may hold anything.
        with np.errstate(over="ignore", invalid="ignore"):
            for tile in pieces:
                offsets = buffer[: tile.stop - tile.start]
                if code is None:
                    np.subtract(values[tile], points[0], out=offsets)
                else:
                    points.take(code[tile], axis=0, out=offsets, mode="clip")
                    np.subtract(values[tile], offsets, out=offsets)
                np.multiply(offsets, offsets, out=offsets)
                np.add.reduce(offsets, axis=1, out=squares[tile])
        return np.sqrt(squares, out=squares)

    return np.concatenate(list(map_blocks(part, rows, "measuring distances")))


def group_quantiles(
    values: Vector, codes: IntArray | None, n_groups: int, shares: tuple[float, ...] = (0.5,)
) -> Vector:
    """Return quantiles of the values of each group: for share q of n values the ceil(q n)-th smallest.

    An order statistic of the values, never a mean of two, so that no rounding enters. Empty groups have
    NaN. Time: O(n log n).

    Examples
    --------
    >>> group_quantiles(np.array([3.0, 1.0, 2.0, 9.0]), np.array([0, 0, 0, 1]), 2)
    array([[2.],
           [9.]])
    """
    code = np.zeros(len(values), dtype=np.int64) if codes is None else codes
    ordered = values[np.lexsort((values, code))]
    counts = np.bincount(code, minlength=n_groups)
    starts = np.cumsum(counts) - counts
    result = np.full((n_groups, len(shares)), np.nan)
    filled = counts > 0
    for column, share in enumerate(shares):
        place = np.clip(np.ceil(share * counts).astype(np.int64) - 1, 0, np.maximum(counts - 1, 0))
        result[filled, column] = ordered[(starts + place)[filled]]
    return result
