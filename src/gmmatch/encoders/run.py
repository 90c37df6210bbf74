"""One pass over an input: read, look up, prepare and encode, several batches at a time, here or elsewhere."""

import hashlib
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..data import Dataset, Items, Unreadable, open_dataset
from ..errors import InvalidInput
from ..progress import task
from .base import Encoder, cores
from .registry import encoder as find_encoder
from .store import KEY_BYTES, Keys, VectorStore

T = TypeVar("T")

Spread = Callable[[Callable[[slice], "Encoded"], Sequence[slice]], Iterator["Encoded"]]
"""Yields the results of a function of slices of the input, in order, wherever they are made."""

_BATCHES = 8  # of a slice


@dataclass(frozen=True)
class BadRow:
    """A row that was left out: its number in the input, its id, and why."""

    row: int
    id: object
    reason: str


@dataclass(frozen=True, eq=False)
class Encoded:
    """What became of a part of the input."""

    keys: Keys  # what each row's vector is kept under
    reasons: dict[int, str]  # why rows could not be encoded, by row number
    encoded: int  # how many contents were encoded; the others were known


@dataclass
class Run:
    """One pass over an input; afterwards `positions` tells where in the store each row's vector is."""

    found: Dataset
    encoder: Encoder
    store: VectorStore
    encoded: int = 0
    reasons: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.positions = np.full(len(self.found), -1, dtype=np.int64)
        self._under_way: set[bytes] = set()
        self._failed: dict[bytes, str] = {}
        self._items = _items(self.found, self.encoder)

    def encode(self, first: int, last: int, batch_size: int) -> Keys:
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
                reading = (reader.submit(self._read, at, min(at + batch_size, last)) for at in starts)
                planned = (self._plan(*batch.result(), pool, keys) for batch in _ahead(reading, 2))
                for size, prepared in _ahead(planned, 1):
                    self._encode(prepared)
                    advance(size)
            finally:
                reader.shutdown(cancel_futures=True)
                pool.shutdown(cancel_futures=True)
        array = _as_array(keys)
        new = [row for row in range(first, last) if self.positions[row] < 0 and row not in self.reasons]
        self.positions[new] = self.store.find(array[np.array(new, np.int64) - first])
        for row in new:
            if self.positions[row] < 0:
                self.reasons[row] = self._failed[keys[row - first]]
        return array

    def bad_rows(self) -> tuple[BadRow, ...]:
        """Return the rows that could not be read, prepared or encoded."""
        return tuple(
            BadRow(row, row if self.found.ids is None else self.found.ids[row].item(), reason)
            for row, reason in sorted(self.reasons.items())
        )

    def _read(self, start: int, stop: int) -> tuple[int, list[object], list[bytes]]:
        contents = self._items.read(start, stop)
        for row in range(start, stop) if self.found.bad else ():
            if row in self.found.bad and not isinstance(contents[row - start], Unreadable):
                contents[row - start] = Unreadable(self.found.bad[row])
        return start, contents, [content_key(content) for content in contents]

    def _plan(
        self,
        start: int,
        contents: list[object],
        keys: list[bytes],
        pool: ThreadPoolExecutor,
        all_keys: list[bytes],
    ) -> tuple[int, dict[bytes, Future[object]]]:
        """Look up which contents of a batch have vectors already; return its size, and the others by key."""
        all_keys += keys
        prepared: dict[bytes, Future[object]] = {}
        self.positions[start : start + len(keys)] = self.store.find(_as_array(keys))
        for row, (content, key) in enumerate(zip(contents, keys, strict=True), start=start):
            if isinstance(content, Unreadable):
                self.reasons[row], self.positions[row] = str(content), -1
            elif self.positions[row] < 0 and key not in self._under_way:
                self._under_way.add(key)
                prepared[key] = pool.submit(self.encoder.prepare, content)
        return len(contents), prepared

    def _encode(self, prepared: dict[bytes, Future[object]]) -> None:
        items: dict[bytes, object] = {}
        for key, future in prepared.items():
            try:
                items[key] = future.result()
            except Unreadable as error:
                self._failed[key] = str(error)
        if items:
            vectors = self.encoder.encode(list(items.values()))
            finite = np.asarray(np.isfinite(vectors).all(axis=1))
            for key, usable in zip(items, finite.tolist(), strict=True):
                if not usable:
                    self._failed[key] = "the encoder returned NaN or infinite values"
            if finite.any():
                self.store.append(_as_array(list(items))[finite], vectors[finite])
            self.encoded += len(items)
        self._under_way -= prepared.keys()


def _items(found: Dataset, encoder: Encoder) -> Items:
    """Return what the encoder takes of the data."""
    if encoder.kind == "rows":
        rows = found.numbers()
        return Items("rows", len(rows), lambda start, stop: list(np.asarray(rows[start:stop])))
    if found.content is None or found.content.kind != encoder.kind:
        raise InvalidInput(f"{found.name} holds no {encoder.kind}s, which {encoder.name} takes")
    return found.content


def content_key(content: object) -> bytes:
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


def _as_array(keys: list[bytes]) -> Keys:
    return np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, KEY_BYTES)


def _ahead(items: Iterable[T], depth: int) -> Iterator[T]:
    """Yield the items in order, drawing `depth` of them before they are requested."""
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


@dataclass(frozen=True, eq=False)
class EncodeShard:
    """The function that encodes a slice of an input; it opens everything by name, once per process."""

    source: Path  # path of the input
    options: Mapping[str, Any]  # of `gmmatch.data.open_dataset`
    # Spec string and parameters of the encoder.
    encoder: str
    params: Mapping[str, object]
    store: Path  # folder of the vectors
    batch_size: int  # how many rows to encode together

    @cached_property
    def run(self) -> Run:
        """The input, the encoder and the store, opened."""
        made = find_encoder(self.encoder, **self.params)
        found = open_dataset(self.source, holds=made.kind, **self.options)
        return Run(found, made, VectorStore(self.store))

    def __call__(self, part: slice) -> Encoded:
        """Encode the rows of a slice that the store does not have yet."""
        run, before = self.run, self.run.encoded
        keys = run.encode(part.start, part.stop, self.batch_size)
        reasons = {row: reason for row, reason in run.reasons.items() if part.start <= row < part.stop}
        return Encoded(keys, reasons, run.encoded - before)


def encode_spread(function: EncodeShard, run: Run, spread: Spread) -> Run:
    """Encode a whole input in shards, and return a run that knows where the vectors are.

    Shards are whole batches, so that contents are encoded together as they would be on one machine.

    `function`: what encodes a shard. `spread`: what runs the function.
    """
    step = function.batch_size * _BATCHES
    n_rows = len(run.found)
    parts = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
    run.store.close()
    found: list[Encoded] = []
    with task(f"encoding with {run.encoder.name}", n_rows) as advance:
        for part, encoded in zip(parts, spread(function, parts), strict=True):
            found.append(encoded)
            advance(part.stop - part.start)
    after = Run(run.found, run.encoder, VectorStore(function.store))
    for part, encoded in zip(parts, found, strict=True):
        after.positions[part] = after.store.find(encoded.keys)
        after.reasons |= encoded.reasons
        after.encoded += encoded.encoded
    for row in after.reasons:
        after.positions[row] = -1
    return after
