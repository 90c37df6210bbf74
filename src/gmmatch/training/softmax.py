"""Softmax regression as functions of arrays.

The model has weights `theta` of shape (features, classes); a column of ones among the features is
its bias. The objective is mean cross-entropy + l2/2 * ||theta||^2, strictly convex for l2 > 0.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..records import FloatArray, IntArray

Float64Array = npt.NDArray[np.float64]


def with_bias(rows: FloatArray) -> FloatArray:
    """Return the rows with a column of ones appended."""
    return np.concatenate((rows, np.ones((len(rows), 1), dtype=rows.dtype)), axis=1)


def probabilities(logits: npt.NDArray[np.floating[Any]]) -> Float64Array:
    """Return the softmax of each row of logits, in float64."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True), dtype=np.float64)
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def errors(logits: npt.NDArray[np.floating[Any]], codes: IntArray) -> Float64Array:
    """Return softmax minus the one-hot label: the gradient of each row's cross-entropy in its logits."""
    gap = probabilities(logits)
    gap[np.arange(len(codes)), codes] -= 1.0
    return gap


def fit_softmax(
    rows: FloatArray,
    codes: IntArray,
    classes: int,
    l2: float,
    *,
    max_iter: int = 500,
    on_step: Callable[[Float64Array], None] | None = None,
) -> tuple[Float64Array, bool]:
    """Return the optimal `theta`, and whether the solver's tolerance was reached.

    L-BFGS from zero; each step is two products with the rows, O(rows * features * classes). The
    products keep the rows' precision; sums and the softmax are in float64. `on_step` is called with
    `theta` after every step, and ends the search by raising StopIteration.
    """
    from scipy.optimize import minimize

    shape = (rows.shape[1], classes)
    own = np.arange(len(codes))

    def objective(flat: Float64Array) -> tuple[float, Float64Array]:
        theta = flat.reshape(shape)
        logits = (rows @ theta.astype(rows.dtype)).astype(np.float64)
        top = logits.max(axis=1)
        spread = np.exp(logits - top[:, None])
        total = spread.sum(axis=1)
        loss = float(np.mean(np.log(total) + top - logits[own, codes]))
        spread /= total[:, None]
        spread[own, codes] -= 1.0
        gradient = (rows.T @ spread.astype(rows.dtype)).astype(np.float64) / len(rows) + l2 * theta
        return loss + l2 / 2 * float(np.sum(theta**2)), gradient.ravel()

    def tell(flat: Float64Array) -> None:
        if on_step is not None:
            on_step(flat.reshape(shape))

    found = minimize(
        objective,
        np.zeros(shape[0] * shape[1]),
        jac=True,
        method="L-BFGS-B",
        callback=tell,
        options={"maxiter": max_iter, "maxcor": 20, "gtol": 1e-7, "ftol": 1e-12},
    )
    return found.x.reshape(shape), bool(found.success)
