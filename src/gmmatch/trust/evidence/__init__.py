"""What speaks against a row, one module per kind.

Each has `score(table)`, a column from 0 to 1 by which rows are ordered, `flag(table)`, which is True for the
rows that the score speaks against, `sentence(table, row, names, codes)`, which says so of a row (None where
it does not), and `FAULT`, which is True if a row that is flagged is a suspect.
"""

from . import duplicate, label, place

KINDS = {"wrong_labels": label, "outliers": place, "duplicates": duplicate}
"""Kinds of evidence by what the summary calls them, in the order in which they count."""
