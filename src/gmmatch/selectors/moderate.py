"""Moderate: the rows whose distance to the centre is nearest to the median distance."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..arrays import IntArray, Vector
from ..matching.budgets import Weights
from ..matching.groups import Group
from ..validation import check_choice
from .ranking import Ranking, all_members, gap_to_median, smallest

SCOPES = ("class", "global")


class Moderate(Ranking):
    """Keep the band of rows around the median distance to the centre of their class.

    Parameters
    ----------
    scope
        `class`: each class has its own median distance and its share of the budget. `global`: one
        median over all rows, each measured from the centre of its class, and one budget; a class may
        then be left without picks.

    Notes
    -----
    The score of a pick is the gap between its distance and the median distance. With an even number of
    rows that is the nearer of the two middle distances, so that both middle rows have score zero.

    References
    ----------
    Xia et al.: Moderate Coreset: A Universal Method of Data Selection for Real-world Data-efficient Deep
    Learning, 2023.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> rows = np.array([[0.0], [1.0], [-2.0], [-3.0], [4.0]])
    >>> gmmatch.select(rows, keep=1, method="moderate").indices
    array([2])
    """

    name = "moderate"

    scope: Literal["class", "global"] = "class"

    def _check(self) -> None:
        check_choice(self.scope, SCOPES, "scope")

    def _score(self, groups: list[Group], distances: Vector) -> Vector:
        scores = np.empty_like(distances)
        for members in [all_members(groups)] if self.scope == "global" else [g.members for g in groups]:
            scores[members] = gap_to_median(distances[members])
        return scores

    def _weigh(self, groups: list[Group], k: int) -> tuple[Weights, IntArray]:
        if self.scope == "class" or self.guard != "off":
            return super()._weigh(groups, k)
        sizes = np.array([len(group.members) for group in groups])
        return Weights(sizes), sizes  # of one budget, which a class may be left out of

    def _rebudget(self, groups: list[Group], scores: Vector, budgets: IntArray) -> IntArray:
        if self.scope == "class":
            return budgets
        members = all_members(groups)
        kept = np.zeros(len(scores), dtype=bool)
        kept[members[smallest(scores[members], int(budgets.sum()))]] = True
        return np.array([np.count_nonzero(kept[group.members]) for group in groups])
