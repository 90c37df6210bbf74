"""What heads read of a row: its values, scaled, and its lift."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, Vector
from ..compute import kernels
from ..compute.blocks import tiles
from .lift import Lift

_CLIP = 2.0  # typical distances from the middle: no row is heavier than one at this distance


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a head reads of a row."""

    # Middle and typical distance of the rows; heads read (row - origin) / scale, clipped.
    origin: Vector
    scale: float
    lift: Lift | None = None  # what is read beside that; None: nothing

    @property
    def width(self) -> int:
        """How many numbers a head reads of a row, the constant one included."""
        return len(self.origin) + 1 + (0 if self.lift is None else self.lift.n_features)

    def __call__(self, rows: FloatArray, precision: npt.DTypeLike = np.float64) -> FloatArray:
        """Return the scaled rows, none longer than the clip, their lift, and a one."""
        inputs = np.empty((len(rows), self.width), precision)
        inputs[:, -1] = 1.0
        kernels.clip_rows(rows, self.origin, self.scale, _CLIP, inputs)
        if self.lift is not None:
            for some in tiles(len(rows), self.width):  # in double precision: few rows at a time
                inputs[some, len(self.origin) : -1] = self.lift(rows[some])
        return inputs
