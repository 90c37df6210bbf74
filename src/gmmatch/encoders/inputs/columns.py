"""Texts or images named by a column of a table, with labels and ids from other columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput
from ..base import Kind, Unreadable
from .base import Input, check_column
from .tables import LINES, Table

# Names that image columns go by, most usual first.
IMAGE_COLUMNS = ("image", "img", "image_path", "path", "file_name", "filename", "file", "bytes", "jpg", "png")


def open_columns(
    table: Table, kind: Kind, column: str | None, labels: str | None = None, ids: str | None = None
) -> Input:
    """Return the texts or images in a column of a table.

    Parameters
    ----------
    table
        The table.
    kind
        ``text`` or ``image``. Images are paths (relative ones from the table's folder), bytes, or the
        pairs of both that Hugging Face writes.
    column
        The column; images have usual names, a table of lines has only one.
    labels, ids
        Columns of labels and ids; a row without a label is unreadable.
    """
    name = _content_column(table, kind, column)
    wanted = None if labels is None else check_column(labels, table.names, table.path, "--labels")
    given = None if ids is None else check_column(ids, table.names, table.path, "--ids")
    if table.rows == 0:
        raise InvalidInput(f"{table.path} has no rows")
    classes = None if wanted is None else table.values(wanted, 0, table.rows)
    base = table.path if table.path.is_dir() else table.path.parent

    def content(value: Any) -> Any:
        if value is None:
            return Unreadable(f"no {kind} in column {name!r}" if name != LINES else f"an empty {kind}")
        return _image(value, base) if kind == "image" else value

    def read(start: int, stop: int) -> list[Any]:
        found = [content(value) for value in table.values(name, start, stop)]
        for at, label in enumerate(classes[start:stop] if classes is not None else ()):
            if not isinstance(found[at], Unreadable) and _missing(label):
                found[at] = Unreadable(f"no label in column {wanted!r}")
        return found

    return Input(
        kind,
        np.arange(table.rows) if given is None else _ids(table, given),
        read,
        labels=None if classes is None else tidy(classes),
        paths=_paths(table, name, base) if kind == "image" else None,
    )


def tidy(labels: Sequence[Any]) -> npt.NDArray[Any]:
    """Return labels as whole numbers where all of them are, else as text; missing ones are -1 or empty.

    Examples
    --------
    >>> tidy(["3", "10"]), tidy(["cat", "dog"])
    (array([ 3, 10]), array(['cat', 'dog'], dtype='<U3'))
    """
    plain = [None if _missing(label) else _number(label) for label in labels]
    if all(label is None or isinstance(label, int) for label in plain):
        return np.array([-1 if label is None else label for label in plain], dtype=np.int64)
    return np.array(["" if _missing(label) else str(label) for label in labels])


def _number(label: Any) -> Any:
    """Return a whole number, however it is written down, as int; anything else as it is."""
    if isinstance(label, str):
        return int(label) if re.fullmatch(r"0|-?[1-9][0-9]{0,17}", label) else label
    if isinstance(label, (int, float)) and not isinstance(label, bool) and abs(label) < 2**63:
        return int(label) if label == int(label) else label
    return str(label)


def _missing(value: Any) -> bool:
    return value is None or value == "" or isinstance(value, Unreadable) or value != value


def _ids(table: Table, name: str) -> npt.NDArray[Any]:
    values = table.values(name, 0, table.rows)
    missing = [row for row, value in enumerate(values) if _missing(value) and row not in table.broken]
    if missing:
        first = ", ".join(map(str, missing[:10]))
        raise InvalidInput(
            f"{table.path} has no id in column {name!r} in {len(missing)} row(s) (first: {first})"
        )
    return tidy(values)


def _content_column(table: Table, kind: Kind, column: str | None) -> str:
    if column is not None:
        return check_column(column, table.names, table.path, f"--{kind}")
    if table.names == (LINES,):
        return LINES
    usual = [name for name in IMAGE_COLUMNS if name in table.names] if kind == "image" else []
    if not usual:
        raise InvalidInput(
            f"name the column of {table.path} that holds the {kind}s with --{kind}"
            f"{' (or texts with --text)' if kind == 'image' else ''}; it has: {', '.join(table.names)}"
        )
    return usual[0]


def _image(value: Any, base: Path) -> Any:
    """Return the bytes of an image given as bytes, as a path, or as a pair of both."""
    if isinstance(value, dict):
        inner = value.get("bytes") or value.get("path")
        return Unreadable("neither bytes nor a path") if inner is None else _image(inner, base)
    if isinstance(value, (bytes, Unreadable)):
        return value
    if not isinstance(value, str) or not value.strip():
        return Unreadable(f"expected a path or bytes; got {value!r}"[:200])
    try:
        return (base / value.strip()).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return Unreadable(f"cannot read {value.strip()}: {reason}")


def _paths(table: Table, name: str, base: Path) -> list[str] | None:
    """Return the images' paths where the column holds paths."""
    first = next((value for value in table.values(name, 0, min(table.rows, 100)) if value is not None), None)
    if not isinstance(first, str):
        return None
    values = table.values(name, 0, table.rows)
    return [str(base / value.strip()) if isinstance(value, str) else "" for value in values]
