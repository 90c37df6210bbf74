"""Centres by name, and centres that the user gives."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..arrays import IntArray, Rows, Vector
from ..compute.blocks import map_in_order
from ..compute.runner import RunRows, hold_rows, runner_of
from ..errors import InvalidInput, InvalidInputType, InvalidParameter
from ..records import GeometricMedian
from ..validation import LARGEST_VALUE, check_choice
from .concentrated import concentrated
from .geometric_median import group_medians, median_of
from .huber import HuberCenter, huber
from .mean import group_means, mean

_CHUNK_BYTES = 32 << 20
# Reads that a centre takes, about: see the modules. Those of classes are found on rows in memory.
_READS = {"geometric-median": 5, "huber": 20, "concentrated": 8}
# Each gives a point and, where there is one, its certified epsilon: 0 for a mean, which is exact.
CENTERS: dict[str, Callable[[Rows], tuple[Vector, float | None]]] = {
    "geometric-median": lambda rows: _with_certificate(median_of(rows)),
    "mean": lambda rows: (mean(rows), 0.0),
    "coordinate-median": lambda rows: (coordinate_median(rows), None),
    "huber": lambda rows: _with_certificate(huber(rows)),
    "concentrated": lambda rows: (concentrated(rows), None),
}


def _with_certificate(found: GeometricMedian | HuberCenter) -> tuple[Vector, float | None]:
    return found.point, found.epsilon


def find_center(center: object, rows: Rows, label: object = None) -> tuple[Vector, float | None]:
    """Return the centre of one group of rows and, where it has one, its certified epsilon.

    `center`: a name from `CENTERS`, a point, or a mapping from class to point. `label`: the class of the
    group; None where there are no classes.
    """
    if isinstance(center, str):
        return CENTERS[check_choice(center, CENTERS, "center")](rows)
    if isinstance(center, Mapping):
        if label not in center:
            raise InvalidInput(f"center has no entry for class {label!r}; it has: {list(center)}")
        center = center[label]
    try:
        point = np.array(center, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputType(
            f"center must be a name ({', '.join(CENTERS)}), a point or a mapping from class to point;"
            f" got {type(center).__name__}"
        ) from None
    if point.shape != (rows.shape[1],):
        raise InvalidInput(f"center has shape {point.shape}; expected ({rows.shape[1]},), as the rows")
    if not (np.abs(point) <= LARGEST_VALUE).all():
        raise InvalidParameter(f"center must be finite, and no value of it beyond {LARGEST_VALUE:g}")
    return point, None


def center_reads(center: object, by_class: bool = False) -> int:
    """Return how often `find_centers` reads all rows: about, for centres that are searched for.

    >>> [center_reads(name) for name in ("mean", "coordinate-median", [0.0, 1.0])]
    [1, 1, 0]
    """
    if not isinstance(center, str):
        return 0
    return 1 if by_class and center != "geometric-median" else _READS.get(center, 1)


def find_centers(
    center: object, rows: Rows, codes: IntArray | None, labels: Sequence[object]
) -> list[tuple[Vector, float | None]]:
    """Return for each group what `find_center` returns, without holding the rows of a class where possible.

    `center`: as for `find_center`. `codes`: group of each row; a negative one means no group; None: all rows
    belong to the first.

    Means and geometric medians of all groups come out of the same passes. Other centres by name are
    found group by group, on the group's rows in memory.
    """
    if codes is None or not isinstance(center, str):
        return [find_center(center, rows, label) for label in labels]
    if center == "mean":
        return [(point, 0.0) for point in group_means(rows, codes, len(labels))]
    if center == "geometric-median":
        medians = group_medians(rows, codes, len(labels))
        return [(median.point, median.epsilon) for median in medians]
    return [
        find_center(center, hold_rows(rows, np.flatnonzero(codes == group)), label)
        for group, label in enumerate(labels)
    ]


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

    step = max(1, _CHUNK_BYTES // (len(rows) * rows.itemsize))
    columns = [slice(start, start + step) for start in range(0, rows.shape[1], step)]
    return np.concatenate(list(map_in_order(part, columns)))
