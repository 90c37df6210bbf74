"""What the methods share that score every row once and keep the best: centres, distances, orders.

Such a method puts the rows of a class in one order that does not depend on the budget, and a budget
keeps the beginning of it. So a smaller budget's picks of a class are always a prefix of a larger one's.
"""

import numpy as np

from ..arrays import IntArray, Vector
from ..compute.reads import Sums
from ..errors import InvalidInput, InvalidInputType
from ..location.centers import center_reads, find_centers
from ..location.distances import group_distances
from ..location.mean import Totals, group_totals
from ..matching.groups import Group, Outline, Picks, group_codes, known_means
from ..validation import CheckedRows, without_torch
from .base import Selector


class Ranking(Selector):
    """Base of the methods that score every row once and keep the first in some order.

    A method defines `_score` where its score is not the distance to the centre, and `_order` where it does
    not keep the smallest scores. The smallest row number wins ties.

    Where the method compares rows with the centre, `distances` of the picks come from the pass that it makes
    for that; elsewhere they are NaN, and so is the objective always: neither is worth a read of its own.

    Time: the reads that the centre needs (none for a mean, which is added up while the rows are checked), one
    more, and a sort. Memory: a few numbers per row.
    """

    def _order(self, group: Group, scores: Vector, k: int) -> IntArray:
        """Return the positions of the first `k` rows of a group in the method's order: by their scores."""
        return smallest(scores, k)

    def _score(self, groups: list[Group], distances: Vector) -> Vector:
        """Return the score of every row of the input; by default its distance to its centre.

        `distances`: NaN where the method compares with no centre.
        """
        return distances

    def _compares(self) -> bool:
        """Return True if rows are compared with the centre."""
        return self.center is not None

    def _wants_features(self) -> bool:
        return self._compares()

    def _compares_with_means(self) -> bool:
        return self._compares() and isinstance(self.center, str) and self.center == "mean"

    def running_means(self, checked: CheckedRows) -> Sums[Totals] | None:
        """Return what adds up the means that rows are compared with, where those of all rows are wanted."""
        if not self._compares_with_means() or self.guard != "off":
            return None
        classes, codes = (checked.classes, checked.codes) if self.by_class else (None, None)
        return group_totals(
            checked.rows, codes, 1 if classes is None else len(classes), usable=checked.usable
        )

    def _picking_reads(self, outline: Outline) -> int:
        if not self._compares():
            return 0
        known = self._compares_with_means() and (self.guard == "off" or outline.means_known)
        return 1 if known else 1 + center_reads(self.center, outline.labelled)

    def _rebudget(self, groups: list[Group], scores: Vector, budgets: IntArray) -> IntArray:
        """Return the budgets of the groups, which may depend on the scores; by default those given."""
        return budgets

    def _select_all(self, groups: list[Group], budgets: IntArray) -> list[Picks]:
        source, codes = groups[0].source, group_codes(groups)
        distances, centers = np.full(len(source), np.nan), []
        if self._compares():
            labels = [group.label for group in groups]
            centers = known_means(self.center, groups) or find_centers(self.center, source, codes, labels)
            distances = group_distances(source, codes, np.stack([point for point, _ in centers]))
        scores = self._score(groups, distances)
        shares = self._rebudget(groups, scores, budgets).tolist()
        orders = [
            self._order(group, scores[group.members], k) for group, k in zip(groups, shares, strict=True)
        ]
        kept = [group.members[order] for group, order in zip(groups, orders, strict=True)]
        points: list[tuple[Vector | None, float | None]] = [*centers] or [(None, None)] * len(groups)
        return [
            Picks(order, scores[rows], distances[rows], center, np.nan, epsilon)
            for order, rows, (center, epsilon) in zip(orders, kept, points, strict=True)
        ]


def all_members(groups: list[Group]) -> IntArray:
    """Return the row numbers of all groups together, ascending."""
    return np.sort(np.concatenate([group.members for group in groups]))


def smallest(values: Vector, k: int) -> IntArray:
    """Return the positions of the `k` smallest values, ascending; the first of equals comes first."""
    if k == 0:
        return np.empty(0, dtype=np.int64)
    few = np.flatnonzero(values <= np.partition(values, k - 1)[k - 1])
    return few[np.argsort(values[few], kind="stable")][:k]


def gap_to_median(values: Vector) -> Vector:
    """Return how far each value is from the median: from the nearer of the two middle values.

    For an odd number of values both are the median. For an even number this puts the values in the same
    order as their distance to the middle between the two, and the two themselves are exactly equal.
    """
    low, high = (len(values) - 1) // 2, len(values) // 2
    middle = np.partition(values, (low, high))
    gaps: Vector = np.maximum(middle[low] - values, values - middle[high])
    return gaps


def as_scores(scores: object, n_rows: int) -> Vector:
    """Return given scores as float64: finite, one per row of the input."""
    try:
        array = np.asarray(without_torch(scores, "scores"), dtype=np.float64)
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
