"""Random: the baseline that every method must beat."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..location.centers import find_center
from ..matching.objectives import running_objective
from .base import Selector
from .groups import Group, Picks


class Random(Selector):
    """Keep a uniformly random subset, without replacement.

    Notes
    -----
    A smaller budget's picks are a prefix of a larger one's; `center` does not affect the picks.

    Time: O(rows) to pick, and a few passes to find the centre that the objective refers to.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> len(gmmatch.select(np.eye(10), keep=3, method="random"))
    3
    """

    name = "random"
    scores_are_objectives = True

    center: Any = "geometric-median"

    def _select(self, group: Group, k: int) -> Picks:
        rows = group.rows
        order = np.random.default_rng(group.seed).permutation(len(rows))[:k]
        center, epsilon = find_center(self.center, rows, group.label)
        scores, distances = running_objective(rows, order, center)
        return Picks(order, scores, distances, center, float(scores[-1]), epsilon)
