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
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..arrays import IntArray, Labels
from ..errors import InvalidInput, InvalidInputType
from ..files import SHARDS, file_and_column
from ..records import METADATA_KEY
from ..validation import LARGEST_WHOLE_FLOAT, first_rows, is_missing, label_values, nearest
from .dataset import Dataset, Entries, Unreadable, spelled
from .formats.arrays import load_npz, map_npy, npz_shapes
from .formats.arrow import Columns, file_columns
from .formats.base import check_room
from .formats.image_files import is_idx, read_idx
from .formats.tables import Table
from .formats.text_files import (
    DELIMITERS,
    JSON_ENDINGS,
    Delimited,
    delimited_table,
    is_number,
    json_table,
    read_delimited,
)
from .remote import fetched, is_remote
from .request import (
    all_bad,
    find_place,
    listed,
    names_file,
    names_shards,
    natural_order,
    no_column,
    no_file,
    order_notes,
    refuse_bad,
)

# What columns go by in files of values, most usual first.
NAMES = {
    "labels": ("label", "labels", "class", "target", "y"),
    "ids": ("id", "ids"),
    "scores": ("score", "scores"),
}
KINDS = ".npy, .npz, IDX, .txt, .csv, .tsv, .jsonl, .parquet or .arrow"
UNLABELLED = "unlabelled"
# What a column of ids is called, most usual first.
ID_NAMES = ("id", "ids", "path", "file", "file_name", "filename")
_ENTRY_BYTES = 8
_NEARLY_UNIQUE = 0.8  # share of the values of a column that are different, where it may hold ids
ROW_COLUMN = "row"  # holds row numbers, in the files that gmmatch writes
# What else it may be called; without a name, or with such a one, it is an index that pandas wrote.
_LIKE_IDS = re.compile(
    r"|(.*[ _-])?(id|path|file|filename|name|key|index|idx|image|img)s?|filepaths?|[ug]?uid"
    r"|unnamed: ?[0-9]+|__index_level_[0-9]+__"
)
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}$")
_WHOLE_FLOAT = re.compile(r"(0|-?[1-9][0-9]{0,14})\.0")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


_composed = partial(unicodedata.normalize, "NFC")
# What of two names must agree: all of them; all but `.0` behind a whole number; all but how accents are
# encoded; their last parts; or these without the ending.
NAME_FORMS: tuple[Callable[[str], str], ...] = (
    str,
    lambda name: name[:-2] if _WHOLE_FLOAT.fullmatch(name) else name,
    _composed,
    lambda name: _composed(name).rpartition("/")[2],
    lambda name: _ENDING.sub("", _composed(name).rpartition("/")[2]),
)


@dataclass(frozen=True, eq=False)
class Values:
    """Values as a file holds them."""

    entries: Entries
    keys: Entries | None  # the ids beside them, where there are some
    name: str
    key_column: str = ""  # what their column is called
    # What was found when they were put in the order of the rows: the rows whose ids it does not have, and
    # sentences for the user.
    absent: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    # Returns the columns beside them, none of which was taken as ids, one after the other.
    others: Callable[[], Iterable[tuple[str, Entries]]] = tuple


def whole_numbers(cells: Entries) -> list[object]:
    """Return text as whole numbers where all of it is, else as it stands; '007' is no number."""
    if all(cell is None or _WHOLE.fullmatch(cell) for cell in cells):
        return [None if cell is None else int(cell) for cell in cells]
    return list(cells)


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
        raise InvalidInput(f"{values.name} has no {_one(what)} in {rows}")
    return array


def attach(
    dataset: Dataset, labels: object, ids: object, on_bad_rows: str = "error", unlabelled: str = "error"
) -> Dataset:
    """Return a dataset with the ids and labels that were requested, and its bad rows refused or marked.

    `dataset`: as its format opened it. `labels`, `ids`: a column, a file or the values; None for those that
    it has. `on_bad_rows`: `error` refuses rows without a value, `drop` lets them take no part. `unlabelled`:
    `class` makes rows without a label a class of their own, `pick` lets them be picked to be labelled.
    """
    bad = dict(dataset.bad)
    notes: tuple[str, ...] = ()
    missing = np.empty(0, np.int64)
    if ids is not None:
        array, unnamed = _typed(_find(dataset, ids, "ids"), "ids")
        bad |= {row: "no id" for row in unnamed.tolist() if row not in bad}
        dataset = dataset.replace(ids=array)
        notes = repeated_ids(array, unnamed)
    if labels is not None or dataset.labels is not None:
        given = _find(dataset, dataset.labels if labels is None else labels, "labels")
        array, missing = _typed(given, "labels")
        notes = (*notes, *given.notes)
        missing = np.setdiff1d(missing, list(bad))
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


