"""One pass over an input: read, look up, prepare and encode, several batches at a time."""

import hashlib
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ..arrays import Float32Array, UInt8Array
from ..data import Dataset, Items
from ..errors import InvalidInput
from ..progress import task
from .base import Encoder, Unreadable, cores
from .store import KEY_BYTES, VectorStore

T = TypeVar("T")


@dataclass(frozen=True)
class BadRow:
    """A row that was left out: its number in the input, its id, and why."""

    row: int
    id: Any
    reason: str


@dataclass
class _Batch:
    """The new contents of a batch, which are being prepared, and how many rows the batch has in all."""

    rows: list[int]
    keys: list[bytes]
    prepared: list[Future[Any]]
    read: int


@dataclass
class Run:
    """One pass over an input; afterwards `positions` tells where in the store each row's vector is."""

    found: Dataset
    encoder: Encoder
    store: VectorStore
    encoded: int = 0
    reasons: dict[int, str] = field(default_factory=dict)
    twins: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.positions = np.full(len(self.found), -1, dtype=np.int64)
        self._under_way: dict[bytes, int] = {}
        self._items = _items(self.found, self.encoder)

    def encode_all(self, batch_size: int) -> None:
        """Read, prepare and encode the whole input."""
        self.encode(0, len(self.found), batch_size)

    def encode(self, first: int, last: int, batch_size: int) -> UInt8Array:
        """Read, prepare and encode some rows; return the keys that their vectors are kept under.

        While one batch is encoded, the next are read and prepared.
        """
        starts = range(first, last, batch_size)
        keys: list[bytes] = []
        with (
            ThreadPoolExecutor(1) as reader,
            ThreadPoolExecutor(cores()) as pool,
            _bombs_refused(),
            task(f"encoding with {self.encoder.name}", last - first) as advance,
        ):
            try:
                reading = (
                    reader.submit(self._read, start, min(batch_size, last - start)) for start in starts
                )
                planned = (self._plan(*batch.result(), pool, keys) for batch in _ahead(reading, 2))
                for batch in _ahead(planned, 1):
                    self._encode(batch)
                    advance(batch.read)
            finally:
                reader.shutdown(cancel_futures=True)
                pool.shutdown(cancel_futures=True)
        for row, twin in self.twins.items():
            self.positions[row] = self.positions[twin]
            if twin in self.reasons:
                self.reasons[row] = self.reasons[twin]
        self.twins.clear()
        return _as_array(keys)

    def bad_rows(self) -> tuple[BadRow, ...]:
        """Return the rows that could not be read, prepared or encoded."""
        return tuple(
            BadRow(row, row if self.found.ids is None else self.found.ids[row].item(), reason)
            for row, reason in sorted(self.reasons.items())
        )

    def _read(self, start: int, count: int) -> tuple[int, list[Any], list[bytes]]:
        stop = min(start + count, len(self.found))
        contents = self._items.read(start, stop)
        for row in range(start, stop) if self.found.bad else ():
            if row in self.found.bad and not isinstance(contents[row - start], Unreadable):
                contents[row - start] = Unreadable(self.found.bad[row])
        return start, contents, [content_key(content) for content in contents]

    def _plan(
        self,
        start: int,
        contents: list[Any],
        keys: list[bytes],
        pool: ThreadPoolExecutor,
        all_keys: list[bytes],
    ) -> _Batch:
        """Look up which contents of a batch have vectors already, and begin to prepare the others."""
        all_keys += keys
        batch = _Batch([], [], [], len(contents))
        known = self.store.find(_as_array(keys))
        for row, (content, key) in enumerate(zip(contents, keys, strict=True), start=start):
            if isinstance(content, Unreadable):
                self.reasons[row] = str(content)
            elif known[row - start] >= 0:
                self.positions[row] = known[row - start]
            elif key in self._under_way:
                self.twins[row] = self._under_way[key]
            else:
                self._under_way[key] = row
                batch.rows.append(row)
                batch.keys.append(key)
                batch.prepared.append(pool.submit(self.encoder.prepare, content))
        return batch

    def _encode(self, batch: _Batch) -> None:
        items: list[Any] = []
        rows: list[int] = []
        keys: list[bytes] = []
        for row, key, future in zip(batch.rows, batch.keys, batch.prepared, strict=True):
            try:
                items.append(future.result())
            except Unreadable as error:
                self.reasons[row] = str(error)
            else:
                rows.append(row)
                keys.append(key)
        if items:
            self._keep(rows, keys, self.encoder.encode(items))
        for key in batch.keys:
            del self._under_way[key]

    def _keep(self, rows: list[int], keys: list[bytes], vectors: Float32Array) -> None:
        finite = np.isfinite(vectors).all(axis=1)
        for row in np.flatnonzero(~finite):
            self.reasons[rows[row]] = "the encoder returned NaN or infinite values"
        good = np.flatnonzero(finite)
        if good.size:
            self.positions[np.array(rows)[good]] = self.store.append(_as_array(keys)[good], vectors[good])
        self.encoded += len(rows)


def _items(found: Dataset, encoder: Encoder) -> Items:
    """Return what the encoder takes of the data."""
    if encoder.kind == "rows":
        rows = found.numbers()
        return Items("rows", len(rows), lambda start, stop: list(np.asarray(rows[start:stop])))
    if found.content is None or found.content.kind != encoder.kind:
        raise InvalidInput(f"{found.name} holds no {encoder.kind}s, which {encoder.name} takes")
    return found.content


def content_key(content: Any) -> bytes:
    """Return the digest that a vector is kept under.

    >>> content_key("a text") == content_key("a text"), content_key("a text") == content_key("another")
    (True, False)
    """
    if isinstance(content, Unreadable):
        return bytes(KEY_BYTES)
    if isinstance(content, str):
        head, body = "text", content.encode("utf-8", "surrogatepass")
    elif isinstance(content, (bytes, bytearray)):
        head, body = "file", bytes(content)
    else:
        array = np.ascontiguousarray(content)
        head, body = f"{array.shape} {array.dtype.str}", array.tobytes()
    key = hashlib.blake2b(f"{head}\0".encode(), digest_size=KEY_BYTES)
    key.update(body)
    return key.digest()


def _as_array(keys: list[bytes]) -> UInt8Array:
    return np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, KEY_BYTES)


def _ahead(items: Iterable[T], depth: int) -> Iterator[T]:
    """Yield the items in order, drawing `depth` of them before they are asked for."""
    waiting: deque[T] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > depth:
            yield waiting.popleft()
    yield from waiting


@contextmanager
def _bombs_refused() -> Iterator[None]:
    """Let Pillow refuse images that would fill the memory, where it would only warn."""
    try:
        from PIL.Image import DecompressionBombWarning
    except ImportError:
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error", DecompressionBombWarning)
        yield
