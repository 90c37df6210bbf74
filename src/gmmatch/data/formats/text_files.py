"""Tables and lines kept as text: CSV, TSV, JSON lines, and plain lines.

A row that is broken or not UTF-8 is one bad row, and not the end of the file.
"""

import codecs
import csv
import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import pyarrow as pa

from ...arrays import FloatArray, IntArray
from ...errors import InvalidInput, first_line
from ...files import os_errors
from ..dataset import Dataset, Unreadable
from ..request import Place, Request, all_bad
from .arrow import list_matrix
from .base import Format, check_room, is_file
from .tables import LINES, Table, table_dataset

DELIMITERS = {".csv": ",", ".tsv": "\t"}
JSON_ENDINGS = (".jsonl", ".ndjson")
_LOOKED_AT = 1 << 20  # letters, by which the delimiter is found
_ROWS_COMPARED = 1000  # that the first line is compared with, to see whether it names columns
_FEWEST_ROWS = 3  # by which values that are near each other are told from one that is not
# What text takes while it is read: its bytes, the text, the lines, and each cell as an object of its own.
_TIMES_THE_FILE, _CELL_BYTES, _LINE_BYTES = 8, 66, 260
_LONGEST_CELL = 2**31 - 1  # Python's own limit, 131,072, is shorter than some texts


class Records(Table):
    """The rows of a text file, in memory.

    `records`, `get`: the rows, and the function of one of them and a column that returns what users see of a
    value. `values`: pairs of a column and a value, to see what columns hold.
    """

    def __init__(
        self,
        path: Path,
        names: Iterable[str],
        records: Sequence[Any],
        get: Callable[[Any, str], object],
        values: Iterable[tuple[str, object]],
        broken: Mapping[int, str],
        notes: tuple[str, ...] = (),
    ) -> None:
        self.name, self.names, self.n_rows, self.base = str(path), tuple(names), len(records), path.parent
        self.broken, self.notes, self._records, self._get = broken, notes, records, get
        kinds: dict[str, set[str]] = {name: set() for name in self.names}
        for name, value in values:
            if value is not None:
                kinds[name].add(_kind(value))
        self.lists = tuple(name for name, found in kinds.items() if found == {"list"})
        self.numbers = tuple(name for name, found in kinds.items() if found == {"number"})

    def values(self, name: str, start: int = 0, stop: int | None = None) -> list[object]:
        """Return values of a column, with the reason in place of a broken row's."""
        return [
            Unreadable(self.broken[row]) if row in self.broken else self._get(record, name)
            for row, record in enumerate(self._records[start:stop], start)
        ]

    def rows(self, names: Sequence[str], request: Request) -> tuple[FloatArray, dict[int, str]]:
        """Return a column of lists, or columns of numbers, as floats, NaN in bad rows, and why these are."""
        if names[0] in self.lists:
            return self._vectors(names[0])
        check_room(8 * self.n_rows * len(names), self.name, request.most)
        floats, bad = np.zeros((self.n_rows, len(names))), dict(self.broken)
        for row, record in enumerate(self._records):
            if row not in bad:
                # As far as the first gap, of which lines with names of their own are full.
                values = list(takewhile(_is_there, (self._get(record, name) for name in names)))
                if len(values) < len(names):
                    bad[row] = f"no number in column {names[len(values)]!r}"
                else:
                    floats[row] = list(map(as_float, values))
        if len(bad) == self.n_rows:
            raise all_bad(bad, self.n_rows, self.name)
        floats[list(bad)] = np.nan
        return floats, bad

    def _vectors(self, name: str) -> tuple[FloatArray, dict[int, str]]:
        bad: dict[int, str] = {}
        lists: list[Any] = [self._get(record, name) for record in self._records]
        lists = [value and [None if entry is None else as_float(entry) for entry in value] for value in lists]
        width = next(len(value) for value in lists if value is not None)
        return list_matrix(pa.array(lists, pa.list_(pa.float64())), width, name, 0, bad), bad


def _is_there(value: object) -> bool:
    return value is not None and value != "" and value == value


