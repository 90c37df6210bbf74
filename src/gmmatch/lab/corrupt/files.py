"""Files to corrupt: arrays in .npy and .npz; labels in .csv, .tsv, .txt, .jsonl, .parquet and .arrow."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...data import read_values
from ...data.columns import label_column, open_table, pick_column
from ...data.formats.arrays import load_npz, map_npy, npz_shapes, write_archive
from ...data.formats.text_files import Delimited, Record, read_delimited
from ...errors import InvalidInput
from ...files import whole_files
from ...validation import nearest

ARRAY_SUFFIXES = (".npy", ".npz")
TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
JSON_SUFFIXES = (".jsonl", ".ndjson")
TABLE_SUFFIXES = (*JSON_SUFFIXES, ".parquet", ".arrow")


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
        with whole_files(target, mask_file) as (partial, partial_mask):
            with partial.open("wb") as file:
                if self.name is None:
                    np.save(file, values)
                else:
                    write_archive(file, {**(self.others or {}), self.name: values})
            with partial_mask.open("wb") as file:
                np.save(file, mask)
        return mask_file


@dataclass(frozen=True)
class LabelFile:
    """The labels of a text file, and its records as they stand, to change only what is corrupted."""

    path: Path
    values: npt.NDArray[Any]
    found: Delimited
    column: int
    has_header: bool

    def write(self, target: Path, values: npt.NDArray[Any], mask: npt.NDArray[np.bool_]) -> Path:
        """Write the file with changed labels and, beside it, the mask; return the mask's path.

        The mask of a table has the columns ``row`` and ``corrupted``, that of a .txt file a 0 or 1 per line.
        """
        mask_file = mask_path(target, target.suffix)
        written = self._written_forms()
        records = [record.raw for record in self.found.records]
        for row in np.flatnonzero(mask):
            place = int(row) + self.has_header
            records[place] = self._with_label(self.found.records[place], written[values[row].item()])
        marks = [f"{int(wrong)}\n" for wrong in mask]
        if mark := self.found.delimiter:
            marks = [f"{row}{mark}{wrong}" for row, wrong in enumerate(marks)]
            marks.insert(0, f"row{mark}corrupted\n")
        with whole_files(target, mask_file) as (partial, partial_mask):
            partial.write_bytes("".join(records).encode(self.found.encoding, "surrogateescape"))
            partial_mask.write_text("".join(marks), encoding="utf-8", newline="")
        return mask_file

    def _written_forms(self) -> dict[Any, str]:
        """Return how the file first spells each class."""
        forms: dict[Any, str] = {}
        for record, value in zip(self.found.records[self.has_header :], self.values.tolist(), strict=True):
            forms.setdefault(value, record.cells[self.column])
        return forms

    def _with_label(self, record: Record, label: str) -> str:
        ending = record.raw[len(record.raw.rstrip("\r\n")) :]
        if self.found.delimiter is None:
            return label + ending
        cells = list(record.cells)
        cells[self.column] = label
        line = io.StringIO()
        csv.writer(line, delimiter=self.found.delimiter, lineterminator=ending).writerow(cells)
        return line.getvalue()


@dataclass(frozen=True)
class TableFile:
    """The labels of a .jsonl, Parquet or Arrow file, and the other columns, which stay as they are."""

    path: Path
    values: npt.NDArray[Any]
    column: str

    def write(self, target: Path, values: npt.NDArray[Any], mask: npt.NDArray[np.bool_]) -> Path:
        """Write the table with changed labels and, beside it, the mask; return the mask's path."""
        mask_file = mask_path(target, ".csv")
        with whole_files(target, mask_file) as (partial, partial_mask):
            if self.path.suffix.lower() in JSON_SUFFIXES:
                self._write_lines(partial, values, mask)
            else:
                self._write_table(partial, values, mask)
            marks = "".join(f"{row},{int(wrong)}\n" for row, wrong in enumerate(mask))
            partial_mask.write_text(f"row,corrupted\n{marks}", encoding="utf-8", newline="")
        return mask_file

    def _write_lines(self, target: Path, values: npt.NDArray[Any], mask: npt.NDArray[np.bool_]) -> None:
        """Write again the lines whose label changed, and the others as they are."""
        row = 0
        with (
            self.path.open(encoding="utf-8", newline="") as lines,
            target.open("w", encoding="utf-8", newline="") as file,
        ):
            for line in lines:
                if not line.strip():
                    file.write(line)
                    continue
                if mask[row]:
                    record = json.loads(line)
                    record[self.column] = values[row].item()
                    line = json.dumps(record, ensure_ascii=False) + "\n"
                file.write(line)
                row += 1

    def _write_table(self, target: Path, values: npt.NDArray[Any], mask: npt.NDArray[np.bool_]) -> None:
        import pyarrow as pa
        import pyarrow.feather as feather
        import pyarrow.parquet as pq

        parquet = self.path.suffix.lower() == ".parquet"
        table = pq.read_table(self.path) if parquet else feather.read_table(self.path)
        place = table.schema.get_field_index(self.column)
        entries = table.column(place).to_pylist()
        for row in np.flatnonzero(mask).tolist():
            entries[row] = values[row].item()
        kind = table.schema.field(place).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        table = table.set_column(place, self.column, pa.array(entries, kind))
        if parquet:
            pq.write_table(table, target)
        else:
            feather.write_feather(table, target, compression="uncompressed")


