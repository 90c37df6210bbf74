"""Clumps: many rows of a class huddled in one spot, far denser than the class is elsewhere.

In high dimension rows stand in a shell about their centre, so that a tight clump inside the shell is
nearer to the centre than any good row, and no distance to a centre gives it away. Its density does.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..records import FloatArray

Vector = npt.NDArray[np.float64]

FEWEST_ROWS = 40
_NEIGHBOURS = 0.05  # of the class: how many rows make a clump
_DENSER = 5.0  # times as near to their neighbours as the typical row
_MOST_SPOTS = 64


def find_clumps(sample: FloatArray) -> tuple[Vector, float]:
    """Find the spots of a class where many rows are huddled.

    A row's reach is its distance to the nearest twentieth of the class. Rows whose reach is less than a
    fifth of the median reach are clumped; since the median is that of more than half of the rows, fewer
    than half can be. Spots are clumped rows that between them cover all clumped rows.

    Parameters
    ----------
    sample
        Rows of one class, in random order.

    Returns
    -------
    spots, reach
        Points, and how near to one of them a row must be to belong to a clump.

    Notes
    -----
    Time: O(n^2 d) in one BLAS call. Memory: n^2 values.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = np.concatenate([rng.normal(size=(60, 8)), np.full((40, 8), 2.0)])
    >>> spots, reach = find_clumps(rows)
    >>> len(spots)
    1
    """
    nothing = np.empty((0, sample.shape[1])), 0.0
    if len(sample) < FEWEST_ROWS:
        return nothing
    offsets = sample - np.median(sample, axis=0).astype(np.float64)
    gram = offsets @ offsets.T
    squares = np.diagonal(gram)
    # Differences of large squares: what rounding leaves of equal rows is set to zero.
    apart = squares[:, None] + squares - 2 * gram
    apart[apart <= 1e-12 * np.maximum(squares[:, None], squares)] = 0.0
    place = max(4, int(np.ceil(_NEIGHBOURS * len(sample))))
    reach = np.sqrt(np.partition(apart, place, axis=1)[:, place])
    limit = float(np.sort(reach)[len(sample) // 2]) / _DENSER
    clumped = reach < limit * (1 - 1e-9)
    spots: list[int] = []
    open_rows = clumped.copy()
    while open_rows.any() and len(spots) < _MOST_SPOTS:
        spot = int(np.where(open_rows, reach, np.inf).argmin())
        spots.append(spot)
        open_rows &= apart[spot] > limit**2
    return (sample[spots].astype(np.float64), limit) if spots else nothing
