"""Rows that are in already, or out: a selection, its file, ids, row numbers or a mask."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

import numpy as np

from ..arrays import AnyArray, IntArray
from ..data import Dataset, read_values
from ..errors import InvalidInput, InvalidInputType, brief
from ..records import Included, Selection, load_selection
from ..validation import CheckedRows


@dataclass(frozen=True, eq=False)
class Include:
    """Rows that are in already."""

    # Of this data, in their order.
    rows: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    earlier: Selection | None = None  # a selection of other data
    before: tuple[Included, ...] = ()  # what a selection of this data had of others

    @classmethod
    def of(cls, given: object, data: Dataset, checked: CheckedRows) -> Include:
        """Find the rows that are included."""
        if given is None or isinstance(given, cls):
            return given or cls()
        given = _opened(given)
        if isinstance(given, Selection) and not _of_this(given, data, checked):
            return cls(earlier=_check_earlier(given, checked))
        rows = find_rows(given, data, checked, "include")
        if len(bad := rows[~checked.usable[rows]]):
            raise InvalidInput(f"include names row {bad[0]}, which is bad, and cannot be kept")
        return cls(rows, before=given.included if isinstance(given, Selection) else ())

    def joined(self, selection: Selection) -> Selection:
        """Return a selection with the rows of other data that were in already."""
        if self.earlier is None:
            # What the sums of those others were is not known any more.
            return replace(selection, included=self.before, carried=None) if self.before else selection
        earlier = Included(self.earlier.info.fingerprint, self.earlier.indices, self.earlier.ids)
        carried = None if selection.carried is None else selection.carried.joined(self.earlier.carried)
        return replace(selection, included=(*self.earlier.included, earlier), carried=carried)


def excluded_rows(given: object, data: Dataset, checked: CheckedRows, include: IntArray) -> IntArray:
    """Return the rows that are excluded, and refuse those that are included as well."""
    given = _opened(given)
    if isinstance(given, Selection) and not _of_this(given, data, checked):
        if not len(known := _known_ids(given, data)):
            raise InvalidInput(
                "exclude is a selection of other data, and no row of this one has an id that it"
                " names; pass ids that this data has, or a selection of it"
            )
        given = known
    rows = find_rows(given, data, checked, "exclude")
    if len(both := include[np.isin(include, rows)]):
        raise InvalidInput(f"include and exclude both name row {both[0]}; name it once")
    return rows


def find_rows(given: object, data: Dataset, checked: CheckedRows, name: str) -> IntArray:
    """Return the numbers of the rows that are named, each once, in their order.

    `given`: a selection of this data, ids, row numbers, a file of one of these, or a mask.
    """
    n_rows = len(checked.rows)
    if isinstance(given, Selection):
        if given.info.fingerprint == checked.fingerprint or given.ids is None:
            return given.indices
        given = given.ids.astype(str)
    elif isinstance(given, (str, os.PathLike)):
        given = read_values(given, "ids")
    values = _as_values(given, n_rows, name)
    if values.dtype.kind == "b":
        data.check_index(given, name)
        return np.flatnonzero(values)
    if not len(values):
        return np.empty(0, np.int64)
    known = np.zeros(len(values), bool) if data.ids is None else np.isin(values, data.ids)
    if values.dtype.kind not in "iu" or known.all():
        found = _by_id(values, data, name)
    elif known.any():
        raise InvalidInput(
            f"{name} names {values[known][0]}, which is an id of {data.name}, and {values[~known][0]}, which"
            " is none; pass ids that it has, or a mask with an entry per row"
        )
    else:
        if len(wrong := values[(values < 0) | (values >= n_rows)]):
            raise InvalidInput(f"{name} names row {wrong[0]}; expected numbers from 0 to {n_rows - 1}")
        found = values.astype(np.int64)
    return found[np.sort(np.unique(found, return_index=True)[1])]


def _as_values(given: object, n_rows: int, name: str) -> AnyArray:
    """Return what may be ids, row numbers or a mask as an array."""
    if np.ma.is_masked(given):
        raise InvalidInputType(f"{name} has entries that are masked; pass the others: {name}.compressed()")
    try:
        values = np.asarray(given)
    except ValueError:
        values = np.empty((0, 0))
    kind = values.dtype.kind
    whole = kind != "b" or len(values) == n_rows
    if values.ndim != 1 or (len(values) and kind not in "biuUSO") or not whole:
        raise InvalidInputType(
            f"{name} takes a selection, its file, ids, row numbers or a mask with an entry per row; got"
            f" {type(given).__name__}"
        )
    if kind in "iu" and len(values) == n_rows > 2 and np.isin(values, (0, 1)).all():
        raise InvalidInputType(f"{name} has a 0 or a 1 for each row; a mask is of booleans: astype(bool)")
    return values


def _by_id(ids: AnyArray, data: Dataset, name: str) -> IntArray:
    """Return the rows of ids; where rows share one, all of them."""
    if data.ids is None:
        raise InvalidInput(
            f"{name} names ids, and {data.name} has none; name them with ids=..., or pass row numbers"
        )
    places: dict[str, list[int]] = {}
    for row, key in enumerate(data.ids.tolist()):
        places.setdefault(str(key), []).append(row)
    names = [str(key) for key in ids.tolist()]
    if missing := [key for key in names if key not in places]:
        raise InvalidInput(
            f"{name} names {len(missing):,} ids that {data.name} does not have, such as {brief(missing[0])}"
        )
    return np.array([row for key in names for row in places[key]], np.int64)


def _opened(given: object) -> object:
    """Return what is given, or the selection that is saved where it says."""
    if isinstance(given, (str, os.PathLike)) and os.fspath(given).endswith(".parquet"):
        return load_selection(given)
    return given


def _known_ids(selection: Selection, data: Dataset) -> AnyArray:
    """Return the ids of a selection that rows of the data have, as text."""
    if selection.ids is None or data.ids is None:
        return np.empty(0, str)
    names: AnyArray = selection.ids.astype(str)
    return names[np.isin(names, data.ids.astype(str))]


def _of_this(selection: Selection, data: Dataset, checked: CheckedRows) -> bool:
    """Return True if a selection is of this data: of the same rows and labels, or of the same ids."""
    same = selection.info.fingerprint == checked.fingerprint
    return same or len(_known_ids(selection, data)) == len(selection) > 0


def _check_earlier(selection: Selection, checked: CheckedRows) -> Selection:
    """Return a selection of other data that a run can go on from."""
    if checked.classes is None:
        raise InvalidInput("include is a selection of other data; to go on from it, pass labels")
    carried = selection.carried
    if carried is None:
        raise InvalidInput(
            "include is a selection of other data that does not say how to go on from it: its labels were not"
            " judged, it is a part of a selection, or its file would have been too large"
        )
    if carried.n_features != checked.rows.shape[1]:
        raise InvalidInput(
            f"include was selected from rows of {carried.n_features} numbers, and the data has rows of"
            f" {checked.rows.shape[1]}; encode both with the same encoder"
        )
    return selection
