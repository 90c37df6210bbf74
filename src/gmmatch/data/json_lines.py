"""JSON lines, where a line that is broken or not UTF-8 is one bad row and not the end of the file."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pyarrow as pa

from ..errors import first_line
from ..validation import is_missing
from .delimited import decoded, is_number, read_bytes
from .request import Request
from .tables import Table, as_float, list_matrix, spread_rows


def json_table(path: Path, most: int | None = None) -> Table:
    """Open a file of JSON lines, each an object with named values, that may take `most` bytes of memory."""
    records: list[dict[str, Any]] = []
    broken: dict[int, str] = {}
    names: dict[str, None] = {}
    for line, raw in json_lines(path, most):
        record, reason = _parse_json(raw, line)
        if reason:
            broken[len(records)] = reason
        names.update(dict.fromkeys(record))
        records.append(record)

    def read(name: str, start: int, stop: int) -> list[Any]:
        return [record.get(name) for record in records[start:stop]]

    # Once through all values: a line may have names of its own.
    kinds: dict[str, set[str]] = {name: set() for name in names}
    for record in records:
        for name, value in record.items():
            if value is not None:
                kinds[name].add(_kind(value))
    lists = tuple(name for name, found in kinds.items() if found == {"list"})
    numbers = tuple(name for name, found in kinds.items() if found == {"number"})

    def features(names: Sequence[str], request: Request) -> tuple[npt.NDArray[Any], dict[int, str]]:
        def values(row: int) -> list[Any] | str:
            record = records[row]
            missing = next((name for name in names if is_missing(record.get(name))), None)
            if row in broken or missing is not None:
                return broken.get(row, f"no number in column {missing!r}")
            return [record[name] for name in names]

        return spread_rows([values(row) for row in range(len(records))], len(names), str(path), request)

    def vectors(name: str, _: Request) -> tuple[npt.NDArray[Any], dict[int, str]]:
        bad: dict[int, str] = {}
        lists = [
            value and [None if entry is None else as_float(entry) for entry in value]
            for value in read(name, 0, len(records))
        ]
        values = pa.array(lists, pa.list_(pa.float64()))
        width = next(len(value) for value in values if value.is_valid)
        return list_matrix(values, width, name, 0, bad), bad

    base = path.parent
    return Table(
        str(path), tuple(names), len(records), read, broken, base, lists, numbers, vectors, features=features
    )


def json_lines(path: Path, most: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not empty, with their numbers, from 1."""
    for number, raw in enumerate(read_bytes(path, most).removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if raw.strip():
            yield number, raw.removesuffix(b"\r")


def _kind(value: Any) -> str:
    """Return whether a value is a number, or text that is one; a list of numbers; or something else."""
    if isinstance(value, list):
        return "list" if all(entry is None or _is_real(entry) for entry in value) else "other"
    number = is_number(value) if isinstance(value, str) else _is_real(value) or isinstance(value, bool)
    return "number" if number else "other"


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _parse_json(raw: bytes, line: int) -> tuple[dict[str, Any], str]:
    try:
        record = json.loads(raw)
    except UnicodeDecodeError:
        return {}, f"line {line} is {decoded(raw)}"
    except (ValueError, RecursionError) as error:
        return {}, f"line {line} is not JSON: {first_line(error)}"
    if not isinstance(record, dict):
        return {}, f"line {line} holds {type(record).__name__}; expected an object with named values"
    return record, ""
