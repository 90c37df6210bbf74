"""Files that appear whole or not at all, and the folder of the cache."""

from __future__ import annotations

import glob
import os
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
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        yield partial
        os.replace(partial, target)
    except OSError as error:
        raise InvalidInput(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


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
