"""Evidence of the place: rows far outside their class, or in a dense cluster of it.

Limits are found on rows in memory: the distances to the centre of the smallest ball that holds half of a
class, the mean of the rows in and about that ball, and the distances to that mean. Other rows are then judged
by these limits as they are read. In high dimension rows stand in a shell about their centre, so that a tight
cluster inside the shell is nearer to the centre than any good row; its density gives it away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from ...arrays import FloatArray, IntArray, Keys, Mask, Vector
from ...compute import kernels
from ...compute.blocks import block_rows, by_group, map_in_order, row_norms
from ...compute.keys import group_samples
from ...compute.runner import gather
from ...location.concentrated import SAMPLE_ROWS, Sample, half_ball
from ...location.distances import group_distances, group_quantiles
from ...location.mean import group_means

if TYPE_CHECKING:
    from ..table import Columns, Table

FAULT = True
ODD = 0.5
"""A row whose score of the place exceeds this is beyond what its class allows."""

FEWEST_ROWS = 8
"""Classes with fewer rows are not judged: the spread of so few says nothing."""

SURE_REACH = 1.5
"""Times the distance that a class allows: so far are rows believed whose label is sure."""

_BEYOND = 3.0  # times that distance, of every class, from which a row is of none; heavy tails reach far
_SURELY_WITHIN = 0.99  # of a reach: up to there no rounding decides
_FEW_FEATURES = 64  # up to which classes may overlap as tables do; texts have 256 and more
_OVERLAP_ROWS = 1024  # by which it is told how far classes overlap
_REACH = 1.25
_SIGMAS = 3.0
_GROSS = 5.0  # times the median distance; set by reason: groups of one data set are nearer to each other
_SAMPLE_ROWS_IN_ALL = 1 << 15  # with more than 32 classes, down to half a sample for each; set by reason
_ROUNDS = 20
# Set so that the toy figure's loose cloud of 45 % is seen; benchmarks.centres is as without it.
_VALLEY_WIDTH = 1.25
_VALLEY_SHARE = 0.005
_FEW = 0.02  # of the rows: what is far off in smaller numbers is found by its distance alone
_ODD_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # keeps the hashes of one row in two classes apart
_MAD_TO_SIGMA = 1.4826
_TOLERANCE = 1 + 1e-9  # equal distances that rounding tells apart fall on one side

_FEWEST_CLUSTERED = 40
_NEIGHBOURS = 0.05  # of the class: how many rows make a clump
_DENSER = 5.0  # times as near to their neighbours as the typical row
_MOST_SPOTS = 64


@dataclass(frozen=True, eq=False)
class Limits:
    """What rows are judged by, class by class."""

    # Centre of each class, and the distance to it beyond which a row is far outside: infinite for classes
    # that are too small to judge.
    centers: Vector
    thresholds: Vector
    # The spots about which rows of a class huddle, where there are some, and how far a clump reaches.
    spots: dict[int, Vector]
    reaches: Vector

    def judge(self, rows: FloatArray, codes: IntArray) -> tuple[Vector, Mask, Mask]:
        """Return the distance of each row of a block to its centre, which rows are far, and which clumped.

        Rows of a negative class are neither.
        """
        clumped = _clumped(rows, codes, self.spots, self.reaches)
        distances = kernels.group_distances(rows, codes, self.centers)
        far = ~clumped & (codes >= 0) & (distances > self.thresholds[codes] * _TOLERANCE)
        return distances, far, clumped

    def strays(self, rows: FloatArray, codes: IntArray, far: Mask, distances: Vector) -> Mask:
        """Return True for rows of a block, of those that are far, that lie far outside every class.

        A class reaches at least as far as the typical one does. `distances`: to the centre of their own.
        """
        strays, finite = np.zeros(len(rows), bool), np.sort(self.thresholds[np.isfinite(self.thresholds)])
        if not len(finite) or (typical := float(finite[len(finite) // 2])) == 0:
            return strays
        known = np.where(np.isfinite(self.thresholds), self.thresholds, typical)
        reach = _BEYOND * np.maximum(known, typical)
        members = np.flatnonzero(far & (distances > _SURELY_WITHIN * reach[codes]))
        if len(members):
            strays[members] = ~self._within(rows[members], reach)
        return strays

    def misplaced(self, rows: FloatArray, codes: IntArray, far: Mask, distances: Vector) -> tuple[Mask, Mask]:
        """Return which of the rows that are far are strays, and which are strays or allowed by another class.

        The others are in the long tail of their class. Where classes of few features allow most rows of each
        other, that another one allows a row says nothing. (In many dimensions they always do: rows stand in
        shells, and one that is far from its own class is rarely of it.) `codes`, `distances`: class of each
        row, and how far it is from the centre of that.
        """
        strays, members = self.strays(rows, codes, far, distances), np.flatnonzero(far)
        found, reach = strays.copy(), np.where(np.isfinite(self.thresholds), self.thresholds, 0.0)
        near = np.flatnonzero(~far)[: _OVERLAP_ROWS if rows.shape[1] <= _FEW_FEATURES else 0]
        if len(members) and 2 * np.count_nonzero(self._within(rows[near], reach, codes[near])) <= len(near):
            step = block_rows(max(self.centers.shape))
            parts = [members[start : start + step] for start in range(0, len(members), step)]
            within = map_in_order(lambda own: self._within(rows[own], reach), parts)
            found[members] |= np.concatenate(list(within))
        return strays, found

    def _within(self, rows: FloatArray, reach: Vector, own: IntArray | None = None) -> Mask:
        """Return True for rows that are within the reach of one class or more, beside their own."""
        origin = self.centers[int(self.thresholds.argmin())]
        points, offsets = self.centers - origin, np.subtract(rows, origin, dtype=np.float64)
        squares = np.add.reduce(offsets * offsets, axis=1)[:, None] - 2 * (offsets @ points.T)
        squares += np.add.reduce(points * points, axis=1)
        within = squares <= reach * reach
        if own is not None:
            within[np.arange(len(rows)), own] = False
        found: Mask = within.any(axis=1)
        return found


def find_gate(
    rows: FloatArray,
    codes: IntArray | None,
    n_classes: int,
    keys: Keys,
    one_cloud: bool = True,
    clumps: bool = True,
) -> Limits:
    """Return a robust centre of each class, and how far its rows reach.

    `rows`: rows in memory. `codes`: class of each row, none empty; a negative one is none; None: one class.
    `keys`: hashes of the rows, from `compute.keys.row_keys`. `one_cloud`: whether the rows of a class are one
    cloud. If not, because classes are still to be found among them, only rows beyond five times the median
    distance are far. `clumps`: whether a dense cluster is a fault; not in a table of few categories.

    A row passes if its distance is at most the median plus 3 * 1.4826 * MAD (the median absolute
    deviation) of its class. Time: O(rows * features), and O(1024^2 d) per class. Memory beyond the input:
    O(classes * features), some 25 bytes per row, and a sample of 1,024 rows per core.
    """
    code = np.zeros(len(rows), dtype=np.int64) if codes is None else codes
    starts, spots, reaches = _sampled(rows, codes, n_classes, keys, one_cloud and clumps)
    distances, clumped = group_distances(rows, code, starts), _clumped(rows, code, spots, reaches)
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
        # In a table of few categories half of a class may be one row, which says nothing of how far others
        # spread: of rows that are equal and of one class the first counts.
        marks = keys[counted] + code[counted].astype(keys.dtype) * _ODD_FACTOR
        distinct = np.sort(np.unique(marks, return_index=True)[1])
        if 2 * len(distinct) < np.count_nonzero(counted):
            wider = _thresholds(apart[counted][distinct], code[counted][distinct], n_classes)
            # The median of all rows bounds it: else many odd rows would outvote few that occur often.
            wider = np.minimum(wider, _GROSS * np.median(apart[counted]))
            thresholds = np.maximum(thresholds, wider)
    else:
        thresholds = _GROSS * group_quantiles(apart[counted], code[counted], n_classes)[:, 0]
    return Limits(centers, thresholds, spots, reaches)


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
    rows: FloatArray, codes: IntArray | None, n_classes: int, keys: Keys, clumps: bool
) -> tuple[Vector, dict[int, Vector], Vector]:
    """Return for each class a first centre, the spots of its clumps, and their reach, from samples."""
    size = min(SAMPLE_ROWS, max(SAMPLE_ROWS // 2, _SAMPLE_ROWS_IN_ALL // n_classes))
    samples = group_samples(keys, codes, n_classes, size)

    def measured(order: IntArray) -> tuple[Vector, Vector, float]:
        part = gather(rows, order)
        sample = Sample.of(part)
        if not clumps:
            return half_ball(sample), np.empty((0, part.shape[1])), 0.0
        spots, reach = find_clumps(sample)
        return half_ball(sample.without(_near(part, spots, reach))), spots, reach

    # One thread of BLAS per class: classes side by side are faster, and the bits are the same anywhere.
    with threadpool_limits(1):
        starts, spots, reaches = zip(*map_in_order(measured, samples), strict=True)
    return np.stack(starts), {code: own for code, own in enumerate(spots) if len(own)}, np.array(reaches)


def _near(rows: FloatArray, spots: Vector, reach: float) -> Mask:
    """Tell which rows are within `reach` of one of the spots."""
    near = np.zeros(len(rows), dtype=bool)
    for spot in spots:
        near |= row_norms(np.subtract(rows, spot, dtype=np.float64)) <= reach * _TOLERANCE
    return near


def _clumped(rows: FloatArray, codes: IntArray, spots: dict[int, Vector], reaches: Vector) -> Mask:
    """Tell which rows of a block are in a clump of their class."""
    clumped = np.zeros(len(codes), dtype=bool)
    for group, own in spots.items():
        members = np.flatnonzero(codes == group)
        clumped[members] = _near(rows[members], own, reaches[group])
    return clumped


def find_clumps(sample: Sample) -> tuple[Vector, float]:
    """Find the spots of a class where many rows are huddled.

    A row's reach is its distance to the nearest twentieth of the class. Rows whose reach is less than a
    fifth of the median reach are clumped; since the median is that of more than half of the rows, fewer
    than half can be. Spots are clumped rows that between them cover all clumped rows.

    `sample`: rows of one class, measured.

    Returns points, and how near to one of them a row must be to belong to a clump.

    Time and memory: O(n^2).

    >>> rng = np.random.default_rng(0)
    >>> rows = np.concatenate([rng.normal(size=(60, 8)), np.full((40, 8), 2.0)])
    >>> spots, reach = find_clumps(Sample.of(rows))
    >>> len(spots)
    1
    """
    nothing = np.empty((0, sample.offsets.shape[1])), 0.0
    n_rows = len(sample.gram)
    if n_rows < _FEWEST_CLUSTERED:
        return nothing
    squares = np.diagonal(sample.gram)
    # Differences of large squares: what rounding leaves of equal rows is set to zero.
    apart = squares[:, None] + squares - 2 * sample.gram
    apart[apart <= 1e-12 * np.maximum(squares[:, None], squares)] = 0.0
    place = max(4, int(np.ceil(_NEIGHBOURS * n_rows)))
    reach = np.sqrt(np.partition(apart, place, axis=1)[:, place])
    limit = float(np.sort(reach)[n_rows // 2]) / _DENSER
    clumped = reach < limit * (1 - 1e-9)
    spots: list[int] = []
    open_rows = clumped.copy()
    while open_rows.any() and len(spots) < _MOST_SPOTS:
        spot = int(np.where(open_rows, reach, np.inf).argmin())
        spots.append(spot)
        open_rows &= apart[spot] > limit**2
    return (sample.origin + sample.offsets[spots], limit) if spots else nothing


def score(table: Columns) -> Vector:
    """Return how far outside its class, or how dense, the place of each row is."""
    return table.outlier


def flag(table: Columns) -> Mask:
    """Return True for rows beyond what their class allows."""
    found: Mask = table.outlier > ODD
    return found


def sentence(table: Table, row: int, names: list[str], codes: IntArray) -> str | None:
    """Say what is odd about the place of a row."""
    if table.outlier[row] <= ODD:
        return None
    if table.clumped[row]:
        return f"it is in a dense cluster of {names[codes[row]]}"
    return f"it is far outside {names[codes[row]]}"
