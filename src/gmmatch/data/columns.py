"""Labels, ids and scores: read in this one place, by the same rules for every command and for Python.

They may be an array or a list, a column of the data, or a file: `.npy`, `.npz`, IDX, text with one value
per line, or a table (`.csv`, `.tsv`, `.jsonl`, `.parquet`, `.arrow`) of which one column is taken. Where
the file has a column of ids, its values belong to rows by id.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray
from ..errors import InvalidInput, InvalidInputType
from ..files import file_and_column
from ..validation import is_missing, label_values, nearest
from .arrow import arrow_table
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
from .joining import Values, id_column, join, pair_files, position_notes, whole_numbers
from .json_lines import json_table
from .places import Place, find_place, order_notes
from .remote import fetched, is_remote
from .request import all_bad, listed, names_file, names_shards, no_column, no_file, refuse_bad
from .tables import Table

# What columns go by in files of values, most usual first.
NAMES = {
    "labels": ("label", "labels", "class", "target", "y"),
    "ids": ("id", "ids"),
    "scores": ("score", "scores"),
}
KINDS = ".npy, .npz, IDX, .txt, .csv, .tsv, .jsonl, .parquet or .arrow"
UNLABELLED = "unlabelled"


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
    return _complete(values, what)


def values_of_rows(dataset: Dataset, given: Any, what: str, parameter: str | None = None) -> npt.NDArray[Any]:
    """Return labels or scores of a dataset's rows: a column of it, a file, or the values themselves.

    As labels do, those of a file that has ids belong to rows by id. `parameter`: what the user calls them.
    """
    return _complete(_find(dataset, given, what, parameter), what, dataset.bad)


def _complete(values: Values, what: str, bad: Mapping[int, str] | None = None) -> npt.NDArray[Any]:
    """Return values of which none is missing but those of bad rows."""
    array, missing = _typed(values, what)
    missing = np.setdiff1d(missing, list(bad or ()))
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
    `class` makes rows without a label a class of their own, `pick` lets them be picked to be labelled.
    """
    bad = dict(dataset.bad)
    notes: tuple[str, ...] = ()
    if ids is not None:
        array, missing = _typed(_find(dataset, ids, "ids"), "ids")
        bad |= {row: "no id" for row in missing.tolist() if row not in bad}
        dataset = dataset.replace(ids=array)
        notes = repeated_ids(array, missing)
    if labels is None and dataset.labels is None:
        missing = np.empty(0, np.int64)
    else:
        given = _find(dataset, dataset.labels if labels is None else labels, "labels")
        array, missing = _typed(given, "labels")
        notes = (*notes, *given.notes)
        missing = np.array([row for row in missing.tolist() if row not in bad], dtype=np.int64)
        array = _filled(array, missing, bad, unlabelled)
        dataset = dataset.replace(labels=array)
        if unlabelled == "pick" and missing.size:
            dataset = dataset.replace(unlabelled=missing)
        elif unlabelled == "error":
            column = isinstance(labels, str) and labels in dataset.columns
            reason = f"no label in column {labels!r}" if column else "no label"
            bad |= {row: given.absent.get(row, reason) for row in missing.tolist()}
    if bad and on_bad_rows != "drop" and (dataset.rows is not None or missing.size or ids is not None):
        lacks_labels = bool(missing.size) and unlabelled == "error"
        raise refuse_bad(bad, len(dataset), dataset.name, lacks_labels, notes, dataset.ids)
    if bad and len(bad) == len(dataset):
        raise all_bad(bad, len(dataset), dataset.name)
    return dataset.replace(bad=bad, notes=(*dataset.notes, *notes))


def repeated_ids(ids: npt.NDArray[Any], missing: IntArray) -> tuple[str, ...]:
    """Say that ids are not unique, if they are not.

    >>> repeated_ids(np.array(["a", "b", "a"]), np.empty(0, np.int64))
    ("1 id is there more than once (first: 'a'): labels and previews that are joined by id may be refused",)
    """
    found, counts = np.unique(np.delete(ids, missing), return_counts=True)
    twice = found[counts > 1]
    if not len(twice):
        return ()
    many = "id is" if len(twice) == 1 else "ids are"
    return (
        f"{len(twice):,} {many} there more than once (first: {twice[0].item()!r}): labels and previews that"
        " are joined by id may be refused",
    )


