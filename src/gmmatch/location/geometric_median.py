"""The geometric median, with a proof of its accuracy, for one group of rows or many at once.

Weiszfeld's iteration in the form of Vardi and Zhang (2000), sped up by a secant step. It stops on a
certificate. With u_i the unit vector from z to row i, g the sum of w_i u_i, W the sum of the weights
w_i and rho the objective, every point y has rho(y) >= rho(z) - <g, y - z>. The optimum lies within
2 rho(z) / W of z, so that

    rho(optimum) >= rho(z) - |g| * 2 rho(z) / W.

Rows that (nearly) coincide with z may take any vector u_i of length at most one in that argument, at a
loss of at most 2 w_i |x_i - z|: the one that cancels most of g is taken.

The parts: `partial_sums` measures a block of rows, `GroupSums.add` combines blocks, `Search` turns sums
into the next points and says when to stop. Whoever holds the rows (memory, disk, a cluster) runs the
passes. All arrays have one row per group: thousands of small groups take a few operations each pass, not
thousands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..arrays import FloatArray, IntArray, Mask, Rows, Vector
from ..compute import kernels
from ..compute.blocks import LARGEST_BLOCK, blocks, present_groups
from ..compute.reads import Sums
from ..compute.runner import PerRow, run_read, runner_of
from ..data import MappedRows
from ..errors import InvalidParameter, brief
from ..records import GeometricMedian
from ..validation import as_rows, as_seed, as_weights, check_positive_int, is_number, resolve_keep
from .mean import group_means

_SMALL = 1e-100  # squares of differences between numbers of this size are far from float64's limits
# What a certificate allows for rounding: lengths and unit vectors, and sums of the rows of a block, whose
# errors grow with the root of their number and with it at worst.
_ROUNDING = (32 + LARGEST_BLOCK) * float(np.finfo(np.float64).eps)
_MOST_MISSES = 3  # guesses in a row that may miss before a plain step is taken


def geometric_median(
    X: object,
    epsilon: float = 1e-6,
    weights: object = None,
    sample: float | int | None = None,
    random_state: object = 0,
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
    random_state: object = 0,
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


def measure(
    rows: Rows, points: Vector, codes: IntArray | None = None, weights: Vector | None = None
) -> GroupSums:
    """Measure one point per group in one pass over all rows, block by block."""
    own_code, own_weight = PerRow(codes), PerRow(weights)

    def part(block: slice, values: FloatArray) -> GroupSums:
        return partial_sums(values, points, own_code[block], own_weight[block])

    zero = partial(GroupSums.zeros, len(points), rows.shape[1])
    return run_read(rows, Sums("finding the middle", part, zero, GroupSums.add, len(points)))


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
    while (left := ~search.done).any():
        # Rows of groups that are done need no other look.
        own = codes if codes is None or left.all() else np.where((codes >= 0) & left[codes], codes, -1)
        search.feed(measure(rows, search.points, own, weights))
    return search.medians()


def certify(
    rows: Rows,
    points: Sequence[Vector] | Vector,
    codes: IntArray | None = None,
    weights: Vector | None = None,
) -> list[GeometricMedian]:
    """Certify given points as geometric medians of their groups, in one pass over all rows."""
    starts = np.stack([np.asarray(point) for point in points])
    return group_medians(rows, codes, len(starts), weights=weights, starts=starts, max_iter=1)


@dataclass(frozen=True, eq=False)
class GroupSums:
    """What a pass over rows tells about one point z per group; the first axis runs over groups."""

    groups: IntArray  # which groups these are, ascending
    # Six numbers each: the sum of the weights, the weighted sums of the distances to z (the objective) and of
    # the inverse distances, the weight of the rows that coincide with z, which are in neither of these two;
    # distance and weight of the nearest of the other rows (of all that share its distance).
    numbers: Vector
    pull: Vector  # weighted sum of the unit vectors from z to the rows
    nearest_pull: Vector  # that of the nearest of the other rows

    @classmethod
    def zeros(cls, n_groups: int, n_features: int) -> GroupSums:
        """Return the sums over no rows at all."""
        numbers, vectors = np.zeros((n_groups, 6)), np.zeros((2, n_groups, n_features))
        numbers[:, 4] = np.inf
        return cls(np.arange(n_groups), numbers, *vectors)

    def add(self, part: GroupSums) -> None:
        """Add the sums of a further block of rows to these, which must cover its groups."""
        at, nearest, other = part.groups, self.numbers[part.groups, 4], part.numbers[:, 4]
        self.numbers[at, :4] += part.numbers[:, :4]
        self.pull[at] += part.pull
        same, closer = other == nearest, other < nearest
        self.numbers[at[same], 5] += part.numbers[same, 5]
        self.nearest_pull[at[same]] += part.nearest_pull[same]
        self.numbers[at[closer], 4:] = part.numbers[closer, 4:]
        self.nearest_pull[at[closer]] = part.nearest_pull[closer]


def partial_sums(
    rows: FloatArray, points: Vector, codes: IntArray | None = None, weights: Vector | None = None
) -> GroupSums:
    """Measure one point per group on a block of rows.

    `points`: one point per group. `codes`: group of each row; a negative one means no group; None: all rows
    belong to the first. `weights`: weight of each row; None: all one.

    In float64, one row after the other: the same sums on any machine. Memory: O(groups in the block).
    """
    present, own = np.arange(1), None
    if codes is not None:  # sums of the groups that are there only: there may be many
        present, own = present_groups(codes, len(points))
    return GroupSums(present, *kernels.median_sums(rows, own, weights, points[present]))


@dataclass(frozen=True, eq=False)
class Visits:
    """One point of each group, and what its sums tell: the certificate and the next move."""

    point: Vector
    pull: Vector  # weighted sum of the unit vectors to the rows
    objective: Vector
    move: Vector  # to the next point
    epsilon: Vector  # certified

    @classmethod
    def read(cls, points: Vector, sums: GroupSums, epsilon: float) -> Visits:
        """Return what the sums tell of the points that they were measured at.

        The nearest row counts as coinciding with a point when it is too near to matter: nearer than a small
        share of the harmonic mean distance of the others, which outliers cannot inflate.
        """
        pull = sums.pull
        weight, objective, stiffness, at_weight, nearest, nearest_weight = sums.numbers.T.copy()
        with np.errstate(divide="ignore", invalid="ignore"):
            others = weight - at_weight - nearest_weight
            others_stiffness = stiffness - nearest_weight / nearest
            share = nearest * others_stiffness
            at_point = np.isfinite(nearest) & (share > 0) & (share <= epsilon / 16.0 * others)
            loss = np.where(at_point, 2.0 * nearest_weight * nearest, 0.0)
            stiffness = np.where(at_point, others_stiffness, stiffness)
            at_weight = at_weight + np.where(at_point, nearest_weight, 0.0)
            left = np.where(at_point[:, None], pull - sums.nearest_pull, pull)
            length = np.sqrt(_dot(left, left))
            gradient = np.maximum(0.0, length - at_weight)
            step = np.where(gradient > 0, gradient / length / stiffness, 0.0)
            loss = loss + gradient * 2.0 * objective / weight
            bound = loss / (objective - loss) + _ROUNDING
        certified = ((loss > 0) & (loss < objective)) | ((loss == 0) & (objective != 0))
        worst = np.where(objective == 0.0, 0.0, np.inf)
        return cls(points, pull, objective, left * step[:, None], np.where(certified, bound, worst))

    def among(self, chosen: Mask) -> Visits:
        """Return those of some groups."""
        return Visits(*(value[chosen] for value in vars(self).values()))

    def with_those_of(self, groups: Mask, other: Visits) -> Visits:
        """Return these visits, for some groups the others."""
        pairs = zip(vars(other).values(), vars(self).values(), strict=True)
        wide = groups[:, None]
        return Visits(*(np.where(wide if own.ndim > 1 else groups, old, own) for old, own in pairs))


class Search:
    """The search for geometric medians: measure `points`, feed the sums, until all are `done`.

    `starts`: first points to measure, float64. `epsilon`: certified relative accuracy to stop at. `max_iter`:
    most passes to spend.
    """

    def __init__(self, starts: Vector, epsilon: float, max_iter: int) -> None:
        self.points = starts
        self.epsilon = epsilon
        self.max_iter = max_iter
        self.passes = np.zeros(len(starts), dtype=np.int64)
        self.best: Visits | None = None
        self._guessed = np.zeros(len(starts), dtype=bool)  # whether the last step was a secant
        self._misses = np.zeros(len(starts), dtype=np.int64)

    @property
    def converged(self) -> Mask:
        """Where the certificate is good enough."""
        if self.best is None:
            return np.zeros(len(self.points), dtype=bool)
        return self.best.epsilon <= self.epsilon

    @property
    def done(self) -> Mask:
        """Where the certificate is good enough, or the passes are spent."""
        return self.converged | (self.passes >= self.max_iter)

    def feed(self, sums: GroupSums) -> None:
        """Take the sums measured at `points` and move on to the next points; groups that are done stay so."""
        done, visits = self.done, Visits.read(self.points, sums, self.epsilon)
        if self.best is not None:
            visits = visits.with_those_of(done, self.best)
        self.passes += ~done
        self.points = self._next(visits)

    def medians(self) -> list[GeometricMedian]:
        """Return the best point of each group, with its certificate."""
        assert self.best is not None
        told = self.best.objective, self.best.epsilon, self.passes, self.converged
        columns = [column.tolist() for column in told]
        return [GeometricMedian(*entry) for entry in zip(self.best.point, *columns, strict=True)]

    def _next(self, visits: Visits) -> Vector:
        """Take note of a visit to each group and return the next points to measure."""
        best = self.best
        if best is None:
            self.best = visits
            return visits.point + visits.move
        guessed = self._guessed | ((self._misses > 0) & (self._misses < _MOST_MISSES))
        missed = guessed & (visits.objective > best.objective) & (visits.epsilon >= best.epsilon)
        self._misses = np.where(missed, self._misses + 1, 0)
        self._guessed = ~missed
        points = _secant(best, visits)
        if missed.any():
            held, few = best.among(missed), self._misses[missed] < _MOST_MISSES
            between = _kink(held, visits.among(missed))
            points[missed] = np.where(few[:, None], between, held.point + held.move)
            visits = visits.with_those_of(missed, best)
        self.best = visits
        return points


def _secant(earlier: Visits, latest: Visits) -> Vector:
    """Extrapolate as if the moves shrank by a constant factor along the way."""
    plain = latest.point + latest.move
    change = latest.move - earlier.move
    size = _dot(change, change)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = _dot(change, latest.move) / size
        guess = plain - factor[:, None] * (latest.point - earlier.point + change)
    return np.where((size == 0.0)[:, None], plain, guess)


def _kink(best: Visits, overshot: Visits) -> Vector:
    """Return the point between two visits where the tangents of the objective meet.

    Beside a far cluster of nearly half the rows the objective is two straight lines with a kink, and
    this finds it at once.
    """
    way = overshot.point - best.point
    falling, rising = -_dot(best.pull, way), -_dot(overshot.pull, way)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (overshot.objective - best.objective - rising) / (falling - rising)
        meeting = best.point + np.clip(share, 0.0, 1.0)[:, None] * way
    return np.where((rising > falling)[:, None], meeting, best.point + best.move)


def _dot(one: Vector, other: Vector) -> Vector:
    """Return the inner product of each row with that of the other."""
    found: Vector = np.add.reduce(one * other, axis=1)
    return found
