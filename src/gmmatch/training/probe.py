"""The linear probe: how far a frozen encoder's features carry with nothing but a linear head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, InvalidParameter
from ..records import FloatArray
from ..validation import as_labels, as_rows, check_positive_int
from .softmax import fit_softmax, with_bias


@dataclass(frozen=True, eq=False)
class LinearProbe:
    """A softmax regression on frozen features.

    Attributes
    ----------
    weights, bias
        Shapes (features, classes) and (classes,); they act on the features as given.
    classes
        The label of each column.
    converged
        Whether the optimum was reached to the solver's tolerance.
    """

    weights: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float64]
    classes: npt.NDArray[Any]
    converged: bool

    def logits(self, features: Any) -> npt.NDArray[np.float64]:
        """Return one logit per row and class."""
        return np.asarray(as_rows(features, "features") @ self.weights + self.bias)

    def predict(self, features: Any) -> npt.NDArray[Any]:
        """Return the likeliest label of each row."""
        return np.asarray(self.classes[self.logits(features).argmax(axis=1)])

    def accuracy(self, features: Any, labels: Any) -> float:
        """Return the share of rows whose likeliest label is theirs."""
        return float(np.mean(self.predict(features) == np.asarray(labels)))


def linear_probe(features: Any, labels: Any, *, l2: float = 1e-4, max_iter: int = 500) -> LinearProbe:
    """Fit a linear softmax head to features by L-BFGS; the features stay as they are.

    Minimises mean cross-entropy + l2/2 * ||weights||^2 (bias included) on features that are centred
    and divided by their root mean square, one number for all columns, so that `l2` means the same
    whatever the encoder's scale. The problem is convex: there is no seed. Every step costs
    O(rows * features * classes).

    Parameters
    ----------
    features
        Shape (rows, features).
    labels
        One class per row, numbers or text; at least two classes.
    l2
        Strength of the penalty, above 0.
    max_iter
        Most L-BFGS steps.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat(["cat", "dog"], 50)
    >>> features = rng.normal(size=(100, 4)) + 3.0 * (labels == "dog")[:, None]
    >>> linear_probe(features, labels).accuracy(features, labels)
    1.0
    """
    rows = as_rows(features, "features")
    classes, codes = as_labels(labels, len(rows))
    if len(classes) < 2:
        raise InvalidInput(f"a linear probe needs at least two classes; got only {classes[0]!r}")
    if not l2 > 0:
        raise InvalidParameter(f"l2 must be above 0; got {l2!r}")
    check_positive_int(max_iter, "max_iter")
    scaled, center, scale = standardised(rows)
    theta, converged = fit_softmax(with_bias(scaled), codes, len(classes), l2, max_iter=max_iter)
    weights = theta[:-1] / scale
    return LinearProbe(weights, theta[-1] - center @ weights, classes, converged)


def standardised(rows: FloatArray) -> tuple[FloatArray, npt.NDArray[np.float64], float]:
    """Return rows about their mean in units of their root mean square, the mean and that unit."""
    center = rows.mean(axis=0, dtype=np.float64)
    centred = rows - center.astype(rows.dtype)
    scale = float(np.sqrt(np.mean(np.square(centred), dtype=np.float64))) or 1.0
    return centred / rows.dtype.type(scale), center, scale
