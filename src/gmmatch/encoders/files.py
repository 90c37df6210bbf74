"""Where cached files live, and how they are named."""

import hashlib
import os
import re
from pathlib import Path

from ..errors import InvalidInput
from ..files import cache_folder as default_cache_dir
from ..files import make_folder
from ..validation import as_size

__all__ = [
    "PathLike",
    "cache_limit",
    "default_cache_dir",
    "digest",
    "file_digest",
    "folder_name",
    "make_cache_folder",
]

PathLike = str | os.PathLike[str]


def cache_limit() -> int:
    """Return how many bytes of vectors are kept: ``GMMATCH_CACHE_LIMIT``, or 20 GB."""
    return as_size(os.environ.get("GMMATCH_CACHE_LIMIT", "20GB"), "GMMATCH_CACHE_LIMIT")


def digest(content: bytes) -> str:
    """Return 128 bits of BLAKE2 in hexadecimal.

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

    >>> folder_name("onnx:/models/a.onnx", "1")
    'onnx-models-a.onnx-...'
    """
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[-48:]
    return f"{readable}-{digest(revision.encode())[:16]}"


def make_cache_folder(folder: Path) -> Path:
    """Make a folder of the cache if it is not there."""
    return make_folder(
        folder, "cannot make the cache folder", "; cache_dir=... or GMMATCH_CACHE names another"
    )
