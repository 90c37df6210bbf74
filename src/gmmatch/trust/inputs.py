"""What classifiers read of a row: its values, scaled, and random Fourier features of them.

Fourier features are sines and cosines of random projections, whose inner products approximate a Gaussian
kernel (Rahimi and Recht 2007): a linear classifier on them can bend around classes that no plane divides. All
rows have Fourier features of length one, so that matching these cannot prefer the middle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, Vector
from ..compute import kernels
from ..compute.blocks import tiles

BANDWIDTH = 0.3
"""Typical distances between rows. Of 0.25 to 0.7, tried on letters, 0.3 serves best."""

_CLIP = 2.0  # typical distances from the middle: no row is heavier than one at this distance
_ROUNDS = 2  # of subspace iteration


@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """Random Fourier features of rows."""

    origin: Vector  # the middle of the rows, so that projections stay small numbers
    directions: Vector  # shape (features, half of the Fourier features)

    @classmethod
    def draw(cls, origin: Vector, bandwidth: float, n_features: int, seed: int) -> FourierFeatures:
        """Draw the directions.

        `origin`: the middle of the rows. `bandwidth`: distance at which the kernel has fallen to exp(-1/2).
        `n_features`: how many Fourier features a row has; an odd number is rounded down. `seed`: seed of the
        directions.
        """
        rng = np.random.default_rng([seed, 0x6C696674])
        directions = rng.standard_normal((len(origin), max(1, n_features // 2)))
        return cls(origin, directions / bandwidth)

    @property
    def n_features(self) -> int:
        """How many Fourier features a row has."""
        return 2 * int(self.directions.shape[1])

    def __call__(self, rows: FloatArray) -> Vector:
        """Return the Fourier features of rows, float64, each row of length one.

        Time: O(rows * features * Fourier features). Memory: O(rows * Fourier features).
        """
        half = self.directions.shape[1]
        found = np.empty((len(rows), 2 * half))
        angles = np.subtract(rows, self.origin, dtype=np.float64) @ self.directions
        kernels.cosines_and_sines(angles, float(1 / np.sqrt(half)), found)
        return found


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a classifier reads of a row."""

    # Middle and typical distance of the rows; classifiers read (row - origin) / scale, clipped.
    origin: Vector
    scale: float
    fourier: FourierFeatures | None = None  # what is read beside that; None: nothing

    @property
    def width(self) -> int:
        """How many numbers a classifier reads of a row, the constant one included."""
        return len(self.origin) + 1 + (0 if self.fourier is None else self.fourier.n_features)

    def __call__(self, rows: FloatArray, precision: npt.DTypeLike = np.float64) -> FloatArray:
        """Return the scaled rows, none longer than the clip, their Fourier features, and a one."""
        inputs = np.empty((len(rows), self.width), precision)
        inputs[:, -1] = 1.0
        kernels.clip_rows(rows, self.origin, self.scale, _CLIP, inputs)
        if self.fourier is not None:
            for some in tiles(len(rows), self.width):  # in double precision: few rows at a time
                inputs[some, len(self.origin) : -1] = self.fourier(rows[some])
        return inputs


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
