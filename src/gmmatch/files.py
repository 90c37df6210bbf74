"""Files that appear whole or not at all, and the folder of the cache."""

import glob
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .errors import InvalidInput, InvalidParameter


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
    """Yield a hidden neighbour of each file or folder to write to; at the end they take their places.

    The first target comes last, so that what belongs to it is there when it appears. If anything fails
    before, no target is touched and the neighbours are removed. They are on the disk before they are named,
    so that a machine that stops leaves no empty file behind.
    """
    for target in targets:
        if not target.parent.is_dir():
            raise InvalidInput(f"cannot write {target}: the folder {target.parent} does not exist")
        remove_partials(target)
    partials = tuple(target.with_name(f".{target.name}.{os.getpid()}.partial") for target in targets)
    try:
        yield partials
        for partial, target in reversed(list(zip(partials, targets, strict=True))):
            for inside, _, names in os.walk(partial):
                for name in names:
                    _flush(Path(inside, name))
            _flush(partial)
            os.replace(partial, target)
        for folder in {target.parent for target in targets}:
            with suppress(OSError):  # not every file system flushes folders
                _flush(folder)
    except OSError as error:
        raise InvalidInput(f"cannot write {targets[0]}: {error.strerror or error}") from error
    finally:
        for partial in partials:
            _remove(partial)


def _flush(path: Path) -> None:
    """Make sure that a file, or the list of files of a folder, has reached the disk."""
    if sys.platform == "win32":  # which flushes only what may be written to
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    """Remove a file or a folder; that it cannot go does no harm, and is not what the user should hear of."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)


def check_folder(path: Path) -> None:
    """Refuse a file that could not be written where it is to be."""
    folder = path.parent
    if not folder.is_dir():
        raise InvalidInput(f"cannot write {path}: there is no folder {folder}")
    if path.is_dir():
        raise InvalidInput(f"cannot write {path}: it is a folder")
    if not os.access(folder, os.W_OK):
        locked = hasattr(os, "statvfs") and os.statvfs(folder).f_flag & os.ST_RDONLY
        reason = "Read-only file system" if locked else "permission denied"
        raise InvalidInput(f"cannot write {path}: {reason}")


def as_path(given: Any, name: str) -> Path:
    """Return the path of a file."""
    if not isinstance(given, (str, os.PathLike)):
        raise InvalidParameter(f"{name} must be the path of a file; got {given!r}")
    return Path(given)


def check_apart(outputs: Sequence[Path], inputs: Iterable[Any]) -> None:
    """Refuse two outputs of one name, and outputs that are what is read, whatever name leads there.

    `inputs`: those that are no text and no path are passed over; ``FILE:COLUMN`` means the file.
    """
    places = [os.path.realpath(path) for path in outputs]
    if len(set(places)) < len(places):
        raise InvalidParameter("two outputs have the same name; expected a file for each")
    for given in inputs:
        name = os.fspath(given) if isinstance(given, (str, os.PathLike)) else ""
        for place in {os.path.realpath(name), os.path.realpath(name.rpartition(":")[0] or name)}:
            if name and place in places:
                path = outputs[places.index(place)]
                raise InvalidParameter(f"{path} is the input; name another file for the output")


def check_new(path: Path, overwrite: bool) -> None:
    """Refuse an output that exists already, unless it may be replaced."""
    if path.exists() and not overwrite:
        way = "name a new folder" if path.is_dir() else "--overwrite replaces it"
        raise InvalidInput(f"cannot write {path}: it exists already; {way}")


def make_folder(folder: Path, refusal: str = "cannot write to", hint: str = "") -> Path:
    """Make a folder, and those above it, if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{refusal} {folder}: {error.strerror or error}{hint}") from error
    return folder


def remove_partials(path: Path) -> None:
    """Remove what runs that were killed left half written in place of a file or a folder."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        number = left.name.rpartition(".partial")[0].rpartition(".")[2]
        if number.isdigit() and not _is_running(int(number)):
            _remove(left)


def _is_running(process: int) -> bool:
    """Tell whether a process of this machine runs: what it writes is not ours to remove."""
    if sys.platform == "win32":  # where asking would end it
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
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
