"""Readers of what is to be encoded, one file per kind; :func:`open_input` finds the right one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InvalidInput, InvalidInputType
from ..base import Kind, Unreadable
from ..images import as_pixels
from .arrays import load_npy, open_npy, open_npz
from .base import Input, images_input, read_files, refuse_option
from .cifar import has_cifar, is_cifar, open_cifar, open_cifar_folder
from .columns import open_columns, tidy
from .folder import open_folder
from .idx import has_idx, is_idx, open_idx, open_idx_folder, read_idx
from .tables import LINES, open_table

__all__ = ["Input", "TABLES", "TEXT_TABLES", "open_input"]

TEXT_TABLES = frozenset([".csv", ".tsv", ".jsonl", ".ndjson", ".txt"])
TABLES = TEXT_TABLES | {".parquet", ".pq"}


def open_input(
    source: Any,
    kind: Kind,
    *,
    column: str | None = None,
    labels: Any = None,
    ids: str | None = None,
    split: str = "train",
) -> Input:
    """Open what is to be encoded.

    Parameters
    ----------
    source
        A path: folder of images, list of paths (``.txt``), CSV, TSV, JSON lines or Parquet, IDX files,
        CIFAR batches, ``.npy``, ``.npz``; or a list of images, paths or texts; or a uint8 array.
    kind
        ``image``, ``text`` or ``rows``: what the encoder takes.
    column
        The column of a table that holds the texts or images.
    labels
        A column of the table, an array of the ``.npz`` file, a file of labels (``.npy``, IDX, or one per
        line), or the labels themselves. By default those that come with the input.
    ids
        The column of the table that holds the ids.
    split
        ``train`` or ``test``, where the input has both.
    """
    if not isinstance(source, (str, os.PathLike)):
        found = _open_objects(source, kind)
        return found if labels is None else found.with_labels(labels, "labels")
    path = Path(source)
    if not path.exists():
        raise InvalidInput(f"{path} does not exist")
    named = str(labels) if isinstance(labels, (str, os.PathLike)) else None
    if _is_table(path):
        table = open_table(path)
        inside = named if named is not None and not _is_label_file(named, table.names) else None
        found = open_columns(table, kind, column, inside, ids)
        return found if labels is None or inside is not None else _attach(found, labels)
    refuse_option(f"--{kind}", column, path, "it has no columns")
    refuse_option("--ids", ids, path, "it has no columns")
    if kind == "text":
        raise InvalidInput(f"{path} holds no text; expected {', '.join(sorted(TABLES))}")
    if path.suffix == ".npz":
        inside = named if named is not None and not _is_label_file(named, ()) else None
        found = open_npz(path, kind, inside, split)
        return found if labels is None or inside is not None else _attach(found, labels)
    found = _open_images(path, split) if kind == "image" and path.suffix != ".npy" else open_npy(path, kind)
    return found if labels is None else _attach(found, labels)


def _is_table(path: Path) -> bool:
    if path.is_dir():
        names = [entry.suffix for entry in path.iterdir() if not entry.name.startswith((".", "_"))]
        return bool(names) and set(names) == {".parquet"}
    return path.suffix.lower() in TABLES


def _open_images(path: Path, split: str) -> Input:
    if path.is_dir():
        if has_idx(path):
            return open_idx_folder(path, split)
        return open_cifar_folder(path, split) if has_cifar(path) else open_folder(path)
    if is_idx(path):
        return open_idx(path)
    if is_cifar(path):
        return open_cifar(path)
    raise InvalidInput(
        f"{path} is no kind of input that is known; expected a folder of images, a list or table"
        f" ({', '.join(sorted(TABLES))}), IDX, CIFAR batches, .npy or .npz"
    )


def _open_objects(source: Any, kind: Kind) -> Input:
    """Return images, paths, texts or rows that are in memory."""
    if isinstance(source, np.ndarray) and kind == "image" and source.dtype == np.uint8:
        return images_input(source, None, "the array")
    if not isinstance(source, (Sequence, np.ndarray)):
        raise InvalidInputType(f"expected a path, an array or a list of {kind}s; got {type(source).__name__}")
    if len(source) == 0:
        raise InvalidInput(f"expected at least one {kind}; got an empty {type(source).__name__}")
    rows = np.arange(len(source))
    if kind == "image" and all(isinstance(item, (str, os.PathLike)) for item in source):
        files = [Path(item) for item in source]
        return Input(kind, rows, read_files(files), paths=[str(path) for path in files])
    content = _image_content if kind == "image" else _content
    return Input(kind, rows, lambda start, stop: [content(item) for item in source[start:stop]])


def _content(item: Any) -> Any:
    return Unreadable("no value") if item is None else item


def _image_content(item: Any) -> Any:
    """Return what an image is made of, so that its key says all of it; bytes are that already."""
    try:
        return item if isinstance(item, bytes) else as_pixels(item, None)
    except Unreadable as error:
        return error


def _is_label_file(name: str, columns: Sequence[str]) -> bool:
    return name not in columns and Path(name).is_file()


def _attach(found: Input, labels: Any) -> Input:
    """Give the rows labels from a file or from memory."""
    if not isinstance(labels, (str, os.PathLike)):
        return found.with_labels(labels, "labels")
    path = Path(labels)
    if not path.is_file():
        raise InvalidInput(f"{path} is neither a column nor a file of labels (--labels)")
    if path.suffix == ".npy":
        return found.with_labels(load_npy(path), str(path))
    if is_idx(path):
        return found.with_labels(read_idx(path).astype(np.int64), str(path))
    table = open_table(path)
    if table.names != (LINES,):
        raise InvalidInput(f"{path} is a table; expected labels as .npy, IDX, or text with one per line")
    return found.with_labels(tidy(table.values(LINES, 0, table.rows)), str(path))
