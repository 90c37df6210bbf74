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

    @property
    def has_header(self) -> bool:
        """Whether the first record of a table names the columns.

        Numbers do so only where they are whole and ascend, as numbers of columns or years do.
        """
        if self.delimiter is None or not self.records:
            return False
        first = self.records[0].cells
        if not all(map(is_number, first)):
            return True
        whole = len(first) > 1 and all(cell.strip().isdecimal() for cell in first)
        return whole and all(int(one) < int(other) for one, other in pairwise(first))


def read_delimited(path: Path) -> Delimited:
    """Read a .csv or .tsv file, or another file line by line; between cells of CSV may be semicolons.

    Bytes that are not UTF-8 are kept in the text and found by :func:`readable`.

    Raises `InvalidInput`: there is no such file, it is UTF-16, or it ends inside quotes.
    """
    content = read_bytes(path)
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


def read_bytes(path: Path) -> bytes:
    """Return what a text file holds; UTF-16 is refused."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from error
    if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise InvalidInput(f"{path} is UTF-16; expected UTF-8")
    return content


def is_number(cell: str) -> bool:
    """Tell whether a cell holds a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


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
