"""A folder of images: a class per subfolder, or flat."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ...arrays import IntArray
from ...errors import InvalidInput
from ..dataset import Dataset
from ..images import SUFFIXES
from ..items import file_items, spelled
from ..places import Place, kind_of_entry
from ..request import Request, refuse_bad
from .base import Format


def _open(place: Place, request: Request) -> Dataset:
    """Open the images below a folder, in the order of their paths.

    Where every image lies in a subfolder, the first one on its way is its label. Files whose names do
    not end like an image are left out and counted; hidden ones are left out.
    """
    root = place.path
    paths, others = list_images(root)
    if not paths:
        raise InvalidInput(
            f"the folder {root} has no file of embeddings and holds no images (files that end in"
            f" {', '.join(sorted(SUFFIXES))})"
        )
    if request.wanted == "text":
        raise InvalidInput(f"{root} holds no texts; expected a table or lines of text")
    if request.wanted == "rows":
        raise InvalidInput(f"{root} holds images; expected embeddings, or an encoder that takes images")
    request.refuse_columns(place.name)
    names, bad = [spelled(name) for name in paths], dict[int, str]()
    for row, (name, path) in enumerate(zip(names, paths, strict=True)):
        if name != path:
            bad[row] = f"the name of {name} is not UTF-8"
    if bad and not request.drop:
        raise refuse_bad(bad, len(names), place.name)
    nested = ["/" in name for name in names]
    notes = [*_notes(root, names, others)]
    if any(nested) and not all(nested):
        direct = len(nested) - sum(nested)
        notes.append(
            f"{direct} of {len(names)} images lie in {root} itself and the rest in subfolders:"
            " the subfolders are not taken as labels"
        )
    return Dataset(
        None,
        place.name,
        "image-folder",
        ids=np.array(names),
        labels=np.array([name.partition("/")[0] for name in names]) if all(nested) else None,
        files=tuple(str(root / path) for path in paths),
        content=file_items([root / path for path in paths]),
        bad=bad,
        notes=tuple(notes),
    )


def list_images(root: Path) -> tuple[list[str], list[str]]:
    """Return the images and the other files below a folder, as sorted paths with forward slashes.

    Links are followed; hidden files and folders are left out.
    """
    images: list[str] = []
    others: list[str] = []
    for path in _walk(root, set()):
        name = path.relative_to(root).as_posix()
        (images if path.suffix.lower() in SUFFIXES else others).append(name)
    return sorted(images), sorted(others)


def _walk(folder: Path, above: set[tuple[int, int]]) -> Iterator[Path]:
    """Yield the files below a folder, through links, but never round in a circle."""
    try:
        status = folder.stat()
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise InvalidInput(f"cannot read the folder {folder}: {error.strerror or error}") from error
    place = (status.st_dev, status.st_ino)
    if place in above:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if kind_of_entry(entry) == "folder":
            yield from _walk(Path(entry.path), above | {place})
        else:
            yield Path(entry.path)


def _notes(root: Path, names: list[str], others: list[str]) -> Iterator[str]:
    used = {name.partition("/")[0] for name in names}
    folders = sorted(
        entry.name for entry in os.scandir(root) if entry.name[0] != "." and kind_of_entry(entry) == "folder"
    )
    empty = [name for name in folders if name not in used]
    if empty:
        yield f"no images in {len(empty)} subfolder(s) of {root}: {', '.join(empty[:10])}"
    if others:
        counted = Counter(Path(name).suffix.lower() or Path(name).name for name in others)
        kinds = ", ".join(f"{count} {suffix}" for suffix, count in counted.most_common(5))
        yield f"left out files whose names are not those of images: {kinds}"


def _write(dataset: Dataset, rows: IntArray, folder: Path) -> None:
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


FORMAT = Format(
    "image-folder", lambda x, request: isinstance(x, Place) and x.folder is not None, _open, _write
)
