"""The lift: random Fourier features, which let linear methods see the shape of a cloud of rows.

Sines and cosines of random projections, whose inner products approximate a Gaussian kernel (Rahimi and
Recht 2007). Every lifted row has length one, so that matching lifted rows cannot prefer the middle, and a
linear head on them can bend around classes that no plane divides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import FloatArray, Vector
from ..compute import kernels

BANDWIDTH = 0.3
"""Typical distances between rows. Of 0.25 to 0.7, tried on letters, 0.3 serves heads and matching best."""

_ROUNDS = 2


@dataclass(frozen=True, eq=False)
class Lift:
    """Random Fourier features of rows."""

    origin: Vector  # the middle of the rows, so that projections stay small numbers
    directions: Vector  # shape (features, half of the lifted features)

    @classmethod
    def draw(cls, origin: Vector, bandwidth: float, n_features: int, seed: int) -> Lift:
        """Draw the directions of a lift.

        `origin`: the middle of the rows. `bandwidth`: distance at which the kernel has fallen to exp(-1/2).
        `n_features`: how many features a lifted row has; an odd number is rounded down. `seed`: seed of the
        directions.
        """
        rng = np.random.default_rng([seed, 0x6C696674])
        directions = rng.standard_normal((len(origin), max(1, n_features // 2)))
        return cls(origin, directions / bandwidth)

    @property
    def n_features(self) -> int:
        """How many features a lifted row has."""
        return 2 * int(self.directions.shape[1])

    def __call__(self, rows: FloatArray) -> Vector:
        """Return the lifted rows, float64, each of length one.

        Time: O(rows * features * lifted features). Memory: O(rows * lifted features).
        """
        half = self.directions.shape[1]
        lifted = np.empty((len(rows), 2 * half))
        angles = np.subtract(rows, self.origin, dtype=np.float64) @ self.directions
        kernels.cosines_and_sines(angles, float(1 / np.sqrt(half)), lifted)
        return lifted


def leading_directions(rows: FloatArray, count: int, seed: int) -> FloatArray:
    """Return about the directions in which rows vary most, as orthonormal columns in single precision.

    `rows`: their middle is zero. What is left out are directions of little variance, whichever exactly.
    Time: O(4 rows features count), by subspace iteration.
    """
    from scipy.linalg import qr

    single = np.asarray(rows, np.float32)
    rng = np.random.default_rng([seed, 0x7465616368])
    found: FloatArray = rng.normal(size=(rows.shape[1], count)).astype(np.float32)
    for _ in range(_ROUNDS):
        found = qr(single.T @ (single @ found), mode="economic", overwrite_a=True, check_finite=False)[0]
    return found


def typical_gap(rows: FloatArray) -> float:
    """Return the median distance between rows that follow each other in pairs.

    For rows in random order that is the typical distance between two rows.
    """
    pairs = len(rows) // 2
    if pairs == 0:
        return 1.0
    gaps = np.subtract(rows[0 : 2 * pairs : 2], rows[1 : 2 * pairs : 2], dtype=np.float64)
    lengths = np.sort(np.sqrt(np.add.reduce(gaps * gaps, axis=1)))
    middle = lengths[pairs // 2]
    return float(middle or lengths[-1] or 1.0)
