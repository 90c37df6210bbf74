"""Evidence of the label: how likely it is wrong, by the noise model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...arrays import IntArray, Mask, Vector
from ...facts import WRONG

if TYPE_CHECKING:
    from ..table import Columns, Table

FAULT = True


def score(table: Columns) -> Vector:
    """Return the probability that the label is wrong."""
    return table.suspicion


def flag(table: Columns) -> Mask:
    """Return True for labels that are more likely wrong than right."""
    found: Mask = table.suspicion >= WRONG
    return found


def sentence(table: Table, row: int, names: list[str], codes: IntArray) -> str | None:
    """Say why the label of a row is not believed."""
    if table.suspicion[row] < WRONG:
        return None
    label, better = names[codes[row]], int(table.suggested[row])
    if table.outside[row] >= WRONG:
        return f"the label {label} is unlikely, and the row fits none of the classes"
    if better < 0:
        return f"the label {label} is unlikely, and no other is likelier"
    percent = round(100 * float(table.suggested_probability[row]))
    return f"the label {label} is unlikely, {names[better]} is likelier ({percent}%)"
