"""Tensors saved as safetensors: a JSON header and raw numbers, mapped into memory."""

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...errors import InvalidInput, first_line
from ..dataset import Dataset
from ..places import Place
from ..request import Request
from ..rows import StackedRows
from .base import Format, is_shards, kept_arrays
from .npz import only_matrix

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "i1", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_LARGEST_HEADER = 100 << 20


def _open(place: Place, request: Request) -> Dataset:
    """Open tensors by name; the rows are the only matrix unless named."""
    path = place.only_file("safetensors")
    tensors, start = _header(path)
    request.check_columns(tuple(tensors), place.name)
    if request.wanted in ("text", "image"):
        raise InvalidInput(f"{place.name} holds tensors of numbers, no {request.wanted}s")
    embedding = request.embedding
    if embedding is None:
        embedding = only_matrix({name: tuple(entry["shape"]) for name, entry in tensors.items()}, place.name)
    elif embedding not in tensors:
        raise InvalidInput(
            f"{path} has no tensor {embedding!r} (embedding=...); it has: {', '.join(tensors)}"
        )
    return Dataset(
        StackedRows([_tensor(path, tensors, start, embedding)], [f"{path}:{embedding}"]),
        place.name,
        "safetensors",
        files=place.files,
        columns=tuple(tensors),
        read_column=lambda name: _tensor(path, tensors, start, name),
    )


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """Return the entries of the header and where the numbers start."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > min(_LARGEST_HEADER, size - 8):
                raise ValueError(f"its header claims {length} bytes")
            entries = json.loads(file.read(length))
        entries.pop("__metadata__", None)
        for name, entry in entries.items():
            begin, end = entry["data_offsets"]
            if any(type(side) is not int or side < 0 for side in (*entry["shape"], begin, end)):
                raise ValueError(f"tensor {name!r} has no shape of whole numbers")
            expected = math.prod(entry["shape"]) * np.dtype(_DTYPES[entry["dtype"]]).itemsize
            if not 0 <= begin <= end <= size - 8 - length or end - begin != expected:
                raise ValueError(f"tensor {name!r} does not fit the file (truncated?)")
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise InvalidInput(f"{path} is not a readable safetensors file: {first_line(error)}") from None
    return entries, 8 + length


def _tensor(path: Path, tensors: dict[str, Any], start: int, name: str) -> npt.NDArray[Any]:
    entry = tensors[name]
    kind = entry["dtype"]
    array: npt.NDArray[Any] = np.memmap(
        path, np.dtype(_DTYPES[kind]), "r", start + entry["data_offsets"][0], tuple(entry["shape"])
    )
    # The upper half of a float32 is a bfloat16.
    return (array.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" else array


def _write(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    kinds = {dtype.lstrip("<"): name for name, dtype in _DTYPES.items() if name != "BF16"}
    header, start, bodies = {}, 0, []
    for name, array in kept_arrays(dataset, rows).items():
        if array.dtype.str[1:] not in kinds:
            continue  # safetensors holds numbers; text ids are in the selection file
        body = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": kinds[array.dtype.str[1:]],
            "shape": list(array.shape),
            "data_offsets": [start, start + len(body)],
        }
        start += len(body)
        bodies.append(body)
    head = json.dumps(header).encode()
    (folder / "kept.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + b"".join(bodies))


FORMAT = Format("safetensors", lambda x, request: is_shards(x, request, "safetensors"), _open, _write)
