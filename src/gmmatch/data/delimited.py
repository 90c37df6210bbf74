"""CSV and TSV, where a row that is broken or not UTF-8 is one bad row and not the end of the file."""

import codecs
import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from ..errors import InvalidInput
from .items import Unreadable

DELIMITERS = {".csv": ",", ".tsv": "\t"}
_LOOKED_AT = 1 << 20  # letters, by which it is told what stands between cells
_ROWS_COMPARED = 1000  # that the first line is compared with, to see whether it names columns
_FEWEST_ROWS = 3  # by which values that are near each other are told from one that is not
# What text takes while it is read: its bytes, the text, the lines, and each cell as an object of its own.
_TIMES_THE_FILE, _CELL_BYTES, _LINE_BYTES = 8, 66, 260
_LONGEST_CELL = 2**31 - 1  # Python's own limit, 131,072, is shorter than some texts


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

    @property
    def width(self) -> int:
        """Cells of the first record."""
        return len(self.records[0].cells) if self.records else 0


def find_header(found: Delimited, header: str = "auto") -> tuple[bool, tuple[str, ...]]:
    """Return whether the first record of a table names the columns, and a note where that is a guess.

    `header`: `yes`, `no`, or `auto`: words name columns, unless they recur below and stand beside numbers;
    numbers do where they are of another kind than those below them.
    """
    if found.delimiter is None or not found.records:
        return False, ()
    if header != "auto":
        return header == "yes", ()
    first = [cell.strip() for cell in found.records[0].cells]
    words = [cell for cell in first if cell and not is_number(cell)]
    below = [record.cells for record in found.records[1 : 1 + _ROWS_COMPARED]]
    columns = zip(first, *(cells for cells in below if len(cells) == len(first)), strict=True)
    again = [cell for cell, *others in columns if cell in words and cell in map(str.strip, others)]
    if again and any(map(is_number, filter(None, first))):
        return False, (_guess(found.path, f"has {again[0]!r} in a column that holds it below, too", False),)
    if words or not any(first):
        fractions = [cell for cell in first if is_number(cell) and not _is_whole(cell)]
        return True, (_guess(found.path, "has numbers in it", True),) if fractions else ()
    names = _name_columns(first, [cells for cells in below if len(cells) == len(first)])
    return names, (_guess(found.path, "is all numbers", names),)


def _guess(path: Path, what: str, names: bool) -> str:
    ways = ("the names of the columns", "a row")
    taken, other = ways if names else ways[::-1]
    return (
        f"the first line of {path} {what}; it was taken as {taken} (header='{'no' if names else 'yes'}': as"
        f" {other})"
    )


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
    columns = [[cell.strip() for cell in column if is_number(cell)] for column in zip(*below, strict=True)]
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
    others = [float(cell) for cell in cells]
    low, high = min(others), max(others)
    return bool(value < low - (high - low) or value > high + (high - low))


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
    if delimiter == "," and _has_semicolons(text):
        delimiter = ";"
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
    try:
        if most is not None:
            _check_memory(path, most, _TIMES_THE_FILE * path.stat().st_size)
        content = path.read_bytes()
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from error
    if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise InvalidInput(f"{path} is UTF-16; expected UTF-8")
    if most is not None:
        cells = max(map(content.count, (b",", b";", b"\t")))
        lines = content.count(b"\n")
        _check_memory(
            path, most, _TIMES_THE_FILE * len(content) + _CELL_BYTES * (cells + lines) + _LINE_BYTES * lines
        )
    return content


def _check_memory(path: Path, most: int, needed: int) -> None:
    if needed > most:
        raise InvalidInput(
            f"{path} would take some {needed / 1e6:,.0f} MB of memory, because text is read whole; expected"
            f" at most the {most / 1e6:,.0f} MB that there are (memory): write it as Parquet or .npy"
        )


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


def readable(cell: str) -> str | Unreadable:
    """Return a cell, or the reason why it is not text."""
    if not any("\udc80" <= letter <= "\udcff" for letter in cell):
        return cell
    return decoded(cell.encode("utf-8", "surrogateescape"))


def decoded(value: bytes) -> str | Unreadable:
    """Return bytes as text, or the reason why they are not."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        return Unreadable(f"not UTF-8 (byte 0x{value[error.start]:02x} at position {error.start})")


def _has_semicolons(text: str) -> bool:
    r"""Tell whether semicolons stand between cells, as spreadsheets write them where commas are in numbers.

    >>> [_has_semicolons(text) for text in ("a;b\n1;2\n", "a;b,c\n", "text\nthis; that\n", "a;b\nc\n")]
    [True, False, False, False]
    """
    start = "".join(io.StringIO(text[:_LOOKED_AT], newline="").readlines()[:2])
    first, *other = [record.cells for record in _records(start, ";")] or [[]]
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
