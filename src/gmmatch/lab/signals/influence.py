"""What removing a row does to the parameters of the last layer (Yang et al., 2022).

The last layer is refitted on the network's features to the optimum of a softmax regression with an
L2 penalty, where the theory of influence functions holds: removing row i moves the parameters by
about H^-1 g_i / n, with H the Hessian of the objective and g_i the gradient of the row's loss.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput, InvalidParameter
from ...validation import as_labels, as_rows, as_seed, check_positive_int
from ..training.probe import standardised
from ..training.softmax import errors, fit_softmax, probabilities, with_bias
from .hessian import inverse_hessian_products

_CHUNK_BYTES = 32 << 20


@dataclass(frozen=True, eq=False)
class Influence:
    """Influence of each row on the parameters of the last layer."""

    # Shape (rows, parameters or sketch): by how much the parameters move when the row is removed. A sketch
    # keeps lengths and inner products up to a relative error of about sqrt(2 / sketch).
    vectors: npt.NDArray[np.float64]
    exact: bool  # whether `vectors` are the parameters' changes themselves and not a sketch
    converged: bool  # whether both the fit and the inverse-Hessian products reached their tolerances

    @property
    def scores(self) -> npt.NDArray[np.float64]:
        """Length of each row's vector; higher means that the parameters lean on the row more."""
        return np.asarray(np.linalg.norm(self.vectors, axis=1))


def parameter_influence(
    features: Any,
    labels: Any,
    *,
    l2: float = 1e-3,
    sketch: int | None = 256,
    random_state: int = 0,
    device: str | None = None,
) -> Influence:
    """Return how far, and which way, removing each row moves the last layer's parameters.

    `features`: penultimate activations, shape (rows, features). `labels`: one class per row; at least two
    classes. `l2`: strength of the penalty. It is also what keeps the Hessian from being singular. `sketch`:
    random directions in which the changes are measured where there are more parameters than that; None for
    all parameters. `random_state`: seed of the random directions. `device`: of torch, where the head is
    fitted and conjugate gradients run, as :func:`gmmatch.lab.training.train` takes it; None: in NumPy.

    Up to 8,192 parameters (features + 1, times classes) the Hessian is formed and factored, in O(rows
    * parameters^2); beyond, conjugate gradients take O(rows * parameters * sketch) a step and never form it.

    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], 20)
    >>> rows = rng.normal(size=(40, 2)) + 4.0 * labels[:, None]
    >>> labels[3] = 1
    >>> int(parameter_influence(rows, labels, sketch=None).scores.argmax())
    3
    """
    rows = as_rows(features, "features")
    classes, codes = as_labels(labels, len(rows))
    if len(classes) < 2:
        raise InvalidInput(f"influence needs at least two classes; got only {classes[0]!r}")
    if not l2 > 0:
        raise InvalidParameter(f"l2 must be above 0; got {l2!r}")
    inputs = with_bias(standardised(rows)[0])
    theta, fitted = fit_softmax(inputs, codes, len(classes), l2, device=device)
    logits = inputs @ theta
    directions = _directions(theta.size, sketch, as_seed(random_state)).reshape(*theta.shape, -1)
    solved, converged = inverse_hessian_products(inputs, probabilities(logits), directions, l2, device)
    several = solved.shape[2]
    flat = solved.reshape(len(solved), -1)
    gaps = errors(logits, codes) / len(rows)
    vectors = np.empty((len(rows), several))
    chunk = max(1, _CHUNK_BYTES // (8 * flat.shape[1]))
    for start in range(0, len(rows), chunk):
        part = slice(start, start + chunk)
        reach = (inputs[part] @ flat).reshape(-1, len(classes), several)
        vectors[part] = np.einsum("nc,ncs->ns", gaps[part], reach)
    exact = several == theta.size
    return Influence(vectors, exact=exact, converged=fitted and converged)


def _directions(size: int, sketch: int | None, seed: int) -> npt.NDArray[np.float64]:
    """Return the identity, or random signs scaled so that inner products are kept on average."""
    if sketch is None or check_positive_int(sketch, "sketch") >= size:
        return np.eye(size)
    signs = np.random.default_rng(seed).integers(0, 2, size=(size, sketch)) * 2.0 - 1.0
    return np.asarray(signs / np.sqrt(sketch))
