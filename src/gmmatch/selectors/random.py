"""Random: the baseline that every method must beat."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..location.centers import CENTERS, find_center
from ..matching.objectives import running_objective
from ..validation import check_choice
from .base import Group, Picks, Selector


class Random(Selector):
    """Keep a uniformly random subset, without replacement.

    Parameters
    ----------
    keep, by_class, guard
        As for every method.
    center
        The centre that scores, distances and the objective refer to; it does not affect the picks.
    random_state
        Seed; a smaller budget's picks are a prefix of a larger one's.

    Notes
    -----
    Time: O(rows) to pick, and a few passes to find the centre that the objective refers to.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> len(gmmatch.select(np.eye(10), keep=3, method="random"))
    3
    """

    name = "random"
    scores_are_objectives = True

    def __init__(
        self,
        keep: float | int = 0.1,
        center: Any = "geometric-median",
        by_class: bool = True,
        guard: str = "off",
        random_state: Any = 0,
    ) -> None:
        self.keep = keep
        self.center = center
        self.by_class = by_class
        self.guard = guard
        self.random_state = random_state

    def _check(self) -> None:
        if isinstance(self.center, str):
            check_choice(self.center, CENTERS, "center")

    def _select(self, group: Group, k: int) -> Picks:
        rows = group.rows
        order = np.random.default_rng(group.seed).permutation(len(rows))[:k]
        center, epsilon = find_center(self.center, rows, group.label)
        scores, distances = running_objective(rows, order, center)
        return Picks(order, scores, distances, center, float(scores[-1]), epsilon)
