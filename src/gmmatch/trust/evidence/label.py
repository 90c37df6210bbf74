"""Evidence of the label: how likely it is wrong, by the noise model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...arrays import IntArray, Mask
from ...facts import WRONG

if TYPE_CHECKING:
    from ..table import Table


def flag(table: Table) -> Mask:
    """Return True for labels that are more likely wrong than right."""
    found: Mask = table.wrong >= WRONG
    return found


def sentence(table: Table, row: int, names: list[str], codes: IntArray) -> str | None:
    """Say why the label of a row is not believed."""
    if table.wrong[row] < WRONG:
        return None
    label, better = names[codes[row]], int(table.suggested[row])
    if table.outside[row] >= WRONG:
        return f"the label {label} is unlikely, and the row fits none of the classes"
    if better < 0:
        return f"the label {label} is unlikely, and no other is likelier"
    percent = round(100 * float(table.likely[row]))
    return f"the label {label} is unlikely, {names[better]} is likelier ({percent}%)"
