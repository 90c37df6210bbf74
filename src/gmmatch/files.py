"""Files that appear whole or not at all, the folder of the cache, and the memory there is."""

import fnmatch
import glob
import json
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Literal

import numpy as np

from .errors import InvalidInput, InvalidParameter, brief

if sys.platform != "win32":
    import fcntl

SHARDS = {
    ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
    ".npy": "npy", ".npz": "npz", ".safetensors": "safetensors",
}  # fmt: skip
"""Endings of files that may stand together as the shards of one dataset, and their kinds."""
_Lock = Literal["wait", "share", "try"]
_JOURNAL = "journal"
_DAY = 24 * 3600.0


def write_all(stream: IO[bytes], content: memoryview | bytes) -> None:
    """Write bytes to a file without a buffer, which may take some of them at a time."""
    left = memoryview(content)
    while left:
        left = left[stream.write(left) :]


@contextmanager
def os_errors(refusal: str, hint: str = "") -> Iterator[None]:
    """Turn what the system refuses into one sentence: `refusal`, its reason, and the way out."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"{refusal}: {error.strerror or error}{hint}") from error


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary name beside `path`; what was written there takes its place at the end.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with whole_file(target) as partial:
    ...     _ = partial.write_text("all of it")
    >>> target.read_text()
    'all of it'
    """
    with whole_files(Path(path)) as (partial,):
        yield partial


@contextmanager
def whole_files(*targets: Path) -> Iterator[tuple[Path, ...]]:
    """Yield a file or folder to write for each target; at the end all of them take their places.

    They are written in a hidden folder beside the targets, under a random name that no other process or
    thread has, and reach the disk before they are moved, so that a machine that stops leaves no empty file
    behind. The first target is moved last: what belongs to it is there when it appears. If anything fails
    before that, every target is what it was. Where the process is killed in between, `remove_partials` of
    the first target undoes what was done. Of two writers of the same targets, all come from one of them.
    """
    for target in targets:
        if not target.parent.is_dir():
            raise InvalidInput(f"cannot write {target}: the folder {target.parent} does not exist")
    main, parents = targets[0], list(dict.fromkeys(target.parent for target in targets))
    with os_errors(f"cannot write {main}"), ExitStack() as stack:
        remove_partials(main)
        folders = {parent: stack.enter_context(_partial_folder(parent, main.name)) for parent in parents}
        numbered = enumerate(targets)
        partials = tuple(folders[target.parent] / f"{number}.{target.name}" for number, target in numbered)
        yield partials
        walked = (entry for partial in partials for entry in os.walk(partial))
        for file in (*(Path(inside, name) for inside, _, names in walked for name in names), *partials):
            _flush(file)
        if len(targets) > 1:
            for parent in parents:
                stack.enter_context(_locked(parent))
            _place_together(partials, targets)
        else:
            os.replace(partials[0], main)
        for parent in parents:
            with suppress(OSError):  # not every file system flushes folders
                _flush(parent)


@contextmanager
def _partial_folder(parent: Path, name: str) -> Iterator[Path]:
    """Make a hidden folder that is locked while it is in use, and remove it at the end."""
    while True:
        folder = parent / f".{name}.{secrets.token_hex(8)}.partial"
        os.mkdir(folder)
        with _locked(folder):
            if not folder.exists():
                continue  # before it was locked, another run took it for one that was left behind
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return


def _place_together(partials: Sequence[Path], targets: Sequence[Path]) -> None:
    """Move several files to their places, the first last, with a journal by which this can be undone."""
    backups = [partial.with_name(f"before.{partial.name}") for partial in partials]
    entries = [
        [str(target.absolute()), str(backup.absolute()), partial.stat().st_ino]
        for partial, target, backup in zip(partials[1:], targets[1:], backups[1:], strict=True)
    ]
    journal = partials[0].with_name(_JOURNAL)
    journal.write_text(json.dumps({"main": partials[0].name, "moved": entries}), encoding="utf-8")
    _flush(journal)
    try:
        for partial, target, backup in reversed(list(zip(partials, targets, backups, strict=True))):
            if partial is not partials[0] and target.exists():
                try:
                    os.link(target, backup)
                except OSError:  # a file system without links
                    os.replace(target, backup)
            os.replace(partial, target)
    except BaseException:
        _undo(journal.parent)
        raise


