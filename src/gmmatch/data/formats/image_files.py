"""Images in files of their own, flat or in a folder per class; in IDX files; and in CIFAR batches.

IDX is the format of MNIST and Fashion-MNIST, plain or compressed. Of CIFAR-10 and CIFAR-100, the binary
version is read, and the python version without unpickling.
"""

import gzip
import math
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeGuard

import numpy as np

from ...arrays import AnyArray, IntArray, UInt8Array
from ...errors import InvalidInput
from ...files import os_errors
from ..dataset import Dataset, array_items, file_items, spelled
from ..images import SUFFIXES
from ..pickles import as_text, read_pickle
from ..remote import is_remote
from ..request import Place, Request, kind_of_entry, refuse_bad
from .base import Format, check_room, file_errors, write_images

PIXELS = 3 * 32 * 32
_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_PREFIXES = {"train": ("train",), "test": ("t10k", "test")}
_IMAGES = re.compile(r"images[-.]idx3-ubyte(\.gz)?$")
# For each version of CIFAR: files of the training set and of the test set.
_VERSIONS: tuple[Mapping[str, tuple[str, ...]], ...] = (
    {"train": tuple(f"data_batch_{part}" for part in range(1, 6)), "test": ("test_batch",)},
    {"train": tuple(f"data_batch_{part}.bin" for part in range(1, 6)), "test": ("test_batch.bin",)},
    {"train": ("train",), "test": ("test",)},
    {"train": ("train.bin",), "test": ("test.bin",)},
)


# ---- a folder of images ----


def _open_folder(place: Place, request: Request) -> Dataset:
    """Open the images below a folder, in the order of their paths.

    Where every image lies in a subfolder, the first one on its way is its label. Files whose names do
    not end like an image are left out and counted; hidden ones are left out.
    """
    root, paths, others = place.path, list[str](), list[str]()
    for name in sorted(path.relative_to(root).as_posix() for path in _walk(root, set())):
        (paths if Path(name).suffix.lower() in SUFFIXES else others).append(name)
    if not paths:
        raise InvalidInput(
            f"the folder {root} has no file of embeddings and holds no images (files that end in"
            f" {', '.join(sorted(SUFFIXES))})"
        )
    request.refuse_texts(str(root))
    if request.wanted == "rows":
        raise InvalidInput(f"{root} holds images; expected embeddings, or an encoder that takes images")
    request.refuse_columns(place.name)
    names = [spelled(name) for name in paths]
    bad = {row: f"the name of {name} is not UTF-8" for row, name in enumerate(names) if name != paths[row]}
    if bad and not request.drop:
        raise refuse_bad(bad, len(names), place.name)
    classes = [name.partition("/")[0] for name in names if "/" in name]
    labels = np.array(classes) if len(classes) == len(names) else None
    notes = tuple(_notes(root, names, others, len(classes)))
    files = [root / path for path in paths]
    found = Dataset(None, place.name, "image-folder", files=tuple(map(str, files)), content=file_items(files))
    return found.replace(ids=np.array(names), labels=labels, bad=bad, notes=notes)


def _walk(folder: Path, above: set[tuple[int, int]]) -> Iterator[Path]:
    """Yield the files below a folder, through links, but never round in a circle; none that are hidden."""
    with os_errors(f"cannot read the folder {folder}"):
        inode = (folder.stat().st_dev, folder.stat().st_ino)
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    for entry in entries if inode not in above else ():
        if not entry.name.startswith("."):
            path, is_folder = Path(entry.path), kind_of_entry(entry) == "folder"
            yield from _walk(path, above | {inode}) if is_folder else [path]


