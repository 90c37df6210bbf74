"""From a path, a glob or an address to files."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from pathlib import Path

from ..errors import InvalidInput
from .remote import find_files, is_remote

REMOTE_ENDINGS = (".parquet", ".pq", ".arrow", ".feather", ".ipc", ".npy")


@dataclass(frozen=True)
class Place:
    """Where data is."""

    name: str  # as the user named it
    files: tuple[str, ...]  # the files, sorted by name; of a folder those right in it
    folder: Path | None = None  # the folder, where the user named one

    @property
    def path(self) -> Path:
        """The folder or the first file."""
        return self.folder or Path(self.files[0])

    @property
    def endings(self) -> frozenset[str]:
        """How the files' names end, in lower case."""
        return frozenset(Path(file).suffix.lower() for file in self.files)

    def of_kind(self, *endings: str) -> Place:
        """Return the same place with only the files whose names have one of these endings."""
        files = tuple(file for file in self.files if Path(file).suffix.lower() in endings)
        return Place(self.name, files, self.folder)

    def only_file(self, kind: str) -> Path:
        """Return the file where there must be one."""
        if len(self.files) != 1:
            raise InvalidInput(f"{self.name} names {len(self.files)} {kind} files; expected one")
        return Path(self.files[0])


def find_place(path: str | os.PathLike[str]) -> Place:
    """Return what a path, a glob or an address names.

    Raises `InvalidInput`: nothing is there, or neither a file nor a folder.
    """
    name = os.fspath(path)
    if is_remote(name):
        return Place(name, find_files(name, REMOTE_ENDINGS))
    if os.path.isdir(name):
        try:
            entries = sorted(entry.path for entry in os.scandir(name) if not entry.is_dir())
        except OSError as error:
            raise InvalidInput(f"cannot read the folder {name}: {error.strerror or error}") from error
        visible = [entry for entry in entries if not os.path.basename(entry).startswith((".", "_"))]
        return Place(name, tuple(visible), Path(name))
    files = sorted(glob.glob(name)) if glob.has_magic(name) and not os.path.exists(name) else [name]
    if not files:
        raise InvalidInput(f"no file matches {name}")
    for file in files:
        if not os.path.exists(file):
            raise InvalidInput(f"there is no file {file}")
        if not os.path.isfile(file):
            raise InvalidInput(f"{file} is neither a file nor a folder; expected one of them")
    return Place(name, tuple(files))
