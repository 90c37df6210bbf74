"""The coordinate-wise median: the median of each feature on its own."""

from collections.abc import Iterator

import numpy as np

from ..arrays import FloatArray, Rows, Vector
from ..compute.blocks import map_in_order
from ..compute.runner import RunRows, hold_rows, runner_of

_CHUNK_BYTES = 32 << 20


def coordinate_median(rows: Rows) -> Vector:
    """Return the exact median of each feature in float64.

    For an even number of rows it is the middle between the two middle values.

    `rows`: rows; arrays and memory maps are read by slices of features, others are held in memory.

    Time: O(rows * features). Memory beyond the input: some 32 MB per core, or one feature where that is
    more.

    >>> coordinate_median(np.array([[0.0, 9.0], [1.0, 5.0], [100.0, 7.0]]))
    array([1., 7.])
    """
    source = rows.content if isinstance(rows, RunRows) else rows
    if isinstance(source, np.ndarray):
        runner_of(rows).count.passes += 1
        rows = source
    else:
        rows = hold_rows(rows)
    low, high = (len(rows) - 1) // 2, len(rows) // 2

    def part(columns: slice) -> Vector:
        values = np.array(rows[:, columns].T, order="C")
        values.partition((low, high), axis=1)
        middle: Vector = (values[:, low].astype(np.float64) + values[:, high]) / 2
        return middle

    return np.concatenate(list(map_in_order(part, _columns(rows))))


def _columns(rows: FloatArray) -> Iterator[slice]:
    """Yield slices of features that fit the memory of one chunk."""
    step = max(1, _CHUNK_BYTES // (len(rows) * rows.itemsize))
    for start in range(0, rows.shape[1], step):
        yield slice(start, min(start + step, rows.shape[1]))
