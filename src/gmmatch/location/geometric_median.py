"""The geometric median, with a proof of its accuracy.

Weiszfeld's iteration in the form of Vardi and Zhang (2000), sped up by a secant step. It stops on a
certificate. With u_i the unit vector from z to row i, g the sum of w_i u_i, W the sum of the weights
w_i and rho the objective, every point y has rho(y) >= rho(z) - <g, y - z>. The optimum lies within
2 rho(z) / W of z, so that

    rho(optimum) >= rho(z) - |g| * 2 rho(z) / W.

Rows that (nearly) coincide with z may take any vector u_i of length at most one in that argument, at a
loss of at most 2 w_i |x_i - z|: the one that cancels most of g is taken.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidParameter
from ..records import FloatArray, GeometricMedian
from ..validation import as_rows, as_seed, as_weights, check_positive_int, is_number, resolve_keep
from .blocks import blocks, row_norms
from .mean import mean

Vector = npt.NDArray[np.float64]

_MOST_MISSES = 3  # guesses in a row that may miss before a plain step is taken


@dataclass(frozen=True, eq=False)
class MedianSums:
    """What one pass over (part of) the rows tells about a point z.

    Attributes
    ----------
    weight, distance
        Sum of the weights, and weighted sum of the distances to z: the objective.
    pull, stiffness
        Weighted sums of the unit vectors from z to the rows, and of the inverse distances.
    at_weight
        Weight of the rows that coincide with z; they are in neither of the two sums above.
    nearest, nearest_weight, nearest_pull
        Distance, weight and pull of the nearest of the other rows (of all that share its distance).
    """

    weight: float
    distance: float
    pull: Vector
    stiffness: float
    at_weight: float
    nearest: float
    nearest_weight: float
    nearest_pull: Vector


Measure = Callable[[Vector], MedianSums]


def partial_sums(rows: FloatArray, weights: Vector | None, point: Vector) -> MedianSums:
    """Measure `point` on one block of rows. Memory: O(block)."""
    units = np.subtract(rows, point, dtype=np.float64)
    distances = row_norms(units)
    weight = np.ones(len(rows)) if weights is None else weights
    apart = (distances > 0) & (weight > 0)
    inverse = np.divide(weight, distances, out=np.zeros(len(rows)), where=apart)
    units *= inverse[:, None]
    nearest = float(np.min(distances, where=apart, initial=np.inf))
    closest = distances == nearest
    return MedianSums(
        weight=float(np.add.reduce(weight)),
        distance=float(np.add.reduce(weight * distances)),
        pull=np.add.reduce(units, axis=0),
        stiffness=float(np.add.reduce(inverse)),
        at_weight=float(np.add.reduce(weight[~apart])),
        nearest=nearest,
        nearest_weight=float(np.add.reduce(weight[closest])),
        nearest_pull=np.add.reduce(units[closest], axis=0),
    )


def combine_sums(partials: Iterable[MedianSums]) -> MedianSums:
    """Add the blocks' sums in the order given."""
    return functools.reduce(_add_sums, partials)


def _add_sums(one: MedianSums, other: MedianSums) -> MedianSums:
    if one.nearest == other.nearest:
        nearest_weight = one.nearest_weight + other.nearest_weight
        nearest_pull = one.nearest_pull + other.nearest_pull
    else:
        closer = one if one.nearest < other.nearest else other
        nearest_weight, nearest_pull = closer.nearest_weight, closer.nearest_pull
    return MedianSums(
        weight=one.weight + other.weight,
        distance=one.distance + other.distance,
        pull=one.pull + other.pull,
        stiffness=one.stiffness + other.stiffness,
        at_weight=one.at_weight + other.at_weight,
        nearest=min(one.nearest, other.nearest),
        nearest_weight=nearest_weight,
        nearest_pull=nearest_pull,
    )


class _Visit:
    """A point, its sums, and what follows from them: the certificate and the next move.

    The nearest row counts as coinciding with the point when it is too near to matter: nearer than a
    small share of the harmonic mean distance of the others, which outliers cannot inflate.
    """

    def __init__(self, point: Vector, sums: MedianSums, epsilon: float) -> None:
        self.point = point
        self.objective = sums.distance
        pull, stiffness, at_weight, loss = sums.pull, sums.stiffness, sums.at_weight, 0.0
        if np.isfinite(sums.nearest):
            others = sums.weight - sums.at_weight - sums.nearest_weight
            stiffness_others = sums.stiffness - sums.nearest_weight / sums.nearest
            if 0 < sums.nearest * stiffness_others <= epsilon / 16.0 * others:
                pull, stiffness = sums.pull - sums.nearest_pull, stiffness_others
                at_weight += sums.nearest_weight
                loss = 2.0 * sums.nearest_weight * sums.nearest
        length = _norm(pull)
        gradient = max(0.0, length - at_weight)
        self.pull = sums.pull
        self.move = pull * (gradient / length / stiffness) if gradient > 0 else np.zeros_like(pull)
        self.epsilon = _bound(sums.distance, loss + gradient * 2.0 * sums.distance / sums.weight)


