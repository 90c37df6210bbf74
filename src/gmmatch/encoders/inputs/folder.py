"""A folder of images: a class per subfolder, or flat."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ...errors import InvalidInput
from ..images import SUFFIXES
from .base import Input, read_files


def open_folder(root: Path) -> Input:
    """Return the images below a folder, in the order of their paths.

    Where every image lies in a subfolder, the first one on its way is its label. Files whose names do
    not end like an image are left out and counted; hidden ones are left out.
    """
    found: list[Path] = []
    others: Counter[str] = Counter()
    for path in _walk(root, set()):
        if path.suffix.lower() in SUFFIXES:
            found.append(path)
        else:
            others[path.suffix.lower() or path.name] += 1
    if not found:
        raise InvalidInput(f"{root} holds no images (files that end in {', '.join(sorted(SUFFIXES))})")
    names = [path.relative_to(root).as_posix() for path in found]
    order = sorted(range(len(found)), key=names.__getitem__)
    names, found = [names[row] for row in order], [found[row] for row in order]
    nested = ["/" in name for name in names]
    notes = [*_notes(root, names, others)]
    labels = np.array([name.partition("/")[0] for name in names]) if all(nested) else None
    if any(nested) and not all(nested):
        direct = len(nested) - sum(nested)
        notes.append(
            f"{direct} of {len(names)} images lie in {root} itself and the rest in subfolders:"
            " the subfolders are not taken as labels"
        )
    return Input(
        "image",
        np.array(names),
        read_files(found),
        labels=labels,
        paths=[str(path) for path in found],
        notes=tuple(notes),
    )


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
        if entry.is_dir():
            yield from _walk(Path(entry.path), above | {place})
        else:
            yield Path(entry.path)


def _notes(root: Path, names: list[str], others: Counter[str]) -> Iterator[str]:
    used = {name.partition("/")[0] for name in names}
    folders = sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and entry.name[0] != ".")
    empty = [name for name in folders if name not in used]
    if empty:
        yield f"no images in {len(empty)} subfolder(s) of {root}: {', '.join(empty[:10])}"
    if others:
        kinds = ", ".join(f"{count} {suffix}" for suffix, count in others.most_common(5))
        yield f"left out {others.total()} file(s) that are not images by their name: {kinds}"
