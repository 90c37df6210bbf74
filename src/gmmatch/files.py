"""Files that appear whole or not at all, and the folder of the cache."""

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

import numpy as np

from .errors import InvalidInput, InvalidParameter, brief

if sys.platform != "win32":
    import fcntl

PARTS = (".parquet", ".pq", ".arrow", ".feather", ".ipc", ".npy", ".npz", ".safetensors")
"""Endings of files that may stand together as the parts of one dataset."""
_JOURNAL = "journal"
_DAY = 24 * 3600.0


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
    try:
        remove_partials(main)
        with ExitStack() as stack:
            folders = {parent: stack.enter_context(_workplace(parent, main.name)) for parent in parents}
            partials = tuple(
                folders[target.parent] / f"{number}.{target.name}" for number, target in enumerate(targets)
            )
            yield partials
            for partial in partials:
                _flush_all(partial)
            if len(targets) > 1:
                for parent in parents:
                    stack.callback(_unlock, _lock(parent))
                _place_together(partials, targets)
            else:
                os.replace(partials[0], main)
            for parent in parents:
                with suppress(OSError):  # not every file system flushes folders
                    _flush(parent)
    except OSError as error:
        raise InvalidInput(f"cannot write {main}: {error.strerror or error}") from error


@contextmanager
def _workplace(parent: Path, name: str) -> Iterator[Path]:
    """Make a hidden folder that is locked while it is in use, and remove it at the end."""
    while True:
        folder = parent / f".{name}.{secrets.token_hex(8)}.partial"
        os.mkdir(folder)
        lock = _lock(folder)
        if folder.exists():
            break
        _unlock(lock)  # before it was locked, another run took it for one that was left behind
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _unlock(lock)


def _place_together(partials: Sequence[Path], targets: Sequence[Path]) -> None:
    """Move several files to their places, the first last, with a journal by which this can be undone."""
    entries = []
    for partial, target in zip(partials[1:], targets[1:], strict=True):
        entries.append([str(target.absolute()), str(_backup(partial).absolute()), partial.stat().st_ino])
    journal = partials[0].with_name(_JOURNAL)
    journal.write_text(json.dumps({"main": partials[0].name, "moved": entries}), encoding="utf-8")
    _flush(journal)
    try:
        for partial, target in reversed(list(zip(partials, targets, strict=True))):
            if partial is not partials[0] and target.exists():
                _link(target, _backup(partial))
            os.replace(partial, target)
    except BaseException:
        _undo(journal.parent)
        raise


def _backup(partial: Path) -> Path:
    return partial.with_name(f"before.{partial.name}")


def _link(source: Path, target: Path) -> None:
    """Give a file a second name; where the file system has no links, the only one."""
    try:
        os.link(source, target)
    except OSError:
        os.replace(source, target)


def _undo(folder: Path) -> None:
    """Put back what a run replaced that ended before the first of its files was in place."""
    try:
        journal = json.loads((folder / _JOURNAL).read_text(encoding="utf-8"))
        if not (folder / journal["main"]).exists():
            return  # all of them are in their places
        for target, backup, inode in journal["moved"]:
            if os.path.exists(backup):
                os.replace(backup, target)
            elif os.path.exists(target) and os.stat(target).st_ino == inode:
                os.unlink(target)
    except (OSError, ValueError, LookupError, TypeError):  # no journal, or half of one: nothing was moved
        return


def _lock(folder: Path) -> int | None:
    """Wait for a folder and lock it for as long as the process lives; None where there are no locks."""
    if sys.platform == "win32":
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    with suppress(OSError):  # some network file systems lock no folders
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _unlock(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)


def _flush_all(path: Path) -> None:
    for inside, _, names in os.walk(path):
        for name in names:
            _flush(Path(inside, name))
    _flush(path)


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
    """Refuse two outputs of one name, and outputs that are what is read, whatever name leads there.

    `inputs`: paths, patterns and memory maps; what else there is has no file. ``FILE:COLUMN`` means the file.
    Files are the same where their names lead to one place, through links or not.
    """
    if len({os.path.realpath(path) for path in outputs}) < len(outputs):
        raise InvalidParameter("two outputs have the same name; expected a file for each")
    there = {number: path for path in outputs if (number := _file_number(path)) is not None}
    if not there:
        return  # what is read exists, and no output does
    for name in names_of(inputs):
        number = _file_number(name)
        path = None if number is None else there.get(number)
        if path is not None:
            raise InvalidParameter(f"{path} is the input; name another file for the output")


def check_not_joining(outputs: Sequence[Path], given: Iterable[object]) -> None:
    """Refuse new files that would be parts of what a folder or a pattern names; the next run would read them.

    `given`: what was given to be read; of this, texts that name folders and patterns.
    """
    new = [path for path in outputs if path.suffix.lower() in PARTS and not path.exists()]
    for name in (os.fspath(name) for name in given if isinstance(name, (str, os.PathLike)) and new):
        folder, pattern = (name, "*") if os.path.isdir(name) else os.path.split(name)
        for path in new if glob.has_magic(pattern) else ():
            beside = os.path.realpath(path.parent) == os.path.realpath(folder or ".")
            if beside and fnmatch.fnmatch(path.name, pattern):
                raise InvalidParameter(f"{path} would be read with {name} from then on; name another folder")


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
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{refusal} {folder}: {error.strerror or error}{hint}") from error
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
        is_free, lock = _lock_if_free(left)
        if is_free:
            _undo(left)
            shutil.rmtree(left, ignore_errors=True)
        _unlock(lock)


def _lock_if_free(folder: Path) -> tuple[bool, int | None]:
    """Lock a folder that nobody uses; return whether that is so, and the lock."""
    descriptor = None
    try:
        is_old = time.time() - folder.stat().st_mtime > _DAY
        if sys.platform == "win32":
            return is_old, None
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, FileNotFoundError):
        return False, descriptor
    except OSError:  # no locks here
        return is_old, descriptor
    return True, descriptor


def use_folder(folder: Path) -> int | None:
    """Lock a folder that exists against `remove_unused`, together with others; return the lock."""
    if sys.platform == "win32" or not folder.is_dir():
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    with suppress(OSError):  # no locks here
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def remove_unused(folder: Path, files: Iterable[Path] | None = None) -> bool:
    """Remove a folder, or some of its files, unless it is in use; return whether that was done."""
    lock = None
    try:
        if sys.platform != "win32":
            lock = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError:  # no locks here
                pass
        if files is None:
            shutil.rmtree(folder)
        for file in files or ():
            file.unlink(missing_ok=True)
    except FileNotFoundError:  # another process removed it
        return True
    finally:
        _unlock(lock)
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
