"""Look at all rows once: hash them, and leave out those that hold no numbers to work with."""

from dataclasses import replace
from typing import Any

import numpy as np

from .compute.keys import look_at_rows
from .data import Dataset
from .errors import InvalidInput
from .records import IntArray
from .validation import CheckedRows, describe_bad_rows


def find_bad_rows(rows: Any) -> IntArray:
    """Return the numbers of the rows with NaN, infinite or absurd values: one pass, on all cores.

    Examples
    --------
    >>> find_bad_rows(np.array([[1.0], [np.nan], [3.0]]))
    array([1])
    """
    return np.flatnonzero(~look_at_rows(rows)[0])


def leave_out_bad_rows(checked: CheckedRows, data: Dataset, on_bad_rows: str, seed: int = 0) -> CheckedRows:
    """Return what is left without bad rows, with the hashes of the rows, or refuse them.

    Parameters
    ----------
    checked
        Rows whose values were not looked at yet.
    data
        Where they come from, and which of them were found bad when it was opened.
    on_bad_rows
        `error` or `drop`.
    seed
        Seed of the hashes.
    """
    good, keys, digest = look_at_rows(checked.rows, seed)
    checked = replace(checked, digest=digest)
    bad = np.flatnonzero(~good)
    if bad.size and on_bad_rows == "error":
        raise InvalidInput(f"{data.name} has {describe_bad_rows(bad)}")
    bad = np.union1d(bad, data.bad_rows)
    if not bad.size:
        return replace(checked, hashes=(seed, keys))
    if len(bad) == len(checked.rows):
        raise InvalidInput(f"all {len(bad)} rows of {data.name} are bad; nothing is left to choose from")
    usable = np.ones(len(checked.rows), dtype=bool)
    usable[bad] = False
    keys[bad] = 0  # as if they were rows of zeros, so that their values change nothing
    return replace(checked, usable=usable, hashes=(seed, keys))
