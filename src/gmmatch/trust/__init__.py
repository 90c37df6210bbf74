"""Which rows to believe: a gate, a label filter, and features that know the labels."""

from .gate import FEWEST_ROWS
from .guard import TIERS, Trust, judge
from .suspects import Suspects, suspects

__all__ = ["FEWEST_ROWS", "TIERS", "Suspects", "Trust", "judge", "suspects"]