def _undo(folder: Path) -> None:
    """Put back what a run replaced that ended before the first of its files was in place."""
    # Without a journal, or with half of one, nothing was moved.
    with suppress(OSError, ValueError, LookupError, TypeError):
        journal = json.loads((folder / _JOURNAL).read_text(encoding="utf-8"))
        if not (folder / journal["main"]).exists():
            return  # all of them are in their places
        for target, backup, inode in journal["moved"]:
            if os.path.exists(backup):
                os.replace(backup, target)
            elif os.path.exists(target) and os.stat(target).st_ino == inode:
                os.unlink(target)


@contextmanager
def _locked(folder: Path, how: _Lock = "wait") -> Iterator[bool | None]:
    """Lock a folder; yield True, False if another process holds it, None where folders cannot be locked."""
    descriptor = None
    with suppress(OSError):
        descriptor = None if sys.platform == "win32" else os.open(folder, os.O_RDONLY)
    try:
        yield None if descriptor is None else _flock(descriptor, how)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _flock(descriptor: int, how: _Lock) -> bool | None:
    if sys.platform == "win32":
        return None
    kinds = {"wait": fcntl.LOCK_EX, "share": fcntl.LOCK_SH, "try": fcntl.LOCK_EX | fcntl.LOCK_NB}
    try:
        fcntl.flock(descriptor, kinds[how])
    except BlockingIOError:
        return False
    except OSError:  # some network file systems lock no folders
        return None
    return True


def _flush(path: Path) -> None:
    """Make sure that a file, or the list of files of a folder, has reached the disk."""
    if sys.platform == "win32":  # which flushes only what may be written to
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_folder(path: Path) -> None:
    """Refuse a file that could not be written where it is to be."""
    folder = path.parent
    if not folder.is_dir():
        raise InvalidInput(f"cannot write {path}: there is no folder {folder}")
    if path.is_dir():
        raise InvalidInput(f"cannot write {path}: it is a folder")
    if not os.access(folder, os.W_OK):
        locked = sys.platform != "win32" and os.statvfs(folder).f_flag & os.ST_RDONLY
        reason = "Read-only file system" if locked else "permission denied"
        raise InvalidInput(f"cannot write {path}: {reason}")


def as_path(given: object, name: str) -> Path:
    """Return the path of a file."""
    if not isinstance(given, (str, os.PathLike)):
        raise InvalidParameter(f"{name} must be the path of a file; got {brief(given)}")
    if "\0" in os.fspath(given):
        raise InvalidParameter(f"{name} has a NUL character, which no name of a file has")
    return Path(given)


def check_apart(outputs: Sequence[Path], inputs: Iterable[object]) -> None:
    """Refuse two outputs of one name, outputs that are what is read, and new ones that would be read with it.

    `inputs`: paths, patterns and memory maps; what else there is has no file. ``FILE:COLUMN`` means the file.
    Files are the same where their names lead to one place, through links or not.
    """
    if len({os.path.realpath(path) for path in outputs}) < len(outputs):
        raise InvalidParameter("two outputs have the same name; expected a file for each")
    there = {number: path for path in outputs if (number := _file_number(path)) is not None}
    for name in names_of(inputs):
        # What is read exists, and no output may.
        if there and (number := _file_number(name)) in there:
            raise InvalidParameter(f"{there[number]} is the input; name another file for the output")
        for path in outputs:
            if _would_join(path, name):
                if path.exists():
                    raise InvalidParameter(f"{path} is the input; name another file for the output")
                raise InvalidParameter(f"{path} would be read with {name} from then on; name another folder")


def _would_join(path: Path, name: str) -> bool:
    """Return True if a file is, or would be, a part of what a folder or a pattern names.

    Of a folder only the files of some endings are shards.
    """
    is_folder = os.path.isdir(name)
    folder, pattern = (name, "*") if is_folder else os.path.split(name)
    if not glob.has_magic(pattern) or os.path.isfile(name) or not fnmatch.fnmatch(path.name, pattern):
        return False
    is_shard = not is_folder or path.suffix.lower() in SHARDS
    return is_shard and os.path.realpath(path.parent) == os.path.realpath(folder or ".")


