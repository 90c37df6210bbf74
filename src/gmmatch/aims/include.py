"""Rows that are in already, or out: a selection, its file, ids, row numbers or a mask."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from ..arrays import AnyArray, IntArray
from ..data import Dataset, read_values
from ..data.joining import id_text, ids_of_rows, match_names
from ..errors import InvalidInput, InvalidInputType, brief
from ..records import METADATA_KEY, Included, Selection, load_selection
from ..validation import CheckedRows, is_missing


@dataclass(frozen=True, eq=False)
class Include:
    """Rows that are in already."""

    # Of this data, in their order.
    rows: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    earlier: Selection | None = None  # a selection of other data
    before: tuple[Included, ...] = ()  # what a selection of this data had of others
    # Rows of this data that a selection of other data has under the same ids: they are not picked again.
    again: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: object, data: Dataset, checked: CheckedRows) -> Include:
        """Find the rows that are included."""
        if given is None or isinstance(given, cls):
            return given or cls()
        given = _opened(given)
        if isinstance(given, Selection) and not _of_this(given, data, checked):
            return cls._of_other(_check_earlier(given, checked), data)
        rows = find_rows(given, data, checked, "include")
        _refuse(rows, ~checked.usable, "include names", "is bad, and cannot be kept")
        if not isinstance(given, Selection):
            return cls(rows)
        return cls(rows, before=given.included, notes=_note_on(given, checked, "include"))

    @classmethod
    def _of_other(cls, earlier: Selection, data: Dataset) -> Include:
        """Return a selection of other data, and the rows that both have, by their ids."""
        ids = [own for own in (earlier.ids, *(other.ids for other in earlier.included)) if own is not None]
        shared = np.concatenate([np.empty(0, str), *(_shared_ids(own, data.ids) for own in ids)])
        again = _by_id(shared, data, "include") if len(shared) else np.empty(0, np.int64)
        notes = [
            f"include is a selection of other rows or labels, by its fingerprint: its {len(earlier):,} rows"
            " count as picked elsewhere"
        ]
        if len(again):
            notes = [f"{len(again):,} rows have ids that include names, and were not picked again"]
        return cls(earlier=earlier, again=again, notes=tuple(notes))

    def joined(self, selection: Selection) -> Selection:
        """Return a selection with the rows of other data that were in already."""
        if self.earlier is None:
            # What the sums of those others were is not known any more.
            return replace(selection, included=self.before, carried=None) if self.before else selection
        earlier = Included(self.earlier.info.fingerprint, self.earlier.indices, self.earlier.ids)
        carried = None if selection.carried is None else selection.carried.joined(self.earlier.carried)
        return replace(selection, included=(*self.earlier.included, earlier), carried=carried)


@dataclass(frozen=True, eq=False)
class Exclude:
    """Rows that are out."""

    rows: IntArray
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: object, data: Dataset, checked: CheckedRows, include: Include) -> Exclude:
        """Find the rows that are excluded, and refuse those that are included as well."""
        if isinstance(given, cls):
            return given
        given = _opened(given)
        notes = _note_on(given, checked, "exclude") if isinstance(given, Selection) else ()
        if isinstance(given, Selection) and not _of_this(given, data, checked):
            shared = _shared_ids(given.ids, data.ids)
            if not len(shared):
                raise InvalidInput(
                    "exclude is a selection of other data, and no row of this one has an id that it"
                    " names; pass ids that this data has, or a selection of it"
                )
            given = shared
        rows = find_rows(given, data, checked, "exclude")
        out = np.zeros(len(checked.rows), bool)
        out[rows] = True
        _refuse(include.rows, out, "include and exclude both name", "; name it once")
        return cls(rows, notes)


def find_rows(given: object, data: Dataset, checked: CheckedRows, name: str) -> IntArray:
    """Return the numbers of the rows that are named, each once, in their order.

    `given`: a selection of this data, ids, row numbers, a file of one of these, or a mask.
    """
    n_rows = len(checked.rows)
    if isinstance(given, Selection):
        if given.info.fingerprint == checked.fingerprint or given.ids is None:
            return given.indices
        return _by_id(given.ids, data, name)
    in_file = isinstance(given, (str, os.PathLike))
    if in_file:
        given = read_values(given, "ids")
    values = _as_values(given, n_rows, name)
    if values.dtype.kind == "b":
        data.check_index(given, name)
        return np.flatnonzero(values)
    if not len(values):
        return np.empty(0, np.int64)
    unnamed = ids_of_rows(data) if in_file and data.ids is None else None
    if in_file and (data.ids is not None or (unnamed is not None and values.dtype.kind not in "iu")):
        return _by_id(values, data, name, unnamed)
    others = [key for row, key in enumerate(map(id_text, unnamed or ())) if key != str(row)]
    if not {*map(id_text, values.tolist())}.isdisjoint(others):
        raise InvalidInput(
            f"{name} names {values[0]}, which may be the number of a row or an id that {data.name} has; name"
            " the column of ids (ids=...) if it is an id, or pass row numbers as an array"
        )
    known = np.zeros(len(values), bool) if data.ids is None else np.isin(values, data.ids)
    if values.dtype.kind not in "iu" or known.all():
        return _by_id(values, data, name)
    if known.any():
        raise InvalidInput(
            f"{name} names {values[known][0]}, which is an id of {data.name}, and {values[~known][0]}, which"
            " is none; pass ids that it has, or a mask with an entry per row"
        )
    wrong = values[(values < 0) | (values >= n_rows)]
    if len(wrong):
        raise InvalidInput(f"{name} names row {wrong[0]}; expected numbers from 0 to {n_rows - 1}")
    return _each_once(values.astype(np.int64))


def _as_values(given: object, n_rows: int, name: str) -> AnyArray:
    """Return what may be ids, row numbers or a mask as an array."""
    if np.ma.is_masked(given):
        raise InvalidInputType(f"{name} has entries that are masked; pass the others: {name}.compressed()")
    try:
        values = np.asarray(given)
    except ValueError:
        values = np.empty((0, 0))
    if (
        values.ndim != 1
        or (len(values) and values.dtype.kind not in "biuUSO")
        or (values.dtype.kind == "b" and len(values) != n_rows)
    ):
        raise InvalidInputType(
            f"{name} takes a selection, its file, ids, row numbers or a mask with an entry per row; got"
            f" {type(given).__name__}"
        )
    if values.dtype.kind in "iu" and len(values) == n_rows > 2 and np.isin(values, (0, 1)).all():
        raise InvalidInputType(f"{name} has a 0 or a 1 for each row; a mask is of booleans: astype(bool)")
    return values


def _by_id(ids: object, data: Dataset, name: str, unnamed: list[Any] | None = None) -> IntArray:
    """Return the rows of ids; where rows share one, all of them.

    `unnamed`: ids that the data has, though they were not named, as labels of a file would find them.
    """
    own = unnamed if data.ids is None else data.ids.tolist()
    if own is None:
        raise InvalidInput(
            f"{name} names ids, and {data.name} has none; name them with ids=..., or pass row numbers"
        )
    keys = list(dict.fromkeys(map(id_text, np.asarray(ids).tolist())))
    places = match_names(keys, [None if is_missing(key) else id_text(key) for key in own]) or []
    missing = sorted(set(range(len(keys))).difference(place for place in places if place is not None))
    if missing:
        raise InvalidInput(
            f"{name} names {len(missing):,} ids that {data.name} does not have, such as"
            f" {brief(keys[missing[0]])}"
        )
    order = np.array([len(keys) if place is None else place for place in places], np.int64)
    return np.argsort(order, kind="stable")[: np.count_nonzero(order < len(keys))]


def _shared_ids(named: AnyArray | None, ids: AnyArray | None) -> AnyArray:
    """Return the ids that a dataset has of those that are named."""
    if named is None or ids is None:
        return np.empty(0, str)
    names = np.array(list(map(id_text, named.tolist())))
    return names[np.isin(names, list(map(id_text, ids.tolist())))]


def _each_once(rows: IntArray) -> IntArray:
    return rows[np.sort(np.unique(rows, return_index=True)[1])]


def _opened(given: object) -> object:
    """Return what is given, or the selection that is saved where it says; other tables hold ids."""
    if isinstance(given, (str, os.PathLike)) and os.fspath(given).endswith(".parquet"):
        with suppress(OSError, ValueError):  # which `load_selection` says in a sentence
            if Path(given).is_file() and METADATA_KEY not in (pq.read_schema(given).metadata or {}):
                return given
        return load_selection(given)
    return given


def _of_this(selection: Selection, data: Dataset, checked: CheckedRows) -> bool:
    """Return True if a selection is of this data: of the same rows and labels, or of the same ids."""
    if selection.info.fingerprint == checked.fingerprint:
        return True
    if selection.ids is None or data.ids is None or not len(selection):
        return False
    return len(_shared_ids(selection.ids, data.ids)) == len(selection)


def _note_on(selection: Selection, checked: CheckedRows, name: str) -> tuple[str, ...]:
    """Report that the rows of a selection were found by their ids, because it is of other rows or labels."""
    if selection.info.fingerprint == checked.fingerprint:
        return ()
    return (
        f"{name} is a selection of other rows or labels, by its fingerprint: its rows were found by"
        " their ids",
    )


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


def _refuse(rows: IntArray, wrong: Any, what: str, why: str) -> None:
    found = rows[wrong[rows]]
    if len(found):
        raise InvalidInput(f"{what} row {found[0]}{why if why[0] == ';' else f', which {why}'}")
