"""Files that appear whole or not at all, and the folder of the cache."""

import glob
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InvalidInput


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
    before, no target is touched and the neighbours are removed.
    """
    for target in targets:
        if not target.parent.is_dir():
            raise InvalidInput(f"cannot write {target}: the folder {target.parent} does not exist")
    partials = tuple(target.with_name(f".{target.name}.{os.getpid()}.partial") for target in targets)
    try:
        yield partials
        for partial, target in reversed(list(zip(partials, targets, strict=True))):
            os.replace(partial, target)
    except OSError as error:
        raise InvalidInput(f"cannot write {targets[0]}: {error.strerror or error}") from error
    finally:
        for partial in partials:
            if partial.is_dir():
                shutil.rmtree(partial)
            else:
                partial.unlink(missing_ok=True)


def check_folder(path: Path) -> None:
    """Refuse a file that could not be written where it is to be."""
    folder = path.parent
    if not folder.is_dir():
        raise InvalidInput(f"cannot write {path}: there is no folder {folder}")
    if path.is_dir():
        raise InvalidInput(f"cannot write {path}: it is a folder")
    if not os.access(folder, os.W_OK):
        raise InvalidInput(f"cannot write {path}: permission denied")


def make_folder(folder: Path, refusal: str = "cannot write to", hint: str = "") -> Path:
    """Make a folder, and those above it, if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{refusal} {folder}: {error.strerror or error}{hint}") from error
    return folder


def remove_partials(path: Path) -> None:
    """Remove what runs that were killed left half written in place of a file.

    For a file that one run at a time writes: another run's file under way would go as well.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        with suppress(OSError):  # the file itself is written; a leftover that cannot go does no harm
            left.unlink()


def cache_folder() -> Path:
    """Return the folder named by ``GMMATCH_CACHE``, or ``gmmatch`` in the user's cache folder."""
    if named := os.environ.get("GMMATCH_CACHE"):
        return Path(named)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "gmmatch"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gmmatch"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gmmatch"