def repeated_ids(ids: Labels, missing: IntArray) -> tuple[str, ...]:
    """Report that ids are not unique, if they are not.

    >>> repeated_ids(np.array(["a", "b", "a"]), np.empty(0, np.int64))
    ("1 id is there more than once (first: 'a'): labels and previews that are joined by id may be refused",)
    """
    distinct, counts = np.unique(np.delete(ids, missing), return_counts=True)
    repeated = distinct[counts > 1]
    if not len(repeated):
        return ()
    ids_are = "id is" if len(repeated) == 1 else "ids are"
    return (
        f"{len(repeated):,} {ids_are} there more than once (first: {repeated[0].item()!r}): labels and"
        " previews that are joined by id may be refused",
    )


def _filled(array: Labels, missing: IntArray, bad: dict[int, str], unlabelled: str) -> Labels:
    """Give rows without a label one that exists, or one of their own."""
    if not missing.size and not bad:
        return array
    good = ~np.isin(np.arange(len(array)), [*missing.tolist(), *bad])
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


def _one(what: str) -> str:
    return "stratum" if what == "strata" else what[:-1]


def _find(dataset: Dataset, given: Any, what: str, parameter: str | None = None) -> Values:
    """Return values that are a column of the data, a file, or given."""
    if not isinstance(given, (str, os.PathLike)):
        dataset.check_index(given, parameter or what)
        values = Values(given, None, what, notes=position_notes(dataset, given, what))
    elif isinstance(given, str) and given in dataset.columns:
        values = Values(_column(dataset, given), None, f"column {given!r} of {dataset.name}")
    elif isinstance(given, os.PathLike) or names_file(given):
        name = os.fspath(given)
        shards = not is_remote(name) and names_shards(name)
        values = _read_shards(name, what, dataset) if shards else read_file(name, what, len(dataset))
        if values.keys is not None and what != "ids":
            values = join(values, dataset, what)
        elif values.keys is None:
            more = (*position_notes(dataset, given, what), *_notes_on_others(values, dataset))
            values = replace(values, notes=(*values.notes, *more), others=tuple)
    else:
        raise no_column(given, parameter or what, dataset.columns, dataset.name)
    _check_length(values, len(dataset), what, dataset.name)
    return values


def _column(dataset: Dataset, name: str) -> Entries:
    """Return the values of a column of the data, None where one cannot be read."""
    entries = () if dataset.read_column is None else dataset.read_column(name)
    if isinstance(entries, list):
        entries = [None if isinstance(entry, Unreadable) else entry for entry in entries]
    return whole_numbers(entries) if dataset.kind == "csv" else entries


def _check_length(values: Values, n_rows: int, what: str, where: str) -> None:
    try:
        length = len(values.entries)
    except TypeError:  # a single number, or what can be looked at only once
        length = 0
    if length != n_rows:
        hint = "" if values.name == what else f" ({values.name})"
        raise InvalidInput(
            f"{what} has {length} entries for {n_rows} rows of {where}; expected one per row{hint}"
        )


def _typed(values: Values, what: str) -> tuple[Labels, IntArray]:
    """Return values as an array of one kind, and the rows that have none."""
    if what != "scores":
        return label_values(values.entries, what if values.name == what else f"{what} ({values.name})")
    entries = [None if is_missing(entry) else entry for entry in np.asarray(values.entries).tolist()]
    missing = np.array([row for row, entry in enumerate(entries) if entry is None], dtype=np.int64)
    try:
        return np.array([np.nan if entry is None else float(entry) for entry in entries]), missing
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
            raise no_file(name)
        raise InvalidInput(f"there is no file {path}")
    ending = path.suffix.lower()
    kind = SHARDS.get(ending)
    if kind == "npy":
        return Values(_flat(map_npy(path), path, what), None, name)
    if kind == "npz":
        return _archive_values(path, what, column)
    if ending in DELIMITERS or ending == ".txt":
        lines = read_delimited(path)
        place, has_header = label_column(lines, what, n_rows, column)
        table = delimited_table(lines, has_header)
        names = lines.records[0].cells if has_header else table.names
        values = _table_values(table, what, path, names[place])
        keys = None if values.keys is None else whole_numbers(values.keys)
        return replace(values, entries=whole_numbers([entry or None for entry in values.entries]), keys=keys)
    if kind in ("parquet", "arrow") or ending in JSON_ENDINGS:
        return _table_values(open_table(path), what, path, column, n_rows)
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
        keys = [key for part in parts if part.keys is not None for key in part.keys]
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
    lists = [name for name, (shape, _) in shapes.items() if shape in ((len(entries),), (len(entries), 1))]
    beside = None if what == "ids" else id_column(lists, column, lambda name: load_npz(path, name).ravel())
    if beside is None:
        names = [name for name in lists if name != column and what != "ids"]
        others = ((name, load_npz(path, name).ravel().tolist()) for name in names)
        return Values(entries, None, str(path), others=lambda: others)
    return Values(entries, load_npz(path, beside).ravel().tolist(), str(path), beside)


