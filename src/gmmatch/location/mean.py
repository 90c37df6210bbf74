"""The mean, summed in blocks so that it does not depend on how the rows are held."""

import numpy as np
import numpy.typing as npt

from ..compute import kernels
from ..compute.blocks import present_groups
from ..compute.passes import PerRow, fold_blocks
from ..records import FloatArray, IntArray

Vector = npt.NDArray[np.float64]
Sums = tuple[IntArray, Vector, Vector]


def group_means(
    rows: FloatArray, codes: IntArray | None, n_groups: int, weights: Vector | None = None
) -> Vector:
    """Return the (weighted) mean of each group in float64, in one pass.

    `rows`: only slices are read. `codes`: group of each row, none empty; a negative one means no group;
    None: one group. `weights`: optional weight per row.

    Time: one pass. Memory beyond the input: O(groups * features).
    """
    width = rows.shape[1]
    own_code = None if codes is None else PerRow(codes)
    own_weight = None if weights is None else PerRow(weights)

    kernels.group_sums(np.empty((0, width), rows.dtype), codes, n_groups, weights)  # compiled before threads

    def part(block: slice) -> Sums:
        own, present = None, np.arange(n_groups)
        if own_code is not None:  # sums of the groups that are there only: there may be many
            present, own = present_groups(own_code[block], n_groups)
        weight = None if own_weight is None else own_weight[block]
        return present, *kernels.group_sums(np.asarray(rows[block]), own, len(present), weight)

    def zero() -> Sums:
        return np.arange(n_groups), np.zeros((n_groups, width)), np.zeros(n_groups)

    _, totals, mass = fold_blocks(part, zero, _add, rows, "averaging rows", n_groups)
    totals /= mass[:, None]
    return totals


def _add(total: Sums, part: Sums) -> None:
    groups, sums, mass = part
    total[1][groups] += sums
    total[2][groups] += mass


def mean(rows: FloatArray, weights: Vector | None = None) -> Vector:
    """Return the (weighted) mean of the rows in float64.

    Time: one pass. Memory beyond the input: O(block).

    >>> import numpy as np
    >>> mean(np.array([[0.0, 1.0], [2.0, 3.0]]))
    array([1., 2.])
    """
    result: Vector = group_means(rows, None, 1, weights)[0]
    return result
