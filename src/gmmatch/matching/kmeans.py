"""k-means: seeded, and the same whatever the number of threads."""

import numpy as np
import numpy.typing as npt

from ..compute.blocks import blocks, map_in_order, sum_runs
from ..location.distances import group_distances
from ..progress import task
from ..records import FloatArray, IntArray
from .candidates import product_error

Vector = npt.NDArray[np.float64]

_SAMPLE_PER_CLUSTER = 32
_SMALLEST_SAMPLE = 1024


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
            moved = _lloyd(rows, prototypes)
            shift = float(np.add.reduce((moved - prototypes) ** 2, axis=None))
            prototypes = moved
            advance(1)
            if shift <= enough:
                break

    def part(block: slice) -> IntArray:
        return nearest(rows[block].astype(np.float64), prototypes)

    return prototypes, np.concatenate(list(map_in_order(part, blocks(rows))))


def _sample(rows: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
    if size >= len(rows):
        return rows
    sample: FloatArray = rows[np.sort(rng.choice(len(rows), size, replace=False))]
    return sample


def spread_out(rows: FloatArray, n_points: int, rng: np.random.Generator) -> Vector:
    """Return up to `n_points` distinct rows, each drawn with probability by its squared distance to them.

    This is the start of k-means++ (Arthur and Vassilvitskii 2007).
    """
    points = [rows[int(rng.integers(len(rows)))].astype(np.float64)]
    gaps = np.full(len(rows), np.inf)
    while len(points) < n_points:
        np.minimum(gaps, group_distances(rows, None, points[-1][None]) ** 2, out=gaps)
        total = np.cumsum(gaps)
        if total[-1] == 0.0:
            break
        drawn = np.searchsorted(total, rng.random() * total[-1], side="right")
        points.append(rows[drawn].astype(np.float64))
    return np.stack(points)


def _lloyd(rows: FloatArray, prototypes: Vector) -> Vector:
    """Move each prototype to the mean of the rows nearest to it; one without rows stays."""

    def part(block: slice) -> tuple[IntArray, Vector, IntArray]:
        values = rows[block].astype(np.float64)
        codes = nearest(values, prototypes)
        order = np.argsort(codes, kind="stable")
        clusters, starts, sizes = np.unique(codes[order], return_index=True, return_counts=True)
        return clusters, sum_runs(values[order], starts), sizes

    totals, counts = np.zeros_like(prototypes), np.zeros(len(prototypes))
    for clusters, sums, sizes in map_in_order(part, blocks(rows)):
        totals[clusters] += sums
        counts[clusters] += sizes
    filled = counts > 0
    totals[filled] /= counts[filled, None]
    totals[~filled] = prototypes[~filled]
    return totals


def nearest(rows: Vector, prototypes: Vector) -> IntArray:
    """Return for each row of a block which prototype is nearest, the first of those too close to tell."""
    sizes = np.einsum("ij,ij->i", prototypes, prototypes)
    gaps = rows @ prototypes.T
    gaps *= -2.0
    gaps += sizes
    reach = float(np.sqrt(sizes.max()))
    error = product_error(rows) * reach * (2.0 * np.sqrt(np.einsum("ij,ij->i", rows, rows)) + reach)
    codes: IntArray = np.argmax(gaps <= (gaps.min(axis=1) + 2.0 * error)[:, None], axis=1)
    return codes
