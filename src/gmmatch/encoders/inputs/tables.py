"""Tables with named columns: CSV, TSV, JSON lines, Parquet, and plain lines of text."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InvalidInput
from ..base import Unreadable

LINES = "line"
_BLOCK = 64 << 20


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
        return _open_csv(path, content, "\t" if suffix == ".tsv" else ",")
    return _open_json(path, content) if suffix in (".jsonl", ".ndjson") else _open_lines(path, content)


def decoded(value: bytes) -> str | Unreadable:
    """Return bytes as text, or the reason why they are not."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        return Unreadable(f"not UTF-8 (byte 0x{value[error.start]:02x} at position {error.start})")


def _open_csv(path: Path, content: bytes, delimiter: str) -> Table:
    import pyarrow as pa
    from pyarrow import csv

    broken: dict[int, str] = {}

    def skip(row: Any) -> str:
        # The head is row 1, so the first row of values is row 2.
        broken[row.number - 2] = f"{row.actual_columns} values for {row.expected_columns} columns"
        return "skip"

    head = content.partition(b"\n")[0]
    names = decoded(head)
    if isinstance(names, Unreadable):
        raise InvalidInput(f"the first line of {path}, which names the columns, is {names}")
    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip)

    def column(name: str | None) -> Any:
        chosen = [] if name is None else [name]
        # Blocks end at a line, so one must be longer than the longest text with line breaks.
        options = csv.ReadOptions(use_threads=False, block_size=max(1 << 20, min(len(content) + 1, _BLOCK)))
        kinds = csv.ConvertOptions(
            check_utf8=False, include_columns=chosen, column_types={name: pa.binary()} if name else {}
        )
        broken.clear()
        try:
            return csv.read_csv(io.BytesIO(content), options, parse, kinds)
        except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeDecodeError) as error:
            raise InvalidInput(f"cannot read {path}: {str(error).splitlines()[0]}") from error

    everything = column(None)
    reasons = dict(broken)
    rows = everything.num_rows + len(reasons)
    good = np.delete(np.arange(rows), sorted(reasons))
    loaded: dict[str, list[Any]] = {}

    def read(name: str, start: int, stop: int) -> list[Any]:
        if name not in loaded:
            whole: list[Any] = [None] * rows
            for row, value in zip(good.tolist(), column(name).column(0).to_pylist(), strict=True):
                whole[row] = decoded(value) if value else None
            loaded[name] = whole
        return loaded[name][start:stop]

    return Table(path, tuple(everything.column_names), rows, read, reasons)


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
