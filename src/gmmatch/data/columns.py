"""Labels, ids, scores and costs: read here, by the same rules for every command and for Python.

They may be an array or a list, a column of the data, or a file: `.npy`, `.npz`, IDX, text with one value
per line, or a table (`.csv`, `.tsv`, `.jsonl`, `.parquet`, `.arrow`) of which one column is taken. Where
the file has a column of ids, its values belong to rows by id; else by position; never by luck.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import IntArray, Labels
from ..errors import InvalidInput, InvalidInputType
from ..files import SHARDS, file_and_column, names_of
from ..validation import first_rows, is_missing, label_values, nearest
from . import request
from .dataset import Dataset, Entries, Unreadable, spelled
from .formats import text_files
from .formats.arrays import load_npz, map_npy, npz_shapes
from .formats.arrow import Columns, file_columns
from .formats.base import check_room
from .formats.image_files import is_idx, read_idx
from .formats.tables import Table
from .formats.text_files import DELIMITERS, JSON_ENDINGS, Delimited, is_number, json_table
from .joining import Values, id_column, join, notes_on_others, one_of, pair_files, read_column, whole_numbers
from .remote import fetched, is_remote

# What columns go by in files of values, most usual first.
NAMES = {
    "labels": ("label", "labels", "class", "target", "y"),
    "ids": ("id", "ids"),
    "scores": ("score", "scores"),
    "strata": ("stratum", "strata"),
    "groups": ("group", "groups"),
}
KINDS = ".npy, .npz, IDX, .txt, .csv, .tsv, .jsonl, .parquet or .arrow"
_MANY_NUMBERS = 30  # of classes, from which whole numbers may be amounts
_MOST_NAMED = 4  # classes in a note
_NO_LABEL = {"nan", "na", "n/a", "null", "none", "?", "-"}
# Letters that are not seen but are none of those that only format: fillers, joiners, variants of emoji.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
UNLABELLED = "unlabelled"
_ENTRY_BYTES = 8


def read_values(given: Any, what: str, n_rows: int | None = None) -> Labels:
    r"""Return labels or scores of a file, or of an array, that belong to rows by their order.

    `given`: a file, or the values themselves. `what`: `labels`, `ids` or `scores`.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "labels.csv"
    >>> _ = file.write_text("label\n3\n5\n")
    >>> read_values(file, "labels").tolist()
    [3, 5]
    """
    in_file = isinstance(given, (str, os.PathLike))
    values = read_file(given, what, n_rows) if in_file else Values(given, None, what)
    if n_rows is not None:
        _check_length(values, n_rows, what, "the data")
    return _complete(values, what)


def values_of_rows(dataset: Dataset, given: object, what: str, parameter: str | None = None) -> Labels:
    """Return labels or scores of a dataset's rows: a column of it, a file, or the values themselves.

    As labels do, those of a file that has ids belong to rows by id. `parameter`: what the user calls them.
    """
    return _complete(_find(dataset, given, what, parameter), what, dataset.bad)


def _complete(values: Values, what: str, bad: Mapping[int, str] | None = None) -> Labels:
    """Return values of which none is missing but those of bad rows."""
    array, missing = _typed(values, what)
    missing = np.setdiff1d(missing, list(bad or ()))
    if missing.size:
        rows = f"{missing.size} of {len(array)} rows ({first_rows(missing)})"
        raise InvalidInput(f"{values.name} has no {one_of(what)} in {rows}")
    return array


def attach(
    dataset: Dataset, labels: object, ids: object, on_bad_rows: str = "error", unlabelled: str = "error"
) -> Dataset:
    """Return a dataset with the ids and labels that were requested, and its bad rows refused or marked.

    `dataset`: as its format opened it. `labels`, `ids`: a column, a file or the values; None for those that
    it has. `on_bad_rows`: `error` refuses rows without a value, `drop` lets them take no part. `unlabelled`:
    `class` makes rows without a label a class of their own, `pick` lets them be picked to be labelled.
    """
    bad, notes, missing = dict(dataset.bad), list[str](), np.empty(0, np.int64)
    if ids is not None:
        array, unnamed = _typed(_find(dataset, ids, "ids"), "ids")
        bad = dict.fromkeys(unnamed.tolist(), "no id") | bad
        dataset = dataset.replace(ids=array)
        notes += repeated_ids(array, unnamed)
    if labels is not None or dataset.labels is not None:
        given = _find(dataset, dataset.labels if labels is None else labels, "labels")
        array, missing = _typed(given, "labels")
        notes += given.notes
        missing = np.setdiff1d(missing, list(bad))
        dataset = dataset.replace(labels=_filled(array, missing, bad, unlabelled))
        if unlabelled == "pick" and missing.size:
            dataset = dataset.replace(unlabelled=missing)
        elif unlabelled == "error":
            column = isinstance(labels, str) and labels in dataset.columns
            reason = f"no label in column {labels!r}" if column else "no label"
            bad |= {row: given.absent.get(row, reason) for row in missing.tolist()}
    if bad and on_bad_rows != "drop" and (dataset.rows is not None or missing.size or ids is not None):
        lacks_labels = bool(missing.size) and unlabelled == "error"
        raise request.refuse_bad(bad, len(dataset), dataset.name, lacks_labels, notes, dataset.ids)
    if bad and len(bad) == len(dataset):
        raise request.all_bad(bad, len(dataset), dataset.name)
    beside = names_of(given for given in (labels, ids) if not _is_column(dataset, given))
    return dataset.replace(bad=bad, notes=(*dataset.notes, *notes), beside=(*dataset.beside, *beside))


def _is_column(dataset: Dataset, given: object) -> bool:
    return isinstance(given, str) and given in dataset.columns


def repeated_ids(ids: Labels, missing: IntArray) -> list[str]:
    """Report that ids are not unique, if they are not.

    >>> repeated_ids(np.array(["a", "b", "a"]), np.empty(0, np.int64))
    ["1 id is there more than once (first: 'a'): labels and previews that are joined by id may be refused"]
    """
    distinct, counts = np.unique(np.delete(ids, missing), return_counts=True)
    repeated = distinct[counts > 1].tolist()
    if not repeated:
        return []
    said = f"{len(repeated):,} {'id is' if len(repeated) == 1 else 'ids are'} there more than once"
    return [f"{said} (first: {repeated[0]!r}): labels and previews that are joined by id may be refused"]


def notes_on(classes: Labels) -> list[str]:
    """Return notes on classes that may be meant otherwise: that look alike, or read like none.

    Alike are those that differ in spaces, capitals, the encoding of accents (NFC, NFD) or invisible letters.

    >>> for note in notes_on(np.array(["Billing", "billing ", "n/a", "Login"])):
    ...     print(note)
    classes that differ in spaces or capitals only are taken as different: 'Billing' and 'billing '
    class 'n/a' reads like a missing label; rows whose label is left empty can be dropped (on_bad_rows)
    >>> notes_on(np.arange(18, 70))[0].partition(";")[0]
    'the labels are 52 whole numbers from 18 to 69, each taken as a class'
    """
    if classes.dtype.kind in "iu" and len(classes) >= _MANY_NUMBERS:
        low, high = int(classes.min()), int(classes.max())
        if low not in (0, 1) and high - low < 2 * len(classes):
            said = f"the labels are {len(classes):,} whole numbers from {low} to {high}, each taken"
            return [f"{said} as a class; if they are amounts, such as ages, divide them into bins first"]
    if classes.dtype.kind != "U":
        return []
    notes = notes_on_alike(classes)
    for word, name in {_plain(name): name for name in reversed(classes.tolist())}.items():
        if word in _NO_LABEL:
            notes.append(
                f"class {name!r} reads like a missing label; rows whose label is left empty can be dropped"
                " (on_bad_rows)"
            )
    return notes


def notes_on_alike(classes: Labels, what: str = "classes") -> list[str]:
    """Return a note on names that differ in what is hardly seen, if there are any; `what`: of what."""
    alike: dict[str, list[str]] = {}
    for name in classes.tolist() if classes.dtype.kind == "U" else ():
        alike.setdefault(_plain(name), []).append(name)
    notes = []
    several = [names for names in alike.values() if len(names) > 1]
    if several:
        hidden = any(_visible(name) != name for name in several[0])
        *others, last = map(ascii if hidden else repr, several[0][:_MOST_NAMED])
        more = sum(map(len, several)) - len(others) - 1
        notes.append(
            f"{what} that differ in spaces{', accents, invisible letters' if hidden else ''} or capitals"
            " only are taken as different:"
            f" {', '.join(others)} and {last}" + (f", and {more} more" if more else "")
        )
    return notes


def _plain(name: str) -> str:
    """Return what is seen of a name, without capitals and further spaces."""
    return " ".join(_visible(name).split()).casefold()


def _visible(name: str) -> str:
    """Return a name without letters that are not seen, such as zero-width spaces, with composed accents."""
    seen = "".join(letter for letter in _UNSEEN.sub("", name) if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFC", seen)


def _filled(array: Labels, missing: IntArray, bad: dict[int, str], unlabelled: str) -> Labels:
    """Give rows without a label one that exists, or one of their own."""
    good = ~np.isin(np.arange(len(array)), [*missing.tolist(), *bad])
    if unlabelled != "error" and missing.size:
        own: Any = UNLABELLED
        if array.dtype.kind in "iub":
            array = array.astype(np.int64)
            own = min(-1, int(array[good].min(initial=0)) - 1)
        elif (array[good] == own).any():
            raise InvalidInput(f"rows without a label cannot be the class {own!r}: there is one already")
        array = array.astype(np.result_type(array.dtype, np.asarray(own)))
        array[missing] = own
        good[missing] = True
    return np.where(good, array, array[good][0]) if good.any() else array


def _find(dataset: Dataset, given: Any, what: str, parameter: str | None = None) -> Values:
    """Return values that are a column of the data, a file, or given."""
    if not isinstance(given, (str, os.PathLike)):
        dataset.check_index(given, parameter or what)
        values = Values(given, None, what, notes=position_notes(dataset, given, what))
    elif isinstance(given, str) and given in dataset.columns:
        values = Values(read_column(dataset, given), None, f"column {given!r} of {dataset.name}")
    elif isinstance(given, os.PathLike) or request.names_file(given):
        name = os.fspath(given)
        shards = not is_remote(name) and request.names_shards(name)
        values = _read_shards(name, what, dataset) if shards else read_file(name, what, len(dataset))
        if values.keys is None:
            more = (*position_notes(dataset, given, what), *notes_on_others(values, dataset))
            values = replace(values, notes=(*values.notes, *more), others=tuple)
        elif what != "ids":
            values = join(values, dataset, what)
    else:
        raise request.no_column(given, parameter or what, dataset.columns, dataset.name)
    _check_length(values, len(dataset), parameter or what, dataset.name)
    return values


def position_notes(dataset: Dataset, given: object, what: str) -> tuple[str, ...]:
    """Report in which order images are that values belong to by position, where it could be another.

    Images are in the order of the letters of their paths, as `ImageFolder` of torchvision has them.
    """
    if dataset.kind != "image-folder" or given is dataset.labels:
        return ()
    for file, other in zip(dataset.files, request.natural_order(dataset.files), strict=True):
        if file != other:
            first, then = (spelled(os.path.basename(path)) for path in (file, other))
            return (
                f"the {what} belong to the images of {dataset.name} by position, and these are in the order"
                f" of their letters: {first} before {then}",
            )
    return ()


def _check_length(values: Values, n_rows: int, what: str, where: str) -> None:
    try:
        length = len(values.entries)
    except TypeError:  # a single number, or what can be looked at only once
        length = 0
    if length != n_rows:
        expected = "expected one per row" + ("" if values.name == what else f" ({values.name})")
        raise InvalidInput(f"{what} has {length} entries for {n_rows} rows of {where}; {expected}")


def _typed(values: Values, what: str) -> tuple[Labels, IntArray]:
    """Return values as an array of one kind, and the rows that have none."""
    if what != "scores":
        return label_values(values.entries, what if values.name == what else f"{what} ({values.name})")
    entries = np.asarray(values.entries).tolist()
    missing = np.flatnonzero(list(map(is_missing, entries)))
    try:
        return np.array([np.nan if is_missing(entry) else float(entry) for entry in entries]), missing
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputType(f"{values.name} must hold numbers, one score per row: {error}") from None


# ---- files of values ----


def read_file(given: str | os.PathLike[str], what: str, n_rows: int | None = None) -> Values:
    """Read values from a file, or from a column of one (``FILE:COLUMN``)."""
    name = os.fspath(given)
    if is_remote(name):
        name = fetched(name)
    name, column = file_and_column(name)
    path = Path(name)
    if not path.is_file():
        if path.exists() and not path.is_dir():
            raise request.no_file(name)
        raise InvalidInput(f"there is no file {path}")
    ending = path.suffix.lower()
    kind = SHARDS.get(ending)
    if kind == "npy":
        return Values(_flat(map_npy(path), path, what), None, name)
    if kind == "npz":
        return _archive_values(path, what, column)
    if ending in DELIMITERS or ending == ".txt":
        lines = text_files.read_delimited(path)
        place, has_header = label_column(lines, what, n_rows, column)
        table = text_files.delimited_table(lines, has_header)
        values = _table_values(table, what, path, table.names[place])
        keys = None if values.keys is None else whole_numbers(values.keys)
        return replace(values, entries=whole_numbers([entry or None for entry in values.entries]), keys=keys)
    if kind in ("parquet", "arrow") or ending in JSON_ENDINGS:
        return _table_values(open_table(path), what, path, column, n_rows)
    if is_idx(path):
        return Values(_flat(read_idx(path), path, what).astype(np.int64), None, name)
    raise InvalidInput(f"{path} is of a kind that holds no {what}; expected {KINDS}")


def _read_shards(name: str, what: str, dataset: Dataset) -> Values:
    """Read values from several files: by their ids or, without, from one file for each of the data."""
    files = list(request.find_place(name).files)
    if not files:
        raise InvalidInput(f"{name} holds no files of {what}")
    parts = [read_file(file, what) for file in files]
    if any(part.keys is not None for part in parts):
        if any(part.keys is None for part in parts):
            raise InvalidInput(f"some files of {name} have ids, and some have none; expected one kind")
        keys = [key for part in parts if part.keys is not None for key in part.keys]
        return Values([entry for part in parts for entry in part.entries], keys, name, parts[0].key_column)
    if len(dataset.files) < 2 or len(dataset.sizes) != len(dataset.files):
        notes = tuple(request.order_notes(files))
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
    lists = [name for name, (shape, _) in shapes.items() if shape in ((len(entries),), (len(entries), 1))]

    def read(name: str) -> list[object]:
        return load_npz(path, name).ravel().tolist()

    names = [] if what == "ids" else [name for name in lists if name != column]
    beside = id_column(names, read)
    if beside is None:
        return Values(entries, None, str(path), others=lambda: ((name, read(name)) for name in names))
    return Values(entries, read(beside), str(path), beside)


def _flat(array: Labels, path: Path, what: str) -> Labels:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidInput(f"{path} has shape {array.shape}; expected one {one_of(what)} per row")
    return np.asarray(array)


def open_table(path: Path) -> Table:
    """Open a file of JSON lines, Parquet or Arrow as a table."""
    if path.suffix.lower() in JSON_ENDINGS:
        return json_table(path)
    return file_columns([str(path)], str(path))


def _table_values(
    table: Table, what: str, path: Path, column: str | None, n_rows: int | None = None
) -> Values:
    """Read a column of a table, with the ids where another column holds them.

    What has other than `n_rows` rows, and no ids, is not read: whoever asked refuses it by its length.
    """
    for row, reason in table.broken.items():
        raise InvalidInput(f"row {row} of {path} cannot be read as {what}: {reason}")
    if not table.n_rows:
        raise InvalidInput(f"{path} holds no {what}")

    def read(name: str) -> Entries:
        values = table.values(name)
        for row, value in enumerate(values):
            if isinstance(value, Unreadable):
                raise InvalidInput(f"row {row} of {path} cannot be read as {what}: it is {value}")
        return values

    def read_ids(name: str) -> Entries:
        of_content = isinstance(next(iter(table.values(name, 0, 1)), None), (dict, list, bytes))
        return () if of_content else read(name)  # images, vectors: large, and no ids

    column = pick_column(table.names, what, path, column)
    check_room(2 * _ENTRY_BYTES * table.n_rows, str(path))
    names = [] if what == "ids" else [name for name in table.names if name != column]
    beside = id_column(names, read_ids)
    beside = _pandas_index(table, names) if beside is None else beside
    if beside is not None:
        return Values(read(column), read(beside), str(path), beside)
    if n_rows is not None and table.n_rows != n_rows:
        return Values(range(table.n_rows), None, str(path))
    return Values(read(column), None, str(path), others=lambda: ((name, read_ids(name)) for name in names))


def _pandas_index(table: Table, names: Sequence[str]) -> str | None:
    """Return the column that pandas wrote as the index of a table, if it is one of some columns."""
    written = (table.schema.metadata or {}).get(b"pandas") if isinstance(table, Columns) else None
    try:
        index = json.loads(written or "{}").get("index_columns", [])
    except (ValueError, AttributeError):  # by somebody else, under the same name
        return None
    return str(index[0]) if len(index) == 1 and index[0] in names else None


def pick_column(names: Sequence[str], what: str, path: Path, column: str | None = None) -> str:
    """Return the column that holds the values: the one named, the only one, or one with a usual name."""
    if column is not None:
        if column not in names:
            hint = f"{nearest(column, names)}; it has: {request.listed(names)}"
            raise InvalidInput(f"{path} has no column {column!r}{hint}")
        return column
    usual = [name for name in names if name.strip().lower() in NAMES[what]]
    if len(names) == 1 or len(usual) == 1:
        return usual[0] if usual else names[0]
    raise InvalidInput(
        f"which column of {path} holds the {what}? It has: {request.listed(names)}; expected one column, one"
        f" called {NAMES[what][0]!r}, or {path}:COLUMN"
    )


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
    if below and all(is_number(cell) for cell in below if cell):
        return 0, not is_number(first[0])
    return 0, n_rows is not None and len(found.records) == n_rows + 1 and first[0] not in below
