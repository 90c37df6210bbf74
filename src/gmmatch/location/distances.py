"""Distances of all rows to the points of their groups, and quantiles of values by group."""

import numpy as np

from ..arrays import FloatArray, IntArray, Rows, Vector
from ..compute import kernels
from ..compute.reads import EachRow
from ..compute.runner import PerRow, run_read


def group_distances(rows: Rows, codes: IntArray | None, points: Vector) -> Vector:
    """Return the distance of each row to the point of its group, in float64.

    `rows`: only slices are read. `codes`: group of each row; None: all belong to the first. Rows of no
    group get a number without meaning. `points`: one point per group, float64.

    Every distance is a function of its row and point alone: no BLAS, a fixed order of additions.
    Time: one pass. Memory beyond the input: O(block) and 8 bytes per row.
    """
    own_code = PerRow(codes)

    def part(block: slice, values: FloatArray) -> tuple[Vector]:
        return (kernels.group_distances(values, own_code[block], points),)

    return run_read(rows, EachRow("measuring distances", part))[0]


def group_quantiles(
    values: Vector, codes: IntArray | None, n_groups: int, shares: tuple[float, ...] = (0.5,)
) -> Vector:
    """Return quantiles of the values of each group: for share q of n values the ceil(q n)-th smallest.

    An order statistic of the values, never a mean of two, so that no rounding enters. Empty groups have
    NaN. Time: O(n log n).
    """
    code = np.zeros(len(values), np.int8) if codes is None else codes
    counts = np.bincount(code, minlength=n_groups)
    there = counts > 0
    ranks = np.ceil(np.outer(counts[there], shares)).astype(np.int64).clip(1, counts[there, None])
    result = np.full((n_groups, len(shares)), np.nan)
    result[there] = values[np.lexsort((values, code))][(np.cumsum(counts) - counts)[there, None] + ranks - 1]
    return result