def _kind(value: object) -> str:
    """Return whether a value is a number, or text that is one; a list of numbers; or something else."""
    if isinstance(value, list):
        return "list" if {type(entry) for entry in value} <= {int, float, NoneType} else "other"
    number = is_number(value) if isinstance(value, str) else isinstance(value, (int, float))
    return "number" if number else "other"


def is_number(cell: str) -> bool:
    """Return True if a cell holds a number; `1_0`, which Python takes for one, is text.

    >>> [is_number(cell) for cell in ("1.5", "-2e3", "1_0", "x1", "")]
    [True, True, False, False, False]
    """
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def as_float(value: Any) -> float:
    """Return a number as a float; one that is too large becomes infinite, and a row that has it is bad.

    >>> as_float(10**400), as_float("1.5")
    (inf, 1.5)
    """
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf


# ---- JSON lines ----


def json_table(path: Path, most: int | None = None) -> Table:
    """Open a file of JSON lines, each an object with named values, that may take `most` bytes of memory."""
    records: list[dict[str, object]] = []
    broken: dict[int, str] = {}
    for line, raw in json_lines(path, most):
        record, wrong = None, ""
        try:
            record = json.loads(raw)
            wrong = f"holds {type(record).__name__}; expected an object with named values"
        except UnicodeDecodeError:
            wrong = f"is {decoded(raw)}"
        except (ValueError, RecursionError) as error:
            wrong = f"is not JSON: {first_line(error)}"
        if not isinstance(record, dict):
            broken[len(records)] = f"line {line} {wrong}"
        records.append(record if isinstance(record, dict) else {})
    names = dict.fromkeys(name for record in records for name in record)
    values = (pair for record in records for pair in record.items())  # a line may have names of its own
    return Records(path, names, records, dict.get, values, broken)


