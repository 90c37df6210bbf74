"""The concentrated centre: the middle of the smallest ball that holds half of the rows.

The geometric median is bounded while fewer than half of the rows are wrong, but it moves towards them.
The ball that holds the nearest half of the rows does not, unless the wrong rows can fill such a ball.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, Rows, Vector
from ..compute.keys import group_samples, row_keys
from ..compute.runner import gather
from .distances import group_distances, group_quantiles
from .geometric_median import group_medians

SAMPLE_ROWS = 1024
_STARTS = 60
_CONCENTRATIONS = 2
_WEISZFELD_STEPS = 10
_REACH = 1.25  # times the ball's radius: how far the rows go that the centre is made of


@dataclass(frozen=True, eq=False)
class Sample:
    """Some rows about their coordinate-wise median, and their inner products: all that distances need."""

    origin: Vector  # the coordinate-wise median
    offsets: Vector  # the rows minus `origin`, float64
    gram: Vector  # inner products of the offsets

    @classmethod
    def of(cls, rows: FloatArray) -> Sample:
        """Measure some rows. Time: O(n^2 d) in one BLAS call."""
        middle = len(rows) // 2
        # Sorted as a whole: NumPy does that with vector instructions, in a fraction of a partition's time.
        origin = np.sort(np.ascontiguousarray(rows.T), axis=1)[:, middle].astype(np.float64)
        offsets = rows - origin
        return cls(origin, offsets, offsets @ offsets.T)

    def without(self, left_out: npt.NDArray[np.bool_]) -> Sample:
        """Return the sample without some of its rows."""
        if not left_out.any():
            return self
        kept = ~left_out
        return Sample(self.origin, self.offsets[kept], self.gram[np.ix_(kept, kept)])


def half_ball(sample: Sample) -> Vector:
    """Return the centre of (nearly) the smallest ball that holds more than half of the rows.

    Up to 60 of the rows, the mean, the geometric median and the coordinate-wise median are starts; each
    moves twice to the mean of the nearest half of the rows. Of all these points, before and after, the one
    with the smallest median distance wins.

    Time and memory: O(n^2). Meant for samples, in random order.
    """
    gram = sample.gram
    if len(gram) == 1:  # of which there may be very many
        return sample.origin.copy()
    squares = np.diagonal(gram)
    n_rows = len(gram)
    half = n_rows // 2 + 1
    n_starts = min(n_rows, _STARTS)
    # Every point is a combination of the rows, held as its weights; the origin has none.
    starts = np.eye(n_starts, n_rows), np.zeros((1, n_rows)), np.full((1, n_rows), 1 / n_rows)
    weights = first = np.concatenate([*starts, _weiszfeld(gram)[None]])
    # The product of a start that is a row is a line of the Gram matrix.
    products = np.concatenate([gram[:n_starts], weights[n_starts:] @ gram])
    apart = _squared_distances(squares, weights, products)
    radius = _nearest_half(apart, half)[1]
    for _ in range(_CONCENTRATIONS):
        weights = _nearest_half(apart, half)[0] / half
        apart = _squared_distances(squares, weights, weights @ gram)
    # The starts stay in the race: no ball about one of them is smaller, which bounds the result.
    weights = np.concatenate([first, weights])
    radius = np.concatenate([radius, _nearest_half(apart, half)[1]])
    best = weights[int(radius.argmin())]
    point: Vector = sample.origin + np.add.reduce(sample.offsets * best[:, None])
    return point


def _nearest_half(apart: Vector, half: int) -> tuple[npt.NDArray[np.bool_], Vector]:
    """Tell by point which rows are the nearest half, the first of those at one distance; and how far that is.

    >>> _nearest_half(np.array([[3.0, 1.0, 3.0, 9.0]]), 2)
    (array([[ True,  True, False, False]]), array([3.]))
    """
    farthest = np.sort(apart, axis=1)[:, half - 1, None]
    nearer, there = apart < farthest, apart == farthest
    there &= np.cumsum(there, axis=1) <= half - np.count_nonzero(nearer, axis=1)[:, None]
    return nearer | there, farthest[:, 0]


def _squared_distances(squares: Vector, weights: Vector, products: Vector) -> Vector:
    """Return the squared distances (points, rows) of points given as combinations of the rows.

    `products`: those of the points with the rows.
    """
    lengths = np.add.reduce(products * weights, axis=1)
    apart: Vector = squares - 2 * products + lengths[:, None]
    return apart


def _weiszfeld(gram: Vector) -> Vector:
    """Return the rough geometric median as weights of the rows."""
    squares = np.diagonal(gram)
    weights = np.full(len(gram), 1 / len(gram))
    tiny = 1e-6 * np.sqrt(max(float(squares.max()), np.finfo(np.float64).tiny))
    for _ in range(_WEISZFELD_STEPS):
        apart = _squared_distances(squares, weights[None], weights[None] @ gram)[0]
        distances = np.sqrt(np.maximum(apart, 0.0))
        weights = 1 / np.maximum(distances, tiny)
        weights /= np.add.reduce(weights)
    return weights


def concentrated(rows: Rows, epsilon: float = 1e-6) -> Vector:
    """Return the geometric median of the rows in and about the smallest ball that holds half of them.

    The ball is sought on a random sample of 1,024 rows, drawn by their values; the rows within 1.25
    times its radius (the median distance of all rows) make the centre.

    Time: some 8 passes over the rows. Memory beyond the input: O(sample * features + rows).

    >>> rows = np.concatenate([np.zeros((55, 2)), np.full((45, 2), 100.0)])
    >>> concentrated(rows)
    array([0., 0.])
    """
    sample = group_samples(row_keys(rows), None, 1, SAMPLE_ROWS)[0]
    point = half_ball(Sample.of(gather(rows, sample)))
    distances = group_distances(rows, None, point[None])
    radius = float(group_quantiles(distances, None, 1)[0, 0])
    inside = (distances <= _REACH * radius * (1 + 1e-9)).astype(np.float64)
    found: Vector = group_medians(rows, None, 1, epsilon, inside, starts=point[None])[0].point
    return found
