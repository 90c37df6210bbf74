"""k-center: rows such that no row is far from the nearest pick."""

from __future__ import annotations

import numpy as np

from ..arrays import FloatArray, IntArray, Vector
from ..compute import kernels
from ..location.centers import find_center
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

    Time: O(n d) per pick for a class of n rows. Memory: the rows of one class.

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

    Every distance is computed in float64, a function of its two rows alone, so that rounding decides no tie.

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
    picks, radii = np.empty(k, dtype=np.int64), np.empty(k)
    gaps = np.full(len(rows), np.inf)
    pick = int(kernels.group_distances(rows, None, center[None]).argmin())
    with task("covering rows", k) as advance:
        for turn in range(k):
            own = rows[pick, None].astype(np.float64)
            np.minimum(gaps, kernels.group_distances(rows, None, own), out=gaps)
            picks[turn], gaps[pick] = pick, -np.inf
            pick = int(gaps.argmax())
            radii[turn] = max(0.0, gaps[pick])
            advance(1)
    return picks, radii
