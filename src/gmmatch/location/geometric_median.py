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

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidParameter
from ..records import FloatArray, GeometricMedian, IntArray
from ..validation import as_rows, as_seed, as_weights, check_positive_int, is_number, resolve_keep
from .blocks import SINGLE_RUN, group_block, row_norms, sum_runs
from .mean import group_means
from .passes import PerRow, fold_blocks

Vector = npt.NDArray[np.float64]

# Units in the last place that a certificate allows for: sums of runs, lengths and unit vectors.
_ROUNDINGS = SINGLE_RUN + 32
_MOST_MISSES = 3  # guesses in a row that may miss before a plain step is taken


@dataclass(frozen=True, eq=False)
class GroupSums:
    """What a pass over rows tells about one point z per group; the first axis runs over groups.

    Attributes
    ----------
    groups
        Which groups these are, ascending.
    weight, distance
        Sum of the weights, and weighted sum of the distances to z: the objective.
    pull, stiffness
        Weighted sums of the unit vectors from z to the rows, and of the inverse distances.
    at_weight
        Weight of the rows that coincide with z; they are in neither of the two sums above.
    nearest, nearest_weight, nearest_pull
        Distance, weight and pull of the nearest of the other rows (of all that share its distance).
    """

    groups: IntArray
    weight: Vector
    distance: Vector
    pull: Vector
    stiffness: Vector
    at_weight: Vector
    nearest: Vector
    nearest_weight: Vector
    nearest_pull: Vector

    @classmethod
    def zeros(cls, n_groups: int, n_features: int) -> GroupSums:
        """Return the sums over no rows at all."""
        scalars = [np.zeros(n_groups) for _ in range(5)]
        vectors = [np.zeros((n_groups, n_features)) for _ in range(2)]
        weight, distance, stiffness, at_weight, nearest_weight = scalars
        return cls(
            groups=np.arange(n_groups),
            weight=weight,
            distance=distance,
            pull=vectors[0],
            stiffness=stiffness,
            at_weight=at_weight,
            nearest=np.full(n_groups, np.inf),
            nearest_weight=nearest_weight,
            nearest_pull=vectors[1],
        )

    def add(self, part: GroupSums) -> None:
        """Add the sums of a further block of rows to these, which must cover its groups."""
        at = part.groups
        for name in ("weight", "distance", "pull", "stiffness", "at_weight"):
            getattr(self, name)[at] += getattr(part, name)
        same, closer = part.nearest == self.nearest[at], part.nearest < self.nearest[at]
        for name in ("nearest_weight", "nearest_pull"):
            getattr(self, name)[at[same]] += getattr(part, name)[same]
            getattr(self, name)[at[closer]] = getattr(part, name)[closer]
        self.nearest[at[closer]] = part.nearest[closer]


def partial_sums(
    rows: FloatArray,
    points: Vector,
    codes: IntArray | None = None,
    weights: Vector | None = None,
    precision: npt.DTypeLike = np.float64,
) -> GroupSums:
    """Measure one point per group on a block of rows.

    Parameters
    ----------
    rows
        The block.
    points
        One point per group.
    codes
        Group of each row; a negative one means no group; None: all rows belong to the first.
    weights
        Weight of each row; None: all one.
    precision
        Of the differences and unit vectors; sums over rows are always float64. In float32 the points
        must be float32 numbers, so that a difference is exact to one rounding.

    Notes
    -----
    Only element-wise operations and NumPy's own reductions, whose order is fixed: the same sums on any
    machine. Memory: O(block).
    """
    block = group_block(len(rows), codes)
    groups, member = block.groups, block.member
    weight = np.ones(len(member)) if weights is None else block.take(weights)
    points = points.astype(precision, copy=False)
    distances, inverse = np.empty(len(member)), np.zeros(len(member))
    pull = np.zeros((len(groups), rows.shape[1]))
    cuts = list(block.tiles(rows.shape[1]))
    # Memory that is used again and again: pages that come and go keep threads waiting for the system.
    most = max((tile.stop - tile.start for tile in cuts), default=0)
    offsets, squares = np.empty((2, most, rows.shape[1]), precision)
    for tile in cuts:
        touched, starts = block.runs(tile)
        own = points[groups[touched.start]] if len(starts) == 1 else points[groups[member[tile]]]
        units = offsets[: tile.stop - tile.start]
        np.subtract(block.take(rows, tile), own, dtype=precision, out=units)
        distances[tile] = row_norms(units, squares[: len(units)])
        np.divide(weight[tile], distances[tile], out=inverse[tile], where=distances[tile] > 0)
        units *= inverse[tile].astype(precision)[:, None]
        pull[touched] += sum_runs(units, starts)
    apart = (distances > 0) & (weight > 0)
    nearest = np.full(len(groups), np.inf)
    if len(groups):
        np.minimum.reduceat(np.where(apart, distances, np.inf), block.starts, out=nearest)
    closest = np.flatnonzero(apart & (distances == nearest[member]))
    units = np.subtract(block.take(rows, closest), points[groups[member[closest]]], dtype=precision)
    units *= inverse[closest].astype(precision)[:, None]
    present, starts = np.unique(member[closest], return_index=True)
    nearest_pull = np.zeros_like(pull)
    nearest_pull[present] = sum_runs(units, starts)

    def totals(values: Vector) -> Vector:
        return np.bincount(member, values, len(groups)).astype(np.float64)

    return GroupSums(
        groups=groups,
        weight=totals(weight),
        distance=totals(weight * distances),
        pull=pull,
        stiffness=totals(inverse),
        at_weight=totals(np.where(apart, 0.0, weight)),
        nearest=nearest,
        nearest_weight=np.bincount(member[closest], weight[closest], len(groups)).astype(np.float64),
        nearest_pull=nearest_pull,
    )