def _filled(
    array: npt.NDArray[Any], missing: IntArray, bad: dict[int, str], unlabelled: str
) -> npt.NDArray[Any]:
    """Give rows without a label one that exists, or one of their own."""
    if not missing.size and not bad:
        return array
    good = np.ones(len(array), dtype=bool)
    good[missing] = False
    good[[row for row in bad if row < len(array)]] = False
    if unlabelled != "error" and missing.size:
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


def _find(dataset: Dataset, given: Any, what: str, parameter: str | None = None) -> Values:
    """Return values that are a column of the data, a file, or given."""
    if not _is_text(given):
        values = Values(given, None, what, notes=position_notes(dataset, given, what))
    elif isinstance(given, str) and given in dataset.columns and dataset.read_column is not None:
        entries = dataset.read_column(given)
        if isinstance(entries, list):
            entries = [None if isinstance(entry, Unreadable) else entry for entry in entries]
        if dataset.kind == "csv":
            entries = whole_numbers(entries)
        values = Values(entries, None, f"column {given!r} of {dataset.name}")
    elif isinstance(given, os.PathLike) or names_file(given):
        name = os.fspath(given)
        shards = not is_remote(name) and names_shards(name)
        values = _read_shards(name, what, dataset) if shards else read_file(name, what, len(dataset))
        if values.keys is not None and what != "ids":
            values = join(values, dataset, what)
        elif values.keys is None:
            values = replace(values, notes=(*values.notes, *position_notes(dataset, given, what)))
    else:
        raise no_column(given, parameter or what, dataset.columns, dataset.name)
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
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputType(f"{values.name} must hold numbers, one score per row: {error}") from None


def read_file(given: str | os.PathLike[str], what: str, n_rows: int | None = None) -> Values:
    """Read values from a file, or from a column of one (``FILE:COLUMN``)."""
    name = os.fspath(given)
    if is_remote(name):
        name = fetched(name)
    name, column = file_and_column(name)
    path = Path(name)
    if not path.is_file():
        if path.exists() and not path.is_dir():
            raise no_file(name)
        raise InvalidInput(f"there is no file {path}")
    ending = path.suffix.lower()
    kind = SHARDS.get(ending)
    if kind == "npy":
        return Values(_flat(map_npy(path), path, what), None, name)
    if kind == "npz":
        return _archive_values(path, what, column)
    if ending in DELIMITERS or ending == ".txt":
        return _delimited_values(read_delimited(path), what, n_rows, column)
    if kind in ("parquet", "arrow") or ending in JSON_ENDINGS:
        return _table_values(open_table(path), what, path, column)
    if is_idx(path):
        return Values(_flat(read_idx(path), path, what).astype(np.int64), None, name)
    raise InvalidInput(f"{path} is of a kind that holds no {what}; expected {KINDS}")


def _read_shards(name: str, what: str, dataset: Dataset) -> Values:
    """Read values from several files: by their ids or, without, from one file for each of the data."""
    files = list(find_place(name).files)
    if not files:
        raise InvalidInput(f"{name} holds no files of {what}")
    parts = [read_file(file, what) for file in files]
    if any(part.keys is not None for part in parts):
        if any(part.keys is None for part in parts):
            raise InvalidInput(
                f"some files of {name} have ids, and some have none; expected one kind of file"
            )
        keys = [key for part in parts for key in part.keys or ()]
        return Values([entry for part in parts for entry in part.entries], keys, name, parts[0].key_column)
    if len(dataset.files) < 2 or len(dataset.sizes) != len(dataset.files):
        notes = tuple(order_notes(files))
    else:
        files, notes = pair_files(files, dataset.files, name, dataset.name), ()
        parts = [read_file(file, what, size) for file, size in zip(files, dataset.sizes, strict=True)]
        for part, size, file in zip(parts, dataset.sizes, dataset.files, strict=True):
            _check_length(part, size, what, file)
    entries = [entry for part in parts for entry in np.asarray(part.entries, object).tolist()]
    return Values(entries, None, name, notes=notes)


