"""Hard: the rows farthest from the centre of their class."""

from __future__ import annotations

from ..arrays import IntArray, Vector
from ..matching.groups import Group
from .ranking import Ranking, smallest


class Hard(Ranking):
    """Keep the rows farthest from the centre of their class.

    The score of a pick is its distance to the centre.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> gmmatch.select(np.array([[0.0], [1.0], [2.0], [9.0]]), keep=2, method="hard").indices
    array([3, 0])
    """

    name = "hard"

    def _order(self, group: Group, scores: Vector, k: int) -> IntArray:
        return smallest(-scores, k)
