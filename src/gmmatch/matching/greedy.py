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

from ..arrays import FloatArray, IntArray, Vector
from ..compute.kernels import greedy, greedy_batches
from ..progress import Advance, task
from .candidates import GRAM_BYTES, LARGEST_SQUARE, Candidates, prepare, product_error, products_pay

Step = Literal["residual", "projection"]


_CALL_VALUES = 1 << 24  # scores looked at between two reports of progress: some hundredths of a second


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
        picks[part], objectives[part], distances[part], _ = greedy(
            rows,
            state.center,
            state.start,
            squares,
            weight,
            gram,
            unit,
            spread,
            state.count,
            scores,
            theta,
            part.stop - part.start,
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
        owners, count = np.zeros(len(sizes), np.int64), np.array([state.count])
        theta = state.theta[None].copy()
        batches = rows, firsts, sizes, quotas, owners, state.center[None], state.start[None]
        found = _batches(*batches, step, count, theta)
        state.theta, state.count = theta[0], int(count[0])
    for batch in range(len(found), len(sizes)):
        part, quota = rows[firsts[batch] :][: sizes[batch]], int(quotas[batch])
        found.append(pick(prepare(part, state.center, quota), quota, state, step))
    return found


def _batches(
    rows: FloatArray,
    firsts: IntArray,
    sizes: IntArray,
    quotas: IntArray,
    owners: IntArray,
    centers: Vector,
    starts: Vector,
    step: Step,
    counts: IntArray,
    thetas: Vector,
) -> list[tuple[IntArray, Vector, Vector]]:
    """Pick rows of batches in one call, up to the first with rows that are too long; see `greedy_batches`."""
    single = rows.dtype == np.float32
    unit = product_error(np.empty((0, rows.shape[1]), np.float32 if single else np.float64))
    limits = 0.5 if step == "residual" else 0.0, unit, LARGEST_SQUARE if single else np.inf
    batches = firsts, sizes, quotas, owners, centers, starts
    done, *found = greedy_batches(rows, *batches, *limits, counts, thetas)
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
        batches = rows, firsts[small], sizes[small], quotas[small], owners, centers[small], starts[small]
        done = _batches(*batches, step, counts, thetas)
        found = dict(zip(small[: len(done)].tolist(), done, strict=True))
    for group, (size, quota) in enumerate(pairs):
        if group not in found:
            own, state = rows[firsts[group] :][:size], Matching.begin(centers[group], starts[group])
            found[group] = match(own, quota, state, step, gram_bytes)
    return [found[group] for group in range(len(pairs))]