def _notes(root: Path, names: list[str], others: list[str], nested: int) -> Iterator[str]:
    used = {name.partition("/")[0] for name in names}
    folders = sorted(spelled(entry.name) for entry in os.scandir(root) if kind_of_entry(entry) == "folder")
    empty = [name for name in folders if name[0] != "." and name not in used]
    if empty:
        yield f"no images in {len(empty)} subfolder(s) of {root}: {', '.join(empty[:10])}"
    if others:
        counted = Counter(Path(name).suffix.lower() or Path(name).name for name in others)
        kinds = ", ".join(f"{count} {suffix}" for suffix, count in counted.most_common(5))
        yield f"left out files whose names are not those of images: {kinds}"
    if 0 < nested < len(names):
        yield (
            f"{len(names) - nested} of {len(names)} images lie in {root} itself and the rest in subfolders:"
            " the subfolders are not taken as labels"
        )


def _write_folder(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    """Link or copy the images, in the folders that they are in."""
    root = Path(dataset.name)
    for row in rows.tolist():
        source = Path(dataset.files[row])
        target = folder / source.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source.resolve(), target)
        except OSError:  # another file system, or one without links
            shutil.copy2(source, target)


# ---- IDX ----


def is_one_file(x: object) -> TypeGuard[Place]:
    """Return True for one file of this machine."""
    return isinstance(x, Place) and x.folder is None and len(x.files) == 1 and not is_remote(x.name)


def is_idx(path: Path) -> bool:
    """Return True if a file is IDX by its name or its first bytes."""
    if re.search(r"idx\d-ubyte(\.gz)?$", path.name):
        return True
    with path.open("rb") as stream:
        head = stream.read(4)
    return len(head) == 4 and head[:2] == b"\0\0" and head[2] in _TYPES and 1 <= head[3] <= 4


def _has_idx(x: object, request: Request) -> bool:
    if isinstance(x, Place) and x.folder is not None:
        return any(_IMAGES.search(Path(file).name) for file in x.files)
    return is_one_file(x) and is_idx(x.path)


def _open_idx(place: Place, request: Request) -> Dataset:
    """Open the images of an IDX file, with the labels of the file beside it, if there is one."""
    request.refuse_columns(place.name)
    path = place.path
    if place.folder is not None:
        prefixes = _PREFIXES[request.check_split()]
        names = [Path(file).name for file in place.files if _IMAGES.search(Path(file).name)]
        of_split = next((name for name in names if name.startswith(prefixes)), None)
        if of_split is None:
            expected = f"expected a name that begins with {' or '.join(prefixes)}"
            raise InvalidInput(f"{place.name} holds {', '.join(names)}; {expected}")
        path = place.folder / of_split
    images = read_idx(path, request.most)
    twin = path.with_name(re.sub(r"images([-.])idx3", r"labels\1idx1", path.name))
    labels = read_idx(twin).astype(np.int64) if twin != path and twin.is_file() else None
    content = array_items(images, str(path))
    return Dataset(None, place.name, "idx", labels=labels, files=(str(path),), content=content)


def read_idx(path: Path, most: int | None = None) -> AnyArray:
    """Return the array in an IDX file, of which no more is unpacked than its head promises.

    `most`: bytes that it may have; those of the machine's memory by default.

    Raises `InvalidInput`: not IDX, cut short, or longer than its head says.
    """
    with file_errors(path, "IDX file"), path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream = gzip.GzipFile(fileobj=file) if packed else file
        begin = stream.read(4)
        if len(begin) < 4 or begin[:2] != b"\0\0" or begin[2] not in _TYPES:
            raise InvalidInput(f"{path} begins with {begin!r}; expected an IDX file")
        dtype, sides = np.dtype(_TYPES[begin[2]]), stream.read(4 * begin[3])
        if len(sides) < 4 * begin[3]:
            raise InvalidInput(f"{path} is cut short: it ends inside its head")
        shape = tuple(np.frombuffer(sides, ">u4").tolist())
        expected = math.prod(shape) * dtype.itemsize
        check_room(expected, str(path), most)
        content = stream.read(expected)
        is_longer = bool(stream.read(1))
    if len(content) != expected or is_longer:
        head, more = 4 + len(sides), "" if len(content) < expected else "more than "
        promised = f"its head promises {head + expected} (shape {shape})"
        raise InvalidInput(f"{path} has {more}{head + len(content)} bytes; {promised}")
    return np.frombuffer(content, dtype).reshape(shape)


