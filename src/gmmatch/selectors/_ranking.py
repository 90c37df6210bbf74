"""What the methods share that score every row once and keep the best: centres, distances, orders.

Such a method puts the rows of a class in one order that does not depend on the budget, and a budget
keeps the beginning of it. So a smaller budget's picks of a class are always a prefix of a larger one's.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, InvalidInputType
from ..location.blocks import blocks, map_in_order
from ..location.centers import CENTERS, find_centers
from ..progress import task
from ..records import FloatArray, IntArray
from ..validation import check_choice
from .base import Group, Picks, Selector, group_codes
from .by_class import class_budgets

Vector = npt.NDArray[np.float64]

_SLAB_VALUES = 1 << 17  # one megabyte of float64, which stays in a cache


class Ranking(Selector):
    """Base of the methods that score every row once and keep the first in some order.

    A method defines `_order` and, where its score is not the distance to the centre, `_score`.
    """

    def __init__(
        self,
        keep: float | int = 0.1,
        center: Any = "mean",
        by_class: bool = True,
        guard: str = "off",
        random_state: Any = 0,
    ) -> None:
        self.keep = keep
        self.center = center
        self.by_class = by_class
        self.guard = guard
        self.random_state = random_state

    @abstractmethod
    def _order(self, group: Group, scores: Vector, k: int) -> IntArray:
        """Return the positions of the first `k` rows of a group in the method's order."""

    def _score(self, groups: list[Group], distances: Vector) -> Vector:
        """Return the score of every row of the input; by default its distance to its centre."""
        return distances

    def _budgets(self, groups: list[Group], scores: Vector, k: int) -> IntArray:
        """Share `k` picks among the groups."""
        return class_budgets([len(group.members) for group in groups], k)

    def _check(self) -> None:
        if isinstance(self.center, str):
            check_choice(self.center, CENTERS, "center")

    def _select(self, group: Group, k: int) -> Picks:
        return self._select_all([group], k)[0]

    def _select_all(self, groups: list[Group], k: int) -> list[Picks]:
        source, codes = groups[0].source, group_codes(groups)
        centers = find_centers(self.center, source, codes, [group.label for group in groups])
        distances = distances_to(np.stack([point for point, _ in centers]), source, codes)
        scores = self._score(groups, distances)
        picks = []
        for group, k_group, (center, epsilon) in zip(
            groups, self._budgets(groups, scores, k), centers, strict=True
        ):
            order = self._order(group, scores[group.members], int(k_group))
            kept = group.members[order]
            gap = np.add.reduce(source[kept], dtype=np.float64) / max(1, len(kept)) - center
            objective = float(np.sqrt(np.add.reduce(gap * gap)))
            picks.append(Picks(order, scores[kept], distances[kept], center, objective, epsilon))
        return picks


def distances_to(points: Vector, rows: FloatArray, codes: IntArray | None = None) -> Vector:
    """Return the distance of each row to the point of its group, in one pass.

    Parameters
    ----------
    points
        One point per group, float64.
    rows
        Rows; only slices are read.
    codes
        Group of each row; None: all belong to the first. Beyond the last point means the last one.

    Notes
    -----
    Every distance is a function of its row and point alone: no BLAS, a fixed order of additions.
    Time: one pass. Memory: one number per row.

    Examples
    --------
    >>> distances_to(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([5., 1.])
    """
    step = max(1, _SLAB_VALUES // rows.shape[1])

    def part(block: slice) -> Vector:
        squares = np.empty(block.stop - block.start)
        buffer = np.empty((min(step, len(squares)), rows.shape[1]))
        for start in range(block.start, block.stop, step):
            slab = slice(start, min(start + step, block.stop))
            offsets = buffer[: slab.stop - slab.start]
            if codes is None:
                np.subtract(rows[slab], points[0], out=offsets)
            else:
                points.take(codes[slab], axis=0, out=offsets, mode="clip")
                np.subtract(rows[slab], offsets, out=offsets)
            into = squares[start - block.start : slab.stop - block.start]
            np.einsum("ij,ij->i", offsets, offsets, out=into)
        return np.sqrt(squares, out=squares)

    distances = np.empty(len(rows))
    parts = list(blocks(rows))
    with task("measuring distances", len(rows)) as advance:
        for block, values in zip(parts, map_in_order(part, parts), strict=True):
            distances[block] = values
            advance(len(values))
    return distances


def smallest(values: Vector, k: int) -> IntArray:
    """Return the positions of the `k` smallest values, in ascending order; the first of equals comes first.

    Examples
    --------
    >>> smallest(np.array([5.0, 1.0, 3.0, 1.0]), 3)
    array([1, 3, 2])
    """
    if k == 0:
        return np.empty(0, dtype=np.int64)
    few = np.flatnonzero(values <= np.partition(values, k - 1)[k - 1])
    return few[np.argsort(values[few], kind="stable")][:k]


def gap_to_median(values: Vector) -> Vector:
    """Return how far each value is from the median: from the nearer of the two middle values.

    For an odd number of values both are the median. For an even number this puts the values in the same
    order as their distance to the middle between the two, and the two themselves are exactly equal.

    Examples
    --------
    >>> gap_to_median(np.array([1.0, 2.0, 4.0, 9.0]))
    array([1., 0., 0., 5.])
    """
    low, high = (len(values) - 1) // 2, len(values) // 2
    middle = np.partition(values, (low, high))
    gaps: Vector = np.maximum(middle[low] - values, values - middle[high])
    return gaps


def as_scores(scores: Any, n_rows: int) -> Vector:
    """Return given scores as float64: finite, one per row of the input."""
    if hasattr(scores, "detach"):
        scores = scores.detach().cpu()
    try:
        array = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputType(f"scores must be numbers, one per row; got {type(scores).__name__}") from None
    if array.shape != (n_rows,):
        raise InvalidInput(f"scores has shape {array.shape}; expected ({n_rows},), one score per row")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise InvalidInput(
            f"scores has NaN or infinite values in {bad.size} rows (first: {bad[0]}); expected finite numbers"
        )
    return array
