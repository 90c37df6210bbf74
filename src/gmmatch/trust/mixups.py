"""Which classes are taken for which: what wrong labels the rows of each class are given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..compute.blocks import block_rows
from ..records import FloatArray, IntArray

Vector = npt.NDArray[np.float64]

_LEAST = 1e-9  # probabilities are rounded to this: a class may have none
_ALIKE = 3.0  # how much more than what was seen it counts that labels may be given alike; see `doubt`


@dataclass(frozen=True, eq=False)
class MixedUp:
    """Which wrong labels rows of each class are given."""

    # Shape (labels, classes): of the rows of a class that are given a wrong label, the share that is given
    # this one, divided by the average probability that rows with the class's own label give the class. None:
    # not known, all wrong labels are thought to be given alike.
    weights: Vector | None

    @classmethod
    def count(cls, given: IntArray, likely: IntArray, thresholds: Vector) -> MixedUp:
        """Return the weights, from rows whose label is wrong.

        `given`, `likely`: their labels and their likely classes. `thresholds`: the average probabilities.
        What was never seen is not impossible: to every count one is added, and three times what it would be
        if rows of the class were given all wrong labels alike.

        >>> given, likely = np.array([1, 1, 1, 1, 2]), np.zeros(5, int)
        >>> MixedUp.count(given, likely, np.array([1.0, 0.5, 0.5])).weights[:, 0].round(2).tolist()[1:]
        [0.57, 0.43]
        """
        n_classes = len(thresholds)
        counts = np.bincount(given * n_classes + likely, minlength=n_classes * n_classes)
        counts = counts.reshape(n_classes, n_classes)
        seen = counts + 1 + _ALIKE * counts.sum(axis=0) / max(1, n_classes - 1)
        wrong = seen.sum(axis=0) - seen.diagonal()
        return cls(seen / np.maximum(wrong, 1.0) / np.maximum(thresholds, _LEAST))

    def elsewhere(self, probabilities: FloatArray, codes: IntArray) -> FloatArray:
        """Return how likely rows are of another class whose rows are given their label, up to a factor.

        `probabilities`, `codes`: class probabilities of rows, and the class that each is said to be.
        """
        if self.weights is None:
            own = probabilities[np.arange(len(codes)), codes].astype(np.float64)
            return np.asarray(1 - own, np.float32)
        found, step = np.empty(len(codes), np.float32), block_rows(probabilities.shape[1])
        for start in range(0, len(codes), step):
            code = codes[start : start + step]
            part = probabilities[start : start + step] * self.weights[code]
            part[np.arange(len(part)), code] = 0.0
            found[start : start + step] = np.add.reduce(part, axis=1)
        return found


def nowhere(probabilities: FloatArray) -> FloatArray:
    """Return how likely rows are not of their likeliest class."""
    return np.asarray(1 - probabilities.max(axis=1), np.float32)
