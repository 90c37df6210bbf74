"""The Huber centre: a geometric median that near rows cannot pull harder than by their distance.

The geometric median gives every row a pull of length one, however near it is, so that a dense clump
holds it fast. Here rows nearer than the scale c pull in proportion to their distance: the point z is the
mean of the rows with weights 1 / max(|x - z|, c), where c is the median of the distances |x - z|.

For a fixed c this z minimises a convex sum H of Huber losses (d^2 / 2c + c/2 below c, d above), which
gives a certificate like that of the geometric median. With g the sum of (x - z) / max(|x - z|, c), n
rows, and since a Huber loss is at least the distance,

    H(z) - H(optimum) <= |g| |z - optimum| <= |g| (sum of the distances at z + H(z)) / n.
"""

from dataclasses import dataclass

import numpy as np

from ..arrays import FloatArray, Rows, Vector
from ..compute.blocks import row_norms
from ..compute.reads import Sums
from ..compute.runner import run_read
from .distances import group_distances, group_quantiles
from .mean import mean

_MOST_PASSES = 200
_LEAST_SCALE = 1e-9  # of the largest distance at the start
_TINY = 1e-150


@dataclass(frozen=True, eq=False)
class HuberCenter:
    """A Huber centre and the proof of its accuracy."""

    point: Vector  # the centre, float64
    scale: float  # the distance c below which rows pull in proportion to their distance
    # Certified: the Huber objective at this scale exceeds the smallest possible one by at most this share of
    # it.
    epsilon: float
    n_iter: int  # passes over the rows that were needed


def huber(rows: Rows, epsilon: float = 1e-6, max_iter: int = _MOST_PASSES) -> HuberCenter:
    """Return the Huber centre of the rows.

    `rows`: only slices are read. `epsilon`: certified relative accuracy to stop at. `max_iter`: most passes
    to spend beside the first two, which find the mean and the first scale.

    Time: O(rows * features) per pass, some 10 to 30 passes. Memory beyond the input: 16 bytes per row.

    >>> import numpy as np
    >>> center = huber(np.array([[-1.0], [0.0], [1.0], [1000.0]]))
    >>> bool(abs(center.point[0]) < 2), center.epsilon <= 1e-6
    (True, True)
    """
    point = mean(rows)
    distances = group_distances(rows, None, point[None])
    # Where half of the rows coincide the median distance goes to zero, and the scale stops short of it.
    least = max(_LEAST_SCALE * float(distances.max()), _TINY)
    scale, passes = _median(distances, least), 2
    while True:
        distances, pull, stiffness = _measure(rows, point, scale)
        median, certified = _median(distances, least), _certify(distances, scale, pull)
        passes += 1
        converged = certified <= epsilon and abs(median - scale) <= epsilon * scale
        if converged or passes >= max_iter + 2:
            return HuberCenter(point, scale, certified, passes)
        point, scale = point + pull / stiffness, median


def _median(distances: Vector, least: float) -> float:
    return max(float(group_quantiles(distances, None, 1)[0, 0]), least)


def _certify(distances: Vector, scale: float, pull: Vector) -> float:
    """Return how much the Huber objective may exceed the smallest one, as a share of that."""
    losses = np.where(distances < scale, (distances**2 / scale + scale) / 2, distances)
    objective = float(losses.sum())
    reach = (float(distances.sum()) + objective) / len(distances)
    excess = float(row_norms(pull[None])[0]) * reach
    return (excess / (objective - excess) if excess < objective else np.inf) + 1e-14


def _measure(rows: Rows, point: Vector, scale: float) -> tuple[Vector, Vector, float]:
    """Return all rows' distances, and the sums of the pulls and of the weights."""

    def part(block: slice, values: FloatArray) -> tuple[Vector, Vector, float]:
        offsets = np.subtract(values, point, dtype=np.float64)
        distances = row_norms(offsets)
        weights = 1.0 / np.maximum(distances, scale)
        offsets *= weights[:, None]
        return distances, np.add.reduce(offsets, axis=0), float(np.add.reduce(weights))

    parts: list[tuple[Vector, Vector, float]] = run_read(
        rows, Sums("finding the middle", part, list, list.append)
    )
    distances, pulls, weights = zip(*parts, strict=True)
    return np.concatenate(distances), np.add.reduce(pulls), sum(weights)
