"""Which rows to believe: a gate, and a label filter."""

from .gate import FEWEST_ROWS
from .guard import TIERS, TRUSTED, Verdict, judge
from .suspects import Suspects, suspects_from

__all__ = ["FEWEST_ROWS", "TIERS", "TRUSTED", "Suspects", "Verdict", "judge", "suspects_from"]
