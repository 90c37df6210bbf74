"""Copies: rows that are equal, or so near to each other that nothing tells them apart, in groups.

Equal rows have equal hashes. Near copies are at most a tenth as far apart as a row and its nearest neighbour
typically are. They are looked for among rows that share a cell of one of several grids, laid over a sketch
of the rows of at most 16 numbers, so that it takes one pass, and no row is compared with all others. More
copies of some rows change nothing for the others: they hardly move the typical distance, which is rounded,
and the grids do not depend on where the middle of the rows is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ...arrays import FloatArray, IntArray, Keys, Mask, Rows, Vector
from ...compute.blocks import map_in_order, tiles
from ...compute.reads import EachRow
from ...compute.runner import gather, run_read
from ...location.centers import coordinate_median
from ...validation import key_factors

if TYPE_CHECKING:
    from ..table import Columns, Table

_Sketch = npt.NDArray[np.float32]

FAULT = False  # of data in which rows repeat
_NEAR = 0.1  # of the typical distance to the nearest neighbour; cleanlab's near duplicates are within 0.13
_PROBES, _FEW_OTHERS, _OTHERS = 256, 1024, 8192
_DIRECTIONS = 16
# At the largest distance two near copies share a cell of one grid with a probability of 0.43, at half of it
# of 0.66; of one of five grids, 0.94 and 0.995.
_GRIDS, _SIDES, _WIDTH = 5, 8, 2.0
_LAGS = (1, 2)
_FARTHEST = float(
    1 << 22
)  # in units of the largest distance of near copies, which float32 cannot tell apart there


@dataclass(frozen=True, eq=False)
class Copies:
    """Which rows are copies of each other."""

    groups: IntArray  # group of each row, numbered from 0; -1 for rows that are alone
    reach: float  # the distance within which rows are near copies
    sketch: _Sketch | None  # distances in the sketch stand for distances of rows; None: copies are exact

    def apart(self, one: IntArray, other: IntArray) -> Vector:
        """Return about how far apart pairs of rows of a group are, in units of the reach; 0: equal."""
        if self.sketch is None:
            return np.zeros(len(one))
        squares = np.square(self.sketch[one] - self.sketch[other], dtype=np.float64)
        found: Vector = np.sqrt(np.add.reduce(squares, axis=1))
        return found


def find_copies(rows: Rows, keys: Keys, usable: Mask) -> Copies:
    """Put rows that are copies of each other into groups.

    `rows`, `keys`: rows and their hashes, from `compute.keys.row_keys`. `usable`: rows to look at.

    Time: one pass, and O(rows log rows). Memory beyond the input: some 150 bytes per row.

    >>> rows = np.array([[0.0, 1.0], [5.0, 2.0], [0.0, 1.0], [9.0, 9.0]])
    >>> from gmmatch.compute.keys import row_keys
    >>> find_copies(rows, row_keys(rows), np.ones(4, bool)).groups.tolist()
    [0, -1, 0, -1]
    """
    judged = np.flatnonzero(usable)
    order = judged[np.argsort(keys[judged], kind="stable")]
    equal = keys[order[1:]] == keys[order[:-1]]
    links = [np.stack([order[:-1][equal], order[1:][equal]])]
    distinct = order[np.r_[True, ~equal]] if len(order) else order
    # Hashes are random, so that the smallest ones are those of a random sample.
    sample = gather(rows, distinct[:_OTHERS])
    # Beside the median, and not the mean, the other rows keep their digits whatever a few rows hold.
    origin = coordinate_median(sample) if len(sample) else np.zeros(rows.shape[1])
    reach, sketch = _rounded_down(_NEAR * _typical_gap(sample - origin, len(distinct))), None
    if reach > 0:
        sketch = found = _sketch(rows, origin, reach)
        among = np.sort(distinct[np.abs(sketch[distinct]).max(axis=1) < _FARTHEST])
        links += map_in_order(lambda grid: _near(found, among, grid), range(_GRIDS))
    return Copies(_components(np.concatenate(links, axis=1), len(rows)), reach, sketch)


def _typical_gap(offsets: Vector, n_rows: int) -> float:
    """Return the median distance of rows to their nearest neighbour among `n_rows` rows, near copies apart.

    `offsets`: a sample of the rows, without their middle. The distance is measured among few and among all
    rows of the sample, and falls on as it does between the two. The rows that it is measured for are the
    first of the sample that have no near copies in it.
    """
    if len(offsets) < 2:
        return 0.0
    squares = np.concatenate([np.add.reduce(offsets[own] ** 2, axis=1) for own in tiles(*offsets.shape)])

    def measured(probes: slice) -> tuple[Vector, Vector]:
        with threadpool_limits(1):
            apart = squares[probes, None] + squares - 2 * (offsets[probes] @ offsets.T)
        own = np.arange(len(apart))
        apart[own, probes.start + own] = np.inf
        return apart, apart.min(axis=1)

    apart, nearest = measured(slice(0, _PROBES))
    limit = _NEAR**2 * np.median(nearest)
    alone = nearest > limit
    if alone.any():
        if not alone.all() and len(offsets) > _PROBES:
            more, further = measured(slice(_PROBES, 2 * _PROBES))
            apart, alone = np.concatenate([apart, more]), np.r_[alone, further > limit]
        apart = apart[alone][:_PROBES]
    few = min(_FEW_OTHERS, len(offsets))
    gaps = [float(np.sqrt(max(0.0, np.median(apart[:, :size].min(axis=1))))) for size in (few, len(offsets))]
    if gaps[1] == 0 or len(offsets) == few:
        return gaps[1]
    fall = np.log(gaps[0] / gaps[1]) / np.log(len(offsets) / few)
    return float(gaps[1] * (len(offsets) / n_rows) ** max(0.0, fall))


def _rounded_down(value: float) -> float:
    """Return the next lower power of the square root of two: what changes a value a little changes nothing.

    >>> _rounded_down(1.0), _rounded_down(1.3), _rounded_down(0.9) == 0.5**0.5, _rounded_down(0.0)
    (1.0, 1.0, True, 0.0)
    """
    return float(2.0 ** (np.floor(2 * np.log2(value)) / 2)) if value > 0 else 0.0


def _sketch(rows: Rows, origin: Vector, unit: float) -> _Sketch:
    """Return few numbers of each row whose distances are about those of the rows, in some unit.

    Rows are measured from the origin, so that little is lost in rounding, and moved by whole cells alone:
    with another origin they share the same cells.
    """
    width, directions = rows.shape[1], None
    if width > _DIRECTIONS:
        rng = np.random.default_rng(0x636F70)
        directions = rng.standard_normal((width, _DIRECTIONS)) / (unit * np.sqrt(_DIRECTIONS))
        directions = directions.astype(rows.dtype)
    middle = origin.astype(rows.dtype)
    exact = middle.astype(np.float64)
    place = exact / unit if directions is None else exact @ directions.astype(np.float64)
    beyond = np.mod(place, _WIDTH)

    def part(block: slice, values: FloatArray) -> tuple[_Sketch]:
        with np.errstate(over="ignore", invalid="ignore"):  # rows without end are farther than any other
            offsets = np.subtract(values, middle)
            moved = (offsets / unit if directions is None else offsets @ directions) + beyond
            found = np.asarray(moved, np.float32)
        return (np.nan_to_num(found, copy=False, nan=float(np.finfo(np.float32).max)),)

    return run_read(rows, EachRow("looking for copies", part, products=True))[0]


def _near(sketch: _Sketch, rows: IntArray, grid: int) -> IntArray:
    """Return pairs of rows that share a cell of a grid and are near copies, as an array (2, pairs)."""
    if len(rows) < 2:
        return np.empty((2, 0), np.int64)
    rng = np.random.default_rng([grid, 0x63656C])
    sides = rng.permutation(sketch.shape[1])[:_SIDES]
    shift = rng.uniform(0, _WIDTH, len(sides))
    names = np.empty(len(rows), np.uint64)  # a hash of the cell of each
    for some in tiles(len(rows), len(sides)):
        cells = np.floor((sketch[rows[some, None], sides] + shift.astype(np.float32)) / np.float32(_WIDTH))
        names[some] = (cells.astype(np.int64).view(np.uint64) * key_factors(len(sides), grid)).sum(axis=1)
    order = np.argsort(names)
    equal = names[order[1:]] == names[order[:-1]]
    shared = np.r_[False, equal] | np.r_[equal, False]
    order, names = rows[order[shared]], names[order[shared]]
    # In a cell, rows that are near to each other stand next to each other along one more direction.
    ahead = np.lexsort((sketch[order, int(rng.integers(sketch.shape[1]))], names))
    order, names = order[ahead], names[ahead]
    found = []
    for lag in _LAGS:
        same = np.flatnonzero(names[:-lag] == names[lag:])
        one, other = order[same], order[same + lag]
        apart = np.square(sketch[one] - sketch[other], dtype=np.float64).sum(axis=1)
        found.append(np.stack([one[apart <= 1.0], other[apart <= 1.0]]))
    return np.concatenate(found, axis=1)


def _components(links: IntArray, n_rows: int) -> IntArray:
    """Return by row the group that links make, in the order of the rows; -1 where a row has no link."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    members = np.unique(links)
    groups = np.full(n_rows, -1, np.int64)
    if len(members):
        one, other = np.searchsorted(members, links)
        graph = coo_array((np.ones(len(one), np.int8), (one, other)), shape=(len(members), len(members)))
        groups[members] = connected_components(graph, directed=False)[1]
    return groups


def score(table: Columns) -> Vector:
    """Return how near to the row that stands for it each duplicate is."""
    return table.duplicate


def flag(table: Columns) -> Mask:
    """Return True for rows that another row stands for."""
    found: Mask = table.duplicate > 0
    return found


def sentence(table: Table, row: int, names: list[str], codes: IntArray) -> str | None:
    """Say which row a duplicate repeats, and whether the two bear the same label."""
    if table.duplicate[row] <= 0:
        return None
    keep = int(table.keep[row])
    near = "" if table.duplicate[row] == 1 else "nearly "
    label = "" if codes[row] == codes[keep] else f", which bears the label {names[codes[keep]]}"
    return f"it is {near}a copy of row {table.numbers[keep]}{label}, one of {table.copies[row]}"
