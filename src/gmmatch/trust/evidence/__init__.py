"""What speaks against a row, one module per kind: `flag` says for which rows, `sentence` says it in words."""

from . import duplicate, label, place

KINDS = {"wrong_labels": label, "outliers": place, "duplicates": duplicate}
"""Kinds of evidence, in the order in which they count."""
