"""Tables with named columns: CSV, TSV, JSON lines, Parquet, and plain lines of text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InvalidInput
from ..base import Unreadable
from .csv_file import CsvFile, decoded

LINES = "line"


@dataclass(frozen=True, eq=False)
class Table:
    """Rows with named columns.

    Attributes
    ----------
    path
        Where it comes from.
    names
        The columns there are.
    rows
        How many rows, the broken ones included.
    read
        Function of a column's name, a first and a last row (exclusive) that returns the values
        between; None where there is no value, an :class:`Unreadable` where it is not text.
    broken
        Reason for each row that could not be parsed.
    """

    path: Path
    names: tuple[str, ...]
    rows: int
    read: Callable[[str, int, int], list[Any]]
    broken: Mapping[int, str] = field(default_factory=dict)

    def values(self, name: str, start: int, stop: int) -> list[Any]:
        """Return values of a column, with the reason in place of a broken row's."""
        found = self.read(name, start, stop)
        for row in range(start, stop) if self.broken else ():
            if row in self.broken:
                found[row - start] = Unreadable(self.broken[row])
        return found


def open_table(path: Path) -> Table:
    """Open a table by the ending of its name."""
    suffix = path.suffix.lower()
    try:
        if path.is_dir() or suffix in (".parquet", ".pq"):
            return _open_parquet(path)
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from error
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InvalidInput(f"{path} is UTF-16; expected UTF-8")
    content = content.removeprefix(b"\xef\xbb\xbf")
    if suffix in (".csv", ".tsv"):
        csv = CsvFile(path, content, "\t" if suffix == ".tsv" else ",")
        return Table(path, csv.names, csv.rows, csv.read, csv.broken)
    return _open_json(path, content) if suffix in (".jsonl", ".ndjson") else _open_lines(path, content)


def _open_json(path: Path, content: bytes) -> Table:
    records: list[dict[str, Any]] = []
    broken: dict[int, str] = {}
    names: dict[str, None] = {}
    for line, raw in _lines(content):
        if not raw.strip():
            continue
        record, reason = _parse_json(raw, line)
        if reason:
            broken[len(records)] = reason
        names.update(dict.fromkeys(record))
        records.append(record)

    def read(name: str, start: int, stop: int) -> list[Any]:
        return [record.get(name) for record in records[start:stop]]

    return Table(path, tuple(names), len(records), read, broken)


def _parse_json(raw: bytes, line: int) -> tuple[dict[str, Any], str]:
    try:
        record = json.loads(raw)
    except UnicodeDecodeError:
        return {}, f"line {line} is {decoded(raw)}"
    except (ValueError, RecursionError) as error:
        return {}, f"line {line} is not JSON: {str(error).splitlines()[0]}"
    if not isinstance(record, dict):
        return {}, f"line {line} holds {type(record).__name__}; expected an object with named values"
    return record, ""


def _open_lines(path: Path, content: bytes) -> Table:
    lines = [decoded(raw) for _, raw in _lines(content)]
    return Table(path, (LINES,), len(lines), lambda name, start, stop: lines[start:stop])


def _lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers, from 1; the last line end does not begin another."""
    for number, raw in enumerate(content.removesuffix(b"\n").split(b"\n") if content else [], start=1):
        yield number, raw.removesuffix(b"\r")


def _open_parquet(path: Path) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    try:
        opened = [pq.ParquetFile(file) for file in files]
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"cannot read {path} as Parquet: {str(error).splitlines()[0]}") from error
    names = tuple(opened[0].schema_arrow.names)
    groups = [(file, group) for file in opened for group in range(file.num_row_groups)]
    starts = np.cumsum([0, *(file.metadata.row_group(group).num_rows for file, group in groups)]).tolist()
    held: dict[str, tuple[int, list[Any]]] = {}

    def piece(name: str, index: int) -> list[Any]:
        if name not in held or held[name][0] != index:
            file, group = groups[index]
            try:
                held[name] = (index, file.read_row_group(group, columns=[name]).column(name).to_pylist())
            except (pa.ArrowInvalid, OSError, KeyError) as error:
                raise InvalidInput(f"cannot read column {name!r} of {path}: {error}") from error
        return held[name][1]

    def read(name: str, start: int, stop: int) -> list[Any]:
        found: list[Any] = []
        for index, first in enumerate(starts[:-1]):
            if first < stop and starts[index + 1] > start:
                found += piece(name, index)[max(start - first, 0) : stop - first]
        return found

    return Table(path, names, starts[-1], read)
