"""The mean, summed in blocks so that it does not depend on how the rows are held."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..records import FloatArray
from .blocks import blocks


def mean(rows: FloatArray, weights: npt.NDArray[np.float64] | None = None) -> npt.NDArray[np.float64]:
    """Return the (weighted) mean of the rows in float64.

    Time: one pass. Memory beyond the input: O(block).

    Examples
    --------
    >>> import numpy as np
    >>> mean(np.array([[0.0, 1.0], [2.0, 3.0]]))
    array([1., 2.])
    """
    total = np.zeros(rows.shape[1])
    for block in blocks(rows):
        part = rows[block].astype(np.float64)
        if weights is not None:
            part *= weights[block][:, None]
        total += np.add.reduce(part, axis=0)
    total /= len(rows) if weights is None else np.add.reduce(weights)
    return total
