"""Where the middle of the rows is: pure functions of blocks of rows."""

from .coordinate_median import coordinate_median
from .geometric_median import geometric_median
from .mean import mean

__all__ = ["coordinate_median", "geometric_median", "mean"]
