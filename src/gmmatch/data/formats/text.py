"""Tables and lines kept as text: CSV, TSV, JSON lines, and plain lines."""

from pathlib import Path

from ...arrays import IntArray
from ..dataset import Dataset
from ..delimited import DELIMITERS, read_delimited
from ..json_lines import json_lines, json_table
from ..places import Place
from ..request import Request
from ..tables import delimited_table, table_dataset
from .base import Format, is_file

JSON_ENDINGS = (".jsonl", ".ndjson")


def _open_delimited(place: Place, request: Request) -> Dataset:
    path = place.only_file("text")
    return table_dataset(delimited_table(path, request.header, request.most), request, "csv", place.files)


def _open_json(place: Place, request: Request) -> Dataset:
    table = json_table(place.only_file("JSON"), request.most)
    return table_dataset(table, request, "jsonl", place.files)


def _write_delimited(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    """Write the rows as they stand, below the header where there is one."""
    path = Path(dataset.files[0])
    found = read_delimited(path)
    records = [record.raw for record in found.records]
    head = [_ended(records.pop(0))] if len(records) > len(dataset) else []
    text = "".join(head + [_ended(records[row]) for row in rows.tolist()])
    content = text.encode("utf-8", "surrogateescape")
    (folder / f"kept{path.suffix}").write_bytes(content)


def _ended(record: str) -> str:
    return record if record.endswith("\n") else f"{record}\n"


def _write_json(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    path = Path(dataset.files[0])
    lines = [raw for _, raw in json_lines(path)]
    (folder / f"kept{path.suffix}").write_bytes(b"".join(lines[row] + b"\n" for row in rows.tolist()))


DELIMITED = Format(
    "csv", lambda x, request: is_file(x, *DELIMITERS, ".txt"), _open_delimited, _write_delimited
)
JSON = Format("jsonl", lambda x, request: is_file(x, *JSON_ENDINGS), _open_json, _write_json)
