"""Rows of other data that a run compares with: a test set, or rows that say what is wanted."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import FloatArray
from ..data import Dataset
from ..errors import InvalidInput
from ..inputs import open_data
from ..validation import check_input, describe_bad_rows


def open_rows(
    given: Any, name: str, n_features: int, encoder: Any = None, text: str | None = None
) -> FloatArray:
    """Return the rows of other data in memory, of as many features as the rows of this.

    `given`: a dataset, a path, an array, or `(X, y)`, whose labels are not needed. `encoder`, `text`: how
    this data was encoded, for images and texts.
    """
    return rows_of(open_foreign(given, encoder, text), name, n_features)


def open_foreign(given: Any, encoder: Any = None, text: str | None = None) -> Dataset:
    """Open other data as this data was opened; labels are not needed."""
    source = given[0] if isinstance(given, tuple) and len(given) == 2 else given
    return source if isinstance(source, Dataset) else open_data(source, encoder=encoder, text=text)


def rows_of(opened: Dataset, name: str, n_features: int) -> FloatArray:
    """Return the rows of other data, checked."""
    rows = np.asarray(check_input(opened.numbers(), name=name, finite=False).rows[:])
    if rows.shape[1] != n_features:
        raise InvalidInput(
            f"{name} has rows of {rows.shape[1]} numbers, and the data has rows of {n_features}; encode both"
            " with the same encoder"
        )
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise InvalidInput(f"{name} has {describe_bad_rows(bad)}")
    return rows
