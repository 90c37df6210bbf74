"""Top scores: the rows with the highest, lowest or most ordinary of some given scores."""

from __future__ import annotations

from typing import Literal

from ..arrays import IntArray, Vector
from ..errors import InvalidParameter
from ..matching.groups import Group
from ..validation import check_choice
from .ranking import Ranking, as_scores, gap_to_median, smallest

PREFERENCES = ("highest", "lowest", "median")


class TopScores(Ranking):
    """Keep rows by a score that the user gives, class by class.

    Parameters
    ----------
    scores
        One finite number per row of the input, in its order.
    prefer
        `highest`, `lowest`, or `median` for the scores nearest to the median of the class.

    Notes
    -----
    The score of a pick is the given one.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> gmmatch.select(np.eye(4), keep=2, method="top-scores", scores=[0.1, 0.9, 0.5, 0.7]).indices
    array([1, 3])
    """

    name = "top-scores"

    center: object = None
    scores: object = None
    prefer: Literal["highest", "lowest", "median"] = "highest"

    def _check(self) -> None:
        check_choice(self.prefer, PREFERENCES, "prefer")
        if self.scores is None:
            raise InvalidParameter(f"{self.name} needs scores, one number per row: scores=...")

    def _score(self, groups: list[Group], distances: Vector) -> Vector:
        return as_scores(self.scores, len(distances))

    def _order(self, group: Group, scores: Vector, k: int) -> IntArray:
        if self.prefer == "median":
            return smallest(gap_to_median(scores), k)
        return smallest(-scores if self.prefer == "highest" else scores, k)
