"""Random: the baseline that every method must beat."""

from __future__ import annotations

import numpy as np

from ..arrays import IntArray
from ..location.centers import center_reads, find_centers
from ..matching.groups import Group, Outline, Picks, group_codes
from ..matching.objectives import running_objectives
from .base import Selector


class Random(Selector):
    """Keep a uniformly random subset, without replacement.

    Notes
    -----
    A smaller budget's picks are a prefix of a larger one's. `center` does not affect the picks. Where one is
    given, scores, distances and objective refer to it, and finding it takes further reads; by default there
    is none, and they are NaN.

    Time: O(rows).

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> len(gmmatch.select(np.eye(10), keep=3, method="random"))
    3
    """

    name = "random"
    scores_are_objectives = True

    center: object = None

    def _wants_features(self) -> bool:
        return self.center is not None

    def _picking_reads(self, outline: Outline) -> int:
        return 0 if self.center is None else center_reads(self.center, outline.labelled)

    def _select_all(self, groups: list[Group], budgets: IntArray) -> list[Picks]:
        orders = [
            np.random.default_rng(group.seed).permutation(len(group.members))[:k]
            for group, k in zip(groups, budgets.tolist(), strict=True)
        ]
        if self.center is None:
            unknown = [np.full(len(order), np.nan) for order in orders]
            return [Picks(*own, own[1], None, np.nan) for own in zip(orders, unknown, strict=True)]
        source, labels = groups[0].source, [group.label for group in groups]
        centers = find_centers(self.center, source, group_codes(groups), labels)
        kept = [group.members[order] for group, order in zip(groups, orders, strict=True)]
        measured = running_objectives(source, kept, [center for center, _ in centers])
        return [
            Picks(order, scores, distances, center, float(scores[-1]), epsilon)
            for order, (center, epsilon), (scores, distances) in zip(orders, centers, measured, strict=True)
        ]
