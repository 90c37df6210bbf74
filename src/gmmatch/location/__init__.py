"""Where the middle of the rows is: pure functions of blocks of rows."""

from .concentrated import concentrated
from .geometric_median import geometric_median
from .huber import huber
from .mean import mean

__all__ = ["concentrated", "geometric_median", "huber", "mean"]
