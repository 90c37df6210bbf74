"""The mean, summed in blocks so that it does not depend on how the rows are held."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..records import FloatArray, IntArray
from .blocks import blocks, group_block, map_in_order, sum_runs

Vector = npt.NDArray[np.float64]


def group_means(
    rows: FloatArray, codes: IntArray | None, n_groups: int, weights: Vector | None = None
) -> Vector:
    """Return the (weighted) mean of each group in float64, in one pass.

    Parameters
    ----------
    rows
        Rows; only slices are read.
    codes
        Group of each row, none empty; a negative one means no group; None: one group.
    n_groups
        Number of groups.
    weights
        Optional weight per row.

    Notes
    -----
    Time: one pass. Memory beyond the input: O(groups * features).
    """

    def part(block: slice) -> tuple[IntArray, Vector, Vector]:
        values = np.asarray(rows[block])
        if weights is not None:
            values = values * weights[block][:, None]
        grouped = group_block(len(values), None if codes is None else codes[block])
        mass = None if weights is None else grouped.take(weights[block])
        return (
            grouped.groups,
            sum_runs(values, grouped.starts, grouped.order),
            np.bincount(grouped.member, mass, len(grouped.groups)).astype(np.float64),
        )

    totals, mass = np.zeros((n_groups, rows.shape[1])), np.zeros(n_groups)
    for groups, sums, weight in map_in_order(part, blocks(rows)):
        totals[groups] += sums
        mass[groups] += weight
    totals /= mass[:, None]
    return totals


def mean(rows: FloatArray, weights: Vector | None = None) -> Vector:
    """Return the (weighted) mean of the rows in float64.

    Time: one pass. Memory beyond the input: O(block).

    Examples
    --------
    >>> import numpy as np
    >>> mean(np.array([[0.0, 1.0], [2.0, 3.0]]))
    array([1., 2.])
    """
    result: Vector = group_means(rows, None, 1, weights)[0]
    return result
