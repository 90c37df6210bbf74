"""Small loss: the rows whose label is most likely by a head that did not see it."""

from __future__ import annotations

import numpy as np

from ..arrays import Vector
from ..errors import InvalidInput
from ..matching.groups import Group
from .ranking import Ranking, as_scores

_LEAST = 1e-9  # probabilities are rounded to this


class SmallLoss(Ranking):
    """Keep the rows with the smallest loss, class by class: those whose label is easiest to believe.

    Parameters
    ----------
    scores
        Loss of each row of the input; None takes -log(probability of the label) by the heads of
        `gmmatch.suspects`, none of which saw the label of a row that it judges.

    Notes
    -----
    The score of a pick is its loss. The smallest row number wins ties, and a smaller budget's picks of a
    class are a prefix of a larger one's.

    Time: that of the guard, and a sort. Memory: that of the guard, and a few numbers per row.

    References
    ----------
    Han et al.: Co-teaching: Robust Training of Deep Neural Networks with Extremely Noisy Labels, 2018.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> labels = np.repeat([0, 1], 50)
    >>> rows = np.random.default_rng(0).normal(size=(100, 4)) + 4.0 * labels[:, None]
    >>> labels[:10] = 1
    >>> kept = gmmatch.select(rows, keep=60, labels=labels, method="small-loss")
    >>> bool((kept.indices >= 10).all())
    True
    """

    name = "small-loss"

    center: object = None
    scores: object = None

    def reads_verdict(self) -> bool:
        """Return True if the method selects by what was judged."""
        return self.scores is None

    def _score(self, groups: list[Group], distances: Vector) -> Vector:
        if self.scores is not None:
            return as_scores(self.scores, len(distances))
        verdict = self._judged
        if verdict is None or verdict.labels is None:
            reason = "" if verdict is None else f" ({verdict.reason})"
            raise InvalidInput(f"{self.name} needs labels that can be judged{reason}, or scores")
        losses: Vector = -np.log(np.maximum(verdict.labels.probability.astype(np.float64), _LEAST))
        return losses
