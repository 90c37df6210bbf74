"""k-means: seeded, and the same whatever the number of threads."""

from collections import deque
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, IntArray, Rows, Vector
from ..compute import kernels
from ..compute.blocks import block_rows, map_in_order
from ..compute.reads import EachRow
from ..compute.runner import PerRow, run_read
from ..progress import task
from .greedy import product_error

_SAMPLE_PER_CLUSTER = 32
_SMALLEST_SAMPLE = 1024
_FEWEST_ROWS = 1024  # of a block: its sums, which grow with the clusters, stay small beside its products


def kmeans(
    rows: FloatArray, n_clusters: int, rng: np.random.Generator, max_iter: int = 100, tolerance: float = 1e-4
) -> tuple[Vector, IntArray]:
    """Cluster rows by Lloyd's iteration from a k-means++ start on a sample.

    `rows`: rows in memory. `n_clusters`: how many clusters to look for; rows
    with fewer distinct values have fewer. `rng`: source of the start. `max_iter`: most passes. `tolerance`:
    stop when the squared moves of the prototypes add up to less than this share of the variance of a feature.

    Returns the clusters' means, float64, and the nearest of them for each row.

    Time: O(rows * features * clusters) per pass, in BLAS. Memory: O(block), and one number per row.
    """
    size = max(_SMALLEST_SAMPLE, _SAMPLE_PER_CLUSTER * n_clusters)
    sample = rows if size >= len(rows) else rows[np.sort(rng.choice(len(rows), size, replace=False))]
    rounds = Rounds(rows, spread_out(sample, n_clusters, rng))
    enough = tolerance * float(np.var(sample, axis=0, dtype=np.float64).mean())
    with task("clustering rows", None) as advance:
        for _ in range(max_iter):
            before = rounds.prototypes
            rounds.go()
            advance(1)
            if float(np.add.reduce((rounds.prototypes - before) ** 2, axis=None)) <= enough:
                break
    return rounds.prototypes, rounds.codes()


def prototype_distances(rows: Rows, members: IntArray, prototypes: Vector) -> Vector:
    """Return the distance of some rows to the nearest prototype, 0 for the others, in one pass."""
    wanted = np.zeros(len(rows), dtype=bool)
    wanted[members] = True
    own_wanted = PerRow(wanted)

    def part(block: slice, values: FloatArray) -> tuple[Vector]:
        found = np.zeros(block.stop - block.start)
        here = own_wanted[block]
        values = values[here]  # the others may hold anything
        found[here] = kernels.group_distances(values, nearest(values, prototypes), prototypes)
        return (found,)

    return run_read(rows, EachRow("measuring distances", part))[0]


def spread_out(rows: FloatArray, n_points: int, rng: np.random.Generator) -> Vector:
    """Return up to `n_points` distinct rows, each drawn with probability by its squared distance to them.

    This is the start of k-means++ (Arthur and Vassilvitskii 2007). One draw each: the best of several would
    be an outlier more often.
    """
    first = int(rng.integers(len(rows)))
    return rows[kernels.spread_out(rows, first, rng.random(n_points - 1))].astype(np.float64)


def nearest(rows: FloatArray, prototypes: Vector) -> IntArray:
    """Return for each row of a block which prototype is nearest, the first of those too close to tell.

    Products are in the precision of the rows; rows for which its rounding may decide are looked at again.
    """
    return Points(prototypes, rows.dtype).compare(rows)[0]


class Points:
    """Points that rows are compared with, block by block; made ready for it once.

    `points`: the points, float64. `kind`: type of the rows. `reach`: length of the longest of these points or
    others that rows were compared with before.
    """

    def __init__(self, points: Vector, kind: npt.DTypeLike, reach: float = 0.0) -> None:
        self.points, sizes = points, np.einsum("ij,ij->i", points, points)
        self.reach = max(reach, float(np.sqrt(sizes.max(initial=0.0))))
        # Where single precision is too small for them, nothing is close, and rows are looked at again.
        with np.errstate(over="ignore"):
            self._columns, self.sizes = points.astype(kind).T, sizes.astype(kind)

    def products(self, rows: FloatArray) -> FloatArray:
        """Return the inner products of rows and points."""
        with np.errstate(over="ignore", invalid="ignore"):
            products: FloatArray = rows @ self._columns
            return products

    def errors(self, rows: FloatArray, lengths: Vector | None = None) -> Vector:
        """Return by row the error of its squared distance to a point; `lengths`: those of the rows."""
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = row_lengths(rows) if lengths is None else lengths
            return product_error(rows) * self.reach * (2.0 * lengths + self.reach)

    def compare(self, rows: FloatArray, lengths: Vector | None = None) -> tuple[IntArray, Vector, Vector]:
        """Return what `nearest` does, and the two least squared distances, less the squares of the rows."""
        compared = self.products(rows), self.sizes, self.errors(rows, lengths)
        codes, unsure, least, second = kernels.nearest_points(*compared)
        again = np.flatnonzero(unsure)
        if len(again) and rows.dtype != np.float64:
            codes[again] = self._exact.compare(rows[again].astype(np.float64))[0]
        return codes, least, second

    @cached_property
    def _exact(self) -> "Points":
        return Points(self.points, np.float64)


