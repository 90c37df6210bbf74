"""Where the middle of the rows is: pure functions of blocks of rows."""

from .centers import coordinate_median
from .concentrated import concentrated
from .geometric_median import geometric_median
from .huber import huber
from .mean import mean

__all__ = ["concentrated", "coordinate_median", "geometric_median", "huber", "mean"]
