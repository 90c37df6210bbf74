"""The mean, summed in blocks so that it does not depend on how the rows are held."""

from functools import partial

import numpy as np

from ..arrays import FloatArray, IntArray, Mask, Rows, Vector
from ..compute import kernels
from ..compute.blocks import block_rows, present_groups
from ..compute.reads import Sums
from ..compute.runner import PerRow, run_read, spans

Totals = tuple[IntArray, Vector, Vector]


def group_means(rows: Rows, codes: IntArray | None, n_groups: int, weights: Vector | None = None) -> Vector:
    """Return the (weighted) mean of each group in float64, in one pass.

    `rows`: only slices are read. `codes`: group of each row, none empty; a negative one means no group;
    None: one group. `weights`: optional weight per row.

    Time: one pass. Memory beyond the input: O(groups * features).
    """
    own_code = None if codes is None else PerRow(codes)
    own_weight = None if weights is None else PerRow(weights)

    def part(block: slice, values: FloatArray) -> Totals:
        code = None if own_code is None else own_code[block]
        weight = None if own_weight is None else own_weight[block]
        return _block_sums(values, code, n_groups, weight)

    read = Sums("averaging rows", part, partial(_zero, n_groups, rows.shape[1]), _add, n_groups)
    _, totals, mass = run_read(rows, read)
    totals /= mass[:, None]
    return totals


class RunningMeans:
    """Means of groups that are added up while another pass reads the rows: the bits of `group_means`.

    `rows`, `codes`, `n_groups`: as for `group_means`; groups may be empty. `usable`: rows that count; None:
    all. Rows that are no ordinary numbers never do. See `compute.reads.Also`.
    """

    def __init__(self, rows: Rows, codes: IntArray | None, n_groups: int, usable: Mask | None) -> None:
        self._n_groups, self._width = n_groups, rows.shape[1]
        self._codes = None if codes is None else PerRow(codes)
        self._usable = None if usable is None else PerRow(usable)
        self._ends = {span.stop for span in spans(len(rows), block_rows(rows.shape[1]), n_groups)}
        # Of the spans that are read, and of the one that is being read; made when they are needed, and so not
        # sent to other machines.
        self._totals: list[Totals] = []
        self._done = 0

    def part(self, block: slice, values: FloatArray, good: Mask) -> tuple[int, Totals]:
        """Return the number of rows of a block, and its sums."""
        counted = good if self._usable is None else good & self._usable[block]
        code = None if self._codes is None else self._codes[block]
        if not counted.all():
            code = np.where(counted, 0 if code is None else code, -1)
        return len(values), _block_sums(values, code, self._n_groups)

    def add(self, part: tuple[int, Totals]) -> None:
        """Take the sums of the next block."""
        self._done += part[0]
        self._totals = self._totals or [_zero(self._n_groups, self._width) for _ in range(2)]
        total, span = self._totals
        _add(span, part[1])
        if self._done in self._ends:
            _add(total, span)
            self._totals = [total, _zero(self._n_groups, self._width)]

    @property
    def means(self) -> Vector:
        """The mean of each group, once all rows are read; NaN for one without rows."""
        _, totals, mass = self._totals[0]
        with np.errstate(invalid="ignore"):
            return totals / mass[:, None]


def _block_sums(
    values: FloatArray, codes: IntArray | None, n_groups: int, weights: Vector | None = None
) -> Totals:
    """Return the sums of the rows of a block: of the groups that are there only, as there may be many."""
    present, own = np.arange(n_groups), None
    if codes is not None:
        present, own = present_groups(codes, n_groups)
    return present, *kernels.group_sums(values, own, len(present), weights)


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