# ---- CIFAR ----


def _has_batches(x: object, request: Request) -> bool:
    if isinstance(x, Place) and x.folder is not None:
        return _version(x.folder) is not None
    return is_one_file(x) and _is_batch(x.path)


def _is_batch(path: Path) -> bool:
    """Return True if a file is a CIFAR batch by its name or its first bytes."""
    if path.suffix == ".bin":
        return True
    with path.open("rb") as stream:
        return path.suffix in ("", ".pkl", ".pickle") and stream.read(1) in (b"\x80", b"(")


def _version(folder: Path) -> Mapping[str, tuple[str, ...]] | None:
    for version in _VERSIONS:
        files = (folder / name for names in version.values() for name in names)
        if any(file.is_file() and _is_batch(file) for file in files):
            return version
    return None


def _open_batches(place: Place, request: Request) -> Dataset:
    """Open one batch, or the training or the test set of a folder of them."""
    request.refuse_columns(place.name)
    paths = [place.path]
    if place.folder is not None:
        names = (_version(place.folder) or _VERSIONS[0])[request.check_split()]
        missing = [name for name in names if not (place.folder / name).is_file()]
        if missing:
            raise InvalidInput(f"{place.name} holds CIFAR batches, but not {', '.join(missing)}")
        paths = [place.folder / name for name in names]
    batches = []
    for path in paths:
        with file_errors(path, "CIFAR batch"):
            batches.append(_read_binary(path) if path.suffix == ".bin" else _read_python(path))
    # Planes of red, green and blue become images.
    planes = np.concatenate([pixels for pixels, _ in batches]).reshape(-1, 3, 32, 32)
    content = array_items(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), place.name)
    given = [labels for _, labels in batches if labels is not None]
    labels = np.concatenate(given) if len(given) == len(batches) else None
    return Dataset(None, place.name, "cifar", labels=labels, files=tuple(map(str, paths)), content=content)


def _read_binary(path: Path) -> tuple[UInt8Array, IntArray]:
    """Each record is one label (CIFAR-10) or a coarse and a fine one (CIFAR-100), then the pixels."""
    content = np.fromfile(path, dtype=np.uint8)
    for labels in (1, 2):
        if content.size and content.size % (labels + PIXELS) == 0:
            records = content.reshape(-1, labels + PIXELS)
            return records[:, labels:], records[:, labels - 1].astype(np.int64)
    raise InvalidInput(
        f"{path} has {content.size} bytes; expected whole records of {1 + PIXELS} (CIFAR-10)"
        f" or {2 + PIXELS} (CIFAR-100)"
    )


def _read_python(path: Path) -> tuple[UInt8Array, IntArray | None]:
    try:
        with path.open("rb") as stream:
            content = read_pickle(stream)
    except InvalidInput as error:
        raise InvalidInput(f"cannot read {path} as a CIFAR batch: {error}") from error
    batch = {as_text(key): value for key, value in content.items()} if isinstance(content, dict) else {}
    pixels, labels = batch.get("data"), batch.get("fine_labels", batch.get("labels"))
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (PIXELS,):
        raise InvalidInput(
            f"{path} holds {', '.join(sorted(batch)) or type(content).__name__};"
            f" expected data, uint8 of shape (rows, {PIXELS}), and labels"
        )
    return pixels, None if labels is None else np.asarray(labels, dtype=np.int64)


def _is_folder(x: object, request: Request) -> bool:
    return isinstance(x, Place) and x.folder is not None


FOLDER = Format("image-folder", _is_folder, _open_folder, _write_folder)
IDX = Format("idx", _has_idx, _open_idx, write_images)
CIFAR = Format("cifar", _has_batches, _open_batches, write_images)
