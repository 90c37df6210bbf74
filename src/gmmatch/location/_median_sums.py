"""What a pass over rows tells about candidate points for the geometric medians of their groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import FloatArray, IntArray, Vector
from ..compute import kernels
from ..compute.blocks import present_groups


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
        numbers, vectors = np.zeros((6, n_groups)), np.zeros((2, n_groups, n_features))
        weight, distance, stiffness, at_weight, nearest, nearest_weight = numbers
        nearest += np.inf
        near = nearest, nearest_weight, vectors[1]
        return cls(np.arange(n_groups), weight, distance, vectors[0], stiffness, at_weight, *near)

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
    numbers, pull, nearest_pull = kernels.median_sums(rows, own, weights, points[present])
    weight, distance, stiffness, at_weight, nearest, nearest_weight = numbers.T
    near = nearest, nearest_weight, nearest_pull
    return GroupSums(present, weight, distance, pull, stiffness, at_weight, *near)
