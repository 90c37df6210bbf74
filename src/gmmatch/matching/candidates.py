"""Rows made ready for matching: centred, and multiplied with each other where that pays."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compute.blocks import tiles
from ..records import FloatArray, IntArray

Vector = npt.NDArray[np.float64]

GRAM_BYTES = 1 << 30
"""Largest Gram matrix to hold; larger groups use one matrix-vector product per pick."""

_GRAM_PAYS_FROM = 1 / 40  # share of the rows to pick from which a Gram matrix is the faster way
_TILE_ROWS = 512
_SAFETY = 4.0  # times the typical rounding error of an inner product, sqrt(d) units in the last place
_LARGEST_FLOAT32_NORM = 1e15  # squares of larger ones come near the end of float32


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
    return prepare_batches(rows, center, 1)[0]


def gram_pays(n_rows: int, quota: int, itemsize: int, gram_bytes: int = GRAM_BYTES) -> bool:
    """Tell whether a Gram matrix is the faster way to pick so many of so many rows, and fits.

    >>> [gram_pays(*asked, itemsize=4) for asked in [(1000, 100), (1000, 1), (100_000, 10_000)]]
    [True, False, False]
    """
    return quota > n_rows * _GRAM_PAYS_FROM and n_rows**2 * itemsize <= gram_bytes


class Workspace:
    """Memory that is used again and again: pages that come and go keep threads waiting for the system."""

    def __init__(self) -> None:
        self._held: dict[str, FloatArray] = {}

    def empty(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> FloatArray:
        """Return an array that is good until the next one of this name is asked for."""
        size = math.prod(shape)
        held = self._held.get(name)
        if held is None or held.size < size or held.dtype != dtype:
            held = self._held[name] = np.empty(size, dtype)
        return held[:size].reshape(shape)

    def take(self, rows: Any, numbers: IntArray) -> FloatArray:
        """Read rows of an array into memory of this workspace; what only reads like one makes its own."""
        if not isinstance(rows, np.ndarray):
            return np.asarray(rows[numbers])
        out = self.empty("rows", (len(numbers), rows.shape[1]), rows.dtype)
        return np.take(rows, numbers, axis=0, out=out, mode="clip")  # other modes go through a copy


def prepare_batches(
    rows: FloatArray, center: Vector, n_batches: int, space: Workspace | None = None
) -> list[Candidates]:
    """Make batches of one size ready, which follow each other in `rows`, with a Gram matrix each.

    All of them in a few calls: threads that make ready and the one that picks seldom wait for each other.
    """
    space = space or Workspace()
    with np.errstate(over="ignore", invalid="ignore"):
        near = center.astype(rows.dtype)
        offsets = np.subtract(rows, near, out=space.empty("offsets", rows.shape, rows.dtype))
        if rows.dtype != np.float64:
            offsets -= (center - near).astype(rows.dtype)  # two roundings, nothing in between
        offsets = offsets.reshape(n_batches, -1, rows.shape[1])
        grams = gram_matrices(offsets, space)
    squares = np.diagonal(grams, axis1=1, axis2=2).astype(np.float64)
    if rows.dtype == np.float32 and not squares.max() <= _LARGEST_FLOAT32_NORM**2:
        return prepare_batches(rows.astype(np.float64), center, n_batches)
    parts = zip(np.split(rows, n_batches), offsets, squares, grams, strict=True)
    return [Candidates(*part) for part in parts]


def gram_matrices(batches: FloatArray, space: Workspace | None = None) -> FloatArray:
    """Return the inner products of all rows of each batch; tile by tile, faster than one large product.

    >>> gram_matrices(np.array([[[1.0, 0.0], [1.0, 2.0]]]))
    array([[[1., 1.],
            [1., 5.]]])
    """
    n_batches, n_rows, _ = batches.shape
    grams = (space or Workspace()).empty("grams", (n_batches, n_rows, n_rows), batches.dtype)
    for start in range(0, n_rows, _TILE_ROWS):
        stop = min(start + _TILE_ROWS, n_rows)
        tile = batches[:, start:stop]
        np.matmul(tile, tile.transpose(0, 2, 1), out=grams[:, start:stop, start:stop])
        if stop < n_rows:
            rest = batches[:, stop:].transpose(0, 2, 1)
            np.matmul(tile, rest, out=grams[:, start:stop, stop:])
            grams[:, stop:, start:stop] = grams[:, start:stop, stop:].transpose(0, 2, 1)
    return grams


def centered(rows: FloatArray, center: Vector) -> tuple[FloatArray, Vector]:
    """Return the rows minus the centre, in the rows' precision, and their squared norms in float64."""
    squares = np.empty(len(rows))
    offsets = np.empty(rows.shape, rows.dtype)
    for tile in tiles(*rows.shape):
        exact = rows[tile] - center
        offsets[tile] = exact
        np.einsum("ij,ij->i", exact, exact, out=squares[tile])
    if offsets.dtype == np.float32 and squares.max() > _LARGEST_FLOAT32_NORM**2:
        offsets = rows - center
    return offsets, squares


def product_error(rows: FloatArray) -> float:
    """Return the rounding error of an inner product of two rows, as a share of the product of their norms."""
    return _SAFETY * float(np.finfo(rows.dtype).eps) / 2 * float(np.sqrt(rows.shape[1]))
