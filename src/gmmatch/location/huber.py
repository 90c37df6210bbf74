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

from ..arrays import AnyArray, FloatArray, IntArray, Rows, Vector
from ..compute.blocks import row_norms, sum_runs
from ..compute.reads import Sums
from ..compute.runner import PerRow, run_read
from .distances import group_distances, group_quantiles
from .mean import group_means

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


def huber(rows: Rows, epsilon: float = 1e-6) -> HuberCenter:
    """Return the Huber centre of the rows.

    >>> import numpy as np
    >>> center = huber(np.array([[-1.0], [0.0], [1.0], [1000.0]]))
    >>> bool(abs(center.point[0]) < 2), center.epsilon <= 1e-6
    (True, True)
    """
    return group_hubers(rows, None, 1, epsilon)[0]


def group_hubers(
    rows: Rows,
    codes: IntArray | None,
    n_groups: int,
    epsilon: float = 1e-6,
    max_iter: int = _MOST_PASSES,
) -> list[HuberCenter]:
    """Find the Huber centre of each group, all groups in the same passes over the rows.

    `rows`: only slices are read. `codes`: group of each row, none empty; None: one group. `epsilon`:
    certified relative accuracy to stop at. `max_iter`: most passes to spend.

    Time: O(rows * features) per pass, some 10 to 30 passes. Memory beyond the input: O(groups *
    features) and 16 bytes per row.
    """
    points = group_means(rows, codes, n_groups)
    first = group_distances(rows, codes, points)
    # Where half of the rows coincide the median distance goes to zero, and the scale stops short of it.
    least = np.maximum(_LEAST_SCALE * group_quantiles(first, codes, n_groups, (1.0,))[:, 0], _TINY)
    scales = np.maximum(group_quantiles(first, codes, n_groups)[:, 0], least)
    found: list[HuberCenter | None] = [None] * n_groups
    for turn in range(max_iter):
        blocks, pull, stiffness = _measure(rows, codes, points, scales)
        distances = np.concatenate(blocks)
        medians = np.maximum(group_quantiles(distances, codes, n_groups)[:, 0], least)
        certified = _certify(distances, codes, scales, row_norms(pull))
        # The first two passes found the mean and the first scale.
        done = (certified <= epsilon) & (np.abs(medians - scales) <= epsilon * scales)
        for code in np.flatnonzero(done | (turn == max_iter - 1)):
            if found[code] is None:
                center = HuberCenter(
                    points[code].copy(), float(scales[code]), float(certified[code]), turn + 3
                )
                found[code] = center
        if all(center is not None for center in found):
            break
        points += pull / stiffness[:, None]
        scales = medians
    return [center for center in found if center is not None]


def _certify(distances: Vector, codes: IntArray | None, scales: Vector, pulls: Vector) -> Vector:
    """Return by group how much the Huber objective may exceed the smallest one, as a share of that."""
    group = np.zeros(len(distances), np.int64) if codes is None else codes
    scale = scales[group]
    losses = np.where(distances < scale, (distances**2 / scale + scale) / 2, distances)
    objective = np.bincount(group, losses, len(scales))
    reach = (np.bincount(group, distances, len(scales)) + objective) / np.bincount(
        group, minlength=len(scales)
    )
    excess = pulls * reach
    share = np.full(len(scales), np.inf)
    np.divide(excess, objective - excess, out=share, where=excess < objective)
    return share + 1e-14


def _measure(
    rows: Rows, codes: IntArray | None, points: Vector, scales: Vector
) -> tuple[list[Vector], Vector, Vector]:
    """Return all rows' distances, by block, and by group the sums of the pulls and of the weights."""
    own_code = None if codes is None else PerRow(codes)

    def part(block: slice, values: FloatArray) -> tuple[Vector, IntArray, Vector, Vector]:
        code = np.zeros(len(values), np.int64) if own_code is None else own_code[block]
        order = np.argsort(code, kind="stable")
        groups, starts = np.unique(code[order], return_index=True)
        offsets = np.subtract(values[order], points[code[order]], dtype=np.float64)
        lengths = row_norms(offsets)
        weights = 1.0 / np.maximum(lengths, scales[code[order]])
        offsets *= weights[:, None]
        distances = np.empty(len(order))
        distances[order] = lengths
        return distances, groups, sum_runs(offsets, starts), np.add.reduceat(weights, starts)

    def zero() -> tuple[list[Vector], Vector, Vector]:
        return [], np.zeros(points.shape), np.zeros(len(points))

    def add(total: tuple[list[Vector], Vector, Vector], found: tuple[AnyArray, ...]) -> None:
        lengths, groups, sums, weights = found
        total[0].append(lengths)
        total[1][groups] += sums
        total[2][groups] += weights

    return run_read(rows, Sums("finding the middle", part, zero, add))
