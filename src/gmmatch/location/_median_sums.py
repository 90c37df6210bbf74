"""What a pass over rows tells about candidate points for the geometric medians of their groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..compute.blocks import group_block, row_norms, sum_runs
from ..records import FloatArray, IntArray

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GroupSums:
    """What a pass over rows tells about one point z per group; the first axis runs over groups."""

    groups: IntArray  # which groups these are, ascending
    # Sum of the weights, and weighted sum of the distances to z: the objective.
    weight: Vector
    distance: Vector
    # Weighted sums of the unit vectors from z to the rows, and of the inverse distances.
    pull: Vector
    stiffness: Vector
    at_weight: Vector  # weight of the rows that coincide with z; they are in neither of the two sums above
    # Distance, weight and pull of the nearest of the other rows (of all that share its distance).
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

    `points`: one point per group. `codes`: group of each row; a negative one means no group; None: all rows
    belong to the first. `weights`: weight of each row; None: all one. `precision`: of the differences and
    unit vectors; sums over rows are always float64. In float32 the points must be float32 numbers, so that a
    difference is exact to one rounding.

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
