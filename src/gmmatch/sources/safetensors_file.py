"""Tensors saved as safetensors: a JSON header and raw numbers, mapped into memory."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from .base import RowView, Source
from .numpy_files import only_matrix

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "i1", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_LARGEST_HEADER = 100 << 20


def open_safetensors(path: Path, embedding: str | None, labels: str | None, ids: str | None) -> Source:
    """Open tensors by name; the rows are the only matrix unless named."""
    tensors, start = _header(path)
    for wanted in (embedding, labels, ids):
        if wanted is not None and wanted not in tensors:
            raise InvalidInput(f"{path} has no tensor {wanted!r}; it has: {', '.join(tensors)}")
    if embedding is None:
        embedding = only_matrix({name: tuple(entry["shape"]) for name, entry in tensors.items()}, str(path))
    return Source(
        RowView([_tensor(path, tensors, start, embedding)], [f"{path}:{embedding}"]),
        str(path),
        "safetensors",
        ids=None if ids is None else _tensor(path, tensors, start, ids),
        labels=None if labels is None else _tensor(path, tensors, start, labels),
        files=(str(path),),
    )


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """Return the entries of the header and where the numbers start."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > _LARGEST_HEADER:
                raise ValueError(f"its header claims {length} bytes")
            entries = json.loads(file.read(length))
        entries.pop("__metadata__", None)
        size = path.stat().st_size
        for name, entry in entries.items():
            begin, end = entry["data_offsets"]
            expected = int(np.prod(entry["shape"])) * np.dtype(_DTYPES[entry["dtype"]]).itemsize
            if not 0 <= begin <= end <= size - 8 - length or end - begin != expected:
                raise ValueError(f"tensor {name!r} does not fit the file (truncated?)")
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise InvalidInput(f"{path} is not a readable safetensors file: {error}") from None
    return entries, 8 + length


def _tensor(path: Path, tensors: dict[str, Any], start: int, name: str) -> npt.NDArray[Any]:
    entry = tensors[name]
    kind = entry["dtype"]
    array: npt.NDArray[Any] = np.memmap(
        path, np.dtype(_DTYPES[kind]), "r", start + entry["data_offsets"][0], tuple(entry["shape"])
    )
    # The upper half of a float32 is a bfloat16.
    return (array.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" else array
