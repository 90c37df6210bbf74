"""Easy: the rows nearest to the centre of their class."""

from __future__ import annotations

from .ranking import Ranking


class Easy(Ranking):
    """Keep the rows nearest to the centre of their class.

    The score of a pick is its distance to the centre.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> gmmatch.select(np.array([[0.0], [1.0], [2.0], [9.0]]), keep=2, method="easy").indices
    array([2, 1])
    """

    name = "easy"
