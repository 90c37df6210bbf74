"""The linear probe: how far a frozen encoder's features carry with nothing but a linear head."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import FloatArray, IntArray
from ...errors import InvalidInput, InvalidParameter
from ...validation import as_labels, as_rows, check_positive_int
from .softmax import fit_softmax, probabilities, with_bias


@dataclass(frozen=True, eq=False)
class LinearProbe:
    """A softmax regression on frozen features."""

    # Shapes (features, classes) and (classes,); they act on the features as given.
    weights: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float64]
    classes: npt.NDArray[Any]  # the label of each column
    # Whether the optimum was reached to the solver's tolerance, or where the search is stopped early, whether
    # it was.
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

    `features`: shape (rows, features). `labels`: one class per row, numbers or text; at least two classes.
    `l2`: strength of the penalty, above 0. `max_iter`: most L-BFGS steps.

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


def early_stopped_probe(
    features: Any,
    labels: Any,
    *,
    held_out: float = 0.1,
    l2: float = 1e-5,
    max_iter: int = 40,
    patience: int = 4,
    seed: int = 0,
) -> LinearProbe:
    """Fit a linear softmax head, and keep the weights at which the loss on held-out rows was lowest.

    The held-out rows are drawn from the given ones, with their labels as they are: nothing is assumed
    to be clean. Rows are sorted by their values first, so that their order decides nothing. The number of
    L-BFGS steps is what limits the fit, so that a head on few or wrongly labelled rows is as strongly
    regularised as those rows themselves ask for.

    `features`, `labels`: as :func:`linear_probe` takes them. `held_out`: share of the rows that is not fitted
    but watched; at least one row per class. `l2`, `max_iter`: as :func:`linear_probe` takes them. `patience`:
    steps without a lower loss after which the search ends. `seed`: draws the held-out rows.

    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat(["cat", "dog"], 50)
    >>> features = rng.normal(size=(100, 4)) + 3.0 * (labels == "dog")[:, None]
    >>> early_stopped_probe(features, labels).accuracy(features, labels) > 0.95
    True
    """
    rows = as_rows(features, "features")
    classes, codes = as_labels(labels, len(rows))
    if len(classes) < 2 or len(rows) < 2 * len(classes):
        raise InvalidInput(
            "an early-stopped probe needs at least two classes and twice as many rows as classes;"
            f" got {len(rows)} rows in {len(classes)}"
        )
    order = _by_value(rows, codes)
    rows, codes = rows[order], codes[order]
    watched = np.random.default_rng(seed).permutation(len(rows)) < max(
        len(classes), round(held_out * len(rows))
    )
    scaled, center, scale = standardised(rows[~watched])
    outside = with_bias((rows[watched] - center.astype(rows.dtype)) / rows.dtype.type(scale))
    best = _Best(outside, codes[watched], len(classes), patience)
    fit_softmax(with_bias(scaled), codes[~watched], len(classes), l2, max_iter=max_iter, on_step=best)
    weights = best.theta[:-1] / scale
    return LinearProbe(weights, best.theta[-1] - center @ weights, classes, best.turned)


def _by_value(rows: FloatArray, codes: IntArray) -> IntArray:
    """Return an order of labelled rows that does not depend on the one they are given in."""
    order = np.argsort(codes, kind="stable")
    raw = np.ascontiguousarray(rows[order] + rows.dtype.type(0))  # one zero, whatever its sign
    return order[np.argsort(raw.view(f"V{raw.itemsize * raw.shape[1]}").ravel(), kind="stable")]


class _Best:
    """Remembers the weights with the lowest loss on held-out rows, and ends a search that gets worse."""

    def __init__(self, rows: FloatArray, codes: IntArray, classes: int, patience: int) -> None:
        self.rows, self.codes, self.patience = rows, codes, patience
        self.lowest, self.misses, self.turned = np.inf, 0, False
        self.theta = np.zeros((rows.shape[1], classes))

    def __call__(self, theta: npt.NDArray[np.float64]) -> None:
        chances = probabilities(self.rows @ theta.astype(self.rows.dtype))
        own = chances[np.arange(len(self.codes)), self.codes]
        loss = float(-np.mean(np.log(np.maximum(own, np.finfo(np.float64).tiny))))
        if loss < self.lowest:
            self.lowest, self.misses, self.theta = loss, 0, theta.copy()
        else:
            self.misses += 1
            if self.misses >= self.patience:
                self.turned = True
                raise StopIteration


def standardised(rows: FloatArray) -> tuple[FloatArray, npt.NDArray[np.float64], float]:
    """Return rows about their mean in units of their root mean square, the mean and that unit."""
    center = rows.mean(axis=0, dtype=np.float64)
    centred = rows - center.astype(rows.dtype)
    scale = float(np.sqrt(np.mean(np.square(centred), dtype=np.float64))) or 1.0
    return centred / rows.dtype.type(scale), center, scale
