"""Labels, ids and scores: read in this one place, by the same rules for every command and for Python.

They may be an array or a list, a column of the data, or a file: `.npy`, `.npz`, IDX, text with one value
per line, or a table (`.csv`, `.tsv`, `.jsonl`, `.parquet`, `.arrow`) of which one column is taken. Where
the file has a column of ids, its values belong to rows by id.
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..classes import is_missing, label_values
from ..errors import InvalidInput, InvalidInputType
from ..records import IntArray
from ..validation import nearest
from .arrow import arrow_table, refuse_bad
from .dataset import Dataset
from .delimited import DELIMITERS, Delimited, is_number, read_delimited, readable
from .formats.arrow import ipc_columns
from .formats.base import SHARDS
from .formats.idx import is_idx, read_idx
from .formats.npy import map_npy
from .formats.npz import load_npz, npz_shapes
from .formats.parquet import parquet_columns
from .formats.text import JSON_ENDINGS
from .items import Unreadable
from .places import Place
from .remote import fetched, is_remote
from .request import names_file, no_column
from .tables import Table, json_table

# What columns go by in files of values, most usual first.
NAMES = {
    "labels": ("label", "labels", "class", "target", "y"),
    "ids": ("id", "ids"),
    "scores": ("score", "scores"),
}
ID_NAMES = ("id", "ids", "path", "file", "file_name", "filename")
KINDS = ".npy, .npz, IDX, .txt, .csv, .tsv, .jsonl, .parquet or .arrow"
UNLABELLED = "unlabelled"
# What of two names must agree: all of them, their last parts, or these without the ending.
NAME_FORMS: tuple[Callable[[str], str], ...] = (
    str,
    lambda name: name.rpartition("/")[2],
    lambda name: Path(name.rpartition("/")[2]).stem,
)
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


@dataclass(frozen=True, eq=False)
class Values:
    """Values as a file holds them."""

    entries: Any
    keys: Sequence[Any] | None  # the ids beside them, where there are some
    name: str


def read_values(given: Any, what: str, n_rows: int | None = None) -> npt.NDArray[Any]:
    r"""Return labels or scores of a file, or of an array, that belong to rows by their order.

    `given`: a file, or the values themselves. `what`: `labels`, `ids` or `scores`.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "labels.csv"
    >>> _ = file.write_text("label\n3\n5\n")
    >>> read_values(file, "labels").tolist()
    [3, 5]
    """
    values = read_file(given, what, n_rows) if _is_text(given) else Values(given, None, what)
    if n_rows is not None:
        _check_length(values, n_rows, what, "the data")
    array, missing = _typed(values, what)
    if missing.size:
        first = ", ".join(map(str, missing[:10]))
        raise InvalidInput(
            f"{values.name} has no {what[:-1]} in {missing.size} of {len(array)} rows (first: {first})"
        )
    return array


def attach(
    dataset: Dataset, labels: Any, ids: Any, on_bad_rows: str = "error", unlabelled: str = "error"
) -> Dataset:
    """Return a dataset with the ids and labels that were asked for, and with its bad rows dealt with.

    `dataset`: as its format opened it. `labels`, `ids`: a column, a file or the values; None for those that
    it has. `on_bad_rows`: `error` refuses rows without a value, `drop` lets them take no part. `unlabelled`:
    `class` makes rows without a label a class of their own.
    """
    bad = dict(dataset.bad)
    if ids is not None:
        array, missing = _typed(_find(dataset, ids, "ids"), "ids")
        bad |= {row: "no id" for row in missing.tolist() if row not in bad}
        dataset = dataset.replace(ids=array)
    if labels is None and dataset.labels is None:
        missing = np.empty(0, np.int64)
    else:
        given = _find(dataset, dataset.labels if labels is None else labels, "labels")
        array, missing = _typed(given, "labels")
        missing = np.array([row for row in missing.tolist() if row not in bad], dtype=np.int64)
        array = _filled(array, missing, bad, unlabelled)
        dataset = dataset.replace(labels=array)
        if unlabelled != "class":
            column = isinstance(labels, str) and labels in dataset.columns
            bad |= dict.fromkeys(missing.tolist(), f"no label in column {labels!r}" if column else "no label")
    if bad and on_bad_rows != "drop" and (dataset.rows is not None or missing.size or ids is not None):
        lacks_labels = bool(missing.size) and unlabelled != "class"
        raise refuse_bad(bad, len(dataset), dataset.name, lacks_labels)
    if bad and len(bad) == len(dataset):
        raise InvalidInput(
            f"all {len(bad)} rows of {dataset.name} are bad (row 0: {bad[0]}); nothing is left to choose from"
        )
    return dataset.replace(bad=bad)


def _filled(
    array: npt.NDArray[Any], missing: IntArray, bad: dict[int, str], unlabelled: str
) -> npt.NDArray[Any]:
    """Give rows without a label one that exists, or one of their own."""
    if not missing.size and not bad:
        return array
    good = np.ones(len(array), dtype=bool)
    good[missing] = False
    good[[row for row in bad if row < len(array)]] = False
    if unlabelled == "class" and missing.size:
        own: Any = UNLABELLED
        if array.dtype.kind in "iub":
            array = array.astype(np.int64)
            own = min(-1, int(array[good].min(initial=0)) - 1)
        elif (array[good] == own).any():
            raise InvalidInput(f"rows without a label cannot be the class {own!r}: there is one already")
        else:
            array = array.astype(np.result_type(array.dtype, f"U{len(own)}"))
        array = array.copy()
        array[missing] = own
        good[missing] = True
    if good.any() and not good.all():
        array = array.copy()
        array[~good] = array[good][0]
    return array


def _is_text(given: Any) -> bool:
    return isinstance(given, (str, os.PathLike))


def _find(dataset: Dataset, given: Any, what: str) -> Values:
    """Return values that are a column of the data, a file, or given."""
    if not _is_text(given):
        values = Values(given, None, what)
    elif isinstance(given, str) and given in dataset.columns and dataset.read_column is not None:
        entries = dataset.read_column(given)
        if isinstance(entries, list):
            entries = [None if isinstance(entry, Unreadable) else entry for entry in entries]
        if dataset.kind == "csv":
            entries = _parsed(entries)
        values = Values(entries, None, f"column {given!r} of {dataset.name}")
    elif isinstance(given, os.PathLike) or names_file(given):
        values = read_file(given, what, len(dataset))
        if values.keys is not None and what != "ids":
            values = _joined(values, dataset)
    else:
        raise no_column(given, what, dataset.columns, dataset.name)
    _check_length(values, len(dataset), what, dataset.name)
    return values


def _check_length(values: Values, n_rows: int, what: str, where: str) -> None:
    entries = values.entries
    length = _length(entries)
    if length != n_rows:
        hint = "" if values.name == what else f" ({values.name})"
        raise InvalidInput(
            f"{what} has {length} entries for {n_rows} rows of {where}; expected one per row{hint}"
        )


def _length(entries: Any) -> int:
    """Return how many entries there are; none in a single number, and in what can be looked at only once."""
    try:
        return len(entries)
    except TypeError:
        return 0


def _typed(values: Values, what: str) -> tuple[npt.NDArray[Any], IntArray]:
    """Return values as an array of one kind, and the rows that have none."""
    if what != "scores":
        return label_values(values.entries, what if values.name == what else f"{what} ({values.name})")
    entries = [None if is_missing(entry) else entry for entry in np.asarray(values.entries).tolist()]
    missing = np.array([row for row, entry in enumerate(entries) if entry is None], dtype=np.int64)
    try:
        return np.array([np.nan if entry is None else float(entry) for entry in entries]), missing
    except (TypeError, ValueError) as error:
        raise InvalidInputType(f"{values.name} must hold numbers, one score per row: {error}") from None


def read_file(given: str | os.PathLike[str], what: str, n_rows: int | None = None) -> Values:
    """Read values from a file, or from a column of one (``FILE:COLUMN``)."""
    name = os.fspath(given)
    column = None
    if is_remote(name):
        name = fetched(name)
    if not os.path.exists(name) and os.path.isfile(name.rpartition(":")[0]):
        name, _, column = name.rpartition(":")
    path = Path(name)
    if not path.is_file():
        raise InvalidInput(f"there is no file {path}")
    ending = path.suffix.lower()
    kind = SHARDS.get(ending)
    if kind == "npy":
        return Values(_flat(map_npy(path), path, what), None, name)
    if kind == "npz":
        column = _pick(tuple(npz_shapes(path)), what, path, column)
        return Values(_flat(load_npz(path, column), path, what), None, name)
    if ending in DELIMITERS or ending == ".txt":
        return _delimited_values(read_delimited(path), what, n_rows, column)
    if kind in ("parquet", "arrow") or ending in JSON_ENDINGS:
        return _table_values(_open_table(path, kind), what, path, column)
    if is_idx(path):
        return Values(_flat(read_idx(path), path, what).astype(np.int64), None, name)
    raise InvalidInput(f"{path} is of a kind that holds no {what}; expected {KINDS}")


def _flat(array: npt.NDArray[Any], path: Path, what: str) -> npt.NDArray[Any]:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidInput(f"{path} has shape {array.shape}; expected one {what[:-1]} per row")
    return np.asarray(array)


def _open_table(path: Path, kind: str | None) -> Table:
    if kind == "parquet":
        return arrow_table(parquet_columns(Place(str(path), (str(path),))))
    if kind == "arrow":
        return arrow_table(ipc_columns([str(path)], str(path), path.parent))
    return json_table(path)


def _table_values(table: Table, what: str, path: Path, column: str | None) -> Values:
    for row, reason in table.broken.items():
        raise InvalidInput(f"row {row} of {path} cannot be read as {what}: {reason}")
    column = _pick(table.names, what, path, column)
    return Values(table.values(column), _keys(table, column, what), str(path))


def _keys(table: Table, column: str, what: str) -> list[Any] | None:
    beside = [name for name in ID_NAMES if name in table.names and name != column]
    return None if what == "ids" or not beside else table.values(beside[0])


def _pick(names: Sequence[str], what: str, path: Path, column: str | None = None) -> str:
    """Return the column that holds the values: the one asked for, the only one, or one with a usual name."""
    if column is not None:
        if column not in names:
            raise InvalidInput(
                f"{path} has no column {column!r}{nearest(column, names)}; it has: {_list(names)}"
            )
        return column
    usual = [name for name in names if name.strip().lower() in NAMES[what]]
    if len(names) == 1 or len(usual) == 1:
        return usual[0] if usual else names[0]
    raise InvalidInput(
        f"which column of {path} holds the {what}? It has: {_list(names)}; expected one column, one called"
        f" {NAMES[what][0]!r}, or {path}:COLUMN"
    )


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)


def _delimited_values(found: Delimited, what: str, n_rows: int | None, column: str | None) -> Values:
    place, has_header = label_column(found, what, n_rows, column)
    first = found.records[0].cells
    entries = cells_of(found, place, has_header, what)
    keys = None
    if has_header and what != "ids":
        beside = [at for at, name in enumerate(first) if name.strip().lower() in ID_NAMES and at != place]
        keys = _parsed(cells_of(found, beside[0], True, "ids")) if beside else None
    return Values(_parsed(entries), keys, str(found.path))


def cells_of(found: Delimited, place: int, has_header: bool, what: str = "labels") -> list[str | None]:
    """Return the cells of a column, None where they are empty."""
    values: list[str | None] = []
    for number, record in enumerate(found.records[has_header:], start=has_header + 1):
        if not record.cells and found.width == 1:
            values.append(None)
            continue
        if len(record.cells) != found.width:
            raise InvalidInput(
                f"record {number} of {found.path} is {_list(record.cells)!r}; expected"
                f" {found.width} column(s) with a {what[:-1]}"
            )
        cell = readable(record.cells[place])
        if isinstance(cell, Unreadable):
            raise InvalidInput(f"record {number} of {found.path} cannot be read as {what}: it is {cell}")
        values.append(cell or None)
    if not values:
        raise InvalidInput(f"{found.path} holds no {what}")
    return values


def label_column(
    found: Delimited, what: str = "labels", n_rows: int | None = None, column: str | None = None
) -> tuple[int, bool]:
    """Return the position of the column of values, and whether the first record is a header.

    A file of several columns has a header. The first line of a single column is one where it has a usual
    name, or is a word above numbers; where that says nothing, the number of rows decides.
    """
    if not found.records:
        raise InvalidInput(f"{found.path} holds no {what}")
    first = found.records[0].cells
    if not first:
        raise InvalidInput(f"the first line of {found.path} is empty; expected a header, or a value")
    if column is not None or len(first) > 1:
        return first.index(_pick(first, what, found.path, column)), True
    if found.delimiter is None:
        return 0, False
    if first[0].strip().lower() in NAMES[what]:
        return 0, True
    below = [record.cells[0] for record in found.records[1:] if len(record.cells) == 1]
    numbers = bool(below) and all(is_number(cell) for cell in below if cell)
    if numbers:
        return 0, not is_number(first[0])
    return 0, n_rows is not None and len(found.records) == n_rows + 1


def _parsed(cells: Sequence[str | None]) -> list[Any]:
    """Return text as whole numbers where all of it is, else as it stands; '007' is no number."""
    if all(cell is None or _WHOLE.fullmatch(cell) for cell in cells):
        return [None if cell is None else int(cell) for cell in cells]
    return list(cells)


def _joined(values: Values, dataset: Dataset) -> Values:
    """Put values in the order of the rows, by their ids."""
    keys = () if values.keys is None else values.keys
    if dataset.ids is None:
        numbers = [key for key in keys if isinstance(key, (int, np.integer))]
        if len(numbers) != len(keys) or sorted(numbers) != list(range(len(dataset))):
            return values  # the rows have no ids, and these are not row numbers
        names: list[Any] = list(range(len(dataset)))
    else:
        names = dataset.ids.tolist()
    for form in NAME_FORMS:
        known = {form(str(key)): entry for key, entry in zip(keys, values.entries, strict=True)}
        found = [form(str(name)) in known for name in names]
        if any(found) and len(known) == len(keys):
            entries = [known.get(form(str(name))) for name in names]
            return Values(entries, None, values.name)
    raise InvalidInput(
        f"the ids in {values.name} are not the rows' ids, or not each once: it has {keys[0]!r},"
        f" {dataset.name} has {names[0]!r}"
    )
