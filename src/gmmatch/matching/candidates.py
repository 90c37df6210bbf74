"""Rows made ready for matching: centred, and multiplied with each other where that pays."""

from dataclasses import dataclass

import numpy as np

from ..arrays import FloatArray, Vector
from ..compute.blocks import tiles

GRAM_BYTES = 1 << 30
"""Largest Gram matrix to hold; larger groups use one matrix-vector product per pick."""

_CACHE_BYTES = 3 << 18  # of rows that stay close to a core: three quarters of a megabyte
_GRAM_PAYS_FROM = 1 / 40  # share of the rows to pick from which a Gram matrix is the faster way
_PRODUCTS_PAY_TO = 1 / 4  # share up to which products computed pick by pick are faster still, in cache
_FEW_ROWS = 64  # whose products, all together, take less time than the calls that a Gram matrix needs
_TILE_ROWS = 512
_SAFETY = 4.0  # times the typical rounding error of an inner product, sqrt(d) units in the last place
LARGEST_SQUARE = 1e30
"""Of the length of a row in float32; larger ones come near the end of the numbers."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rows made ready for picking: all that does not depend on theta, so that it can be done ahead."""

    rows: FloatArray  # the rows, in the order of their row numbers
    offsets: FloatArray  # the rows minus the centre, in the rows' precision
    squares: Vector  # their squared lengths, exact to the rounding error of an inner product
    gram: FloatArray | None  # their inner products, or None where a product per pick is the better way


def prepare(rows: FloatArray, center: Vector, quota: int, gram_bytes: int = GRAM_BYTES) -> Candidates:
    """Make rows ready for `quota` picks.

    Time: O(n^2 d) in BLAS where a Gram matrix pays and fits `gram_bytes`, else O(n d).
    """
    rows = np.asarray(rows)  # a piece of a memory map is slower to work with than an array
    if not gram_pays(len(rows), quota, rows.itemsize, gram_bytes):
        return Candidates(rows, *centered(rows, center), gram=None)
    with np.errstate(over="ignore", invalid="ignore"):
        near = center.astype(rows.dtype)
        offsets = rows - near
        if rows.dtype != np.float64:
            offsets -= (center - near).astype(rows.dtype)  # two roundings, nothing in between
        gram = gram_matrix(offsets)
    squares = np.diagonal(gram).astype(np.float64)
    if rows.dtype == np.float32 and not squares.max() <= LARGEST_SQUARE:
        return prepare(rows.astype(np.float64), center, quota, gram_bytes)
    return Candidates(rows, offsets, squares, gram)


def gram_pays(n_rows: int, quota: int, itemsize: int, gram_bytes: int = GRAM_BYTES) -> bool:
    """Return True if a Gram matrix is the faster way to pick so many of so many rows, and fits.

    >>> [gram_pays(*asked, itemsize=4) for asked in [(1000, 100), (1000, 1), (100_000, 10_000)]]
    [True, False, False]
    """
    return quota > n_rows * _GRAM_PAYS_FROM and n_rows**2 * itemsize <= gram_bytes


def products_pay(n_rows: int, quota: int, n_features: int, itemsize: int) -> bool:
    """Return True if products computed pick by pick are faster: few picks of rows that stay in cache.

    >>> products_pay(256, 25, 512, 4), products_pay(256, 128, 512, 4), products_pay(5000, 500, 512, 4)
    (True, False, False)
    """
    few = quota <= n_rows * _PRODUCTS_PAY_TO or n_rows <= _FEW_ROWS
    return few and n_rows * n_features * itemsize <= _CACHE_BYTES


def gram_matrix(rows: FloatArray) -> FloatArray:
    """Return the inner products of all rows; tile by tile, faster than one large product.

    >>> gram_matrix(np.array([[1.0, 0.0], [1.0, 2.0]]))
    array([[1., 1.],
           [1., 5.]])
    """
    n_rows = len(rows)
    gram = np.empty((n_rows, n_rows), rows.dtype)
    for start in range(0, n_rows, _TILE_ROWS):
        stop = min(start + _TILE_ROWS, n_rows)
        tile = rows[start:stop]
        np.matmul(tile, tile.T, out=gram[start:stop, start:stop])
        if stop < n_rows:
            np.matmul(tile, rows[stop:].T, out=gram[start:stop, stop:])
            gram[stop:, start:stop] = gram[start:stop, stop:].T
    return gram


def centered(rows: FloatArray, center: Vector) -> tuple[FloatArray, Vector]:
    """Return the rows minus the centre, in the rows' precision, and their squared norms in float64."""
    squares = np.empty(len(rows))
    offsets = np.empty(rows.shape, rows.dtype)
    for tile in tiles(*rows.shape):
        exact = rows[tile] - center
        with np.errstate(over="ignore"):  # such offsets are computed again, below
            offsets[tile] = exact
        np.einsum("ij,ij->i", exact, exact, out=squares[tile])
    if offsets.dtype == np.float32 and squares.max() > LARGEST_SQUARE:
        offsets = rows - center
    return offsets, squares


def product_error(rows: FloatArray) -> float:
    """Return the rounding error of an inner product of two rows, as a share of the product of their norms."""
    return _SAFETY * float(np.finfo(rows.dtype).eps) / 2 * float(np.sqrt(rows.shape[1]))