def _bound(objective: float, loss: float) -> float:
    """Return the relative excess that a loss allows; the sums are exact to some 1e-14."""
    if objective == 0.0:
        return 0.0
    return loss / (objective - loss) + 1e-14 if loss < objective else np.inf


def certified_epsilon(point: Vector, sums: MedianSums) -> float:
    """Return a proven bound on the relative excess of the objective at the measured point."""
    return _Visit(point, sums, epsilon=1e-6).epsilon


def minimise(measure: Measure, start: Vector, epsilon: float, max_iter: int) -> GeometricMedian:
    """Find the geometric median of rows that are known only through `measure`.

    Parameters
    ----------
    measure
        Function of a point that gives the sums over all rows: one pass.
    start
        First point, float64.
    epsilon
        Certified relative accuracy to stop at.
    max_iter
        Most passes to spend.
    """
    best = _Visit(start, measure(start), epsilon)
    earlier: _Visit | None = None
    passes, misses = 1, 0
    point = best.point + best.move
    while best.epsilon > epsilon and passes < max_iter:
        visit = _Visit(point, measure(point), epsilon)
        passes += 1
        guessed = earlier is not None or 0 < misses < _MOST_MISSES
        if guessed and visit.objective > best.objective and visit.epsilon >= best.epsilon:
            misses += 1
            earlier = None
            point = _kink(best, visit) if misses < _MOST_MISSES else best.point + best.move
            continue
        earlier, best, misses = best, visit, 0
        point = _secant(earlier, best)
    return GeometricMedian(best.point, best.objective, best.epsilon, passes, best.epsilon <= epsilon)


def _secant(earlier: _Visit, latest: _Visit) -> Vector:
    """Extrapolate as if the moves shrank by a constant factor along the way."""
    plain: Vector = latest.point + latest.move
    change = latest.move - earlier.move
    size = float(np.add.reduce(change * change))
    if size == 0.0:
        return plain
    factor = float(np.add.reduce(change * latest.move)) / size
    return plain - factor * (latest.point - earlier.point + change)


def _kink(best: _Visit, overshot: _Visit) -> Vector:
    """Return the point between two visits where the tangents of the objective meet.

    Beside a far cluster of nearly half the rows the objective is two straight lines with a kink, and
    this finds it at once.
    """
    way = overshot.point - best.point
    falling = -float(np.add.reduce(best.pull * way))
    rising = -float(np.add.reduce(overshot.pull * way))
    if rising <= falling:
        return best.point + best.move
    share = (overshot.objective - best.objective - rising) / (falling - rising)
    return best.point + min(max(share, 0.0), 1.0) * way


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
    Time: O(rows * features) per pass; 3 to 10 passes in high dimension, more in few dimensions. Memory
    beyond the input: O(block) (1 MB), and O(sample) with `sample`.

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
        return _median_of(rows, weight, float(epsilon), max_iter)
    size = resolve_keep(sample, len(rows))
    chosen = np.sort(np.random.default_rng(as_seed(random_state)).choice(len(rows), size, replace=False))
    rough = _median_of(rows[chosen], None if weight is None else weight[chosen], float(epsilon), max_iter)
    sums = measure_rows(rows, weight, rough.point)
    return GeometricMedian(
        rough.point, sums.distance, certified_epsilon(rough.point, sums), rough.n_iter + 1, rough.converged
    )


def measure_rows(rows: FloatArray, weights: Vector | None, point: Vector) -> MedianSums:
    """Measure `point` on rows in memory, block by block."""
    return combine_sums(
        partial_sums(rows[block], None if weights is None else weights[block], point)
        for block in blocks(rows)
    )


def _median_of(rows: FloatArray, weights: Vector | None, epsilon: float, max_iter: int) -> GeometricMedian:
    return minimise(lambda point: measure_rows(rows, weights, point), mean(rows, weights), epsilon, max_iter)


def _norm(vector: Vector) -> float:
    return float(np.sqrt(np.add.reduce(vector * vector)))
