"""`.npz` archives: arrays by name, of embeddings, of images, or of image files laid end to end."""

import math
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...errors import InvalidInput, first_line
from ..dataset import Dataset
from ..items import Items, array_items
from ..memory import check_room
from ..places import Place
from ..request import Request
from ..rows import as_floats
from .base import Format, is_shards, kept_arrays, write_images
from .npy import DAMAGED, is_images

Shapes = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]


def load_npz(path: Path, name: str, most: int | None = None) -> npt.NDArray[Any]:
    """Return one array of an archive; `most`: bytes that it may have, those of the machine by default."""
    with npz_errors(path), zipfile.ZipFile(path) as archive:
        member = archive.getinfo(f"{name}.npy" if f"{name}.npy" in archive.namelist() else name)
        with archive.open(member) as file:
            shape, dtype = _declared(file)
            size = math.prod(shape) * dtype.itemsize
            check_room(size, f"{path}:{name}", most)
            if size > member.file_size:
                raise ValueError(f"array {name} has {member.file_size} bytes; its header promises {size}")
        with archive.open(member) as file:
            array: npt.NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        return array


def _declared(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read the shape and the type of an array from its header."""
    version = np.lib.format.read_magic(member)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else None
    shape, _, dtype = (read or np.lib.format.read_array_header_2_0)(member)
    return shape, dtype


def npz_shapes(path: Path) -> Shapes:
    """Return the shapes and types of the arrays in an archive, without loading them."""
    found: Shapes = {}
    with npz_errors(path), zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                found[name.removesuffix(".npy")] = _declared(member)
    return found


@contextmanager
def npz_errors(path: Path) -> Iterator[None]:
    """Turn what a damaged or missing archive raises into one sentence."""
    try:
        with warnings.catch_warnings():  # of files that Python 2 wrote, which are read all the same
            warnings.simplefilter("ignore", UserWarning)
            yield
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    except InvalidInput:
        raise
    except (*DAMAGED, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        first = "it holds Python objects" if "pickle" in str(error) else first_line(error)
        raise InvalidInput(f"{path} is not a readable .npz archive of numbers: {first}") from None


def only_matrix(shapes: Mapping[str, tuple[int, ...]], where: str) -> str:
    """Return the name of the array to take as embeddings, or raise an error that lists what there is."""
    matrices = [name for name, shape in shapes.items() if len(shape) == 2]
    if "embeddings" in matrices:
        return "embeddings"
    if len(matrices) != 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
        found = "no matrix" if not matrices else f"{len(matrices)} matrices"
        raise InvalidInput(
            f"{where} has {found} to take as embeddings (it has: {listed}); name one: embedding=..."
        )
    return matrices[0]


def _open(place: Place, request: Request) -> Dataset:
    path = place.only_file(".npz")
    shapes = npz_shapes(path)
    request.check_columns(tuple(shapes), place.name)
    if request.wanted == "text":
        raise InvalidInput(f"{place.name} holds no texts; expected a table or lines of text")
    found = Dataset(
        None,
        place.name,
        "npz",
        files=place.files,
        columns=tuple(shapes),
        read_column=lambda name: load_npz(path, name),
    )
    images = _image_arrays(shapes, request)
    if request.wanted == "image" or (images is not None and _no_rows(shapes, request)):
        found = found.replace(content=_images(path, shapes, images, request))
    else:
        embedding = request.embedding or only_matrix(
            {name: shape for name, (shape, _) in shapes.items()}, place.name
        )
        _check_array(embedding, shapes, place.name, "embedding")
        found = found.replace(rows=as_floats(load_npz(path, embedding, request.most), f"{path}:{embedding}"))
    for name in ("labels", f"{request.split}_labels"):
        if name in shapes and len(shapes[name][0]) == 1:
            return found.replace(labels=load_npz(path, name))
    return found


def _no_rows(shapes: Shapes, request: Request) -> bool:
    matrix = any(len(shape) == 2 for shape, _ in shapes.values())
    return request.wanted is None and request.embedding is None and not matrix


def _image_arrays(shapes: Shapes, request: Request) -> tuple[str, ...] | None:
    """Return the names of the array of images, or of the bytes and offsets of image files."""
    if request.image is not None:
        _check_array(request.image, shapes, "the archive", "image")
        return (request.image,)
    if "images" in shapes:
        return ("images",)
    files = (f"{request.split}_jpeg", f"{request.split}_offsets")
    if all(name in shapes for name in files):
        return files
    stacks = [name for name, (shape, dtype) in shapes.items() if dtype == np.uint8 and len(shape) in (3, 4)]
    return (stacks[0],) if len(stacks) == 1 else None


def _images(path: Path, shapes: Shapes, names: tuple[str, ...] | None, request: Request) -> Items:
    if names is None:
        split = request.check_split()
        raise InvalidInput(
            f"{path} holds the arrays {', '.join(sorted(shapes))}; expected images and labels, or"
            f" {split}_jpeg and {split}_offsets"
        )
    if len(names) == 1:
        return array_items(load_npz(path, names[0], request.most), f"{path}:{names[0]}")
    content, offsets = (load_npz(path, name, request.most) for name in names)
    offsets = offsets.astype(np.int64)
    inside = len(offsets) > 1 and offsets[0] >= 0 and offsets[-1] <= len(content)
    if content.dtype != np.uint8 or content.ndim != 1 or not inside or (np.diff(offsets) < 0).any():
        raise InvalidInput(f"{path} has offsets that do not fit its {len(content)} bytes of images")
    cuts = offsets.tolist()

    def read(start: int, stop: int) -> list[Any]:
        return [content[cuts[row] : cuts[row + 1]].tobytes() for row in range(start, stop)]

    return Items("image", len(cuts) - 1, read)


def _check_array(name: str, shapes: Shapes, where: str, option: str) -> None:
    if name not in shapes:
        raise InvalidInput(f"{where} has no array {name!r} ({option}=...); it has: {', '.join(shapes)}")


def write_archive(file: BinaryIO, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a .npz file; unlike ``numpy.savez`` an array may have any name, such as ``file``."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(values), allow_pickle=False)


def _write(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    """Write the rows of every array that has one entry per row; others are left as they are."""
    if dataset.content is not None and dataset.content.array is None:
        write_images(dataset, rows, folder)
        return
    path = Path(dataset.files[0])
    arrays = kept_arrays(dataset, rows)
    for name, (shape, _) in npz_shapes(path).items():
        if name not in arrays and not is_rows_of(dataset, path, name):
            values = load_npz(path, name)
            arrays[name] = values[rows] if shape[:1] == (len(dataset),) else values
    with (folder / "kept.npz").open("wb") as file:
        write_archive(file, arrays)


def is_rows_of(dataset: Dataset, path: Path, name: str) -> bool:
    """Tell whether an array is what the dataset's rows, images or labels were read from."""
    values = load_npz(path, name)
    if values.shape[:1] != (len(dataset),):
        return False
    if values.ndim == 2 and dataset.rows is not None:
        return bool(np.array_equal(values[:5], np.asarray(dataset.rows[:5]), equal_nan=True))
    return is_images(values) and dataset.content is not None


FORMAT = Format("npz", lambda x, request: is_shards(x, request, "npz"), _open, _write)
