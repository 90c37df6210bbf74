"""Facility location: rows such that the rows are near their nearest pick on average."""

from __future__ import annotations

import numpy as np

from ..arrays import FloatArray, IntArray, Vector
from ..errors import InvalidInput
from ..location.centers import find_center
from ..matching.greedy import GRAM_BYTES, product_error
from ..matching.groups import Group, Picks
from ..matching.objectives import running_objective
from ..progress import task
from ..validation import check_positive_int
from .base import Selector

MOST_PAIRS = 10**10
"""Most pairs of a row and an anchor to compare in one class."""

_FIRST_BATCH = 16  # candidates to evaluate at once, doubled while the best is not among them
_BATCH_BYTES = 32 << 20
_PAIR_VALUES_PER_HOUR = 5e13  # multiplications, on a machine with a few cores


class FacilityLocation(Selector):
    """Keep, one after the other, the row that brings the rows nearest to their nearest pick.

    Parameters
    ----------
    anchors
        None: the picks stand for all rows of the class. A number: for a seeded random sample of that
        many of them; all rows remain candidates.

    Raises
    ------
    InvalidInput
        More than ten billion pairs of a row and an anchor; the message says what would fit.

    Notes
    -----
    The similarity of two rows is D - |x - y|^2, with D no smaller than any squared distance; the sum over
    the anchors of the similarity to the nearest pick is at least 1 - 1/e of the largest possible. Picks
    do not depend on D. The score of a pick is the mean squared distance of the anchors to their nearest
    pick after it. Gains that differ by no more than their rounding error are ties, which the smallest
    row number wins. A smaller budget's picks of a class are a prefix of a larger one's.

    Time: O(n m d) twice for a class of n rows and m anchors, in BLAS; afterwards only candidates whose
    last known gain exceeds the best are looked at again (lazy greedy), O(m) each, or O(m d) where the
    table of all pairs takes more than 1 GB. Memory: a float64 copy of the rows of one class, and that
    table or 32 MB.

    References
    ----------
    Nemhauser, Wolsey, Fisher: An Analysis of Approximations for Maximizing Submodular Set Functions,
    1978. Minoux: Accelerated Greedy Algorithms for Maximizing Submodular Set Functions, 1978.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> rows = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]])
    >>> served = gmmatch.select(rows, keep=2, method="facility-location")
    >>> served.indices, served.scores.round(2)
    (array([2, 4]), array([41.67,  1.17]))
    """

    name = "facility-location"

    anchors: int | None = None

    def _check(self) -> None:
        if self.anchors is not None:
            check_positive_int(self.anchors, "anchors")

    def _select(self, group: Group, k: int) -> Picks:
        n_rows = len(group.members)
        n_anchors = n_rows if self.anchors is None else min(self.anchors, n_rows)
        pairs = n_rows * n_anchors
        if pairs > MOST_PAIRS:
            hours = pairs * group.source.shape[1] / _PAIR_VALUES_PER_HOUR
            raise InvalidInput(
                f"facility-location would compare {n_rows:,} rows with {n_anchors:,} anchors: {pairs:.1e}"
                f" pairs, some {hours:.2g} hours of work; the most is {MOST_PAIRS:.0e} pairs; pass"
                f" anchors={max(1, MOST_PAIRS // n_rows)} or fewer, or labels to work by class"
            )
        rows = group.rows
        center, epsilon = find_center(self.center, rows, group.label)
        anchors = np.arange(n_rows)
        if n_anchors < n_rows:
            anchors = np.sort(np.random.default_rng(group.seed).choice(n_rows, n_anchors, replace=False))
        order, costs = serve(rows, k, anchors, center)
        objectives, distances = running_objective(rows, order, center)
        return Picks(order, costs, distances, center, float(objectives[-1]), epsilon)


