"""Where the middle of the rows is: pure functions of blocks of rows."""

from .geometric_median import geometric_median
from .mean import mean

__all__ = ["geometric_median", "mean"]