@dataclass(frozen=True)
class IdxFile:
    """The labels of an IDX file."""

    path: Path
    values: npt.NDArray[Any]

    def write(self, target: Path, values: npt.NDArray[Any], mask: npt.NDArray[np.bool_]) -> Path:
        """Write the changed labels and, beside them, the mask; return the mask's path."""
        mask_file = mask_path(target, ".npy")
        with whole_files(target, mask_file) as (partial, partial_mask):
            head = bytes([0, 0, 8, 1]) + len(values).to_bytes(4, "big")
            partial.write_bytes(head + values.astype(np.uint8).tobytes())
            with partial_mask.open("wb") as file:
                np.save(file, mask)
        return mask_file


def mask_path(target: Path, suffix: str) -> Path:
    """Return where the mask of an output goes: beside it, with ``.mask`` before the ending.

    >>> mask_path(Path("out/noisy.npy"), ".npy").as_posix(), mask_path(Path("noisy"), ".csv").as_posix()
    ('out/noisy.mask.npy', 'noisy.mask.csv')
    """
    known = ARRAY_SUFFIXES + TEXT_SUFFIXES + TABLE_SUFFIXES
    stem = target.stem if target.suffix.lower() in known else target.name
    return target.with_name(f"{stem}.mask{suffix}")


def read_array(path: Path, name: str | None = None) -> ArrayFile:
    """Open a .npy file (as a memory map) or one array of a .npz file.

    `name`: the array inside a .npz file; may be left out where there is only one. A .npy file has no names.
    """
    if path.suffix.lower() == ".npy":
        return ArrayFile(path, map_npy(path))
    names = list(npz_shapes(path))
    name = names[0] if name is None and len(names) == 1 else name
    if name not in names:
        asked = "name one of them" if name is None else f"there is no {name!r}{nearest(name, names)}"
        raise InvalidInput(f"{path} holds the arrays {', '.join(names) or '(none)'}; {asked}")
    others = {other: load_npz(path, other) for other in names if other != name}
    return ArrayFile(path, load_npz(path, name), name, others)


def read_labels(path: Path, column: str | None = None) -> LabelFile:
    """Read labels from a .csv or .tsv file with a header or a single column, or one per line of a .txt.

    `path`: the file, in UTF-8. `column`: the name of the column; by default the only one, or the one called
    label, class, target or y.
    """
    found = read_delimited(path)
    place, has_header = label_column(found, column=column)
    values = read_values(path if column is None else f"{path}:{column}", "labels")
    return LabelFile(path, values, found, place, has_header)


def read_table_labels(path: Path, column: str | None = None) -> TableFile:
    """Read labels from a .jsonl, Parquet or Arrow file; `column` as for :func:`read_labels`."""
    names = open_table(path).names
    chosen = pick_column(names, "labels", path, column)
    return TableFile(path, read_values(f"{path}:{chosen}", "labels"), chosen)


def read_idx_labels(path: Path) -> IdxFile:
    """Read labels from an IDX file; one of images is refused."""
    return IdxFile(path, read_values(path, "labels"))
