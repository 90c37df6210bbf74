"""From a path, a glob or an address to files."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from ..errors import InvalidInput
from .http import path_of, shown
from .remote import find_files, is_remote, read_in_parts

REMOTE_ENDINGS = (".parquet", ".pq", ".arrow", ".feather", ".ipc", ".npy")
SHARD_ENDINGS = (*REMOTE_ENDINGS, ".npz", ".safetensors")


@dataclass(frozen=True)
class Place:
    """Where data is."""

    name: str  # as the user named it
    files: tuple[str, ...]  # the files, in natural order of their names; of a folder those right in it
    folder: Path | None = None  # the folder, where the user named one

    @property
    def path(self) -> Path:
        """The folder or the first file."""
        return self.folder or Path(self.files[0])

    @property
    def endings(self) -> frozenset[str]:
        """How the files' names end, in lower case."""
        return frozenset(ending_of(file) for file in self.files)

    def of_kind(self, *endings: str) -> Place:
        """Return the same place with only the files whose names have one of these endings."""
        files = tuple(file for file in self.files if ending_of(file) in endings)
        return Place(self.name, files, self.folder)

    def only_file(self, kind: str) -> Path:
        """Return the file where there must be one."""
        if len(self.files) != 1:
            raise InvalidInput(f"{self.name} names {len(self.files)} {kind} files; expected one")
        return Path(self.files[0])


def natural_order(files: Iterable[str]) -> list[str]:
    """Return files in the order of their names, in which numbers count as numbers.

    >>> natural_order(["part10", "part2", "part1"])
    ['part1', 'part2', 'part10']
    """

    def key(file: str) -> tuple[list[str | int], str]:
        parts = re.split(r"([0-9]+)", file)
        return [int(part) if place % 2 else part for place, part in enumerate(parts)], file

    return sorted(files, key=key)


def order_notes(files: Sequence[str]) -> Iterator[str]:
    """Say in which order files are read where their names could be put in another."""
    for before, after in pairwise(files):
        if before > after:
            first, then = os.path.basename(before), os.path.basename(after)
            if first == then:  # in folders that have numbers
                first, then = before, after
            yield f"the {len(files):,} files are read in the order of their numbers: {first} before {then}"
            return


def kind_of_entry(entry: os.DirEntry[str]) -> Literal["file", "folder", "special", "nothing"]:
    """Return what an entry of a folder is, or what it leads to: nothing, where a link is broken or a loop.

    What is special (a pipe, a socket, a device) is not to be read: that could take for ever.
    """
    try:
        if entry.is_file(follow_symlinks=False):  # as the folder itself says, without another look
            return "file"
        if entry.is_dir():
            return "folder"
        if entry.is_file():
            return "file"
    except OSError:
        pass
    return "special" if os.path.exists(entry.path) else "nothing"


def ending_of(file: str) -> str:
    """Return how the name of a file ends, in lower case; of an address, its path."""
    return Path(path_of(file)).suffix.lower()


def find_place(path: str | os.PathLike[str], most: int | None = None) -> Place:
    """Return what a path, a glob or an address names.

    `most`: bytes that may be fetched of a file whose server does not send parts of it. Raises `InvalidInput`:
    nothing is there, or neither a file nor a folder.
    """
    name = os.fspath(path)
    if is_remote(name):
        return Place(shown(name), read_in_parts(tuple(natural_order(find_files(name, REMOTE_ENDINGS))), most))
    if os.path.isdir(name):
        try:
            entries = {entry.path: kind_of_entry(entry) for entry in os.scandir(name)}
        except OSError as error:
            raise InvalidInput(f"cannot read the folder {name}: {error.strerror or error}") from error
        files = []
        for path, kind in entries.items():
            if kind == "special" and path.lower().endswith(SHARD_ENDINGS):
                raise InvalidInput(f"{path} is a pipe, a socket or a device; expected files")
            if kind in ("file", "nothing") and not os.path.basename(path).startswith((".", "_")):
                files.append(path)
        return Place(name, tuple(natural_order(files)), Path(name))
    files = natural_order(glob.glob(name)) if glob.has_magic(name) and not os.path.exists(name) else [name]
    if not files:
        raise InvalidInput(f"no file matches {name}")
    for file in files:
        if not os.path.exists(file):
            raise InvalidInput(f"there is no file {file}")
        if not os.path.isfile(file):
            if os.path.isdir(file):
                raise InvalidInput(f"{name} matches the folder {file}; expected files, as in {name}/*")
            raise InvalidInput(f"{file} is neither a file nor a folder; expected one of them")
    return Place(name, tuple(files))
