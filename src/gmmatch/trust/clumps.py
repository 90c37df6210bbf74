"""Clumps: many rows of a class huddled in one spot, far denser than the class is elsewhere.

In high dimension rows stand in a shell about their centre, so that a tight clump inside the shell is
nearer to the centre than any good row, and no distance to a centre gives it away. Its density does.
"""

import numpy as np
import numpy.typing as npt

from ..location.concentrated import Sample

Vector = npt.NDArray[np.float64]

FEWEST_ROWS = 40
_NEIGHBOURS = 0.05  # of the class: how many rows make a clump
_DENSER = 5.0  # times as near to their neighbours as the typical row
_MOST_SPOTS = 64


def find_clumps(sample: Sample) -> tuple[Vector, float]:
    """Find the spots of a class where many rows are huddled.

    A row's reach is its distance to the nearest twentieth of the class. Rows whose reach is less than a
    fifth of the median reach are clumped; since the median is that of more than half of the rows, fewer
    than half can be. Spots are clumped rows that between them cover all clumped rows.

    `sample`: rows of one class, measured.

    Returns points, and how near to one of them a row must be to belong to a clump.

    Time and memory: O(n^2).

    >>> rng = np.random.default_rng(0)
    >>> rows = np.concatenate([rng.normal(size=(60, 8)), np.full((40, 8), 2.0)])
    >>> spots, reach = find_clumps(Sample.of(rows))
    >>> len(spots)
    1
    """
    nothing = np.empty((0, sample.offsets.shape[1])), 0.0
    n_rows = len(sample.gram)
    if n_rows < FEWEST_ROWS:
        return nothing
    squares = np.diagonal(sample.gram)
    # Differences of large squares: what rounding leaves of equal rows is set to zero.
    apart = squares[:, None] + squares - 2 * sample.gram
    apart[apart <= 1e-12 * np.maximum(squares[:, None], squares)] = 0.0
    place = max(4, int(np.ceil(_NEIGHBOURS * n_rows)))
    reach = np.sqrt(np.partition(apart, place, axis=1)[:, place])
    limit = float(np.sort(reach)[n_rows // 2]) / _DENSER
    clumped = reach < limit * (1 - 1e-9)
    spots: list[int] = []
    open_rows = clumped.copy()
    while open_rows.any() and len(spots) < _MOST_SPOTS:
        spot = int(np.where(open_rows, reach, np.inf).argmin())
        spots.append(spot)
        open_rows &= apart[spot] > limit**2
    return (sample.origin + sample.offsets[spots], limit) if spots else nothing