class _Visit:
    """A point of one group, and what its sums tell: the certificate and the next move.

    The nearest row counts as coinciding with the point when it is too near to matter: nearer than a
    small share of the harmonic mean distance of the others, which outliers cannot inflate.
    """

    def __init__(self, point: Vector, sums: GroupSums, group: int, epsilon: float, rounding: float) -> None:
        self.point = point
        self.pull = sums.pull[group].copy()
        self.objective = float(sums.distance[group])
        weight, at_weight = float(sums.weight[group]), float(sums.at_weight[group])
        stiffness, nearest = float(sums.stiffness[group]), float(sums.nearest[group])
        pull, loss = self.pull, 0.0
        if np.isfinite(nearest):
            nearest_weight = float(sums.nearest_weight[group])
            others = weight - at_weight - nearest_weight
            others_stiffness = stiffness - nearest_weight / nearest
            if 0 < nearest * others_stiffness <= epsilon / 16.0 * others:
                pull, stiffness = pull - sums.nearest_pull[group], others_stiffness
                at_weight += nearest_weight
                loss = 2.0 * nearest_weight * nearest
        length = _norm(pull)
        gradient = max(0.0, length - at_weight)
        self.move = pull * (gradient / length / stiffness) if gradient > 0 else np.zeros_like(pull)
        loss += gradient * 2.0 * self.objective / weight
        self.epsilon = 0.0 if self.objective == 0.0 else np.inf
        if 0 < loss < self.objective or (loss == 0 and self.objective):
            self.epsilon = loss / (self.objective - loss) + rounding


class Search:
    """The search for one geometric median: measure `point`, feed the sums, until `done`.

    Parameters
    ----------
    start
        First point to measure, float64.
    epsilon
        Certified relative accuracy to stop at.
    max_iter
        Most passes to spend.
    precision
        Of the sums that it will be fed.
    """

    def __init__(
        self, start: Vector, epsilon: float, max_iter: int, precision: npt.DTypeLike = np.float64
    ) -> None:
        self.precision = np.dtype(precision)
        # Lengths and unit vectors are exact to a few roundings; both enter the certificate.
        self.rounding = _ROUNDINGS * float(np.finfo(self.precision).eps)
        self.point = self._representable(start)
        self.epsilon = epsilon
        self.max_iter = max_iter
        self.passes = 0
        self._misses = 0
        self._best: _Visit | None = None
        self._earlier: _Visit | None = None

    @property
    def done(self) -> bool:
        """Whether the certificate is good enough, or the passes are spent."""
        return self._best is not None and (self._best.epsilon <= self.epsilon or self.passes >= self.max_iter)

    def feed(self, sums: GroupSums, group: int) -> None:
        """Take the sums measured at `point` and move on to the next point."""
        visit = _Visit(self.point, sums, group, self.epsilon, self.rounding)
        self.passes += 1
        self.point = self._representable(self._next(visit))

    def _representable(self, point: Vector) -> Vector:
        return point.astype(self.precision).astype(np.float64)

    def _next(self, visit: _Visit) -> Vector:
        """Take note of a visit and return the next point to measure."""
        best = self._best
        if best is None:
            self._best = visit
            return visit.point + visit.move  # type: ignore[no-any-return]
        guessed = self._earlier is not None or 0 < self._misses < _MOST_MISSES
        if guessed and visit.objective > best.objective and visit.epsilon >= best.epsilon:
            self._misses += 1
            self._earlier = None
            return _kink(best, visit) if self._misses < _MOST_MISSES else best.point + best.move
        self._earlier, self._best, self._misses = best, visit, 0
        return _secant(best, visit)

    def result(self) -> GeometricMedian:
        """Return the best point found."""
        best = self._best
        assert best is not None
        return GeometricMedian(
            best.point, best.objective, best.epsilon, self.passes, best.epsilon <= self.epsilon
        )


