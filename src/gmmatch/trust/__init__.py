"""Which rows to believe: a gate, a label filter, and what speaks against each row."""

from .copies import Copies, find_copies
from .doubt import overall
from .gate import FEWEST_ROWS
from .guard import TIERS, TRUSTED, Verdict, judge
from .suspects import Suspects, apart_from_copies, folds_for, suspects_from
from .weighing import ODD, Weighed, weigh

__all__ = [
    "FEWEST_ROWS", "ODD", "TIERS", "TRUSTED", "Copies", "Suspects", "Verdict", "Weighed", "apart_from_copies",
    "find_copies", "folds_for", "judge", "overall", "suspects_from", "weigh",
]  # fmt: skip
