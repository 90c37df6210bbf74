"""Arrays in files: `.npy` (one or many), `.npz` and safetensors, of numbers or of images as uint8.

Nothing is ever unpickled.
"""

import json
import math
import mmap
import struct
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from ...arrays import AnyArray, DType, IntArray
from ...errors import InvalidInput
from ..dataset import Dataset, Items, array_items, joined_items, list_items
from ..remote import is_remote, is_text
from ..request import Place, Request, check_column
from ..rows import StackedRows, as_floats
from .arrow import file_columns
from .base import (
    Format,
    check_room,
    file_errors,
    is_shards,
    kept_arrays,
    npy_header,
    write_arrays,
    write_images,
)  # fmt: skip

Shapes = dict[str, tuple[tuple[int, ...], DType]]

_LARGEST_HEADER = 100 << 20
_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "i1", "U8": "u1", "BOOL": "?",
}  # fmt: skip


def is_images(array: AnyArray) -> bool:
    """Return True for images, False for rows of numbers."""
    return array.dtype == np.uint8 and array.ndim in (3, 4)


# ---- .npy ----


def map_npy(path: Path) -> AnyArray:
    """Map a `.npy` file into memory."""
    # NumPy warns of files that Python 2 wrote, which are read all the same.
    with file_errors(path, ".npy file of numbers"), warnings.catch_warnings(action="ignore"):
        array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise InvalidInput(f"{path} holds several arrays; expected one")
    return array


def _open_npy(place: Place, request: Request) -> Dataset:
    """Open `.npy` files as one dataset, in the natural order of their names."""
    place = place.of_kind("npy")
    request.refuse_columns(place.name)
    request.refuse_texts(place.name)
    if is_remote(place.files[0]):
        columns = file_columns(place.files, place.name)
        rows, bad = columns.rows(columns.names, request)
        return Dataset(rows, place.name, "npy", files=place.files, sizes=columns.sizes, bad=bad)
    first, *others = map(Path, place.files)
    arrays = [map_npy(first), *(unheld(map_npy(file)) for file in others)]
    sizes = tuple(len(array) if array.ndim else 0 for array in arrays)
    found = Dataset(None, place.name, "npy", files=place.files, sizes=sizes)
    if request.wanted == "image" or (request.wanted is None and is_images(arrays[0])):
        images = [array_items(array, file) for array, file in zip(arrays, place.files, strict=True)]
        return found.replace(content=joined_items(images) if others else images[0])
    rows = StackedRows(arrays, place.files) if others else as_floats(arrays[0], place.name)
    return found.replace(rows=rows)


def unheld(array: AnyArray) -> AnyArray:
    """Return the same map of a file without an open file behind it, of which a process may have some hundred.

    Python's own maps hold their file open; Arrow's do not. Where Arrow cannot map it, it stays as it is.
    """
    if not isinstance(array, np.memmap) or not array.size or not is_text(str(array.filename)):
        return array
    name, begin = str(array.filename), array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    with file_errors(name, ".npy file"), pa.memory_map(name) as file:
        buffer = file.read_buffer().slice(begin)
    order: Any = "C" if array.flags.c_contiguous else "F"
    again: Any = np.ndarray(array.shape, array.dtype, buffer, array.offset - begin, order=order)
    again = again.view(np.memmap)
    again._mmap, again.filename, again.offset, again.mode = buffer, array.filename, array.offset, "r"
    return again  # type: ignore[no-any-return]


