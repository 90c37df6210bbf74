"""k-means: seeded, and the same whatever the number of threads."""

import numpy as np
import numpy.typing as npt

from ..compute import kernels
from ..compute.blocks import block_rows, tiles
from ..compute.passes import map_blocks
from ..progress import task
from ..records import FloatArray, IntArray
from .candidates import product_error

Vector = npt.NDArray[np.float64]

_SAMPLE_PER_CLUSTER = 32
_SMALLEST_SAMPLE = 1024
_MANY_PROTOTYPES = 16
_FEWEST_ROWS = 1024  # of a block: its sums, which grow with the clusters, stay small beside its products


def kmeans(
    rows: FloatArray,
    n_clusters: int,
    rng: np.random.Generator,
    max_iter: int = 100,
    tolerance: float = 1e-4,
) -> tuple[Vector, IntArray]:
    """Cluster rows by Lloyd's iteration from a k-means++ start on a sample.

    `rows`: rows; only slices are read, after the sample. `n_clusters`: how many clusters to look for; rows
    with fewer distinct values have fewer. `rng`: source of the start. `max_iter`: most passes. `tolerance`:
    stop when the squared moves of the prototypes add up to less than this share of the variance of a feature.

    Returns the clusters' means, float64, and the nearest of them for each row.

    Time: O(rows * features * clusters) per pass, in BLAS. Memory: O(block), and one number per row.
    """
    sample = _sample(rows, max(_SMALLEST_SAMPLE, _SAMPLE_PER_CLUSTER * n_clusters), rng)
    prototypes = spread_out(sample, n_clusters, rng)
    enough = tolerance * float(np.var(sample, axis=0, dtype=np.float64).mean())
    with task("clustering rows", None) as advance:
        for _ in range(max_iter):
            moved = improve(rows, prototypes)
            shift = float(np.add.reduce((moved - prototypes) ** 2, axis=None))
            prototypes = moved
            advance(1)
            if shift <= enough:
                break

    def part(block: slice) -> IntArray:
        return nearest(np.asarray(rows[block]), prototypes)

    return prototypes, np.concatenate(list(map_blocks(part, rows, "clustering rows")))


def _sample(rows: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
    if size >= len(rows):
        return rows[:]
    sample: FloatArray = rows[np.sort(rng.choice(len(rows), size, replace=False))]
    return sample


def spread_out(rows: FloatArray, n_points: int, rng: np.random.Generator) -> Vector:
    """Return up to `n_points` distinct rows, each drawn with probability by its squared distance to them.

    This is the start of k-means++ (Arthur and Vassilvitskii 2007). One draw each: the best of several would
    be an outlier more often.
    """
    points = [rows[int(rng.integers(len(rows)))].astype(np.float64)]
    gaps, columns = np.full(len(rows), np.inf), np.ascontiguousarray(rows.T)
    while len(points) < n_points:
        kernels.lower_gaps(columns, points[-1], gaps)
        total = np.cumsum(gaps)
        if total[-1] == 0.0:
            break
        drawn = np.searchsorted(total, rng.random() * total[-1], side="right")
        drawn = min(drawn, np.searchsorted(total, total[-1]))  # tiny numbers are rounded up
        points.append(rows[drawn].astype(np.float64))
    return np.stack(points)


def improve(rows: FloatArray, prototypes: Vector) -> Vector:
    """Move each prototype to the mean of the rows nearest to it; one without rows stays."""
    nothing = np.empty((0, rows.shape[1]), rows.dtype)
    kernels.group_sums(nothing, nearest(nothing, prototypes), 1)  # compiled before threads need it

    def part(block: slice) -> tuple[Vector, Vector]:
        values = np.asarray(rows[block])
        return kernels.group_sums(values, nearest(values, prototypes), len(prototypes))

    totals, counts = np.zeros_like(prototypes), np.zeros(len(prototypes))
    step = max(_FEWEST_ROWS, block_rows(max(rows.shape[1], len(prototypes))))
    for sums, sizes in map_blocks(part, rows, "clustering rows", step):
        totals += sums
        counts += sizes
    filled = counts > 0
    totals[filled] /= counts[filled, None]
    totals[~filled] = prototypes[~filled]
    return totals


def nearest(rows: FloatArray, prototypes: Vector) -> IntArray:
    """Return for each row of a block which prototype is nearest, the first of those too close to tell.

    Products are in the precision of the rows; rows for which its rounding may decide are looked at again.
    """
    if rows.shape[1] == 1 and len(prototypes) > _MANY_PROTOTYPES:
        return _nearest_numbers(rows[:, 0].astype(np.float64), prototypes[:, 0])
    return _nearest(rows, prototypes)


def _nearest(rows: FloatArray, prototypes: Vector) -> IntArray:
    """Compare every row with every prototype."""
    # Where single precision is too small for the products, nothing is close, and rows are looked at again.
    with np.errstate(over="ignore", invalid="ignore"):
        products = rows @ prototypes.T.astype(rows.dtype)
        sizes = np.einsum("ij,ij->i", prototypes, prototypes)
        reach = float(np.sqrt(sizes.max()))
        error = product_error(rows) * reach * (2.0 * np.sqrt(np.einsum("ij,ij->i", rows, rows)) + reach)
        codes, unsure = kernels.nearest_points(products, sizes.astype(rows.dtype), error.astype(np.float64))
    again = np.flatnonzero(unsure)
    if len(again) and rows.dtype != np.float64:
        codes[again] = _nearest(rows[again].astype(np.float64), prototypes)
    return codes


def _nearest_numbers(values: Vector, prototypes: Vector) -> IntArray:
    """Return what `nearest` does, of rows of one number: the prototypes on either side are looked at."""
    order = np.argsort(prototypes, kind="stable")
    place = np.searchsorted(prototypes[order], values)[:, None] + np.arange(-2, 2)
    beside = order[np.clip(place, 0, len(order) - 1)]
    near = prototypes[beside]
    with np.errstate(over="ignore", invalid="ignore"):
        gaps = values[:, None] * near * -2.0 + near * near
        gaps[(place < 0) | (place >= len(order))] = np.inf
        reach = float(np.abs(prototypes).max())
        error = product_error(values[:, None]) * reach * (2.0 * np.abs(values) + reach)
        best = gaps.argmin(axis=1)
        close = gaps <= (gaps[np.arange(len(values)), best] + 4.0 * error)[:, None]
    codes: IntArray = beside[np.arange(len(values)), best]
    unsure = np.flatnonzero(np.count_nonzero(close, axis=1) != 1)
    for some in tiles(len(unsure), len(prototypes)):
        codes[unsure[some]] = _nearest(values[unsure[some], None], prototypes[:, None])
    return codes