def _flat(array: Labels, path: Path, what: str) -> Labels:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidInput(f"{path} has shape {array.shape}; expected one {_one(what)} per row")
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

    column, beside = pick_column(table.names, what, path, column), None
    check_room(2 * _ENTRY_BYTES * table.n_rows, str(path))
    if what != "ids":
        beside = id_column(table.names, column, read_ids)
        beside = _pandas_index(table, column) if beside is None else beside
    if beside is not None:
        return Values(read(column), read(beside), str(path), beside)
    if n_rows is not None and table.n_rows != n_rows:
        return Values(range(table.n_rows), None, str(path))
    if what == "ids":
        return Values(read(column), None, str(path))
    names = [name for name in table.names if name != column]
    return Values(read(column), None, str(path), others=lambda: ((name, read_ids(name)) for name in names))


def _pandas_index(table: Table, taken: str) -> str | None:
    """Return the column that pandas wrote as the index of a table, if it is one."""
    written = (table.schema.metadata or {}).get(b"pandas") if isinstance(table, Columns) else None
    try:
        index = json.loads(written or "{}").get("index_columns", [])
    except (ValueError, AttributeError):  # by somebody else, under the same name
        return None
    if len(index) == 1 and index[0] in table.names and index[0] != taken:
        return str(index[0])
    return None


def _notes_on_others(values: Values, dataset: Dataset) -> list[str]:
    """Point out columns that may say which row is which, where values belong to rows by position."""
    names: list[str] | None = None
    notes = []
    for name, entries in values.others():
        if names is None:
            names = list(map(id_text, _row_ids(dataset, "") or ()))
            known = set(names)
        first = next(iter(entries), None)
        if first is None or isinstance(first, (dict, list, bytes)):
            continue
        is_number = isinstance(first, (str, int, np.integer)) and bool(_WHOLE.fullmatch(str(first)))
        like_ids = _LIKE_IDS.fullmatch(name.strip().lower()) is not None
        if not (is_number or like_ids or id_text(first) in known):
            continue
        found = list(map(id_text, entries))
        rows, distinct = list(map(str, range(len(found)))), set(found)
        what = None
        if found != rows and distinct == set(rows):
            what = "counts the rows in another order than theirs"
        elif found != names and 2 * len(distinct & known) > len(known) > 1:
            what = "has the ids of the rows, and not as they are there"
        elif like_ids and len(found) > len(distinct) >= _NEARLY_UNIQUE * len(found):
            what = f"has {len(found) - len(distinct):,} ids more than once"
        if what:
            notes.append(
                f"column {name!r} of {values.name} {what}, and was not looked at: if it says which row is"
                " which, call it id"
            )
    return notes


def pick_column(names: Sequence[str], what: str, path: Path, column: str | None = None) -> str:
    """Return the column that holds the values: the one named, the only one, or one with a usual name."""
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


# ---- which value belongs to which row ----


def id_column(names: Sequence[str], taken: str, read: Callable[[str], Iterable[Any]]) -> str | None:
    """Return the column that holds the ids of a file of values: one with a usual name, or of row numbers.

    A column called `doc_id`, `image`, `name`, `index` or the like holds ids where each of its values is there
    once.
    `taken`: the column of the values. `read`: function of a column's name that returns its values.
    """
    lower = {name.strip().lower(): name for name in reversed(names) if name != taken}
    for usual in ID_NAMES:
        if usual in lower:
            return lower[usual]
    for word, name in lower.items():
        if _LIKE_IDS.fullmatch(word):
            entries = [entry for entry in read(name) if not is_missing(entry)]
            if entries and len(set(map(id_text, entries))) == len(entries):
                return name
    return lower.get(ROW_COLUMN)


