"""Inverse-Hessian products of a softmax regression: exact where the Hessian fits, iterative beyond.

Shapes follow :mod:`gmmatch.lab.training.softmax`: parameters are (features, classes), and several vectors
of parameters are (features, classes, several). The iteration is the same for NumPy arrays and for tensors on
a device of torch, where its products belong for networks of many features and classes.
"""

import sys
from typing import Any

import numpy as np

from ...arrays import FloatArray, Vector
from ...progress import task

# A Hessian of this many parameters takes 512 MB and some ten seconds to factor.
DENSE_PARAMETERS = 8192
_CHUNK_BYTES = 32 << 20


def inverse_hessian_products(
    rows: FloatArray, chances: Vector, vectors: Vector, l2: float, device: str | None = None
) -> tuple[Vector, bool]:
    """Return the inverse Hessian times each vector, and whether the tolerance was reached.

    `rows`: shape (rows, features). `chances`: class probabilities of the rows at the optimum. `vectors`:
    shape (features, classes, several). `l2`: strength of the penalty. `device`: of torch, where to iterate;
    None: in NumPy. In float32 on anything but a CPU, to a tolerance of 1e-4.
    """
    size = vectors.shape[0] * vectors.shape[1]
    if size > DENSE_PARAMETERS and device is None:
        return solve_iteratively(rows, chances, vectors, l2)
    if size > DENSE_PARAMETERS:
        import torch

        from ..training import resolve_device

        place = resolve_device(str(device))
        wide = place.type == "cpu"
        kind = torch.float64 if wide else torch.float32
        there = [torch.from_numpy(np.asarray(part)).to(place, kind) for part in (rows, chances, vectors)]
        solved, reached = solve_iteratively(
            there[0], there[1], there[2], l2, tolerance=1e-6 if wide else 1e-4
        )
        return solved.cpu().double().numpy(), reached
    from scipy.linalg import cho_factor, cho_solve

    factor = cho_factor(hessian(rows, chances, l2), overwrite_a=True)
    return cho_solve(factor, vectors.reshape(size, -1)).reshape(vectors.shape), True


def hessian(rows: FloatArray, chances: Vector, l2: float) -> Vector:
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


def hessian_products(rows: Any, chances: Any, vectors: Any, l2: float) -> Any:
    """Return the Hessian times each vector without forming it: two matrix products per chunk of rows."""
    features, classes, several = vectors.shape
    flat = vectors.reshape(features, classes * several)
    product = 0 * flat
    chunk = max(1, _CHUNK_BYTES // (8 * classes * several))
    for start in range(0, len(rows), chunk):
        part = rows[start : start + chunk]
        if isinstance(part, np.ndarray):
            part = part.astype(np.float64, copy=False)
        share = chances[start : start + chunk]
        change = (part @ flat).reshape(len(part), classes, several)
        change -= _einsum("nc,ncs->ns", share, change)[:, None, :]
        change *= share[:, :, None]
        product += part.T @ change.reshape(len(part), classes * several)
    return product.reshape(vectors.shape) / len(rows) + l2 * vectors


def solve_iteratively(
    rows: Any,
    chances: Any,
    vectors: Any,
    l2: float,
    *,
    tolerance: float = 1e-6,
    max_iter: int = 500,
) -> tuple[Any, bool]:
    """Return the inverse Hessian times each vector by preconditioned conjugate gradients.

    The preconditioner is the Hessian as it would be if a row's probabilities had nothing to do with
    its features: a Kronecker product, inverted through the eigenvectors of its two factors. All
    vectors advance together, each with its own step; one rests when its residual is below
    `tolerance` times its length.
    """
    precondition = _Kronecker(rows, chances, l2)
    solution, residual = 0 * vectors, 1 * vectors
    direction = precondition(residual)
    energy = _inner(residual, direction)
    enough = tolerance * _inner(vectors, vectors) ** 0.5
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
            active = _inner(residual, residual) ** 0.5 > enough
            advance(1)
    return solution, not bool(active.any())


class _Kronecker:
    """Inverse of (mean outer product of rows) x (mean class covariance) + l2."""

    def __init__(self, rows: Any, chances: Any, l2: float) -> None:
        if isinstance(rows, np.ndarray):
            rows = rows.astype(np.float64, copy=False)
        linalg = np.linalg if isinstance(rows, np.ndarray) else sys.modules["torch"].linalg
        values, self.turn = linalg.eigh(rows.T @ rows / len(rows))
        mean = chances.mean(0)
        covariance = -chances.T @ chances / len(chances)
        covariance[range(len(mean)), range(len(mean))] += mean
        shares, self.mix = linalg.eigh(covariance)
        self.scale = (values[:, None] * shares).clip(0.0)[:, :, None] + l2

    def __call__(self, vectors: Any) -> Any:
        turned = _einsum("fg,fcs->gcs", self.turn, vectors)
        spread = _einsum("cd,gcs->gds", self.mix, turned) / self.scale
        back = _einsum("cd,gds->gcs", self.mix, spread)
        return _einsum("fg,gcs->fcs", self.turn, back)


def _inner(left: Any, right: Any) -> Any:
    """Return the inner product of each pair of vectors."""
    return _einsum("fcs,fcs->s", left, right)


def _einsum(how: str, left: Any, right: Any) -> Any:
    """Sum products of NumPy arrays, or of tensors."""
    if isinstance(left, np.ndarray):
        return np.einsum(how, left, right, optimize=True)
    return sys.modules["torch"].einsum(how, left, right)
