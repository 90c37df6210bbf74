"""k-means: seeded, and the same whatever the number of threads."""

from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, IntArray, Rows, Vector
from ..compute import kernels
from ..compute.blocks import block_rows, map_in_order, present_groups
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

    `points`: the points, float64. `kind`: type of the rows.
    """

    def __init__(self, points: Vector, kind: npt.DTypeLike) -> None:
        self.points, sizes = points, np.einsum("ij,ij->i", points, points)
        self.reach = float(np.sqrt(sizes.max(initial=0.0)))
        # Where single precision is too small for them, nothing is close, and rows are looked at again.
        with np.errstate(over="ignore"):
            self._columns, self.sizes = points.astype(kind).T, sizes.astype(kind)

    def compare(self, rows: FloatArray, lengths: Vector | None = None) -> tuple[IntArray, Vector]:
        """Return what `nearest` does, and the least squared distance, less the square of the row.

        `lengths`: those of the rows, where they are known.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = row_lengths(rows) if lengths is None else lengths
            errors = product_error(rows) * self.reach * (2.0 * lengths + self.reach)
            codes, unsure, least = kernels.nearest_points(rows @ self._columns, self.sizes, errors)
        again = np.flatnonzero(unsure)
        if len(again) and rows.dtype != np.float64:
            codes[again] = self._exact.compare(rows[again].astype(np.float64))[0]
        return codes, least

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

    `rows`, `prototypes`: rows, and where to begin. `sizes`: how many rows each prototype is the mean of.

    Memory beyond the rows: 8 bytes for each, and O(block).
    """

    def __init__(self, rows: FloatArray, prototypes: Vector) -> None:
        self.rows, self.prototypes, self.sizes = rows, prototypes, np.zeros(len(prototypes), np.int64)
        step = max(_FEWEST_ROWS, block_rows(max(rows.shape[1], len(prototypes))))
        self._blocks = [slice(start, start + step) for start in range(0, len(rows), step)]

    def codes(self) -> IntArray:
        """Return which prototype is nearest to each row, as `nearest` does."""
        points = Points(self.prototypes, self.rows.dtype)
        found = map_in_order(lambda block: points.compare(np.asarray(self.rows[block]))[0], self._blocks)
        return np.concatenate([np.empty(0, np.int64), *found])

    def go(self) -> bool:
        """Move each prototype to the mean of the rows nearest to it; one without rows stays.

        Returns whether any moved.
        """
        codes, before, sums = self.codes(), self.prototypes, np.zeros_like(self.prototypes)
        self.sizes = np.bincount(codes, minlength=len(before))

        def part(block: slice) -> tuple[IntArray, Vector]:
            present, among = present_groups(codes[block], len(before))
            return present, kernels.group_sums(self.rows[block], among, len(present))[0]

        for present, own in map_in_order(part, self._blocks):
            sums[present] += own
        self.prototypes = np.where(self.sizes[:, None] > 0, sums / np.maximum(self.sizes, 1)[:, None], before)
        return bool((self.prototypes != before).any())