def join(values: Values, dataset: Dataset, what: str) -> Values:
    """Return values in the order of the rows, by their ids.

    The rows' ids are those they were given, a column of the data, the names of the files, or those that
    `gmmatch embed` wrote beside its vectors. Without any, ids that are exactly the row numbers will do.

    Raises `InvalidInput`: ids that are missing, that occur twice, or that are not the rows'.
    """
    keys = _checked_keys(values, what)
    numbered = values.key_column.strip().lower() == ROW_COLUMN
    found = None if numbered else _row_ids(dataset, values.key_column)
    if found is None:
        if set(keys) != set(map(str, range(len(dataset)))):
            raise InvalidInput(
                f"{values.name} has ids ({named(keys)}), and the rows of {dataset.name} have none but their"
                f" numbers, 0 to {len(dataset) - 1}; give the rows' ids as well (ids), or, if the file is in"
                f" the order of the rows, its own (ids='{values.name}:{values.key_column}')"
            )
        found = list(range(len(dataset)))
    names = [None if is_missing(entry) else id_text(entry) for entry in found]
    places = match_names(keys, names)
    if places is None:
        raise _not_the_rows(values, keys, names, dataset)
    absent = {
        row: f"no id, so no {_one(what)}" if name is None else f"no {_one(what)} for its id {name!r}"
        for row, (name, place) in enumerate(zip(names, places, strict=True))
        if place is None
    }
    ordered = [None if place is None else values.entries[place] for place in places]
    surplus = sorted(set(range(len(keys))).difference(places))
    notes = []
    if surplus:
        foreign = named([keys[place] for place in surplus])
        notes.append(f"{values.name} has {what} for {len(surplus):,} ids that no row has: {foreign}")
    shared = [name for name, count in Counter(names).items() if name is not None and count > 1]
    if shared:
        notes.append(
            f"{len(shared):,} ids of {dataset.name} are those of several rows, whose {what} are the same:"
            f" {named(shared)}"
        )
    return Values(ordered, None, values.name, absent=absent, notes=tuple(notes))


def id_text(entry: object) -> str:
    """Return an id as text: 7, 7.0 and '7' are the same, '007' is another.

    >>> [id_text(entry) for entry in (7, 7.0, "7", "007", 7.5)]
    ['7', '7', '7', '007', '7.5']
    """
    if isinstance(entry, bytes):
        return entry.decode("utf-8", "backslashreplace")
    if isinstance(entry, (float, np.floating)):
        number = float(entry)
        return str(int(number) if number.is_integer() and abs(number) < LARGEST_WHOLE_FLOAT else number)
    return str(entry)


def named(ids: Sequence[str]) -> str:
    """Return the first two ids of several, and how many more there are.

    >>> named(["a", "b", "c"])
    "'a', 'b' and 1 more"
    """
    shown = [repr(entry if len(entry) <= 80 else f"{entry[:80]}...") for entry in ids[:2]]
    return " and ".join(shown) if len(ids) <= 2 else f"{', '.join(shown)} and {len(ids) - 2:,} more"


def pair_files(files: Sequence[str], others: Sequence[str], name: str, other_name: str) -> list[str]:
    """Return files in the order of the others that they belong to: by name, or by the numbers in it.

    >>> pair_files(["y/part0.npy", "y/part1.npy"], ["x/part1.npy", "x/part0.npy"], "y", "x")
    ['y/part1.npy', 'y/part0.npy']
    """
    forms: tuple[Callable[[str], object], ...] = (
        lambda file: Path(file).stem,
        lambda file: tuple(map(int, re.findall("[0-9]+", Path(file).stem))),
    )
    for form in forms:
        known = {form(file): file for file in files}
        wanted = [form(other) for other in others]
        if len(known) == len(files) == len(wanted) == len(set(wanted)) and known.keys() == set(wanted):
            return [known[form(other)] for other in others]
    raise InvalidInput(
        f"the {len(files):,} files of {name} ({named(files)}) are not those of {other_name}, {len(others):,}"
        f" ({named(others)}); expected a file for each, of the same name or number"
    )


