"""Which rows to believe: a gate, a label filter, and features that know the labels."""

from .gate import FEWEST_ROWS
from .guard import TIERS, Verdict, judge
from .suspects import Suspects, suspects_from

__all__ = ["FEWEST_ROWS", "TIERS", "Suspects", "Verdict", "judge", "suspects_from"]
