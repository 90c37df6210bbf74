"""Where cached files live, and how they are named."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path

from ..errors import InvalidInput

PathLike = str | os.PathLike[str]


def default_cache_dir() -> Path:
    """Return the folder named by ``GMMATCH_CACHE``, or ``gmmatch`` in the user's cache folder."""
    if named := os.environ.get("GMMATCH_CACHE"):
        return Path(named)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "gmmatch"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gmmatch"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gmmatch"


def digest(content: bytes) -> str:
    """Return 128 bits of BLAKE2 in hexadecimal.

    Examples
    --------
    >>> digest(b"rows")
    'f2305e3ea413d261c40604673f9fbe7d'
    """
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def file_digest(path: PathLike) -> str:
    """Return the digest of a file's content."""
    try:
        with Path(path).open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise InvalidInput(f"cannot read {os.fspath(path)}: {error.strerror or error}") from error


def folder_name(name: str, revision: str) -> str:
    """Return a folder name that differs for every revision of an encoder.

    Examples
    --------
    >>> folder_name("onnx:/models/a.onnx", "1")
    'onnx-models-a.onnx-...'
    """
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[-48:]
    return f"{readable}-{digest(revision.encode())[:16]}"


def make_cache_folder(folder: Path) -> Path:
    """Make a folder of the cache if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise InvalidInput(
            f"cannot make the cache folder {folder}: {reason}; --cache-dir or GMMATCH_CACHE names another"
        ) from error
    return folder
