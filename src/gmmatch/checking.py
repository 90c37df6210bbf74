"""Look at all rows once, and leave out those that hold no numbers to work with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .compute.passes import map_blocks
from .data import Dataset
from .errors import InvalidInput
from .records import IntArray
from .validation import CheckedRows, bad_rows, describe_bad_rows

_CHECK_VALUES = 1 << 22  # values looked at together for NaN


def find_bad_rows(rows: Any) -> IntArray:
    """Return the numbers of the rows with NaN, infinite or absurd values: one pass, on all cores.

    Examples
    --------
    >>> find_bad_rows(np.array([[1.0], [np.nan], [3.0]]))
    array([1])
    """

    def look(block: slice) -> IntArray:
        found: IntArray = bad_rows(rows[block]) + block.start
        return found

    step = max(1, _CHECK_VALUES // rows.shape[1])
    return np.concatenate(list(map_blocks(look, rows, "checking rows", step)))


def leave_out_bad_rows(checked: CheckedRows, data: Dataset, on_bad_rows: str) -> CheckedRows:
    """Return what is left without bad rows, or refuse them.

    Parameters
    ----------
    checked
        Rows whose values were not looked at yet.
    data
        Where they come from, and which of them were found bad when it was opened.
    on_bad_rows
        `error` or `drop`.
    """
    bad = find_bad_rows(checked.rows)
    if bad.size and on_bad_rows == "error":
        raise InvalidInput(f"{data.name} has {describe_bad_rows(bad)}")
    bad = np.union1d(bad, data.bad_rows)
    if not bad.size:
        return checked
    if len(bad) == len(checked.rows):
        raise InvalidInput(f"all {len(bad)} rows of {data.name} are bad; nothing is left to choose from")
    usable = np.ones(len(checked.rows), dtype=bool)
    usable[bad] = False
    return replace(checked, usable=usable)
