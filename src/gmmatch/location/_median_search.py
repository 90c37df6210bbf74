"""The search for geometric medians: from the sums of a pass to the next points, and when to stop.

`geometric_median.py` has the argument behind the certificate. All arrays have one row per group: thousands
of small groups take a few operations each pass, not thousands.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Mask, Vector
from ..compute.blocks import LARGEST_BLOCK
from ._median_sums import GroupSums

# What a certificate allows for rounding: lengths and unit vectors, and sums of the rows of a block, whose
# errors grow with the root of their number and with it at worst.
_ROUNDING = (32 + LARGEST_BLOCK) * float(np.finfo(np.float64).eps)
_MOST_MISSES = 3  # guesses in a row that may miss before a plain step is taken


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
        pull, objective, nearest = sums.pull, sums.distance, sums.nearest
        with np.errstate(divide="ignore", invalid="ignore"):
            others = sums.weight - sums.at_weight - sums.nearest_weight
            others_stiffness = sums.stiffness - sums.nearest_weight / nearest
            share = nearest * others_stiffness
            at_point = np.isfinite(nearest) & (share > 0) & (share <= epsilon / 16.0 * others)
            loss = np.where(at_point, 2.0 * sums.nearest_weight * nearest, 0.0)
            stiffness = np.where(at_point, others_stiffness, sums.stiffness)
            at_weight = sums.at_weight + np.where(at_point, sums.nearest_weight, 0.0)
            left = np.where(at_point[:, None], pull - sums.nearest_pull, pull)
            length = np.sqrt(_dot(left, left))
            gradient = np.maximum(0.0, length - at_weight)
            step = np.where(gradient > 0, gradient / length / stiffness, 0.0)
            loss = loss + gradient * 2.0 * objective / sums.weight
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
        self.passes = 0
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
        """Take the sums measured at `points` and move on to the next points."""
        visits = Visits.read(self.points, sums, self.epsilon)
        self.passes += 1
        self.points = self._next(visits)

    def keep(self, chosen: Mask) -> None:
        """Go on with some of the groups alone."""
        self.points, self._guessed = self.points[chosen], self._guessed[chosen]
        self._misses = self._misses[chosen]
        self.best = None if self.best is None else self.best.among(chosen)

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
