"""The search for one geometric median: from the sums of a pass to the next point, and when to stop.

`geometric_median.py` has the argument behind the certificate.
"""

import numpy as np
import numpy.typing as npt

from ..compute.blocks import LARGEST_BLOCK
from ..records import GeometricMedian
from ._median_sums import GroupSums

Vector = npt.NDArray[np.float64]

# What a certificate allows for rounding: lengths and unit vectors, and sums of the rows of a block, whose
# errors grow with the root of their number and with it at worst.
_ROUNDING = (32 + LARGEST_BLOCK) * float(np.finfo(np.float64).eps)
_MOST_MISSES = 3  # guesses in a row that may miss before a plain step is taken


class _Visit:
    """A point of one group, and what its sums tell: the certificate and the next move.

    The nearest row counts as coinciding with the point when it is too near to matter: nearer than a
    small share of the harmonic mean distance of the others, which outliers cannot inflate.
    """

    def __init__(self, point: Vector, sums: GroupSums, group: int, epsilon: float) -> None:
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
            self.epsilon = loss / (self.objective - loss) + _ROUNDING


class Search:
    """The search for one geometric median: measure `point`, feed the sums, until `done`.

    `start`: first point to measure, float64. `epsilon`: certified relative accuracy to stop at. `max_iter`:
    most passes to spend.
    """

    def __init__(self, start: Vector, epsilon: float, max_iter: int) -> None:
        self.point = start
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
        visit = _Visit(self.point, sums, group, self.epsilon)
        self.passes += 1
        self.point = self._next(visit)

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


def _norm(vector: Vector) -> float:
    return float(np.sqrt(np.add.reduce(vector * vector)))
