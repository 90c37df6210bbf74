"""Distances of all rows to the points of their groups, and quantiles of values by group."""

import math

import numpy as np

from ..arrays import FloatArray, IntArray, Rows, Vector
from ..compute import kernels
from ..compute.reads import EachRow
from ..compute.runner import PerRow, run_read

_MANY_GROUPS = 1024


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
    NaN. Time: O(n); O(n log n) where groups are many.
    """
    parts = [values]
    result = np.full((n_groups, len(shares)), np.nan)
    if codes is not None:
        counts = np.bincount(codes, minlength=n_groups)
        ends = np.cumsum(counts)
        if n_groups > _MANY_GROUPS:  # more than are quickly taken one by one
            there = counts > 0
            least = np.clip(np.ceil(np.outer(counts[there], shares)).astype(np.int64), 1, counts[there, None])
            places = (ends - counts)[there, None] + least - 1
            result[there] = values[np.lexsort((values, codes))][places]
            return result
        small = codes.astype(np.min_scalar_type(n_groups))  # numbers of 16 bits are sorted by counting
        parts = np.split(values[np.argsort(small, kind="stable")], ends[:-1])
    for group, own in enumerate(parts):
        if len(own):
            places = [min(max(math.ceil(share * len(own)), 1), len(own)) - 1 for share in shares]
            result[group] = np.partition(own, places)[places]
    return result