def row_lengths(rows: FloatArray) -> Vector:
    """Return the length of each row of a block, as exact as the type of the rows."""
    with np.errstate(over="ignore"):
        lengths: Vector = np.sqrt(np.einsum("ij,ij->i", rows, rows)).astype(np.float64)
        return lengths


class Rounds:
    """Rounds of k-means over rows in memory.

    A prototype that did not move is as far from every row as it was, so that most rows are compared with the
    others alone.

    `rows`, `prototypes`: rows, and where to begin.

    Memory beyond the rows: 24 bytes for each, one for each prototype, and O(block).
    """

    def __init__(self, rows: FloatArray, prototypes: Vector) -> None:
        self.rows, self.prototypes = rows, prototypes
        step = max(_FEWEST_ROWS, block_rows(max(rows.shape[1], len(prototypes))))
        self._blocks = [slice(start, start + step) for start in range(0, len(rows), step)]
        self._codes = np.full(len(rows), -1)
        self._least, self._second = np.empty(len(rows)), np.empty(len(rows))
        self._moved, self._reach = np.arange(len(prototypes)), 0.0

    @property
    def sizes(self) -> IntArray:
        """How many rows each prototype is the mean of."""
        return np.bincount(np.maximum(self._codes, 0), minlength=len(self.prototypes))

    def codes(self) -> IntArray:
        """Return which prototype is nearest to each row, as `nearest` does."""
        points = Points(self.prototypes, self.rows.dtype, self._reach)
        moved = Points(self.prototypes[self._moved], self.rows.dtype, points.reach)
        place = np.full(len(self.prototypes), -1)
        place[self._moved] = np.arange(len(self._moved))

        def part(block: slice) -> None:
            rows, found = np.asarray(self.rows[block]), self._codes[block]
            least, second = self._least[block], self._second[block]
            again = np.arange(len(rows))
            if len(moved.points) < len(points.points):
                compared = moved.products(rows), place, moved.sizes, moved.errors(rows)
                again = np.flatnonzero(kernels.nearest_moved(*compared, found, least, second))
            if len(again):
                some = rows if len(again) == len(rows) else np.take(rows, again, axis=0)
                found[again], least[again], second[again] = points.compare(some)

        if len(self._moved):
            deque(map_in_order(part, self._blocks), maxlen=0)
        self._moved, self._reach = self._moved[:0], points.reach
        return self._codes

    def go(self) -> bool:
        """Move each prototype to the mean of the rows nearest to it; one without rows stays.

        Returns whether any moved.
        """
        before = self._codes.copy()
        self.codes()
        other = self._codes != before
        # Prototypes that rows came to or went from; the others are where their rows are.
        changed = np.unique(np.concatenate([self._codes[other], before[other & (before >= 0)]]))
        means, counts = np.zeros((len(changed), self.rows.shape[1])), np.zeros(len(changed))
        place = np.full(len(self.prototypes), -1)
        place[changed] = np.arange(len(changed))

        def part(block: slice) -> tuple[Vector, Vector]:
            return kernels.group_sums(self.rows[block], place[self._codes[block]], len(changed))

        for sums, sizes in map_in_order(part, self._blocks):
            means += sums
            counts += sizes
        filled = counts > 0
        means = means[filled] / counts[filled, None]
        changed = changed[filled]
        moved = (means != self.prototypes[changed]).any(axis=1)
        self._moved = changed[moved]
        self.prototypes = self.prototypes.copy()
        self.prototypes[self._moved] = means[moved]
        return bool(moved.any())
