"""Which rows to believe: a noise model of the labels, the place of each row, and duplicates."""

from .evidence.duplicate import Copies, find_copies
from .evidence.place import FEWEST_ROWS, ODD
from .judge import TIERS, TRUSTED, Known, Verdict, judge
from .suspects import Suspects, suspects_from
from .table import Table, make_table

__all__ = [
    "FEWEST_ROWS", "ODD", "TIERS", "TRUSTED", "Copies", "Known", "Suspects", "Table", "Verdict",
    "find_copies", "judge", "make_table", "suspects_from",
]  # fmt: skip
