"""Hugging Face datasets: the object, and the folder that `save_to_disk` leaves."""

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...arrays import IntArray
from ...errors import InvalidInput, first_line
from ..arrow import Columns, InMemory, arrow_table
from ..dataset import Dataset
from ..places import Place
from ..request import Request
from ..tables import table_dataset
from .arrow import ipc_columns, kept_rows
from .base import Format

_STATE: dict[str, Any] = {
    "_format_columns": None, "_format_kwargs": {}, "_format_type": None, "_output_all_columns": False,
    "_split": None,
}  # fmt: skip


def _recognise(x: Any, request: Request) -> bool:
    if isinstance(x, Place):
        names = {Path(file).name for file in x.files}
        saved = {"state.json", "dataset_info.json"} <= names or "dataset_dict.json" in names
        return x.folder is not None and saved
    return (hasattr(x, "with_format") and hasattr(x, "features")) or _is_splits(x)


def _is_splits(x: Any) -> bool:
    return type(x).__name__ == "DatasetDict"


def _open(x: Any, request: Request) -> Dataset:
    if _is_splits(x):
        raise InvalidInput(f"the dataset holds the splits {', '.join(x)}; name one, for example x['train']")
    if not isinstance(x, Place):
        found = table_dataset(arrow_table(_object_columns(x)), request, "hugging-face", ())
        return found.replace(original=x)
    folder = x.path
    if (folder / "dataset_dict.json").exists():
        told = _json(folder / "dataset_dict.json")
        named = told.get("splits") if isinstance(told, dict) else None
        splits = [str(split) for split in named] if isinstance(named, list) else []
        example = folder / (splits[0] if splits else "train")
        raise InvalidInput(f"{x.name} holds the splits {', '.join(splits)}; name one, for example {example}")
    try:
        names = [Path(entry["filename"]) for entry in _json(folder / "state.json")["_data_files"]]
    except (KeyError, TypeError) as error:
        raise InvalidInput(f"{folder / 'state.json'} names no data files: {error!r}") from None
    for name in names:
        if name.is_absolute() or ".." in name.parts:
            raise InvalidInput(f"{folder / 'state.json'} names {name}, a file outside the folder")
    files = [str(folder / name) for name in names]
    columns = ipc_columns(files, x.name, folder)
    return table_dataset(arrow_table(columns), request, "hugging-face", files)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is not readable JSON: {first_line(error)}") from None


def _object_columns(dataset: Any) -> Columns:
    arrow = dataset.with_format("arrow")

    def read(names: list[str], start: int, stop: int) -> pa.Table:
        return arrow.select_columns(names)[start:stop]

    held = InMemory("the dataset", len(dataset), read)
    return Columns("the dataset", dataset.features.arrow_schema, [held])


def _write(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    """Write a folder that `datasets.load_from_disk` opens."""
    if not dataset.files:
        dataset.original.select(rows).save_to_disk(folder)
        return
    kept = kept_rows(dataset.files, dataset.name, rows)
    name = "data-00000-of-00001.arrow"
    with (folder / name).open("wb") as file, pa.ipc.new_stream(file, kept.schema) as writer:
        writer.write_table(kept)
    home = Path(dataset.files[0]).parent
    state = _STATE | _json(home / "state.json")
    state |= {"_data_files": [{"filename": name}], "_fingerprint": uuid.uuid4().hex[:16]}
    (folder / "state.json").write_text(json.dumps(state, indent=2), encoding="utf-8")
    shutil.copyfile(home / "dataset_info.json", folder / "dataset_info.json")


FORMAT = Format("hugging-face", _recognise, _open, _write)
