"""Vectors on disk by the content they were made from: the cache, and what a killed run continues from.

A store is a folder for one revision of one encoder. Each run that encodes something adds a pair of
files and appends to it after every batch: the vectors first, then their keys. A run that is killed
leaves at most vectors without keys, which do not count; several runs may add to one store at once.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import uuid
import weakref
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from ..arrays import AnyArray, Float32Array, IntArray
from ..errors import InvalidInput
from ..files import make_folder, os_errors, remove_unused, use_folder, write_all
from ..validation import as_size

KEY_BYTES = 16
_KEY = np.dtype(f"S{KEY_BYTES}")
_RECORD = np.dtype([("key", _KEY), ("checksum", "<u4")])
_UNSORTED = 1 << 16
_LOOKED_AT = 64  # vectors of a file by which it is told from those of other programs

Keys = AnyArray
"""One key of 16 bytes for each row, as these bytes or as numbers."""
PathLike = str | os.PathLike[str]


def as_keys(digests: Iterable[bytes]) -> Keys:
    """Return digests of 16 bytes as an array."""
    return np.array(list(digests), _KEY)


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
    with os_errors(f"cannot read {os.fspath(path)}"), Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def folder_name(name: str, revision: str) -> str:
    """Return a folder name that differs for every revision of an encoder.

    >>> folder_name("onnx:/models/a.onnx", "1")
    'onnx-models-a.onnx-...'
    """
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[-48:]
    return f"{readable}-{digest(revision.encode())[:16]}"


def make_cache_folder(folder: Path) -> Path:
    """Make a folder of the cache if it is not there."""
    hint = "; cache_dir=... or GMMATCH_CACHE names another"
    return make_folder(folder, "cannot make the cache folder", hint)


class _Segment:
    """One run's pair of files, by their names, or open, so that they outlive their names."""

    def __init__(self, vectors: Path | IO[bytes], keys: Path | IO[bytes], dimension: int) -> None:
        self._file, self.dimension, self.first = vectors, dimension, 0
        records = np.fromfile(keys, dtype=np.uint8)
        size = vectors.stat().st_size if isinstance(vectors, Path) else os.fstat(vectors.fileno()).st_size
        complete = min(len(records) // _RECORD.itemsize, size // (4 * dimension))
        self.records = records[: complete * _RECORD.itemsize].view(_RECORD)

    @cached_property
    def vectors(self) -> Float32Array:
        if not len(self.records):
            return np.empty((0, self.dimension), dtype=np.float32)
        shape = (len(self.records), self.dimension)
        return np.memmap(self._file, dtype="<f4", mode="r", shape=shape)

    def is_intact(self, row: int) -> bool:
        """Return True if a vector is what was written."""
        try:
            content = np.ascontiguousarray(self.vectors[row]).tobytes()
        except (OSError, ValueError):  # removed, or cut short, since it was opened
            return False
        return bool(zlib.crc32(content) == self.records["checksum"][row])

    def is_ours(self) -> bool:
        """Return True if some of its vectors are intact; else another program wrote it, or a disk failed."""
        rows = np.linspace(0, len(self.records) - 1, _LOOKED_AT, dtype=np.int64).tolist()
        found = len(self.records) > 0 and any(map(self.is_intact, rows))
        self.__dict__.pop("vectors", None)  # a map is a file that is open; few are needed at a time
        return found


class VectorStore:
    """A folder of vectors, each under the key of the content it was made from.

    Memory: about 40 bytes per vector; the vectors themselves stay on disk. A look-up is a binary
    search in sorted keys.

    `folder`: made when the first vector is added.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._unlock: Callable[[], object] | None = None
        self._own: tuple[IO[bytes], IO[bytes]] | None = None
        found: list[_Segment] = []
        with os_errors(f"cannot read the vectors kept in {folder}"):
            self._use()
            for vectors in sorted(self.folder.glob("*.vectors")):
                # Files that no run can have written are passed over.
                with suppress(OSError, ValueError):
                    length = int(vectors.stem.rpartition("-")[2])
                    segment = _Segment(vectors, vectors.with_suffix(".keys"), length)
                    if segment.is_ours():
                        found.append(segment)
                        os.utime(vectors)  # used now, and so among the last to go
        self.dimension = found[-1].dimension if found else None
        self._segments = [segment for segment in found if segment.dimension == self.dimension]
        self._count = 0
        for segment in self._segments:
            segment.first = self._count
            self._count += len(segment.records)
        self._earlier = self._count
        self._sorted, self._order = np.empty(0, _KEY), np.empty(0, np.int64)
        self._recent: dict[bytes, int] = {}
        self._sort([segment.records["key"] for segment in self._segments], np.arange(self._count))

    def __enter__(self) -> VectorStore:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        if self._unlock is not None:
            self._unlock()
            self._unlock = None

    def __len__(self) -> int:
        return self._count

    def find(self, keys: Keys) -> IntArray:
        """Return the position of each key's vector, -1 where there is none or it was damaged."""
        keys, positions = _comparable(keys), np.full(len(keys), -1, dtype=np.int64)
        if len(self._sorted):
            # The last of equals is the newest, which stands in for a damaged one.
            at = np.searchsorted(self._sorted, keys, side="right") - 1
            same = self._sorted[at] == keys
            positions[same] = self._order[at[same]]
        for row in np.flatnonzero((positions >= 0) & (positions < self._earlier)):
            segment = next(one for one in reversed(self._segments) if one.first <= positions[row])
            if not segment.is_intact(int(positions[row]) - segment.first):
                positions[row] = -1
        recent = [self._recent.get(key, -1) for key in keys.tolist()]
        return np.maximum(positions, np.array(recent, np.int64))

    def append(self, keys: Keys, vectors: Float32Array) -> IntArray:
        """Add vectors under their keys; return their positions. They outlive a kill from here on."""
        self.dimension = self.dimension or vectors.shape[1]
        if vectors.shape != (len(keys), self.dimension):
            raise InvalidInput(
                f"the encoder returned the shape {vectors.shape} for {len(keys)} items;"
                f" expected ({len(keys)}, {self.dimension})"
            )
        vectors = np.ascontiguousarray(vectors, dtype="<f4")
        keys, records = _comparable(keys), np.empty(len(keys), dtype=_RECORD)
        records["key"], records["checksum"] = keys, [zlib.crc32(vector.tobytes()) for vector in vectors]
        with os_errors(f"cannot write to {self.folder}"):
            if self._own is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._use()
                # Later than what is there, even where the clock was set back: the newest of equals counts.
                stamps = (old.stem[:20] for old in self.folder.glob("*.vectors"))
                last = max((int(stamp) for stamp in stamps if stamp.isdigit()), default=0)
                stem = f"{max(time.time_ns(), last + 1):020d}-{uuid.uuid4().hex[:8]}-{self.dimension}"
                pair = (self.folder / f"{stem}.vectors", self.folder / f"{stem}.keys")
                self._own = pair[0].open("x+b", buffering=0), pair[1].open("x+b", buffering=0)
            write_all(self._own[0], vectors.tobytes())
            write_all(self._own[1], records.tobytes())
        positions = np.arange(self._count, self._count + len(keys))
        self._recent.update(zip(keys.tolist(), positions.tolist(), strict=True))
        self._count += len(keys)
        if len(self._recent) > _UNSORTED:  # in a dictionary they take ten times as much
            self._sort([as_keys(self._recent)], np.array(list(self._recent.values())))
            self._recent = {}
        return positions

    def gather(self, positions: IntArray) -> Float32Array:
        """Return the vectors at the given positions."""
        self.close()
        result = np.empty((len(positions), self.dimension or 0), dtype=np.float32)
        for segment in self._segments:
            rows = positions - segment.first
            inside = (rows >= 0) & (rows < len(segment.records))
            if inside.any():
                result[inside] = segment.vectors[rows[inside]]
        return result

    def close(self) -> None:
        """Close the files; what is added later goes to a new pair."""
        if self._own is not None:
            vectors, keys = self._own
            keys.seek(0)
            with vectors, keys:
                segment = _Segment(vectors, keys, self.dimension or 1)
                _ = segment.vectors  # mapped now, and so there even if somebody removes the file
            segment.first, self._own = self._count - len(segment.records), None
            self._segments.append(segment)

    def _use(self) -> None:
        """Lock the folder, so that nobody removes what is in it while it is in use."""
        if self._unlock is None:
            lock = use_folder(self.folder)
            self._unlock = None if lock is None else weakref.finalize(self, os.close, lock)

    def _sort(self, keys: Sequence[Keys], positions: IntArray) -> None:
        """Add keys, the newest last, to the sorted ones."""
        every = np.concatenate([self._sorted, *keys])
        order = np.argsort(every, kind="stable")
        self._sorted, self._order = every[order], np.concatenate([self._order, positions])[order]


def _comparable(keys: Keys) -> npt.NDArray[np.bytes_]:
    """Return keys as values that can be sorted."""
    return np.ascontiguousarray(keys).view(_KEY).reshape(-1)


def trim(root: Path, most: int) -> None:
    """Remove what was used longest ago from the stores in a folder, so that no more than `most` bytes stay.

    What was used last stays, whatever its size, and so does a store that is in use.
    """
    files = sorted(root.glob("*/*.vectors"), key=lambda file: -file.stat().st_mtime_ns)
    for place, file in enumerate(files):
        pair = (file.with_suffix(".keys"), file)
        most -= sum(part.stat().st_size for part in pair if part.exists())
        if place and most < 0:
            remove_unused(file.parent, pair)
