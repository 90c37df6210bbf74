"""Selections and kept rows as files: written to another name first, then put in place whole."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .arrays import AnyArray
from .data import Dataset, write_rows
from .errors import InvalidInput, InvalidParameter
from .files import check_folder, make_folder, whole_file
from .records import Selection
from .trust import Suspects

ENDINGS = {
    "selection": (".parquet", ".npy", ".csv", ".txt"),
    "all rows": (".parquet", ".csv"),
    "suspects": (".parquet", ".csv", ".jsonl"),
    "fixed labels": (".parquet", ".csv", ".jsonl"),
    "leaks": (".parquet", ".csv", ".jsonl"),
}

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what spreadsheets take for the beginning of a formula


def check_ending(path: Path, endings: tuple[str, ...], what: str) -> None:
    """Refuse a file of a kind that is not written."""
    if path.suffix.lower() not in endings:
        raise InvalidParameter(f"{what} in {', '.join(endings)}; got {path}")
    check_folder(path)


def check_output(path: Path, all_rows: bool = False, kind: str = "selection") -> None:
    """Refuse an output that could not be written, before any work is done."""
    what = "all_rows needs an output that ends" if all_rows else f"the {kind} must end"
    check_ending(path, ENDINGS["all rows" if all_rows else kind], what)


def write_selection(selection: Selection, path: Path, source: Dataset, all_rows: bool = False) -> None:
    """Write a selection in the form that the ending of `path` asks for.

    `.parquet` and `.csv` have a line per kept row (per input row with `all_rows`), `.npy` and `.txt`
    the ids alone.
    """
    ids = selection.indices if selection.ids is None else selection.ids
    ending = path.suffix.lower()
    if ending == ".npy":
        write_array(ids.astype(str) if ids.dtype.kind == "O" else ids, path)
    elif ending == ".txt":
        with whole_file(path) as partial:
            partial.write_text(_lines(ids), encoding="utf-8", errors="surrogateescape")
    elif ending == ".parquet" and not all_rows:
        selection.save(path)
    else:
        write_table(_all_rows(selection, source) if all_rows else selection.to_arrow(), path)


def write_suspects(suspects: Suspects, path: Path) -> None:
    """Write the evidence about every row as `.parquet`, `.csv` or `.jsonl`, most suspicious first."""
    columns = suspects.columns()
    ids = columns["row"] if suspects.ids is None else suspects.ids[columns["row"]]
    write_table(pa.table({"id": ids} | columns), path)


def write_array(values: AnyArray, path: Path) -> None:
    """Write an array as `.npy`."""
    with whole_file(path) as partial, partial.open("wb") as stream:
        np.save(stream, values, allow_pickle=False)


def write_labels(labels: AnyArray, path: Path, source: Dataset) -> None:
    """Write one label per row, with the rows' ids, as a table that `labels` takes; bad rows have none.

    Labels and ids are written as they are, also where a spreadsheet would compute them: they are read again.
    """
    ids = np.arange(len(labels)) if source.ids is None else source.ids
    fixed = _labels(source.replace(labels=labels))
    write_table(pa.table({"id": pa.array(ids), "label": fixed}), path, as_given=True)


def _all_rows(selection: Selection, source: Dataset) -> pa.Table:
    """Return one line per input row; what only kept rows have is empty elsewhere."""
    n_rows = selection.n_rows
    kept = selection.mask()

    def spread(values: AnyArray) -> pa.Array:
        column = np.zeros(n_rows, values.dtype)
        column[selection.indices] = values
        return pa.array(column, mask=~kept)

    return pa.table(
        {
            "id": np.arange(n_rows) if source.ids is None else source.ids,
            "row": np.arange(n_rows),
            "label": _labels(source),
            "rank": spread(np.arange(len(selection))),
            "score": spread(selection.scores),
            "distance": spread(selection.distances),
            "tier": pa.nulls(n_rows, pa.int8()) if selection.tiers is None else pa.array(selection.tiers),
            "weight": spread(selection.weights),
            "kept": kept,
        }
    )


def _labels(source: Dataset) -> pa.Array:
    """Return the label of each row; bad rows have none."""
    if source.labels is None:
        return pa.nulls(len(source))
    return pa.array(source.labels, mask=np.isin(np.arange(len(source)), source.bad_rows))


def _lines(ids: AnyArray) -> str:
    """Return ids one per line; one that is more than a line is refused."""
    entries = [str(entry) for entry in ids.tolist()]
    wrong = next((entry for entry in entries if len(entry.splitlines()) > 1 or entry.endswith("\n")), None)
    if wrong is not None:
        raise InvalidInput(f"the id {wrong!r} is more than one line of a .txt; write .parquet or .csv")
    return "".join(f"{entry}\n" for entry in entries)


def write_table(table: pa.Table, path: Path, as_given: bool = False) -> None:
    """Write a table as its ending says; `as_given`: also cells that a spreadsheet would compute."""
    with whole_file(path) as partial:
        if path.suffix.lower() == ".parquet":
            with partial.open("wb") as handle:
                pq.write_table(table, handle)
            return
        with partial.open("w", newline="", encoding="utf-8") as lines:
            batches = table.to_batches(max_chunksize=65536)
            if path.suffix.lower() == ".jsonl":
                for entry in (entry for batch in batches for entry in batch.to_pylist()):
                    known = {name: None if value != value else value for name, value in entry.items()}
                    lines.write(json.dumps(known) + "\n")  # JSON has no NaN
                return
            writer = csv.writer(lines)
            writer.writerow(table.column_names)
            for batch in batches:
                columns = [
                    # Numbers are no text, and the most of what is written.
                    own.to_pylist()
                    if as_given or pa.types.is_primitive(own.type)
                    else map(as_cell, own.to_pylist())
                    for own in batch.columns
                ]
                writer.writerows(zip(*columns, strict=True))


def as_cell(cell: object) -> Any:
    """Return a cell that a spreadsheet takes as text and does not compute.

    >>> as_cell("=1+1"), as_cell("cat"), as_cell(-1)
    ("'=1+1", 'cat', -1)
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def materialize_rows(selection: Selection, source: Dataset, folder: Path) -> None:
    """Write the kept rows themselves, in pick order, as the kind of file that they came from.

    Memory: the kept rows.
    """
    if folder.exists():
        raise InvalidInput(f"cannot write {folder}: it exists already")
    make_folder(folder.parent)
    with whole_file(folder) as partial:
        partial.mkdir()
        write_rows(source, selection.indices, partial)