def check_outside(folder: Path, given: object) -> None:
    """Refuse a new folder inside the one that is read, whose folders are classes."""
    if isinstance(given, (str, os.PathLike)) and os.path.isdir(given):
        inside, root = folder.resolve(), Path(given).resolve()
        if root in (inside, *inside.parents):
            raise InvalidParameter(f"{folder} lies inside the input {given}; name a folder outside it")


def names_of(inputs: Iterable[object]) -> list[str]:
    """Return the files that inputs may be, with the folders and patterns that name them."""
    names: list[str] = []
    for given in inputs:
        base = given
        while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
            base = base.base
        if isinstance(base, np.memmap):
            given = base.filename
        if not isinstance(given, (str, os.PathLike)) or not os.fspath(given):
            continue
        name = os.fspath(given)
        matches = glob.glob(name) if glob.has_magic(name) and not os.path.exists(name) else []
        names += [name, file_and_column(name)[0], *matches]
    return names


def file_and_column(name: str) -> tuple[str, str | None]:
    """Return the file and the column that ``FILE:COLUMN`` names, of which either may have colons.

    Without a column, or where there is no such file, the column is None.
    """
    file = "" if os.path.exists(name) else name
    while ":" in file:
        file = file.rpartition(":")[0]
        if os.path.isfile(file):
            return file, name[len(file) + 1 :]
    return name, None


def _file_number(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Return what is the same for all names of a file; None where there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def check_new(path: Path, overwrite: bool) -> None:
    """Refuse an output that exists already, unless it may be replaced."""
    if path.exists() and not overwrite:
        way = "name a new folder" if path.is_dir() else "overwrite=True replaces it"
        raise InvalidInput(f"cannot write {path}: it exists already; {way}")


def make_folder(folder: Path, refusal: str = "cannot write to", hint: str = "") -> Path:
    """Make a folder, and those above it, if it is not there."""
    with os_errors(f"{refusal} {folder}", hint):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def remove_partials(path: Path) -> None:
    """Undo and remove what runs that were killed left half written in place of a file or a folder."""
    _remove_left(path.parent.glob(f".{glob.escape(path.name)}.*.partial"))


def remove_partials_in(folder: Path) -> None:
    """Undo and remove what runs that were killed left half written anywhere in a folder."""
    _remove_left(list(folder.rglob(".*.partial")))


def _remove_left(found: Iterable[Path]) -> None:
    """Undo and remove what was left half written.

    What a running process or thread writes is locked, and stays; where the file system has no locks, what
    is younger than a day does.
    """
    for left in found:
        if not re.fullmatch(r"[0-9a-f]{16}", left.name.removesuffix(".partial").rpartition(".")[2]):
            continue
        with suppress(FileNotFoundError), _locked(left, "try") as is_free:
            if is_free or (is_free is None and time.time() - left.stat().st_mtime > _DAY):
                _undo(left)
                shutil.rmtree(left, ignore_errors=True)


def use_folder(folder: Path) -> int | None:
    """Lock a folder that exists against `remove_unused`, together with others; return the lock."""
    if sys.platform == "win32" or not folder.is_dir():
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    _flock(descriptor, "share")
    return descriptor


def remove_unused(folder: Path, files: Iterable[Path] | None = None) -> bool:
    """Remove a folder, or some of its files, unless it is in use; return whether that was done."""
    # Another process may have removed it.
    with suppress(FileNotFoundError), _locked(folder, "try") as is_free:
        if is_free is False:
            return False
        if files is None:
            shutil.rmtree(folder)
        for file in files or ():
            file.unlink(missing_ok=True)
    return True


def cache_folder() -> Path:
    """Return the folder named by ``GMMATCH_CACHE``, or ``gmmatch`` in the user's cache folder."""
    if named := os.environ.get("GMMATCH_CACHE"):
        return Path(named)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "gmmatch"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gmmatch"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gmmatch"


def machine_memory() -> int:
    """Return the bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
