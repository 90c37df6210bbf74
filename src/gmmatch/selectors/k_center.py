"""k-center: rows such that no row is far from the nearest pick."""

from __future__ import annotations

import numpy as np

from ..arrays import FloatArray, IntArray, Vector
from ..compute.blocks import block_rows
from ..location.centers import find_center
from ..matching.greedy import centered, product_error
from ..matching.groups import Group, Picks
from ..matching.objectives import running_objective
from ..progress import task
from .base import Selector


class KCenter(Selector):
    """Keep, one after the other, the row that is farthest from all picks so far.

    Notes
    -----
    The first pick is the row nearest to `center`. The largest distance of any row to its nearest pick,
    the covering radius, is at most twice the smallest that as many picks can reach. The score of a pick is
    the covering radius after it. The smallest row number wins ties, and a smaller budget's picks of a class
    are a prefix of a larger one's.

    Time: O(n d) per pick for a class of n rows, as one matrix-vector product. Memory: the rows of one
    class and a centred copy of them.

    References
    ----------
    Gonzalez: Clustering to Minimize the Maximum Intercluster Distance, 1985. Sener, Savarese: Active
    Learning for Convolutional Neural Networks: A Core-Set Approach, 2018.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> covered = gmmatch.select(np.array([[0.0], [1.0], [2.0], [6.0]]), keep=3, method="k-center")
    >>> covered.indices, covered.scores
    (array([2, 3, 0]), array([4., 2., 1.]))
    """

    name = "k-center"

    def _select(self, group: Group, k: int) -> Picks:
        rows = group.rows
        center, epsilon = find_center(self.center, rows, group.label)
        order, radii = cover(rows, k, center)
        objectives, distances = running_objective(rows, order, center)
        return Picks(order, radii, distances, center, float(objectives[-1]), epsilon)


def cover(rows: FloatArray, k: int, center: Vector) -> tuple[IntArray, Vector]:
    """Pick `k` rows, the farthest from all earlier ones each time.

    Squared distances are computed fast, in the precision of the rows, with a bound on their error.
    Wherever that leaves more than one row that may be the farthest, exact distances decide.

    Parameters
    ----------
    rows
        Candidates, in the order of their row numbers.
    k
        How many to pick.
    center
        The first pick is the row nearest to this point.

    Returns
    -------
    picks, radii
        Positions in pick order, and the covering radius after each pick.
    """
    offsets, squares = centered(rows, center)
    norms = np.sqrt(squares)
    unit = 2.0 * product_error(offsets)
    exact = _ExactGaps(rows, k)
    gaps = np.full(len(rows), np.inf)
    radii = np.zeros(k)
    pick, reach = int(squares.argmin()), 0.0
    with task("covering rows", k) as advance:
        for turn in range(k):
            new = squares + squares[pick]
            new -= 2.0 * (offsets @ offsets[pick])
            reach = max(reach, float(norms[pick]))
            if turn:
                radii[turn - 1] = exact.distance(pick, new, 2.0 * unit * reach * norms[pick])
            exact.add(pick)
            np.minimum(gaps, new, out=gaps)
            gaps[pick] = -np.inf
            if turn + 1 < len(rows):
                pick = _farthest(gaps, unit * reach * norms, exact)
            advance(1)
    if k < len(rows):
        radii[-1] = exact.distance(pick)
    return exact.picks, radii


def _farthest(gaps: Vector, error: Vector, exact: _ExactGaps) -> int:
    """Return the row of the largest gap, the first of equals, where each gap is known up to an error."""
    best = int(gaps.argmax())
    rivals = np.flatnonzero(gaps + error >= gaps[best] - error[best])
    return best if len(rivals) == 1 else exact.farthest(rivals)


class _ExactGaps:
    """Squared distances of rows to their nearest pick, computed when asked for and then kept.

    No pair of a row and a pick is computed twice, so that even rows that are all alike cost no more
    than one pass per pick.
    """

    def __init__(self, rows: FloatArray, k: int) -> None:
        self.rows = rows
        self.picks = np.empty(k, dtype=np.int64)
        self.count = 0
        self.gaps = np.full(len(rows), np.inf)
        self.seen = np.zeros(len(rows), dtype=np.int64)  # picks that each gap knows of

    def add(self, pick: int) -> None:
        self.picks[self.count] = pick
        self.count += 1

    def farthest(self, rivals: IntArray) -> int:
        """Return which of some rows, given in ascending order, is the farthest from the picks."""
        for seen in np.unique(self.seen[rivals]):
            self._update(rivals[self.seen[rivals] == seen], self.picks[seen : self.count])
        return int(rivals[self.gaps[rivals].argmax()])

    def distance(self, row: int, squares: Vector | None = None, error: float = 0.0) -> float:
        """Return the distance of a row to its nearest pick.

        `squares`, squared distances of the row to all rows that are off by at most half of `error`, saves
        the comparison with picks that cannot be the nearest.
        """
        picks = self.picks[: self.count]
        if squares is not None:
            known = squares[picks]
            picks = picks[known <= known.min() + error]
        offsets = self.rows[picks] - self.rows[row].astype(np.float64)
        return float(np.sqrt(np.einsum("ij,ij->i", offsets, offsets).min()))

    def _update(self, rivals: IntArray, picks: IntArray) -> None:
        """Compare rows with picks that they have not seen: the few one by one with the many in blocks."""
        few, many = (rivals, picks) if len(rivals) < len(picks) else (picks, rivals)
        step = block_rows(self.rows.shape[1])
        for start in range(0, len(many), step):
            block = many[start : start + step]
            values = self.rows[block].astype(np.float64)
            for row in few:
                offsets = values - self.rows[row]
                squares = np.einsum("ij,ij->i", offsets, offsets)
                if few is rivals:
                    self.gaps[row] = min(self.gaps[row], squares.min())
                else:
                    self.gaps[block] = np.minimum(self.gaps[block], squares)
        self.seen[rivals] = self.count
