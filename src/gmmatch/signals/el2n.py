"""EL2N (Paul et al., 2021): the length of the error vector early in training."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..training.images import as_codes
from ..training.softmax import errors
from ..validation import as_rows


def el2n_scores(logits: Any, labels: Any) -> npt.NDArray[np.float64]:
    """Return ||softmax(logits) - one-hot label|| of each row; higher means harder, at most sqrt(2).

    Parameters
    ----------
    logits
        Shape (rows, classes), from a network early in training.
    labels
        Class numbers from 0.

    Examples
    --------
    >>> el2n_scores(np.array([[0.0, 0.0], [50.0, 0.0], [50.0, 0.0]]), np.array([0, 0, 1])).round(4)
    array([0.7071, 0.    , 1.4142])
    """
    rows = as_rows(logits, "logits")
    codes = as_codes(labels, len(rows), rows.shape[1])
    return np.asarray(np.linalg.norm(errors(rows, codes), axis=1))
