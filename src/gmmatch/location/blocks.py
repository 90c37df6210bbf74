"""Rows in blocks of a fixed size, so that a sum does not depend on how the rows are held.

Floating-point sums depend on their order. Everything that sums over rows therefore sums inside blocks
whose size follows from the number of features alone, and adds the blocks' results in the order of the
rows. Inside a block only element-wise operations and NumPy's own reductions are used, whose order of
additions is fixed, unlike that of a multi-threaded BLAS.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

_BLOCK_VALUES = 1 << 17  # one megabyte of float64: stays in the second-level cache
_LARGEST_BLOCK = 8192


def block_rows(n_features: int) -> int:
    """Return the number of rows in a block: a power of two that follows from the width alone.

    Examples
    --------
    >>> block_rows(2), block_rows(512), block_rows(1280)
    (8192, 256, 64)
    """
    fitting = max(1, _BLOCK_VALUES // n_features)
    return min(_LARGEST_BLOCK, 1 << (fitting.bit_length() - 1))


def blocks(rows: npt.NDArray[Any]) -> Iterator[slice]:
    """Yield the slices that cut `rows` into blocks."""
    step = block_rows(rows.shape[1])
    for start in range(0, len(rows), step):
        yield slice(start, min(start + step, len(rows)))


def row_norms(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the Euclidean norm of each row of a block."""
    norms: npt.NDArray[np.float64] = np.sqrt(np.add.reduce(rows * rows, axis=1))
    return norms
