"""The gate: rows far outside their class, or huddled in a clump, whatever their share below one half.

Its limits are found on rows in memory or, where rows are many, on a sample of them, in three passes: one
for the distances to the centre of the smallest ball that holds half of the class (found from at most 1,024
rows of each), one for the mean of the rows in and about that ball, one for the distances to that mean. All
classes share the passes. Other rows are then judged by these limits as they are read.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..compute import kernels
from ..compute.blocks import by_group, map_in_order, row_norms
from ..compute.keys import Keys, gather, group_samples
from ..compute.passes import PerRow, engine_for, map_blocks
from ..location.concentrated import SAMPLE_ROWS, Sample, half_ball
from ..location.distances import group_distances, group_quantiles
from ..location.mean import group_means
from ..records import FloatArray, IntArray
from .clumps import find_clumps

Vector = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

FEWEST_ROWS = 8
"""Classes with fewer rows are not judged: the spread of so few says nothing."""

_REACH = 1.25
_SIGMAS = 3.0
_GROSS = 5.0  # times the median distance; set by reason: groups of one data set are nearer to each other
_SAMPLE_ROWS_IN_ALL = 1 << 15  # with more than 32 classes, down to half a sample for each; set by reason
_ROUNDS = 20
# Set so that the toy figure's loose cloud of 45 % is seen; benchmarks.centres is as without it.
_VALLEY_WIDTH = 1.25
_VALLEY_SHARE = 0.005
_FEW = 0.02  # of the rows: what is far off in smaller numbers is found by its distance alone
_MAD_TO_SIGMA = 1.4826
_TOLERANCE = 1 + 1e-9  # equal distances that rounding tells apart fall on one side


@dataclass(frozen=True, eq=False)
class Limits:
    """What rows are judged by, class by class."""

    # Centre of each class, and the distance to it beyond which a row is far outside: infinite for classes
    # that are too small to judge.
    centers: Vector
    thresholds: Vector
    # The spots about which rows of a class huddle, and how far a clump reaches.
    spots: list[Vector]
    reaches: Vector

    def judge(self, rows: FloatArray, codes: IntArray) -> tuple[Vector, Mask, Mask]:
        """Return the distance of each row of a block to its centre, which rows are far, and which clumped.

        Rows of a negative class are neither.
        """
        clumped = _clumped(rows, codes, self.spots, self.reaches)
        distances = kernels.group_distances(rows, codes, self.centers)
        far = ~clumped & (codes >= 0) & (distances > self.thresholds[codes] * _TOLERANCE)
        return distances, far, clumped


@dataclass(frozen=True, eq=False)
class Gate:
    """Which rows are far outside their class, and what was measured."""

    # Rows beyond the threshold of their class, and rows in a clump.
    far: Mask
    clumped: Mask
    distances: Vector  # distance of each row to the centre of its class
    limits: Limits  # what rows were judged by

    @property
    def centers(self) -> Vector:
        """Centre of each class."""
        return self.limits.centers

    @property
    def thresholds(self) -> Vector:
        """Distance that each class allows."""
        return self.limits.thresholds

    @property
    def passed(self) -> Mask:
        """Rows that are neither far nor clumped."""
        return ~(self.far | self.clumped)


def find_gate(
    rows: FloatArray, codes: IntArray | None, n_classes: int, keys: Keys, one_cloud: bool = True
) -> Gate:
    """Judge every row by its distance to a robust centre of its class.

    `rows`: rows; slices and small sorted gathers are read. `codes`: class of each row, none empty; a negative
    one means none; None: one class. `keys`: hashes of the rows, from `compute.keys.row_keys`. `one_cloud`:
    whether the rows of a class are one cloud. If not, because classes are still to be found among them, only
    rows beyond five times the median distance are far, and no clump is a fault.

    A row passes if its distance is at most the median plus 3 * 1.4826 * MAD (the median absolute
    deviation) of its class. Time: 3 passes, and O(1024^2 d) per class. Memory beyond the input:
    O(classes * features), some 25 bytes per row, and a sample of 1,024 rows per core.
    """
    code = np.zeros(len(rows), dtype=np.int64) if codes is None else codes
    starts, spots, reaches = _sampled(rows, codes, n_classes, keys, one_cloud)
    distances, clumped = _measure(rows, code, starts, spots, reaches)
    counted = ~clumped & (code >= 0)
    radius = group_quantiles(distances[counted], code[counted], n_classes)[:, 0]
    inside = counted & (distances <= _REACH * _TOLERANCE * radius[code])
    centers = group_means(rows, np.where(inside, code, -1), n_classes)
    distances = group_distances(rows, code, centers)
    # What decides is the distance to the mean of the others: its share in the mean brings a row nearer, in a
    # class of few rows by far more than distances differ.
    counts = np.bincount(code[inside], minlength=n_classes)
    apart = distances.copy()
    apart[inside] *= (counts / np.maximum(counts - 1, 1))[code[inside]]
    if one_cloud:
        thresholds = _thresholds(apart[counted], code[counted], n_classes)
    else:
        thresholds = _GROSS * group_quantiles(apart[counted], code[counted], n_classes)[:, 0]
    far = counted & (apart > thresholds[code] * _TOLERANCE)
    return Gate(far, clumped, distances, Limits(centers, thresholds, spots, reaches))


def _thresholds(distances: Vector, codes: IntArray, n_classes: int) -> Vector:
    """Return for each class the distance beyond which a row is far outside.

    Where far rows are many they widen the median and the MAD, so that these are taken again of the rows
    that passed, until nothing changes; and a valley in the distances is a limit as well.
    """
    thresholds = np.full(n_classes, np.inf)
    for _ in range(_ROUNDS):
        within = distances <= thresholds[codes] * _TOLERANCE
        values, code = distances[within], codes[within]
        medians = group_quantiles(values, code, n_classes)[:, 0]
        spreads = group_quantiles(np.abs(values - medians[code]), code, n_classes)[:, 0]
        latest = medians + _SIGMAS * _MAD_TO_SIGMA * spreads
        if (latest >= thresholds).all():
            break
        thresholds = np.minimum(thresholds, latest)
    thresholds = np.minimum(thresholds, _valleys(distances, codes, n_classes))
    return np.where(np.bincount(codes, minlength=n_classes) < FEWEST_ROWS, np.inf, thresholds)


def _valleys(distances: Vector, codes: IntArray, n_classes: int) -> Vector:
    """Return for each class where a valley begins beyond the nearest half of its rows; infinite without one.

    Where nearly half of the rows are far off, the MAD is as wide as the distance to them. But between them
    and the others there is hardly a row: at most one in 200 from some distance to a quarter more.
    """
    found = np.full(n_classes, np.inf)
    order = by_group(codes)
    for code, own in enumerate(np.split(order, np.cumsum(np.bincount(codes, minlength=n_classes))[:-1])):
        values = np.sort(distances[own])
        half = values[len(values) // 2 :]
        between = np.searchsorted(half, _VALLEY_WIDTH * half, side="right") - np.arange(1, len(half) + 1)
        beyond = len(half) - 1 - np.arange(len(half))
        low = (between <= _VALLEY_SHARE * len(values)) & (beyond > _FEW * len(values))
        if low.any():
            found[code] = half[int(low.argmax())]
    return found


def _sampled(
    rows: FloatArray, codes: IntArray | None, n_classes: int, keys: Keys, one_cloud: bool
) -> tuple[Vector, list[Vector], Vector]:
    """Return for each class a first centre, the spots of its clumps, and their reach, from samples."""
    size = min(SAMPLE_ROWS, max(SAMPLE_ROWS // 2, _SAMPLE_ROWS_IN_ALL // n_classes))
    samples = [_Drawn(order) for order in group_samples(keys, codes, n_classes, size)]
    measure = _MeasureSample(rows, one_cloud)
    engine = engine_for(rows)
    # One thread of BLAS per class: classes side by side are faster, and the bits are the same anywhere.
    with threadpool_limits(1):
        found = list(map_in_order(measure, samples) if engine is None else engine.map(measure, samples))
    starts, spots, reaches = zip(*found, strict=True)
    return np.stack(starts), list(spots), np.array(reaches)


class _Drawn:
    """The sample of a class: row numbers in the order in which they were drawn."""

    def __init__(self, order: IntArray) -> None:
        self.order = order

    def __len__(self) -> int:
        return len(self.order)

    @property
    def rows(self) -> IntArray:
        """The row numbers, ascending."""
        return np.sort(self.order)


class _MeasureSample:
    """The function that finds the first centre and the clumps of a class from its sample."""

    def __init__(self, rows: FloatArray, clumps: bool) -> None:
        self.rows, self.clumps = rows, clumps

    def __call__(self, drawn: _Drawn) -> tuple[Vector, Vector, float]:
        part = gather(self.rows, drawn.order)
        sample = Sample.of(part)
        if not self.clumps:
            return half_ball(sample), np.empty((0, part.shape[1])), 0.0
        spots, reach = find_clumps(sample)
        return half_ball(sample.without(_near(part, spots, reach))), spots, reach


def _near(rows: FloatArray, spots: Vector, reach: float) -> Mask:
    """Tell which rows are within `reach` of one of the spots."""
    near = np.zeros(len(rows), dtype=bool)
    for spot in spots:
        near |= row_norms(np.subtract(rows, spot, dtype=np.float64)) <= reach * _TOLERANCE
    return near


def _clumped(rows: FloatArray, codes: IntArray, spots: list[Vector], reaches: Vector) -> Mask:
    """Tell which rows of a block are in a clump of their class."""
    clumped = np.zeros(len(codes), dtype=bool)
    for group in np.flatnonzero([len(found) > 0 for found in spots]):
        members = np.flatnonzero(codes == group)
        clumped[members] = _near(rows[members], spots[group], reaches[group])
    return clumped


def _measure(
    rows: FloatArray, codes: IntArray, points: Vector, spots: list[Vector], reaches: Vector
) -> tuple[Vector, Mask]:
    """Return the distance of each row to the point of its class, and whether it is in a clump."""
    own_code = PerRow(codes)

    def part(block: slice) -> tuple[Vector, Mask]:
        values, code = rows[block], own_code[block]
        clumped = _clumped(values, code, spots, reaches)
        return row_norms(np.subtract(values, points[code], dtype=np.float64)), clumped

    parts = list(map_blocks(part, rows, "measuring distances"))
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
