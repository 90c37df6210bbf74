"""Find out what a path is, and open it."""

from __future__ import annotations

import csv
import glob
import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, MissingExtra
from .arrow import dataset_columns, ipc_columns, open_columns, parquet_columns
from .base import RowView, Source
from .numpy_files import map_npy, open_npy, open_npz
from .safetensors_file import open_safetensors

KINDS = ".npy, .npz, .parquet, .arrow, .feather, .safetensors, or a folder or glob of one kind"
_ENDINGS = {
    ".npy": "npy", ".npz": "npz", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow",
    ".feather": "arrow", ".ipc": "arrow", ".safetensors": "safetensors",
}  # fmt: skip


def open_source(
    path: Any,
    embedding: str | None = None,
    labels: Any = None,
    ids: Any = None,
    memory: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    mapped: bool = False,
) -> Source:
    """Open rows for selection without loading more than fits.

    Parameters
    ----------
    path
        A `.npy`, `.npz`, Parquet, Arrow or safetensors file, a folder or glob of such files, a folder
        saved by Hugging Face `datasets`, a remote Parquet path (`s3://...`, through fsspec), or a
        `datasets.Dataset`, or an array.
    embedding
        Column, array or tensor that holds the embeddings; not needed where there is only one candidate.
    labels, ids
        A column of the source, a file with one value per row (`.npy`, `.csv`, `.txt`, `.parquet`), or
        an array.
    memory
        Bytes that rows may take in memory; columns larger than half of it are decoded into the cache.
        A quarter of the machine by default.
    cache
        Folder for decoded columns; ``~/.cache/gmmatch`` by default.
    mapped
        Decode columns into the cache even where they fit in memory, so that other processes can map them:
        for ``engine="ray"``, whose nodes must all see the folder.

    Returns
    -------
    Source
        What `gmmatch.select` takes as rows.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, gmmatch
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "rows.npy"
    >>> np.save(file, np.eye(5, dtype="float32"))
    >>> gmmatch.open_source(file).shape
    (5, 5)
    """
    columns = {name: value for name, value in (("labels", labels), ("ids", ids)) if _is_column(value)}
    memory = machine_memory() // 4 if memory is None else memory
    folder = cache_folder() if cache is None else Path(cache)
    room = 0 if mapped else memory
    source = _open(path, embedding, columns.get("labels"), columns.get("ids"), room, folder)
    beside = {
        name: read_values(value, name)
        for name, value in (("labels", labels), ("ids", ids))
        if value is not None and name not in columns
    }
    for name, values in beside.items():
        if len(values) != len(source):
            raise InvalidInput(f"{name} has {len(values)} entries for {len(source)} rows of {source.name}")
    return Source(
        source.rows,
        source.name,
        source.kind,
        beside.get("ids", source.ids),
        beside.get("labels", source.labels),
        source.files,
    )


def _open(
    path: Any, embedding: str | None, labels: str | None, ids: str | None, memory: int, cache: Path
) -> Source:
    if hasattr(path, "with_format") and hasattr(path, "features"):
        return open_columns(dataset_columns(path), embedding, labels, ids, memory, cache)
    if not isinstance(path, (str, os.PathLike)):
        _no_columns(labels, ids, "an array")
        return Source(np.asarray(path), "the array", "array")
    name = os.fspath(path)
    kind, files = _resolve(name)
    if kind == "npy":
        _no_columns(labels, ids, name)
        return open_npy([Path(file) for file in files], name)
    if kind == "parquet":
        columns = parquet_columns(files, name, _opener(name))
        return open_columns(columns, embedding, labels, ids, memory, cache)
    if kind in ("arrow", "hugging-face"):
        return open_columns(ipc_columns(files, name, kind), embedding, labels, ids, memory, cache)
    if len(files) > 1:
        raise InvalidInput(f"{name} names {len(files)} {kind} files; expected one")
    opener = open_npz if kind == "npz" else open_safetensors
    return opener(Path(files[0]), embedding, labels, ids)


def _resolve(name: str) -> tuple[str, list[str]]:
    """Return the kind of a path and the files behind it, sorted by name."""
    if "://" in name:
        return "parquet", _remote_files(name)
    if os.path.isdir(name):
        return _resolve_folder(name)
    files = sorted(glob.glob(name)) if glob.has_magic(name) and not os.path.exists(name) else [name]
    if not files:
        raise InvalidInput(f"no file matches {name}")
    if not os.path.exists(files[0]):
        raise InvalidInput(f"there is no file {name}")
    return _one_kind(files, name), files


