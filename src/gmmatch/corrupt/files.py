"""Files to corrupt: arrays in .npy and .npz, labels in .csv, .tsv and .txt; and their masks."""

from __future__ import annotations

import codecs
import csv
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from ..validation import nearest
from .writing import mask_path, whole_or_nothing

ARRAY_SUFFIXES = (".npy", ".npz")
TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
_LABEL_NAMES = ("label", "labels", "class", "target", "y")


@dataclass(frozen=True)
class ArrayFile:
    """One array of a .npy or .npz file, and the arrays that stand beside it."""

    path: Path
    values: npt.NDArray[Any]
    name: str | None = None
    others: Mapping[str, npt.NDArray[Any]] | None = None

    def write(self, target: Path, values: npt.NDArray[Any], mask: npt.NDArray[np.bool_]) -> Path:
        """Write the changed array (and its neighbours) and, beside it, the mask; return the mask's path."""
        mask_file = mask_path(target, ".npy")
        with whole_or_nothing(target, mask_file) as (partial, partial_mask):
            with partial.open("wb") as file:
                if self.name is None:
                    np.save(file, values)
                else:
                    _write_archive(file, {**(self.others or {}), self.name: values})
            with partial_mask.open("wb") as file:
                np.save(file, mask)
        return mask_file


@dataclass(frozen=True)
class LabelFile:
    """The labels of a text file, and its records as they stand, to change only what is corrupted."""

    path: Path
    values: npt.NDArray[Any]
    records: list[str]
    column: int
    has_header: bool
    delimiter: str | None
    encoding: str

    def write(self, target: Path, values: npt.NDArray[Any], mask: npt.NDArray[np.bool_]) -> Path:
        """Write the file with changed labels and, beside it, the mask; return the mask's path.

        The mask of a table has the columns ``row`` and ``corrupted``, that of a .txt file a 0 or 1 per line.
        """
        mask_file = mask_path(target, target.suffix)
        written = self._written_forms()
        records = list(self.records)
        for row in np.flatnonzero(mask):
            place = int(row) + self.has_header
            records[place] = self._with_label(records[place], written[values[row].item()])
        marks = [f"{int(wrong)}\n" for wrong in mask]
        if self.delimiter is not None:
            marks = [f"{row}{self.delimiter}{mark}" for row, mark in enumerate(marks)]
            marks.insert(0, f"row{self.delimiter}corrupted\n")
        with whole_or_nothing(target, mask_file) as (partial, partial_mask):
            partial.write_bytes("".join(records).encode(self.encoding))
            partial_mask.write_text("".join(marks), encoding="utf-8", newline="")
        return mask_file

    def _written_forms(self) -> dict[Any, str]:
        """Return how the file first spells each class."""
        forms: dict[Any, str] = {}
        for record, value in zip(self.records[self.has_header :], self.values.tolist(), strict=False):
            if value not in forms:
                forms[value] = _cells(record, self.delimiter)[self.column]
        return forms

    def _with_label(self, record: str, label: str) -> str:
        body = record.rstrip("\r\n")
        ending = record[len(body) :]
        if self.delimiter is None:
            return label + ending
        cells = _cells(record, self.delimiter)
        cells[self.column] = label
        line = io.StringIO()
        csv.writer(line, delimiter=self.delimiter, lineterminator=ending).writerow(cells)
        return line.getvalue()


def read_array(path: Path, name: str | None = None) -> ArrayFile:
    """Open a .npy file (as a memory map) or one array of a .npz file.

    Parameters
    ----------
    path
        The file.
    name
        The array inside a .npz file; may be left out where there is only one. A .npy file has no names.
    """
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return ArrayFile(path, loaded)
        with loaded:
            arrays = {key: loaded[key] for key in loaded.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"cannot read the array {path}: {error}") from error
    if name is None and len(arrays) == 1:
        name = next(iter(arrays))
    if name not in arrays:
        asked = "name one of them" if name is None else f"there is no {name!r}{nearest(name, arrays)}"
        raise InvalidInput(f"{path} holds the arrays {', '.join(arrays) or '(none)'}; {asked}")
    values = arrays.pop(name)
    return ArrayFile(path, values, name, arrays)


def read_labels(path: Path, column: str | None = None) -> LabelFile:
    """Read labels from a .csv or .tsv file with a header or a single column, or one per line of a .txt.

    Whole numbers are read as numbers, so that classes stand in their order.

    Parameters
    ----------
    path
        The file, in UTF-8.
    column
        The name of the column; by default the only one, or the one called label, class, target or y.
    """
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidInput(f"cannot read the labels {path}: {reason}") from error
    encoding = "utf-8-sig" if content.startswith(codecs.BOM_UTF8) else "utf-8"
    delimiter = {".csv": ",", ".tsv": "\t"}.get(path.suffix.lower())
    try:
        records = _records(text, delimiter)
        rows = [_cells(record, delimiter) for record in records]
    except csv.Error as error:
        raise InvalidInput(f"cannot read the labels {path}: {error}") from error
    while rows and not any(cell.strip() for cell in rows[-1]):
        rows.pop()
    if not rows:
        raise InvalidInput(f"{path} holds no labels")
    position, has_header = _find_column(path, rows, column)
    labels = []
    for number, row in enumerate(rows[has_header:], start=has_header + 1):
        if len(row) != len(rows[0]) or not row[position].strip():
            raise InvalidInput(
                f"record {number} of {path} is {','.join(row)!r};"
                f" expected {len(rows[0])} column(s) with a label"
            )
        labels.append(row[position])
    if not labels:
        raise InvalidInput(f"{path} holds no labels")
    return LabelFile(path, _as_values(labels), records, position, has_header, delimiter, encoding)


def _write_archive(file: BinaryIO, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a .npz file; unlike ``numpy.savez`` an array may have any name, such as ``file``."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(values), allow_pickle=False)


def _records(text: str, delimiter: str | None) -> list[str]:
    """Split a text into records, line ends included; a quoted cell may hold line ends of its own."""
    lines = io.StringIO(text, newline="").readlines()
    if delimiter is None:
        return lines
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    ends = [0]
    ends.extend(reader.line_num for _ in reader)
    return ["".join(lines[start:end]) for start, end in pairwise(ends)]


def _cells(record: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        return [record.rstrip("\r\n")]
    return next(csv.reader([record], delimiter=delimiter), [])


def _find_column(path: Path, rows: list[list[str]], column: str | None) -> tuple[int, bool]:
    """Return the position of the label column, and whether the first record is a header."""
    first = rows[0]
    if column is not None:
        if column not in first:
            raise InvalidInput(
                f"{path} has no column {column!r}{nearest(column, first)}; it has: {', '.join(first)}"
            )
        return first.index(column), True
    if len(first) == 1:
        named = first[0].strip().lower() in _LABEL_NAMES
        numbers_below = len(rows) > 1 and all(len(row) == 1 and _is_whole(row[0]) for row in rows[1:])
        return 0, named or (numbers_below and not _is_whole(first[0]))
    found = [place for place, name in enumerate(first) if name.strip().lower() in _LABEL_NAMES]
    if len(found) != 1:
        raise InvalidInput(f"which column of {path} holds the labels? It has: {', '.join(first)}")
    return found[0], True


def _as_values(labels: list[str]) -> npt.NDArray[Any]:
    if all(_is_whole(label) for label in labels):
        return np.array([int(label) for label in labels])
    return np.array(labels)


def _is_whole(text: str) -> bool:
    return text.strip().removeprefix("-").isdecimal() and len(text.strip()) < 19
