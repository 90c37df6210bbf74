"""Softmax regression as functions of arrays.

The model has weights `theta` of shape (features, classes); a column of ones among the features is
its bias. The objective is mean cross-entropy + l2/2 * ||theta||^2, strictly convex for l2 > 0.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import FloatArray, IntArray, Vector


def with_bias(rows: FloatArray) -> FloatArray:
    """Return the rows with a column of ones appended."""
    return np.concatenate((rows, np.ones((len(rows), 1), dtype=rows.dtype)), axis=1)


def probabilities(logits: npt.NDArray[np.floating[Any]]) -> Vector:
    """Return the softmax of each row of logits, in float64."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True), dtype=np.float64)
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def errors(logits: npt.NDArray[np.floating[Any]], codes: IntArray) -> Vector:
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
    on_step: Callable[[Vector], None] | None = None,
    device: str | None = None,
) -> tuple[Vector, bool]:
    """Return the optimal `theta`, and whether the solver's tolerance was reached.

    L-BFGS from zero; each step is two products with the rows, O(rows * features * classes). The
    products keep the rows' precision; sums and the softmax are in float64. `on_step` is called with
    `theta` after every step, and ends the search by raising StopIteration. `device`: of torch, where the
    products are made; None: in NumPy.
    """
    from scipy.optimize import minimize

    shape = (rows.shape[1], classes)
    own = np.arange(len(codes))
    forward, backward = _products(rows, device)

    def objective(flat: Vector) -> tuple[float, Vector]:
        theta = flat.reshape(shape)
        logits = forward(theta)
        top = logits.max(axis=1)
        spread = np.exp(logits - top[:, None])
        total = spread.sum(axis=1)
        loss = float(np.mean(np.log(total) + top - logits[own, codes]))
        spread /= total[:, None]
        spread[own, codes] -= 1.0
        gradient = backward(spread) / len(rows) + l2 * theta
        return loss + l2 / 2 * float(np.sum(theta**2)), gradient.ravel()

    def tell(flat: Vector) -> None:
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


def _products(
    rows: FloatArray, device: str | None
) -> tuple[Callable[[Vector], Vector], Callable[[Vector], Vector]]:
    """Return the product with the rows, and with their transpose, in the rows' precision."""
    if device is None:
        return (
            lambda theta: (rows @ theta.astype(rows.dtype)).astype(np.float64),
            lambda gaps: (rows.T @ gaps.astype(rows.dtype)).astype(np.float64),
        )
    import torch

    from .inference import resolve_device

    place = resolve_device(device)
    there = torch.from_numpy(rows).to(place, torch.float32 if place.type == "mps" else None)

    def product(left: Any, right: Vector) -> Vector:
        found = left @ torch.from_numpy(right).to(place, there.dtype)
        return np.asarray(found.cpu().double().numpy())

    return lambda theta: product(there, theta), lambda gaps: product(there.T, gaps)
