"""Where the middle of the rows is: pure functions of blocks of rows."""

from .concentrated import concentrated
from .coordinate_median import coordinate_median
from .geometric_median import geometric_median
from .huber import huber
from .mean import mean

__all__ = ["concentrated", "coordinate_median", "geometric_median", "huber", "mean"]