def _write_npy(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    """Write rows in pick order; shards keep their names, each with its own rows."""
    if len(dataset.files) < 2 or dataset.content is not None:
        write_arrays(dataset, rows, folder)
        return
    home = np.searchsorted(np.cumsum(dataset.sizes), rows, side="right")
    for number, file in enumerate(dataset.files):
        np.save(folder / Path(file).name, dataset.take(rows[home == number]), allow_pickle=False)
    lines = ["shard,row,label\n"]
    for row, number in zip(rows.tolist(), home.tolist(), strict=True):
        label = "" if dataset.labels is None else dataset.labels[row]
        lines.append(f"{Path(dataset.files[number]).name},{row},{label}\n")
    (folder / "rows.csv").write_text("".join(lines), encoding="utf-8")


# ---- .npz: arrays by name, of embeddings, of images, or of image files laid end to end ----


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    with (
        file_errors(path, ".npz archive of numbers"),
        warnings.catch_warnings(action="ignore"),
        zipfile.ZipFile(path) as archive,
    ):
        yield archive


def load_npz(path: Path, name: str, most: int | None = None) -> AnyArray:
    """Return one array of an archive; `most`: bytes that it may have, those of the machine by default."""
    with _archive(path) as archive:
        member = archive.getinfo(f"{name}.npy" if f"{name}.npy" in archive.namelist() else name)
        with archive.open(member) as file:
            shape, _, dtype = npy_header(file)
            size = math.prod(shape) * dtype.itemsize
            check_room(size, f"{path}:{name}", most)
            if size > member.file_size:
                raise ValueError(f"array {name} has {member.file_size} bytes; its header promises {size}")
            file.seek(0)
            return np.lib.format.read_array(file, allow_pickle=False)


def npz_shapes(path: Path) -> Shapes:
    """Return the shapes and types of the arrays in an archive, without loading them."""
    found: Shapes = {}
    with _archive(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                shape, _, dtype = npy_header(member)
            found[name.removesuffix(".npy")] = shape, dtype
    return found


def _matrix(request: Request, shapes: Mapping[str, tuple[int, ...]], where: str, kind: str) -> str:
    """Return the name of the array to take as embeddings: the one named, or the only matrix."""
    if request.embedding is not None:
        return check_column(request.embedding, shapes, where, "embedding", kind)
    matrices = [name for name, shape in shapes.items() if len(shape) == 2]
    if "embeddings" in matrices or len(matrices) == 1:
        return "embeddings" if "embeddings" in matrices else matrices[0]
    listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
    found = f"{len(matrices) or 'no'} {'matrices' if matrices else 'matrix'} to take as embeddings"
    raise InvalidInput(f"{where} has {found} (it has: {listed}); name one: embedding=...")


def _open_npz(place: Place, request: Request) -> Dataset:
    path = place.only_file(".npz")
    shapes = npz_shapes(path)
    request.check_columns(tuple(shapes), place.name)
    request.refuse_texts(place.name)
    found = Dataset(
        None, place.name, "npz", files=place.files, columns=tuple(shapes),
        read_column=lambda name: load_npz(path, name),
    )  # fmt: skip
    images = _image_arrays(shapes, request)
    unasked = request.wanted is None and request.embedding is None
    no_matrix = not any(len(shape) == 2 for shape, _ in shapes.values())
    if request.wanted == "image" or (images is not None and unasked and no_matrix):
        found = found.replace(content=_images(path, shapes, images, request))
    else:
        name = _matrix(request, {name: shape for name, (shape, _) in shapes.items()}, place.name, "array")
        found = found.replace(rows=as_floats(load_npz(path, name, request.most), f"{path}:{name}"))
    usual = ("labels", f"{request.split}_labels")
    labels = next((name for name in usual if name in shapes and len(shapes[name][0]) == 1), None)
    return found if labels is None else found.replace(labels=load_npz(path, labels))


def _image_arrays(shapes: Shapes, request: Request) -> tuple[str, ...] | None:
    """Return the names of the array of images, or of the bytes and offsets of image files."""
    if request.image is not None:
        return (check_column(request.image, shapes, "the archive", "image", "array"),)
    if "images" in shapes:
        return ("images",)
    files = (f"{request.split}_jpeg", f"{request.split}_offsets")
    if all(name in shapes for name in files):
        return files
    stacks = [name for name, (shape, dtype) in shapes.items() if dtype == np.uint8 and len(shape) in (3, 4)]
    return (stacks[0],) if len(stacks) == 1 else None


def _images(path: Path, shapes: Shapes, names: tuple[str, ...] | None, request: Request) -> Items:
    if names is None:
        files = f"{request.check_split()}_jpeg and {request.split}_offsets"
        held = ", ".join(sorted(shapes))
        raise InvalidInput(f"{path} holds the arrays {held}; expected images and labels, or {files}")
    if len(names) == 1:
        return array_items(load_npz(path, names[0], request.most), f"{path}:{names[0]}")
    content, offsets = (load_npz(path, name, request.most) for name in names)
    cuts = offsets.astype(np.int64)
    inside = len(cuts) > 1 and cuts[0] >= 0 and cuts[-1] <= len(content)
    if content.dtype != np.uint8 or content.ndim != 1 or not inside or (np.diff(cuts) < 0).any():
        raise InvalidInput(f"{path} has offsets that do not fit its {len(content)} bytes of images")
    spans = np.stack([cuts[:-1], cuts[1:]], axis=1)
    return list_items("image", spans, lambda span: content[span[0] : span[1]].tobytes())


def write_archive(file: BinaryIO, arrays: Mapping[str, AnyArray]) -> None:
    """Write a .npz file; unlike ``numpy.savez`` an array may have any name, such as ``file``."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(values), allow_pickle=False)


def _write_npz(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    """Write the rows of every array that has one entry per row; others are left as they are."""
    if dataset.content is not None and dataset.content.array is None:
        write_images(dataset, rows, folder)
        return
    path = Path(dataset.files[0])
    arrays = kept_arrays(dataset, rows)
    for name in npz_shapes(path):
        values = load_npz(path, name)
        of_rows, there = values.shape[:1] == (len(dataset),), False
        if of_rows and values.ndim == 2 and dataset.rows is not None:  # what the rows were read from is there
            there = np.array_equal(values[:5], np.asarray(dataset.rows[:5]), equal_nan=True)
        elif of_rows:
            there = is_images(values) and dataset.content is not None
        if not there:
            arrays.setdefault(name, values[rows] if of_rows else values)
    with (folder / "kept.npz").open("wb") as file:
        write_archive(file, arrays)


# ---- safetensors: a JSON header and raw numbers, mapped into memory ----


def _open_tensors(place: Place, request: Request) -> Dataset:
    """Open tensors by name; the rows are the only matrix unless named."""
    path = place.only_file("safetensors")
    tensors, start = _tensors(path)
    request.check_columns(tuple(tensors), place.name)
    if request.wanted in ("text", "image"):
        raise InvalidInput(f"{place.name} holds tensors of numbers, no {request.wanted}s")
    shapes = {name: tuple(entry["shape"]) for name, entry in tensors.items()}
    name = _matrix(request, shapes, place.name, "tensor")
    rows = StackedRows([_tensor(path, tensors, start, name)], [f"{path}:{name}"])
    return Dataset(
        rows, place.name, "safetensors", files=place.files, columns=tuple(tensors),
        read_column=lambda name: _tensor(path, tensors, start, name),
    )  # fmt: skip


def _tensors(path: Path) -> tuple[dict[str, Any], int]:
    """Return the entries of the header and where the numbers start."""
    with file_errors(path, "safetensors file"):
        size = path.stat().st_size
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > min(_LARGEST_HEADER, size - 8):
                raise ValueError(f"its header claims {length} bytes")
            entries: dict[str, Any] = json.loads(file.read(length))
        entries.pop("__metadata__", None)
        for name, entry in entries.items():
            begin, end = entry["data_offsets"]
            if any(type(side) is not int or side < 0 for side in (*entry["shape"], begin, end)):
                raise ValueError(f"tensor {name!r} has no shape of whole numbers")
            expected = math.prod(entry["shape"]) * np.dtype(_DTYPES[entry["dtype"]]).itemsize
            if not 0 <= begin <= end <= size - 8 - length or end - begin != expected:
                raise ValueError(f"tensor {name!r} does not fit the file (truncated?)")
    return entries, 8 + length


def _tensor(path: Path, tensors: dict[str, Any], start: int, name: str) -> AnyArray:
    entry = tensors[name]
    kind, begin = entry["dtype"], start + entry["data_offsets"][0]
    array: AnyArray = np.memmap(path, np.dtype(_DTYPES[kind]), "r", begin, tuple(entry["shape"]))
    # The upper half of a float32 is a bfloat16.
    return (array.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" else array


def _write_tensors(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    kinds = {dtype.lstrip("<"): name for name, dtype in _DTYPES.items() if name != "BF16"}
    header, content = {}, b""
    for name, array in kept_arrays(dataset, rows).items():
        kind = kinds.get(array.dtype.str[1:])
        if kind is None:
            continue  # safetensors holds numbers; text ids are in the selection file
        start = len(content)
        content += np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, len(content)]}
    head = json.dumps(header).encode()
    (folder / "kept.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + content)


NPY = Format("npy", partial(is_shards, kind="npy"), _open_npy, _write_npy)
NPZ = Format("npz", partial(is_shards, kind="npz"), _open_npz, _write_npz)
SAFETENSORS = Format("safetensors", partial(is_shards, kind="safetensors"), _open_tensors, _write_tensors)
