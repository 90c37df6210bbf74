"""Which rows to believe: a gate, a label filter, and features that know the labels."""

from .features import LabelAwareRows, label_aware
from .gate import FEWEST_ROWS
from .guard import TIERS, Trust, judge
from .suspects import Suspects, suspects

__all__ = ["FEWEST_ROWS", "TIERS", "LabelAwareRows", "Suspects", "Trust", "judge", "label_aware", "suspects"]