def _archive_values(path: Path, what: str, column: str | None) -> Values:
    """Read an array of an archive, with the ids where another array of as many entries holds them."""
    shapes = npz_shapes(path)
    column = pick_column(tuple(shapes), what, path, column)
    entries = _flat(load_npz(path, column), path, what)
    lists = [name for name, (shape, _) in shapes.items() if shape == (len(entries),)]
    beside = None if what == "ids" else id_column(lists, column, lambda name: load_npz(path, name))
    keys = None if beside is None else load_npz(path, beside).tolist()
    return Values(entries, keys, str(path), beside or "")


def _flat(array: npt.NDArray[Any], path: Path, what: str) -> npt.NDArray[Any]:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidInput(f"{path} has shape {array.shape}; expected one {what[:-1]} per row")
    return np.asarray(array)


def open_table(path: Path) -> Table:
    """Open a file of Parquet, Arrow or JSON lines as a table."""
    kind = SHARDS.get(path.suffix.lower())
    if kind == "parquet":
        return arrow_table(parquet_columns(Place(str(path), (str(path),))))
    if kind == "arrow":
        return arrow_table(ipc_columns([str(path)], str(path), path.parent))
    return json_table(path)


def _table_values(table: Table, what: str, path: Path, column: str | None) -> Values:
    for row, reason in table.broken.items():
        raise InvalidInput(f"row {row} of {path} cannot be read as {what}: {reason}")
    column = pick_column(table.names, what, path, column)

    def read(name: str) -> Any:
        of_content = isinstance(next(iter(table.values(name, 0, 1)), None), (dict, list, bytes))
        return () if of_content else table.values(name)  # images, vectors: large, and no ids

    beside = None if what == "ids" else id_column(table.names, column, read)
    if beside is None:
        return Values(table.values(column), None, str(path))
    return Values(table.values(column), table.values(beside), str(path), beside)


def pick_column(names: Sequence[str], what: str, path: Path, column: str | None = None) -> str:
    """Return the column that holds the values: the one asked for, the only one, or one with a usual name."""
    if column is not None:
        if column not in names:
            raise InvalidInput(
                f"{path} has no column {column!r}{nearest(column, names)}; it has: {listed(names)}"
            )
        return column
    usual = [name for name in names if name.strip().lower() in NAMES[what]]
    if len(names) == 1 or len(usual) == 1:
        return usual[0] if usual else names[0]
    raise InvalidInput(
        f"which column of {path} holds the {what}? It has: {listed(names)}; expected one column, one called"
        f" {NAMES[what][0]!r}, or {path}:COLUMN"
    )


def _delimited_values(found: Delimited, what: str, n_rows: int | None, column: str | None) -> Values:
    place, has_header = label_column(found, what, n_rows, column)
    first = found.records[0].cells
    entries = whole_numbers(cells_of(found, place, has_header, what))
    if not has_header or what == "ids":
        return Values(entries, None, str(found.path))

    def read(name: str) -> list[Any]:
        return whole_numbers(cells_of(found, first.index(name), True, "ids"))

    beside = id_column(first, first[place], read)
    return Values(entries, None if beside is None else read(beside), str(found.path), beside or "")


def cells_of(found: Delimited, place: int, has_header: bool, what: str = "labels") -> list[str | None]:
    """Return the cells of a column, None where they are empty."""
    values: list[str | None] = []
    for number, record in enumerate(found.records[has_header:], start=has_header + 1):
        if not record.cells and found.width == 1:
            values.append(None)
            continue
        if len(record.cells) != found.width:
            raise InvalidInput(
                f"record {number} of {found.path} is {listed(record.cells)!r}; expected"
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
    name, or is a word above numbers; where that says nothing, it is one if there is a line too many and its
    word does not come again.
    """
    if not found.records:
        raise InvalidInput(f"{found.path} holds no {what}")
    first = found.records[0].cells
    if not first:
        raise InvalidInput(f"the first line of {found.path} is empty; expected a header, or a value")
    if column is not None or len(first) > 1:
        return first.index(pick_column(first, what, found.path, column)), True
    if found.delimiter is None:
        return 0, False
    if first[0].strip().lower() in NAMES[what]:
        return 0, True
    below = [record.cells[0] for record in found.records[1:] if len(record.cells) == 1]
    numbers = bool(below) and all(is_number(cell) for cell in below if cell)
    if numbers:
        return 0, not is_number(first[0])
    return 0, n_rows is not None and len(found.records) == n_rows + 1 and first[0] not in below
