"""The one greedy loop: picks whose mean matches a centre.

With m = x - center, theta the accumulated error (theta_t+1 = theta_t - m of the pick) and, in the
paper's letters, mu the centre:

- the *projection* step (the paper's text) picks argmax <theta, x>, which is argmax <theta, m> because
  <theta, mu> is the same for every row;
- the *residual* step picks argmin |theta - m|, which is argmax <theta, m> - |m|^2 / 2.

Scores are computed fast, from products in the precision of the rows, with a bound on their rounding error.
Where two rows are closer than that bound, their scores are computed again in float64 from the rows, in a
fixed order of additions, and decided there; the smallest row number wins exact ties. So the picks are a
property of the data: a Gram matrix, a product per pick, one BLAS thread or many all give the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..arrays import AnyArray, FloatArray, IntArray, Vector
from ..compute.blocks import tiles
from ..compute.kernels import greedy, greedy_batches
from ..progress import Advance, task

Step = Literal["residual", "projection"]

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
_CALL_VALUES = 1 << 24  # scores looked at between two reports of progress: some hundredths of a second


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


@dataclass(eq=False)
class Matching:
    """What is carried from pick to pick, and from batch to batch."""

    center: Vector  # the point to match, float64
    start: Vector  # theta before the first pick
    theta: Vector  # accumulated error
    count: int = 0  # picks so far

    @classmethod
    def begin(cls, center: Vector, start: Vector) -> Matching:
        """Return the state before the first pick."""
        return cls(center=center, start=start, theta=start.copy())


def pick(
    candidates: Candidates, quota: int, state: Matching, step: Step, advance: Advance = lambda done: None
) -> tuple[IntArray, Vector, Vector]:
    """Pick `quota` rows greedily, carrying `state` on (it is changed in place).

    Returns positions among the candidates in pick order, the objective after each pick, and each pick's
    distance to the centre.

    Time: O(n + d) per pick with a Gram matrix, O(n d) without.
    """
    rows, offsets, squares, gram = candidates.rows, candidates.offsets, candidates.squares, candidates.gram
    weight = 0.5 if step == "residual" else 0.0
    unit = product_error(offsets)
    at_once = 1 if gram is None else max(1, _CALL_VALUES // len(rows))
    picks, objectives, distances = np.empty(quota, np.int64), np.empty(quota), np.empty(quota)
    theta = state.theta.copy()
    for made in range(0, quota, at_once):
        part = slice(made, min(made + at_once, quota))
        if made == 0 or gram is None:
            scores, spread = offsets @ theta.astype(offsets.dtype) - weight * squares, float(theta @ theta)
            scores[picks[:made]] = -np.inf
        carried = squares, weight, gram, unit, spread, state.count, scores, theta
        picks[part], objectives[part], distances[part], _ = greedy(
            rows, state.center, state.start, *carried, part.stop - part.start
        )
        spread += float(squares[picks[part]].sum())
        state.count += part.stop - part.start
        advance(part.stop - part.start)
    state.theta = theta
    return picks, objectives, distances


def match(
    rows: FloatArray, quota: int, state: Matching, step: Step, gram_bytes: int = GRAM_BYTES
) -> tuple[IntArray, Vector, Vector]:
    """Prepare rows and pick `quota` of them, in the way that is the fastest; see `prepare` and `pick`.

    Memory: the centred rows, and n^2 values where a Gram matrix is used.
    """
    if products_pay(len(rows), quota, rows.shape[1], rows.itemsize):
        return match_batches(rows, np.array([len(rows)]), np.array([quota]), state, step)[0]
    with task("picking rows", quota) as advance:
        return pick(prepare(rows, state.center, quota, gram_bytes), quota, state, step, advance)


def match_batches(
    rows: FloatArray, sizes: IntArray, quotas: IntArray, state: Matching, step: Step
) -> list[tuple[IntArray, Vector, Vector]]:
    """Pick so many rows of each of the batches that follow each other in `rows`."""
    rows = np.asarray(rows)
    found: list[tuple[IntArray, Vector, Vector]] = []
    largest, share, firsts = int(sizes.max()), float((quotas / sizes).max()), np.cumsum(sizes) - sizes
    if products_pay(largest, int(share * largest), rows.shape[1], rows.itemsize):
        owners, theta = np.zeros(len(sizes), np.int64), state.theta[None].copy()
        count = np.array([state.count])
        batches = firsts, sizes, quotas, owners, state.center[None], state.start[None]
        found = _batches(step, rows, *batches, count, theta)
        state.theta, state.count = theta[0], int(count[0])
    for batch in range(len(found), len(sizes)):
        part, quota = rows[firsts[batch] :][: sizes[batch]], int(quotas[batch])
        found.append(pick(prepare(part, state.center, quota), quota, state, step))
    return found


def _batches(step: Step, rows: FloatArray, *batches: AnyArray) -> list[tuple[IntArray, Vector, Vector]]:
    """Pick rows of batches in one call, up to the first with rows that are too long.

    `batches`: what `greedy_batches` takes: firsts, sizes, quotas, owners, centres, starts; counts, thetas.
    """
    single, quotas = rows.dtype == np.float32, batches[2]
    unit = product_error(np.empty((0, rows.shape[1]), np.float32 if single else np.float64))
    weight, largest = 0.5 if step == "residual" else 0.0, LARGEST_SQUARE if single else np.inf
    done, *found = greedy_batches(rows, *batches, weight=weight, unit=unit, largest=largest)
    return list(zip(*(np.split(values, quotas.cumsum())[:done] for values in found), strict=True))


def match_groups(
    rows: FloatArray,
    sizes: IntArray,
    quotas: IntArray,
    centers: Vector,
    starts: Vector,
    step: Step,
    gram_bytes: int = GRAM_BYTES,
) -> list[tuple[IntArray, Vector, Vector]]:
    """Pick so many rows of each of the groups that follow each other in `rows`, as `match` does.

    `centers`, `starts`: the point that each group matches, and its theta before the first pick. One call does
    all small groups, of which there may be thousands.
    """
    firsts, width, itemsize = np.cumsum(sizes) - sizes, rows.shape[1], rows.itemsize
    pairs = list(zip(sizes.tolist(), quotas.tolist(), strict=True))
    small = np.flatnonzero([products_pay(size, quota, width, itemsize) for size, quota in pairs])
    found: dict[int, tuple[IntArray, Vector, Vector]] = {}
    if len(small):
        owners, counts, thetas = np.arange(len(small)), np.zeros(len(small), np.int64), starts[small]
        batches = firsts[small], sizes[small], quotas[small], owners, centers[small], starts[small]
        done = _batches(step, rows, *batches, counts, thetas)
        found = dict(zip(small[: len(done)].tolist(), done, strict=True))
    for group, (size, quota) in enumerate(pairs):
        if group not in found:
            own, state = rows[firsts[group] :][:size], Matching.begin(centers[group], starts[group])
            found[group] = match(own, quota, state, step, gram_bytes)
    return [found[group] for group in range(len(pairs))]