def json_lines(path: Path, most: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not empty, with their numbers, from 1."""
    for number, raw in enumerate(read_bytes(path, most).removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
        if raw.strip():
            yield number, raw.removesuffix(b"\r")


# ---- CSV, TSV and lines ----


@dataclass(frozen=True)
class Record:
    """One row of a text file: as it stands, line end included, and its cells."""

    raw: str
    cells: list[str]


@dataclass(frozen=True)
class Delimited:
    """A text file as records."""

    path: Path
    # Its rows, the header included; lines that are empty are left out where there are several columns, and at
    # the end.
    records: list[Record]
    delimiter: str | None  # what stands between cells; None: a line is a cell
    encoding: str  # `utf-8`, or `utf-8-sig` where the file begins with a mark


def delimited_table(found: Delimited, has_header: bool, notes: tuple[str, ...] = ()) -> Table:
    """Return a CSV or TSV file, or the lines of a text, as a table.

    `has_header`: whether the first record names the columns; if not, they are counted from 0.
    """
    lines = found.delimiter is None
    first = found.records[0].cells if found.records else []
    names = first if has_header else [LINES] if lines else [str(place) for place in range(len(first))]
    # A line without anything in it is a gap where there is one column.
    rows = [record.cells or [""] for record in found.records[has_header:]]
    broken = {
        row: f"{len(cells)} values for {len(names)} columns"
        for row, cells in enumerate(rows)
        if len(cells) != len(names)
    }
    places = {name: place for place, name in reversed(list(enumerate(names)))}

    def get(cells: list[str], name: str) -> str | Unreadable | None:
        cell = cells[places[name]]
        return readable(cell) if cell or lines else None

    whole = (cells for row, cells in enumerate(rows) if row not in broken and not lines)
    values = ((name, cells[place] or None) for cells in whole for name, place in places.items())
    return Records(found.path, reversed(places), rows, get, values, broken, notes)


def find_header(found: Delimited, header: str = "auto") -> tuple[bool, tuple[str, ...]]:
    """Return whether the first record of a table names the columns, and a note where that is a guess.

    `header`: `yes`, `no`, or `auto`: words name columns, unless they recur below and stand beside numbers;
    numbers do where they are of another kind than those below them.
    """
    if found.delimiter is None or not found.records:
        return False, ()
    if header != "auto":
        return header == "yes", ()
    first, *below = (
        [cell.strip() for cell in record.cells] for record in found.records[: 1 + _ROWS_COMPARED]
    )
    words = {cell for cell in first if cell and not is_number(cell)}
    below = [cells for cells in below if len(cells) == len(first)]
    again = [cell for cell, *others in zip(first, *below, strict=True) if cell in words and cell in others]
    if again and any(map(is_number, filter(None, first))):
        return False, (_guess(found.path, f"has {again[0]!r} in a column that holds it below, too", False),)
    if words or not any(first):
        fractions = [cell for cell in first if is_number(cell) and not _is_whole(cell)]
        return True, (_guess(found.path, "has numbers in it", True),) if fractions else ()
    names = _name_columns(first, below)
    return names, (_guess(found.path, "is all numbers", names),)


def _guess(path: Path, what: str, names: bool) -> str:
    ways = ("the names of the columns", "a row")
    taken, other = ways if names else ways[::-1]
    said = f"the first line of {path} {what}; it was taken as {taken}"
    return f"{said} (header='{'no' if names else 'yes'}': as {other})"


def _name_columns(first: list[str], below: list[list[str]]) -> bool:
    """Return True if a line of numbers names columns, as numbers, years or wavelengths do, and is no row.

    It counts by one; or it ascends or descends, and has whole numbers above fractions, fractions above whole
    numbers, or numbers far from all below them.
    """
    if len(first) < 2 or not all(first):
        return False
    values = [float(cell) for cell in first]
    steps = [after - before for before, after in pairwise(values)]
    if not (all(step > 0 for step in steps) or all(step < 0 for step in steps)):
        return False
    whole = all(map(_is_whole, first))
    if whole and len(first) > 2 and all(step == 1 for step in steps):
        return True
    columns = [list(filter(is_number, column)) for column in zip(*below, strict=True)]
    if len(columns) != len(first) or not all(columns):
        return False
    fractions = sum(not _is_whole(cell) for column in columns for cell in column)
    if whole and steps[0] > 0 and 2 * fractions > sum(map(len, columns)):
        return True
    if len(first) < 3 or len(below) < _FEWEST_ROWS:
        return False
    return not (fractions or any(map(_is_whole, first))) or all(map(_is_far, values, columns))


def _is_far(value: float, cells: list[str]) -> bool:
    """Return True if a value is farther from all others than these are from each other."""
    low, high = min(map(float, cells)), max(map(float, cells))
    return value < low - (high - low) or value > high + (high - low)


def _is_whole(cell: str) -> bool:
    return cell.lstrip("+-").isdecimal()


def read_delimited(path: Path, most: int | None = None) -> Delimited:
    """Read a .csv or .tsv file, or another file line by line; between cells of CSV may be semicolons.

    Bytes that are not UTF-8 are kept in the text and found by :func:`readable`. `most`: bytes of memory that
    it may take; None: any.

    Raises `InvalidInput`: there is no such file, it is UTF-16, ends inside quotes, or takes too much memory.
    """
    content = read_bytes(path, most)
    encoding = "utf-8-sig" if content.startswith(codecs.BOM_UTF8) else "utf-8"
    text = content.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    delimiter = DELIMITERS.get(path.suffix.lower())
    if delimiter == ",":
        delimiter = next((mark for mark in ";\t" if _stands_between_cells(mark, text)), ",")
    records = list(_records(text, delimiter))
    if delimiter is not None and records and records[-1].raw.count('"') % 2:
        raise InvalidInput(f"cannot read {path}: it ends inside a cell whose quotes are not closed")
    if any(len(record.cells) > 1 for record in records):
        records = [record for record in records if record.cells]
    # An empty cell in quotes is a value, and not the end of the file.
    while records and not any(cell.strip() for cell in records[-1].cells) and '"' not in records[-1].raw:
        records.pop()
    return Delimited(path, records, delimiter, encoding)


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Return what a text file holds; refuse UTF-16, and what would take more than `most` bytes of memory."""
    with os_errors(f"cannot read {path}"):
        if not path.exists():
            raise InvalidInput(f"there is no file {path}")
        if most is not None:
            _check_memory(path, most, _TIMES_THE_FILE * path.stat().st_size)
        content = path.read_bytes()
    if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise InvalidInput(f"{path} is UTF-16; expected UTF-8")
    if most is not None:
        lines, cells = content.count(b"\n"), max(map(content.count, (b",", b";", b"\t")))
        needed = _TIMES_THE_FILE * len(content) + _CELL_BYTES * (cells + lines) + _LINE_BYTES * lines
        _check_memory(path, most, needed)
    return content


def _check_memory(path: Path, most: int, needed: int) -> None:
    if needed > most:
        raise InvalidInput(
            f"{path} would take some {needed / 1e6:,.0f} MB of memory, because text is read whole; expected"
            f" at most the {most / 1e6:,.0f} MB that there are (memory): write it as Parquet or .npy"
        )


def readable(cell: str) -> str | Unreadable:
    """Return a cell, or the reason why it is not text."""
    if cell.isascii() or not any("\udc80" <= letter <= "\udcff" for letter in cell):
        return cell
    return decoded(cell.encode("utf-8", "surrogateescape"))


def decoded(value: bytes) -> str | Unreadable:
    """Return bytes as text, or the reason why they are not."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        return Unreadable(f"not UTF-8 (byte 0x{value[error.start]:02x} at position {error.start})")


def _stands_between_cells(mark: str, text: str) -> bool:
    r"""Return True if another mark than the comma stands between cells.

    Spreadsheets write semicolons where commas are in numbers.

    >>> texts = ("a;b\n1;2\n", "a;b,c\n", "text\nthis; that\n", "a;b\nc\n")
    >>> [_stands_between_cells(";", text) for text in texts]
    [True, False, False, False]
    """
    start = "".join(io.StringIO(text[:_LOOKED_AT], newline="").readlines()[:2])
    first, *other = [record.cells for record in _records(start, mark)] or [[]]
    named = len(first) > 1 and not any("," in cell for cell in first)
    return named and all(len(cells) == len(first) for cells in other)


def _records(text: str, delimiter: str | None) -> Iterator[Record]:
    """Yield the records; a quoted cell may hold line ends of its own."""
    lines = io.StringIO(text, newline="").readlines()
    if delimiter is None:
        for line in lines:
            yield Record(line, [line.rstrip("\r\n")])
        return
    limit = csv.field_size_limit(_LONGEST_CELL)
    try:
        reader = csv.reader(lines, delimiter=delimiter)
        start = 0
        for cells in reader:
            yield Record("".join(lines[start : reader.line_num]), cells)
            start = reader.line_num
    finally:
        csv.field_size_limit(limit)


def _open_delimited(place: Place, request: Request) -> Dataset:
    found = read_delimited(place.only_file("text"), request.most)
    if found.delimiter is not None and not found.records:
        raise InvalidInput(f"{found.path} is empty")
    has_header, notes = find_header(found, request.header)
    names = found.records[0].cells if has_header else []
    for name in map(readable, names):
        if isinstance(name, Unreadable):
            raise InvalidInput(f"the first line of {found.path}, which names the columns, is {name}")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        called = f"called {twice!r}" if twice else "without a name"
        raise InvalidInput(f"{found.path} has several columns {called}; expected a name for each")
    return table_dataset(delimited_table(found, has_header, notes), request, "csv", place.files)


def _open_json(place: Place, request: Request) -> Dataset:
    table = json_table(place.only_file("JSON"), request.most)
    return table_dataset(table, request, "jsonl", place.files)


def _write_delimited(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    """Write the rows as they stand, below the header where there is one."""
    path = Path(dataset.files[0])
    records = [record.raw.removesuffix("\n") + "\n" for record in read_delimited(path).records]
    head = [records.pop(0)] if len(records) > len(dataset) else []
    text = "".join(head + [records[row] for row in rows.tolist()])
    (folder / f"kept{path.suffix}").write_bytes(text.encode("utf-8", "surrogateescape"))


def _write_json(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    path = Path(dataset.files[0])
    lines = [raw for _, raw in json_lines(path)]
    (folder / f"kept{path.suffix}").write_bytes(b"".join(lines[row] + b"\n" for row in rows.tolist()))


DELIMITED = Format(
    "csv", lambda x, request: is_file(x, *DELIMITERS, ".txt"), _open_delimited, _write_delimited
)
JSON = Format("jsonl", lambda x, request: is_file(x, *JSON_ENDINGS), _open_json, _write_json)
