"""Inverse-Hessian products of a softmax regression: exact where the Hessian fits, iterative beyond.

Shapes follow :mod:`gmmatch.training.softmax`: parameters are (features, classes), and several vectors
of parameters are (features, classes, several).
"""

import numpy as np
import numpy.typing as npt

from ..progress import task
from ..records import FloatArray

Float64Array = npt.NDArray[np.float64]

# A Hessian of this many parameters takes 512 MB and some ten seconds to factor.
DENSE_PARAMETERS = 8192
_CHUNK_BYTES = 32 << 20


def inverse_hessian_products(
    rows: FloatArray, chances: Float64Array, vectors: Float64Array, l2: float
) -> tuple[Float64Array, bool]:
    """Return the inverse Hessian times each vector, and whether the tolerance was reached.

    `rows`: shape (rows, features). `chances`: class probabilities of the rows at the optimum. `vectors`:
    shape (features, classes, several). `l2`: strength of the penalty.
    """
    size = vectors.shape[0] * vectors.shape[1]
    if size > DENSE_PARAMETERS:
        return solve_iteratively(rows, chances, vectors, l2)
    from scipy.linalg import cho_factor, cho_solve

    factor = cho_factor(hessian(rows, chances, l2), overwrite_a=True)
    return cho_solve(factor, vectors.reshape(size, -1)).reshape(vectors.shape), True


def hessian(rows: FloatArray, chances: Float64Array, l2: float) -> Float64Array:
    """Return the Hessian of mean cross-entropy + l2/2 * ||theta||^2.

    One product of the weighted rows per pair of classes: O(rows * features^2 * classes^2 / 2).
    """
    features, classes = rows.shape[1], chances.shape[1]
    blocks = np.zeros((features, classes, features, classes))
    chunk = max(1, _CHUNK_BYTES // (8 * features))
    for start in range(0, len(rows), chunk):
        part = rows[start : start + chunk].astype(np.float64, copy=False)
        share = chances[start : start + chunk]
        for one in range(classes):
            for other in range(one, classes):
                weights = share[:, one] * (float(one == other) - share[:, other])
                blocks[:, one, :, other] += part.T @ (weights[:, None] * part)
    for one in range(classes):
        for other in range(one):
            blocks[:, one, :, other] = blocks[:, other, :, one]
    full = blocks.reshape(features * classes, features * classes) / len(rows)
    full[np.diag_indices_from(full)] += l2
    return np.asarray(full)


def hessian_products(
    rows: FloatArray, chances: Float64Array, vectors: Float64Array, l2: float
) -> Float64Array:
    """Return the Hessian times each vector without forming it: two matrix products per chunk of rows."""
    features, classes, several = vectors.shape
    flat = vectors.reshape(features, classes * several)
    product = np.zeros_like(flat)
    chunk = max(1, _CHUNK_BYTES // (8 * classes * several))
    for start in range(0, len(rows), chunk):
        part = rows[start : start + chunk].astype(np.float64, copy=False)
        share = chances[start : start + chunk]
        change = (part @ flat).reshape(len(part), classes, several)
        change -= np.einsum("nc,ncs->ns", share, change)[:, None, :]
        change *= share[:, :, None]
        product += part.T @ change.reshape(len(part), classes * several)
    return product.reshape(vectors.shape) / len(rows) + l2 * vectors


def solve_iteratively(
    rows: FloatArray,
    chances: Float64Array,
    vectors: Float64Array,
    l2: float,
    *,
    tolerance: float = 1e-6,
    max_iter: int = 500,
) -> tuple[Float64Array, bool]:
    """Return the inverse Hessian times each vector by preconditioned conjugate gradients.

    The preconditioner is the Hessian as it would be if a row's probabilities had nothing to do with
    its features: a Kronecker product, inverted through the eigenvectors of its two factors. All
    vectors advance together, each with its own step; one rests when its residual is below
    `tolerance` times its length.
    """
    precondition = _Kronecker(rows, chances, l2)
    solution = np.zeros_like(vectors)
    residual = vectors.copy()
    direction = precondition(residual)
    energy = _inner(residual, direction)
    enough = tolerance * np.sqrt(_inner(vectors, vectors))
    active = enough > 0
    with task("inverse-Hessian products", total=max_iter) as advance:
        for _ in range(max_iter):
            if not active.any():
                break
            ahead = direction[:, :, active]
            product = hessian_products(rows, chances, ahead, l2)
            step = energy[active] / _inner(ahead, product)
            solution[:, :, active] += step * ahead
            left = residual[:, :, active] - step * product
            residual[:, :, active] = left
            preconditioned = precondition(left)
            fresh = _inner(left, preconditioned)
            direction[:, :, active] = preconditioned + fresh / energy[active] * ahead
            energy[active] = fresh
            active = np.sqrt(_inner(residual, residual)) > enough
            advance(1)
    return solution, not active.any()


class _Kronecker:
    """Inverse of (mean outer product of rows) x (mean class covariance) + l2."""

    def __init__(self, rows: FloatArray, chances: Float64Array, l2: float) -> None:
        wide = rows.astype(np.float64, copy=False)
        values, self.turn = np.linalg.eigh(wide.T @ wide / len(rows))
        covariance = np.diag(chances.mean(axis=0)) - chances.T @ chances / len(chances)
        shares, self.mix = np.linalg.eigh(covariance)
        self.scale = np.maximum(np.outer(values, shares), 0.0)[:, :, None] + l2

    def __call__(self, vectors: Float64Array) -> Float64Array:
        turned = np.einsum("fg,fcs->gcs", self.turn, vectors, optimize=True)
        spread = np.einsum("cd,gcs->gds", self.mix, turned, optimize=True) / self.scale
        back = np.einsum("cd,gds->gcs", self.mix, spread, optimize=True)
        return np.asarray(np.einsum("fg,gcs->fcs", self.turn, back, optimize=True))


def _inner(left: Float64Array, right: Float64Array) -> Float64Array:
    """Return the inner product of each pair of vectors."""
    return np.asarray(np.einsum("fcs,fcs->s", left, right))
