"""Stratified: without the hardest rows, equal draws from every stratum of difficulty."""

from __future__ import annotations

import numpy as np

from ..arrays import IntArray, Vector
from ..errors import InvalidParameter, brief
from ..matching.groups import Group
from ..validation import check_positive_int, is_number
from .ranking import Ranking, as_scores, smallest


class Stratified(Ranking):
    """Drop the hardest rows of each class, then draw equally from strata of difficulty.

    Parameters
    ----------
    drop
        Share of each class, the hardest rows, that is kept last: only when a budget asks for more rows
        than the others are.
    strata
        Number of equal ranges of difficulty, from the easiest row to the hardest that is not dropped.
    scores
        Difficulty of each row of the input, higher is harder; None takes the distance to the centre.

    Notes
    -----
    The strata are drawn from in turn, one row of each, so that a stratum with few rows gives all of them
    and the rest is shared evenly by the others. The score of a pick is its difficulty.

    References
    ----------
    Zheng et al.: Coverage-centric Coreset Selection for High Pruning Rates, 2023.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> scores = [0.0, 0.1, 0.1, 0.2, 5.0, 9.0]
    >>> kept = gmmatch.select(np.eye(6), keep=2, method="stratified", scores=scores, drop=0.2, strata=2)
    >>> sorted(kept.scores.tolist())[1]
    5.0
    """

    name = "stratified"

    drop: float = 0.1
    strata: int = 50
    scores: object = None

    def _check(self) -> None:
        if not (is_number(self.drop) and 0 <= self.drop < 1):
            raise InvalidParameter(f"drop must be a share in [0, 1); got {brief(self.drop)}")
        check_positive_int(self.strata, "strata")

    def _compares(self) -> bool:
        return self.scores is None

    def _score(self, groups: list[Group], distances: Vector) -> Vector:
        return distances if self.scores is None else as_scores(self.scores, len(distances))

    def _order(self, group: Group, scores: Vector, k: int) -> IntArray:
        by_difficulty = smallest(scores, len(scores))
        n_kept = max(1, len(scores) - round(self.drop * len(scores)))
        kept, dropped = by_difficulty[:n_kept], by_difficulty[n_kept:]
        strata = _strata(scores[kept], self.strata)
        key = np.random.default_rng(group.seed).random(n_kept)
        drawn = np.lexsort((key, strata))
        starts = np.searchsorted(strata[drawn], strata[drawn])
        turn = np.empty(n_kept, dtype=np.int64)
        turn[drawn] = np.arange(n_kept) - starts
        return np.concatenate([kept[np.lexsort((key, turn))], dropped])[:k]


def _strata(scores: Vector, n_strata: int) -> IntArray:
    """Return for each score which of the equal ranges between the smallest and the largest it is in.

    Examples
    --------
    >>> _strata(np.array([0.0, 1.0, 2.0, 4.0]), 2)
    array([0, 0, 1, 1])
    """
    low, high = scores.min(), scores.max()
    if high == low:
        return np.zeros(len(scores), dtype=np.int64)
    share = (scores - low) / (high - low)
    strata: IntArray = np.minimum((share * n_strata).astype(np.int64), n_strata - 1)
    return strata