def position_notes(dataset: Dataset, given: object, what: str) -> tuple[str, ...]:
    """Report in which order images are that values belong to by position, where it could be another.

    Images are in the order of the letters of their paths, as `ImageFolder` of torchvision has them.
    """
    if dataset.kind != "image-folder" or given is dataset.labels:
        return ()
    for file, other in zip(dataset.files, natural_order(dataset.files), strict=True):
        if file != other:
            first, then = (spelled(os.path.basename(path)) for path in (file, other))
            return (
                f"the {what} belong to the images of {dataset.name} by position, and these are in the order"
                f" of their letters: {first} before {then}",
            )
    return ()


def _checked_keys(values: Values, what: str) -> list[str]:
    """Return the ids of a file as text: each row has one, and each is there once."""
    given = () if values.keys is None else list(values.keys)
    missing = [row for row, key in enumerate(given) if is_missing(key) or isinstance(key, Unreadable)]
    if missing:
        raise InvalidInput(
            f"{values.name} has no id in {len(missing):,} of its {len(given):,} rows ({first_rows(missing)});"
            f" expected an id for each of its {what}"
        )
    keys = [id_text(key) for key in given]
    twice = [key for key, count in Counter(keys).items() if count > 1]
    if twice:
        raise InvalidInput(
            f"{values.name} has {len(twice):,} ids more than once: {named(twice)}; expected each id once"
        )
    return keys


def _row_ids(dataset: Dataset, key_column: str) -> list[Any] | None:
    """Return the id of each row, wherever there is one; None: the rows have none."""
    if dataset.ids is not None:
        return list(dataset.ids.tolist())
    for name in (key_column, *ID_NAMES):
        if name in dataset.columns:
            return list(_column(dataset, name))
    if dataset.content is not None and dataset.content.paths is not None:
        return list(dataset.content.paths)
    if dataset.kind != "npy" or len(dataset.files) != 1 or is_remote(dataset.files[0]):
        return None
    path = Path(dataset.files[0]).with_suffix(".parquet")  # that `gmmatch embed` wrote beside its vectors
    try:
        with path.open("rb") as file:
            table = pq.read_table(file, columns=["id"])
        written = json.loads((table.schema.metadata or {})[METADATA_KEY])
    except (OSError, KeyError, ValueError, pa.ArrowException):
        return None
    ours = isinstance(written, dict) and "encoder" in written and table.num_rows == len(dataset)
    return list(table.column("id").to_pylist()) if ours else None


def match_names(keys: Sequence[str], names: Sequence[str | None]) -> list[int | None] | None:
    """Return the place of each name among the keys, by the form of names that finds most of them.

    A form by which two names, or two keys, would be one is left out. None: no form finds any.

    >>> match_names(["1.png", "2.png"], ["a/2.png", "a/3.png"])
    [1, None]
    >>> match_names(["1.png"], ["a/1.png", "b/1.png"]) is None
    True
    """
    best: list[int | None] | None = None
    most = 0
    for form in NAME_FORMS:
        formed = [form(key) for key in keys]
        known = {key: place for place, key in enumerate(formed)}
        wanted = [None if name is None else form(name) for name in names]
        found = [(name, to) for name, to in zip(names, wanted, strict=True) if to in known]
        if len(found) <= most:
            continue
        owners = {to: name for name, to in found}
        # A row could be meant by two keys, or a key by two rows of other names.
        several = any(count > 1 and key in owners for key, count in Counter(formed).items())
        if form is not str and (several or any(owners[to] != name for name, to in found)):
            continue
        best, most = [None if name is None else known.get(name) for name in wanted], len(found)
        if most == len(names):
            break
    return best


def _not_the_rows(values: Values, keys: list[str], names: list[str | None], dataset: Dataset) -> InvalidInput:
    there = [name for name in names if name is not None]
    for form in NAME_FORMS[1:]:
        formed = {form(key): key for key in keys}
        shared = [(name, formed[form(name)]) for name in there if form(name) in formed]
        if shared:  # by a form that cannot tell them apart
            key = shared[0][1]
            could_be = sorted({name for name, other in shared if other == key})
            meant = [other for other in keys if form(other) == form(key)]
            return InvalidInput(
                f"the ids in {values.name} do not tell the rows of {dataset.name} apart: {named(meant)} could"
                f" be {named(could_be)}; expected ids like {named(there[:2])}"
            )
    return InvalidInput(
        f"the ids in {values.name} are not the rows' ids: it has {named(keys[:2])}, {dataset.name} has"
        f" {named(there[:2])}"
    )
