"""Which value of a file belongs to which row: by the ids of both where there are some, by position else."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import InvalidInput
from ..records import METADATA_KEY
from ..validation import LARGEST_WHOLE_FLOAT, first_rows, is_missing
from .dataset import Dataset, Entries, Unreadable
from .remote import is_remote

# What a column of ids is called, most usual first.
ID_NAMES = ("id", "ids", "path", "file", "file_name", "filename")
ROW_COLUMN = "row"  # holds row numbers, in the files that gmmatch writes
# What else it may be called; without a name, or with such a one, it is an index that pandas wrote.
_LIKE_IDS = re.compile(
    r"|(.*[ _-])?(id|path|file|filename|name|key|index|idx|image|img)s?|filepaths?|[ug]?uid"
    r"|unnamed: ?[0-9]+|__index_level_[0-9]+__"
)
_NEARLY_UNIQUE = 0.8  # share of the values of a column that are different, where it may hold ids
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}$")
_WHOLE_FLOAT = re.compile(r"(0|-?[1-9][0-9]{0,14})\.0")
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
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
    if all(cell is None or WHOLE.fullmatch(cell) for cell in cells):
        return [None if cell is None else int(cell) for cell in cells]
    return list(cells)


def id_column(names: Sequence[str], read: Callable[[str], Iterable[Any]]) -> str | None:
    """Return the column that holds the ids of a file of values: one with a usual name, or of row numbers.

    A column called `doc_id`, `image`, `name`, `index` or the like holds ids where each of its values is there
    once.
    `names`: the columns beside the values. `read`: function of a column's name that returns its values.
    """
    lower = {name.strip().lower(): name for name in reversed(names)}
    for usual in ID_NAMES:
        if usual in lower:
            return lower[usual]
    for name in (name for word, name in lower.items() if _LIKE_IDS.fullmatch(word)):
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
    found = None
    if values.key_column.strip().lower() != ROW_COLUMN:
        found = ids_of_rows(dataset, values.key_column)
    if found is None:
        if set(keys) != set(map(str, range(len(dataset)))):
            own = f"its own (ids='{values.name}:{values.key_column}')"
            raise InvalidInput(
                f"{values.name} has ids ({named(keys)}), and the rows of {dataset.name} have none but their"
                f" numbers, 0 to {len(dataset) - 1}; give the rows' ids as well (ids)"
                + ("" if values.name == what else f", or, if the file is in the order of the rows, {own}")
            )
        found = list(range(len(dataset)))
    names = [None if is_missing(entry) else id_text(entry) for entry in found]
    places = match_names(keys, names)
    if places is None:
        raise _not_the_rows(values, keys, names, dataset)
    absent = {
        row: f"no id, so no {one_of(what)}" if name is None else f"no {one_of(what)} for its id {name!r}"
        for row, (name, place) in enumerate(zip(names, places, strict=True))
        if place is None
    }
    ordered = [None if place is None else values.entries[place] for place in places]
    taken, notes = set(places), []
    surplus = [key for place, key in enumerate(keys) if place not in taken]
    if surplus:
        notes.append(f"{values.name} has {what} for {len(surplus):,} ids that no row has: {named(surplus)}")
    shared = [name for name, count in Counter(names).items() if name is not None and count > 1]
    if shared:
        said = f"{len(shared):,} ids of {dataset.name} are those of several rows"
        notes.append(f"{said}, whose {what} are the same: {named(shared)}")
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
        found = f"{len(twice):,} ids more than once: {named(twice)}"
        raise InvalidInput(f"{values.name} has {found}; expected each id once")
    return keys


def notes_on_others(values: Values, dataset: Dataset) -> list[str]:
    """Point out columns that may say which row is which, where values belong to rows by position."""
    names = [] if values.others is tuple else list(map(id_text, ids_of_rows(dataset) or ()))
    known, notes = set(names), []
    for name, entries in values.others():
        first = next(iter(entries), None)
        if first is None or isinstance(first, (dict, list, bytes)):
            continue
        is_number = isinstance(first, (str, int, np.integer)) and bool(WHOLE.fullmatch(str(first)))
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


def ids_of_rows(dataset: Dataset, key_column: str = "") -> list[Any] | None:
    """Return the id of each row, wherever there is one; None: the rows have none."""
    if dataset.ids is not None:
        return list(dataset.ids.tolist())
    for name in (key_column, *ID_NAMES):
        if name in dataset.columns:
            return list(read_column(dataset, name))
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
    return table.column("id").to_pylist() if ours else None


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


def one_of(what: str) -> str:
    """Return what one of some values is called."""
    return "stratum" if what == "strata" else what[:-1]


def read_column(dataset: Dataset, name: str) -> Entries:
    """Return the values of a column of the data, None where one cannot be read."""
    entries = () if dataset.read_column is None else dataset.read_column(name)
    if isinstance(entries, list):
        entries = [None if isinstance(entry, Unreadable) else entry for entry in entries]
    return whole_numbers(entries) if dataset.kind == "csv" else entries