def serve(
    rows: FloatArray, k: int, anchors: IntArray, center: Vector, table_bytes: int = GRAM_BYTES
) -> tuple[IntArray, Vector]:
    """Pick `k` rows greedily so that the anchors are near their nearest pick.

    Parameters
    ----------
    rows
        Candidates, in the order of their row numbers.
    k
        How many to pick.
    anchors
        Positions of the rows that count.
    center
        Any point near the rows; distances to it being small keeps rounding errors small.
    table_bytes
        Largest table of all pairs to hold.

    Returns
    -------
    picks, costs
        Positions in pick order, and the mean squared distance of the anchors to their nearest pick after
        each.
    """
    pairs = _Pairs(rows - center, anchors, table_bytes)
    picks, costs = np.empty(k, dtype=np.int64), np.empty(k)
    # Gains only fall as picks are added, so that the last known one bounds the present one.
    bounds = np.full(len(rows), np.inf)
    nearest = np.full(len(anchors), pairs.largest)
    with task("serving rows", k) as advance:
        for turn in range(k):
            pick = _best(pairs, bounds, nearest)
            bounds[pick] = -np.inf
            np.minimum(nearest, pairs.squared(np.array([pick]))[0], out=nearest)
            nearest[anchors == pick] = 0.0
            picks[turn], costs[turn] = pick, np.add.reduce(nearest) / len(anchors)
            advance(1)
    return picks, costs


def _best(pairs: _Pairs, bounds: Vector, nearest: Vector) -> int:
    """Return the candidate of the largest gain, and tighten the bounds of those looked at."""
    slack = pairs.slack(nearest)
    fresh = np.zeros(len(bounds), dtype=bool)
    floor, batch = -np.inf, _FIRST_BATCH
    while True:
        stale = np.flatnonzero((bounds >= floor) & ~fresh & (bounds > -np.inf))
        if not len(stale):
            break
        size = min(batch, pairs.most_at_once)
        if len(stale) > size:
            stale = np.sort(stale[np.argpartition(-bounds[stale], size - 1)[:size]])
        gains = pairs.squared(stale)
        np.subtract(nearest, gains, out=gains)
        np.maximum(gains, 0.0, out=gains)
        bounds[stale] = np.add.reduce(gains, axis=1)
        fresh[stale] = True
        floor = max(floor, float((bounds[stale] - slack[stale]).max()))
        batch *= 2
    return int(np.flatnonzero(fresh & (bounds + slack >= floor))[0])


class _Pairs:
    """Squared distances between candidates and anchors, from a table or computed when asked for."""

    def __init__(self, offsets: Vector, anchors: IntArray, table_bytes: int) -> None:
        self.offsets = offsets
        self.everyone = len(anchors) == len(offsets)
        self.targets = offsets if self.everyone else offsets[anchors]
        self.squares = np.einsum("ij,ij->i", offsets, offsets)
        self.target_squares = self.squares[anchors]
        self.norms = np.sqrt(self.squares)
        self.largest = 4.0 * float(self.squares.max())
        self.scale = float(np.ldexp(1.0, int(np.frexp(self.largest)[1])))
        self.unit = product_error(offsets)
        self.most_at_once = max(1, _BATCH_BYTES // (len(anchors) * offsets.itemsize))
        fits = len(offsets) * len(anchors) * offsets.itemsize <= table_bytes
        self.table = self._compute(slice(None)) if fits else None

    def squared(self, candidates: IntArray) -> Vector:
        """Return a new array of the squared distances of some candidates to all anchors."""
        if self.table is not None:
            return self.table[candidates]
        return self._compute(candidates)

    def slack(self, nearest: Vector) -> Vector:
        """Return a bound on the rounding error of each candidate's gain; anchors at a pick add none."""
        squares = self.target_squares[nearest > 0]
        small = squares / self.scale  # a power of two: no digit changes, and squares of squares stay numbers
        reach, spread = float(np.sqrt(squares.sum())), self.scale * float(np.sqrt((small * small).sum()))
        slack: Vector = self.unit * (2.0 * reach * self.norms + spread)
        return slack

    def _compute(self, candidates: IntArray | slice) -> Vector:
        squared: Vector = self.offsets[candidates] @ self.targets.T
        squared *= -2.0
        squared += self.squares[candidates, None]
        squared += self.target_squares
        return np.maximum(squared, 0.0, out=squared)
