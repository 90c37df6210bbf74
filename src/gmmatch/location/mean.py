"""The mean, summed in blocks so that it does not depend on how the rows are held."""

from functools import partial

import numpy as np

from ..arrays import FloatArray, IntArray, Mask, Rows, Vector
from ..compute import kernels
from ..compute.blocks import present_groups
from ..compute.reads import Sums
from ..compute.runner import PerRow, run_read

Totals = tuple[IntArray, Vector, Vector]


def group_means(rows: Rows, codes: IntArray | None, n_groups: int, weights: Vector | None = None) -> Vector:
    """Return the (weighted) mean of each group in float64, in one pass.

    `rows`: only slices are read. `codes`: group of each row, none empty; a negative one means no group;
    None: one group. `weights`: optional weight per row.

    Time: one pass. Memory beyond the input: O(groups * features).
    """
    return means_of(run_read(rows, group_totals(rows, codes, n_groups, weights)))


def group_totals(
    rows: Rows,
    codes: IntArray | None,
    n_groups: int,
    weights: Vector | None = None,
    usable: Mask | None = None,
) -> Sums[Totals]:
    """Return the read that adds up the rows of groups, by itself or beside `Look`; see `means_of`.

    `rows`, `codes`, `n_groups`, `weights`: as for `group_means`; groups may be empty. `usable`: rows that
    count; None: all. Rows that are no ordinary numbers never do, where `Look` tells which these are.
    """
    own = PerRow(codes), PerRow(weights), PerRow(usable)

    def part(block: slice, values: FloatArray, good: Mask | None = None) -> Totals:
        code, weight, counted = (column[block] for column in own)
        if good is not None:
            counted = good if counted is None else good & counted
        if counted is not None and not counted.all():
            code = np.where(counted, 0 if code is None else code, -1)
        present, place = np.arange(n_groups), None
        if code is not None:  # sums of the groups that are there only, as there may be many
            present, place = present_groups(code, n_groups)
        return present, *kernels.group_sums(values, place, len(present), weight)

    return Sums("averaging rows", part, partial(_zero, n_groups, rows.shape[1]), _add, n_groups)


def means_of(totals: Totals) -> Vector:
    """Return the mean of each group; NaN for one without rows."""
    with np.errstate(invalid="ignore"):
        means: Vector = totals[1] / totals[2][:, None]
        return means


def _zero(n_groups: int, width: int) -> Totals:
    return np.arange(n_groups), np.zeros((n_groups, width)), np.zeros(n_groups)


def _add(total: Totals, part: Totals) -> None:
    groups, sums, mass = part
    total[1][groups] += sums
    total[2][groups] += mass


def mean(rows: Rows, weights: Vector | None = None) -> Vector:
    """Return the (weighted) mean of the rows in float64.

    Time: one pass. Memory beyond the input: O(block).

    >>> import numpy as np
    >>> mean(np.array([[0.0, 1.0], [2.0, 3.0]]))
    array([1., 2.])
    """
    result: Vector = group_means(rows, None, 1, weights)[0]
    return result