def _resolve_folder(name: str) -> tuple[str, list[str]]:
    folder = Path(name)
    if (folder / "dataset_dict.json").exists():
        splits = json.loads((folder / "dataset_dict.json").read_text()).get("splits", [])
        raise InvalidInput(f"{name} holds the splits {', '.join(splits)}; name one, for example"
                           f" {folder / splits[0] if splits else folder / 'train'}")  # fmt: skip
    if (folder / "state.json").exists() and (folder / "dataset_info.json").exists():
        state = json.loads((folder / "state.json").read_text())
        return "hugging-face", [str(folder / entry["filename"]) for entry in state["_data_files"]]
    found = sorted(str(file) for file in folder.iterdir() if file.suffix.lower() in _ENDINGS)
    if not found:
        raise InvalidInput(
            f"the folder {name} has no file of embeddings; expected {KINDS}; images and texts need an encoder"
        )
    return _one_kind(found, name), found


def _one_kind(files: list[str], name: str) -> str:
    kinds = {_ENDINGS.get(Path(file).suffix.lower(), "") for file in files}
    if len(kinds) > 1:
        raise InvalidInput(f"{name} mixes files of several kinds; expected one kind")
    kind = kinds.pop()
    if not kind:
        raise InvalidInput(
            f"{name} is of a kind that holds no embeddings; expected {KINDS};"
            " images and texts need an encoder"
        )
    return kind


def _opener(name: str) -> Callable[[str], AbstractContextManager[Any]]:
    if "://" not in name:
        return lambda file: open(file, "rb")
    fsspec = _fsspec()
    return lambda file: fsspec.open(file, "rb")


def _remote_files(name: str) -> list[str]:
    fsspec = _fsspec()
    try:
        filesystem, path = fsspec.url_to_fs(name)
        found = filesystem.find(path) if filesystem.isdir(path) else filesystem.glob(path)
    except (OSError, ValueError, ImportError) as error:
        raise InvalidInput(f"{name} cannot be read: {error}") from None
    files = sorted(file for file in found if file.endswith((".parquet", ".pq")))
    if not files:
        raise InvalidInput(f"there is no Parquet file at {name}")
    return [filesystem.unstrip_protocol(file) for file in files]


def _fsspec() -> Any:
    try:
        import fsspec
    except ImportError:
        raise MissingExtra("fsspec", "hf") from None
    return fsspec


def _is_column(value: Any) -> bool:
    """Tell a column's name from a file's: a file exists or looks like one."""
    return isinstance(value, str) and not (
        os.path.exists(value) or Path(value).suffix.lower() in (".npy", ".csv", ".txt", ".parquet")
    )


def _no_columns(labels: str | None, ids: str | None, where: str) -> None:
    for name in (labels, ids):
        if name is not None:
            raise InvalidInput(
                f"there is no file {name}, and {where} has no columns; expected a .npy, .csv, .txt or"
                " .parquet file with one value per row"
            )


def read_values(path: Any, what: str) -> npt.NDArray[Any]:
    """Read one value per row from a `.npy`, `.csv`, `.txt` or `.parquet` file, or take an array.

    A `.csv` or `.parquet` file must have a single column, or one that is named `what` (or its singular).
    """
    if not isinstance(path, (str, os.PathLike)):
        return np.asarray(path)
    file = Path(path)
    ending = file.suffix.lower()
    if not file.exists():
        raise InvalidInput(f"there is no file {file}")
    if ending == ".npy":
        values = map_npy(file)
        if values.ndim != 1:
            raise InvalidInput(f"{file} has shape {values.shape}; expected one {what} entry per row")
        return np.asarray(values)
    if ending == ".parquet":
        columns = parquet_columns([str(file)], str(file), _opener(str(file)))
        name = _value_column(columns.schema.names, what, file)
        table = [batch.column(0).to_pylist() for _, batch in columns.batches([name])]
        return np.array([value for part in table for value in part])
    if ending in (".csv", ".txt"):
        return _text_values(file, ending, what)
    raise InvalidInput(f"{file} is of a kind that holds no {what}; expected .npy, .csv, .txt or .parquet")


def _text_values(file: Path, ending: str, what: str) -> npt.NDArray[Any]:
    try:
        with file.open(newline="", encoding="utf-8") as handle:
            if ending == ".txt":
                values = [line.rstrip("\r\n") for line in handle]
            else:
                lines = [line for line in csv.reader(handle) if line]
                header, body = lines[0], lines[1:]
                place = header.index(_value_column(header, what, file))
                values = [line[place] for line in body]
    except (OSError, UnicodeDecodeError, IndexError) as error:
        raise InvalidInput(f"{file} cannot be read as {what}: {error}") from None
    array = np.array(values)
    numbers = all(value.lstrip("+-").isdigit() for value in values)
    return array.astype(np.int64) if values and numbers else array


def _value_column(names: list[str], what: str, file: Path) -> str:
    wanted = [name for name in names if name in (what, what.rstrip("s"))]
    if len(names) == 1 or wanted:
        return wanted[0] if wanted else names[0]
    raise InvalidInput(f"{file} has the columns {', '.join(names)}; expected one, or one named {what!r}")


def machine_memory() -> int:
    """Return the bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cache_folder() -> Path:
    """Return the folder for decoded columns."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gmmatch"


__all__ = ["RowView", "Source", "cache_folder", "machine_memory", "open_source", "read_values"]