def _secant(earlier: _Visit, latest: _Visit) -> Vector:
    """Extrapolate as if the moves shrank by a constant factor along the way."""
    plain: Vector = latest.point + latest.move
    change = latest.move - earlier.move
    size = float(np.add.reduce(change * change))
    if size == 0.0:
        return plain
    factor = float(np.add.reduce(change * latest.move)) / size
    guess: Vector = plain - factor * (latest.point - earlier.point + change)
    return guess


def _kink(best: _Visit, overshot: _Visit) -> Vector:
    """Return the point between two visits where the tangents of the objective meet.

    Beside a far cluster of nearly half the rows the objective is two straight lines with a kink, and
    this finds it at once.
    """
    way = overshot.point - best.point
    falling = -float(np.add.reduce(best.pull * way))
    rising = -float(np.add.reduce(overshot.pull * way))
    meeting: Vector = best.point + best.move
    if rising > falling:
        share = (overshot.objective - best.objective - rising) / (falling - rising)
        meeting = best.point + min(max(share, 0.0), 1.0) * way
    return meeting


def measure(
    rows: FloatArray,
    points: Vector,
    codes: IntArray | None = None,
    weights: Vector | None = None,
    precision: npt.DTypeLike = np.float64,
) -> GroupSums:
    """Measure one point per group in one pass over all rows, block by block."""
    own_code = None if codes is None else PerRow(codes)
    own_weight = None if weights is None else PerRow(weights)

    def part(block: slice) -> GroupSums:
        return partial_sums(
            np.asarray(rows[block]),
            points,
            None if own_code is None else own_code[block],
            None if own_weight is None else own_weight[block],
            precision,
        )

    zero = partial(GroupSums.zeros, len(points), rows.shape[1])
    return fold_blocks(part, zero, GroupSums.add, rows, "finding the middle", len(points))


def group_medians(
    rows: FloatArray,
    codes: IntArray | None,
    n_groups: int,
    epsilon: float = 1e-6,
    weights: Vector | None = None,
    starts: Vector | None = None,
    max_iter: int = 1000,
    precision: npt.DTypeLike = np.float64,
) -> list[GeometricMedian]:
    """Find the geometric median of each group, all groups in the same passes over the rows.

    Parameters
    ----------
    rows
        Rows; only slices are read, so that a memory map will do.
    codes
        Group of each row, from 0 to `n_groups` - 1, none empty; a negative one means no group; None: one
        group.
    n_groups
        Number of groups.
    epsilon, weights, max_iter
        As for `geometric_median`.
    starts
        First points; the means by default.
    precision
        Of the work on rows; float32 is twice as fast on float32 rows and certifies down to about 1e-5.

    Notes
    -----
    Time: O(rows * features) per pass. Memory beyond the input: O(groups * features).
    """
    points = group_means(rows, codes, n_groups, weights) if starts is None else starts
    searches = [Search(point, epsilon, max_iter, precision) for point in points]
    while not all(search.done for search in searches):
        points = np.stack([search.point for search in searches])
        sums = measure(rows, points, codes, weights, precision)
        for group, search in enumerate(searches):
            if not search.done:
                search.feed(sums, group)
    return [search.result() for search in searches]


def certify(
    rows: FloatArray,
    points: Sequence[Vector] | Vector,
    codes: IntArray | None = None,
    weights: Vector | None = None,
) -> list[GeometricMedian]:
    """Certify given points as geometric medians of their groups, in one pass over all rows."""
    searches = [Search(np.asarray(point), 1e-6, 1) for point in points]
    sums = measure(rows, np.stack([search.point for search in searches]), codes, weights)
    for group, search in enumerate(searches):
        search.feed(sums, group)
    return [search.result() for search in searches]


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
        raise InvalidParameter(f"epsilon must be a number greater than 0; got {epsilon!r}")
    check_positive_int(max_iter, "max_iter")
    if sample is None:
        return group_medians(rows, None, 1, float(epsilon), weight, max_iter=max_iter)[0]
    size = resolve_keep(sample, len(rows))
    chosen = np.sort(np.random.default_rng(as_seed(random_state)).choice(len(rows), size, replace=False))
    some = None if weight is None else weight[chosen]
    rough = group_medians(rows[chosen], None, 1, float(epsilon), some, max_iter=max_iter)[0]
    proven = certify(rows, [rough.point], None, weight)[0]
    return GeometricMedian(proven.point, proven.objective, proven.epsilon, rough.n_iter + 1, rough.converged)


def _norm(vector: Vector) -> float:
    return float(np.sqrt(np.add.reduce(vector * vector)))
