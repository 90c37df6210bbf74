"""The geometric median, with a proof of its accuracy, for one group of rows or many at once.

Weiszfeld's iteration in the form of Vardi and Zhang (2000), sped up by a secant step. It stops on a
certificate. With u_i the unit vector from z to row i, g the sum of w_i u_i, W the sum of the weights
w_i and rho the objective, every point y has rho(y) >= rho(z) - <g, y - z>. The optimum lies within
2 rho(z) / W of z, so that

    rho(optimum) >= rho(z) - |g| * 2 rho(z) / W.

Rows that (nearly) coincide with z may take any vector u_i of length at most one in that argument, at a
loss of at most 2 w_i |x_i - z|: the one that cancels most of g is taken.

The parts: `partial_sums` measures a block of rows, `GroupSums.add` combines blocks, `Search` turns sums
into the next point. Whoever holds the rows (memory, disk, a cluster) runs the passes.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..arrays import FloatArray, IntArray, Mask, Rows, Vector
from ..compute.blocks import blocks
from ..compute.reads import Sums
from ..compute.runner import PerRow, run_read, runner_of
from ..data import MappedRows
from ..errors import InvalidParameter, brief
from ..records import GeometricMedian
from ..validation import as_rows, as_seed, as_weights, check_positive_int, is_number, resolve_keep
from ._median_search import Search
from ._median_sums import GroupSums, partial_sums
from .mean import group_means

_SMALL = 1e-100  # squares of differences between numbers of this size are far from float64's limits


def measure(
    rows: Rows,
    points: Vector,
    codes: IntArray | None = None,
    weights: Vector | None = None,
    n_groups: int | None = None,
) -> GroupSums:
    """Measure one point per group in one pass over all rows, block by block.

    `n_groups`: how many groups there were to begin with; sums are made in the same order while groups are.
    """
    own_code = None if codes is None else PerRow(codes)
    own_weight = None if weights is None else PerRow(weights)

    def part(block: slice, values: FloatArray) -> GroupSums:
        return partial_sums(
            values,
            points,
            None if own_code is None else own_code[block],
            None if own_weight is None else own_weight[block],
        )

    zero = partial(GroupSums.zeros, len(points), rows.shape[1])
    read = Sums("finding the middle", part, zero, GroupSums.add, n_groups or len(points))
    return run_read(rows, read)


def group_medians(
    rows: Rows,
    codes: IntArray | None,
    n_groups: int,
    epsilon: float = 1e-6,
    weights: Vector | None = None,
    starts: Vector | None = None,
    max_iter: int = 1000,
) -> list[GeometricMedian]:
    """Find the geometric median of each group, all groups in the same passes over the rows.

    `rows`: only slices are read, so that a memory map will do. `codes`: group of each row, from 0 to
    `n_groups` - 1, none empty; a negative one means no group; None: one group. `epsilon`, `weights`,
    `max_iter`: as for `geometric_median`. `starts`: first points; the means by default.

    Time: O(rows * features) per pass. Memory beyond the input: O(groups * features).
    """
    starts = np.array(group_means(rows, codes, n_groups, weights) if starts is None else starts)
    search = Search(starts, epsilon, max_iter)
    left = np.arange(n_groups)
    found: list[GeometricMedian | None] = [None] * n_groups
    while len(left):
        search.feed(measure(rows, search.points, codes, weights, n_groups))
        done = search.done
        if not done.any():
            continue
        for group, median in zip(left[done].tolist(), _results(search, done), strict=True):
            found[group] = median
        left = left[~done]
        search.keep(~done)
        if codes is not None:  # rows of those that are done need no other look
            number = np.where(done, -1, np.cumsum(~done) - 1)
            codes = np.where(codes >= 0, number[codes], -1)
    return [median for median in found if median is not None]


def certify(
    rows: Rows,
    points: Sequence[Vector] | Vector,
    codes: IntArray | None = None,
    weights: Vector | None = None,
) -> list[GeometricMedian]:
    """Certify given points as geometric medians of their groups, in one pass over all rows."""
    search = Search(np.stack([np.asarray(point) for point in points]), 1e-6, 1)
    search.feed(measure(rows, search.points, codes, weights))
    return _results(search, search.done)


def _results(search: Search, done: Mask) -> list[GeometricMedian]:
    """Return the best points of the groups whose search is done."""
    assert search.best is not None
    best, converged = search.best.among(done), search.converged[done].tolist()
    told = best.point, best.objective.tolist(), best.epsilon.tolist(), converged
    return [
        GeometricMedian(point, objective, epsilon, search.passes, good)
        for point, objective, epsilon, good in zip(*told, strict=True)
    ]


def geometric_median(
    X: Any,
    epsilon: float = 1e-6,
    weights: Any = None,
    sample: float | int | None = None,
    random_state: Any = 0,
    max_iter: int = 1000,
) -> GeometricMedian:
    """Find the point with the smallest sum of distances to the rows, and certify how good it is.

    Parameters
    ----------
    X
        Rows, array-like of shape (rows, features).
    epsilon
        Relative accuracy of the objective to stop at; the result's `epsilon` is a proven bound.
    weights
        Optional weight per row, none negative.
    sample
        Fraction or count: iterate on a random sample of that many rows, then certify the result on all
        rows in one more pass. The certified `epsilon` then tells what the sampling cost.
    random_state
        Seed of the sample.
    max_iter
        Most passes over the rows.

    Returns
    -------
    GeometricMedian
        `point`, `objective`, `epsilon`, `n_iter`, `converged`. With `sample`, `converged` speaks of the
        iteration on the sample.

    Notes
    -----
    Time: O(rows * features) per pass; 3 to 10 passes in high dimension, 10 to 40 in few dimensions.
    Memory beyond the input: O(block) (some 10 MB per core), and O(sample) with `sample`.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> rows = np.array([[0.0, 0], [0, 2], [2, 0], [2, 2], [1, 1], [1e9, 1e9]])
    >>> median = gmmatch.geometric_median(rows)
    >>> median.point.round(3), median.epsilon <= 1e-6
    (array([1., 1.]), True)
    """
    rows = as_rows(X)
    weight = as_weights(weights, len(rows))
    if not (is_number(epsilon) and 0 < epsilon < np.inf):
        raise InvalidParameter(f"epsilon must be a number greater than 0; got {brief(epsilon)}")
    check_positive_int(max_iter, "max_iter")
    size = None if sample is None else resolve_keep(sample, len(rows))
    return median_of(rows, float(epsilon), weight, size, random_state, max_iter)


def median_of(
    rows: Rows,
    epsilon: float = 1e-6,
    weight: Vector | None = None,
    size: int | None = None,
    random_state: Any = 0,
    max_iter: int = 1000,
) -> GeometricMedian:
    """Return what `geometric_median` returns, of rows and weights that were checked already.

    `size`: how many rows to iterate on; None: all.
    """
    row_power, weight_power = _power_of_rows(rows), 0
    if row_power:
        rows = MappedRows(rows, partial(_scaled, power=-row_power))
    if weight is not None:
        weight_power = int(np.frexp(weight.max())[1])
        weight = _scaled(weight, -weight_power)
    if size is None:
        found = group_medians(rows, None, 1, epsilon, weight, max_iter=max_iter)[0]
    else:
        chosen = np.sort(np.random.default_rng(as_seed(random_state)).choice(len(rows), size, replace=False))
        some = None if weight is None else weight[chosen]
        rough = group_medians(rows[chosen], None, 1, epsilon, some, max_iter=max_iter)[0]
        proven = certify(rows, [rough.point], None, weight)[0]
        found = replace(proven, n_iter=rough.n_iter + 1, converged=rough.converged)
    objective = float(_scaled(np.array(found.objective), row_power + weight_power))
    return replace(found, point=_scaled(found.point, row_power), objective=objective)


def _power_of_rows(rows: Rows) -> int:
    """Return the power of two to divide rows by so that no square leaves float64, 0 for ordinary rows."""
    if rows.dtype == np.float32:
        return 0
    runner_of(rows).count.passes += 1
    largest = max(float(np.abs(rows[block]).max()) for block in blocks(rows))
    return 0 if largest == 0 or _SMALL <= largest <= 1 / _SMALL else int(np.frexp(largest)[1])


def _scaled(values: FloatArray, power: int) -> Vector:
    """Multiply by a power of two, which is exact wherever the result is within float64's range."""
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(values, power)
