"""From an input to its embedding: every content encoded once, every batch kept as soon as it is done.

Several batches are under way at a time: while one is encoded, the next are read, looked up and prepared, in
this process or in others.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import shutil
import tempfile
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..arrays import Float32Array, IntArray, Labels
from ..compute.blocks import core_count
from ..compute.engine import Ray, open_runner
from ..compute.runner import Runner
from ..data import Dataset, Items, Kind, Unreadable, open_dataset
from ..data.dataset import PLURALS
from ..data.request import first_reasons
from ..errors import InvalidInput, InvalidParameter
from ..files import as_path, cache_folder, check_apart, check_folder, check_new, remove_partials, whole_files
from ..former import takes_former
from ..progress import ENCODED_IS_KEPT, task
from ..records import METADATA_KEY
from ..validation import check_choice, check_positive_int
from .base import Encoder
from .registry import find_family, make_encoder
from .store import (
    KEY_BYTES,
    Keys,
    PathLike,
    VectorStore,
    as_keys,
    cache_limit,
    folder_name,
    make_cache_folder,
    trim,
)

T = TypeVar("T")

_CHUNK_BYTES = 32 << 20
_BATCHES = 8  # of a slice of the input that another process encodes
TEXT_ENDINGS = frozenset([".csv", ".tsv", ".jsonl", ".ndjson", ".txt"])
DEFAULT_ENCODERS: dict[Kind, str] = {"image": "efficientnet-lite0", "text": "wordllama"}


@dataclass(frozen=True)
class BadRow:
    """A row that was left out: its number in the input, its id, and why."""

    row: int
    id: object
    reason: str


@dataclass(frozen=True, eq=False)
class Embedded:
    """An embedding and what belongs to its rows.

    Attributes
    ----------
    embeddings
        float32 of shape (rows, dimension); a memory map where it was written to a file.
    ids, labels, paths
        Of each row; labels and paths are None where the input has none.
    rows
        Number of each row in the input; without bad rows, 0, 1, 2 and so on.
    bad_rows
        The rows that were left out.
    notes
        Sentences the user should see.
    encoder, revision
        What made the vectors.
    n_rows
        Rows in the input, the bad ones included.
    encoded
        How many contents were encoded in this run; the others were known.
    content
        The images, texts or rows that were encoded, the bad ones included.
    """

    embeddings: Float32Array
    ids: Labels
    labels: Labels | None
    paths: list[str] | None
    rows: IntArray
    bad_rows: tuple[BadRow, ...]
    notes: tuple[str, ...]
    encoder: str
    revision: str | None
    n_rows: int
    encoded: int
    content: Dataset

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        width = self.embeddings.shape[1]
        return f"Embedded({len(self):,} of {self.n_rows:,} rows as {width} numbers by {self.encoder})"


@takes_former("gmmatch.embed(data, encoder)", ("encoder",), {"path": "data"})
def embed(
    data: object,
    encoder: str | Encoder | None = None,
    *,
    text: str | None = None,
    image: str | None = None,
    labels: object = None,
    ids: str | None = None,
    split: str = "train",
    on_bad_rows: str = "error",
    unlabelled: str = "error",
    header: str = "auto",
    batch_size: int | None = None,
    cache: bool = True,
    cache_dir: PathLike | None = None,
    output: PathLike | None = None,
    overwrite: bool = False,
    engine: str | Ray | Runner = "local",
    address: str | None = None,
    workers: int | None = None,
    **encoder_params: object,
) -> Embedded:
    """Turn images or texts into vectors, on this machine or on a Ray cluster.

    Parameters
    ----------
    data
        What `gmmatch.open` opens, or a dataset that is open.
    encoder
        A spec string, or any object with the members of :class:`gmmatch.encoders.Encoder`. By default
        ``efficientnet-lite0`` for images and ``wordllama`` for texts.
    text, image
        The column of a table that holds the texts, or the images.
    labels, ids, unlabelled, header
        As for `gmmatch.open`.
    split
        Which part, where `data` has both: `train` or `test`.
    on_bad_rows
        ``error``: refuse the input if any row is unreadable, once all were tried. ``drop``: leave such
        rows out and list them in the result.
    batch_size
        Rows encoded together, in place of the encoder's number.
    cache
        Keep vectors by content and encoder revision, so that nothing is encoded twice. Without it,
        they are kept beside `output` until that is written.
    cache_dir
        Folder of the cache; by default that named by ``GMMATCH_CACHE``, or the user's cache folder.
    output, overwrite
        A `.npy` to write, with a `.parquet` of ids, labels and paths beside it, and whether these may replace
        files.
    engine, address, workers
        As for `gmmatch.select`; the last two are those of `gmmatch.Ray`. On a cluster every node must see the
        input, the cache and the output under the same paths.
    encoder_params
        Parameters of the encoder, such as `size` or `device`.

    Returns
    -------
    Embedded
        The vectors, in the order of the input.

    Notes
    -----
    A run that was killed goes on where it was when it is started again: a batch is encoded again only
    if the kill came before it was written down. Memory: some batches, 40 bytes per row, and the
    result, unless it goes to `output`.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> pictures = np.random.default_rng(0).integers(0, 256, (5, 8, 8), dtype=np.uint8)
    >>> embedded = gmmatch.embed(pictures, "pixels", labels=[0, 1, 0, 1, 1])
    >>> embedded.embeddings.shape, embedded.ids
    ((5, 64), array([0, 1, 2, 3, 4]))
    """
    check_choice(on_bad_rows, ("error", "drop"), "on_bad_rows")
    chosen, kind = choose_encoder(data, encoder, text, image)
    columns: dict[str, Any] = {"text": text, "image": image, "split": split, "header": header}
    handling: dict[str, Any] = {"on_bad_rows": on_bad_rows, "unlabelled": unlabelled}
    if isinstance(data, Dataset) and labels is None and ids is None:
        found = data
    else:
        found = open_dataset(data, labels, ids, holds=kind, **handling, **columns)
    target = None if output is None else _check_output(output, (data, labels, ids, *found.files), overwrite)
    made = make_encoder(chosen, cache_dir, encoder_params)
    size = made.batch_size if batch_size is None else check_positive_int(batch_size, "batch_size")
    running = open_runner(engine, None, address, workers)
    with running as runner, _open_store(made, target, cache, cache_dir) as store:
        run = Run(found, made, store)
        if not runner.workers:
            try:
                run.encode(0, len(found), size)
            except KeyboardInterrupt as interrupt:
                if cache:
                    interrupt.add_note(ENCODED_IS_KEPT)
                raise
        else:
            shard = EncodeShard(data, columns, encoder or made.name, encoder_params, store.folder, size)
            _encode_spread(shard, run, runner)
        _check_reasons(run, on_bad_rows)
        found.check_unchanged()
        return _finished(run, target)


embed_input: Callable[..., Embedded] = inspect.unwrap(embed)
"""The same for the layers above, without the calls of version 0.2."""


def _finished(run: Run, target: Path | None) -> Embedded:
    """Return what a pass over an input gave, and write it if there is an output."""
    found, good, made = run.dataset, np.flatnonzero(run.positions >= 0), run.encoder
    every = None if found.content is None else found.content.paths
    ids = good if found.ids is None else found.ids[good]
    labels = None if found.labels is None else found.labels[good]
    paths = None if every is None else [every[row] for row in good.tolist()]
    if target is None:
        embeddings = run.store.gather(run.positions[good])
    else:
        with whole_files(*_written(target)) as (vectors, beside):
            _write(vectors, beside, {"id": ids, "label": labels, "path": paths}, good, run)
        embeddings = np.load(target, mmap_mode="r")
    about = (run.bad_rows(), found.notes, made.name, made.revision, len(found), run.encoded, found)
    return Embedded(embeddings, ids, labels, paths, good, *about)


def _write(vectors: Path, beside: Path, columns: Mapping[str, Any], good: IntArray, run: Run) -> None:
    """Write vectors, and beside them ids, labels and paths, with what made them in the metadata."""
    n_rows, dimension, made = len(good), run.store.dimension or 0, run.encoder
    made_by = {"encoder": made.name, "revision": made.revision, "input_rows": len(run.dataset)}
    arrays = {name: pa.nulls(n_rows) if own is None else pa.array(own) for name, own in columns.items()}
    with beside.open("wb") as stream:
        pq.write_table(pa.table(arrays, metadata={METADATA_KEY: json.dumps(made_by)}), stream)
    step = max(1, _CHUNK_BYTES // (4 * max(dimension, 1)))
    head = {"descr": "<f4", "fortran_order": False, "shape": (n_rows, dimension)}
    with vectors.open("wb") as stream, task("writing", n_rows) as advance:
        np.lib.format.write_array_header_1_0(stream, head)
        for start in range(0, n_rows, step):
            rows = run.store.gather(run.positions[good[start : start + step]])
            stream.write(rows.astype("<f4", copy=False).tobytes())
            advance(len(rows))


def _check_output(output: PathLike, inputs: tuple[object, ...], overwrite: bool) -> Path:
    """Return the path of the ``.npy`` file, in a folder that can be written to, apart from the inputs."""
    target = as_path(output, "output")
    if target.suffix != ".npy":
        raise InvalidParameter(f"the output must end in .npy; got {target}")
    check_folder(target)
    remove_partials(target)
    check_apart(_written(target), inputs)
    for path in _written(target):
        check_new(path, overwrite)
    return target


def _written(target: Path) -> list[Path]:
    """Return the files of an embedding: its vectors, and what belongs to them."""
    return [target, target.with_suffix(".parquet")]


def choose_encoder(
    source: object, encoder: str | Encoder | None, text: str | None = None, image: str | None = None
) -> tuple[str | Encoder, Kind]:
    """Return the encoder for an input, and what it takes."""
    if encoder is None:  # texts where a column of texts is named, or where the input must be text
        textual = isinstance(source, (str, Path)) and Path(source).suffix.lower() in TEXT_ENDINGS
        if isinstance(source, (list, tuple)) and source and isinstance(source[0], str):
            source = open_dataset(source)  # paths of images, or texts
        if isinstance(source, Dataset):
            textual = source.content is not None and source.content.kind == "text"
        encoder = DEFAULT_ENCODERS["text" if text is not None or (textual and image is None) else "image"]
    kind = find_family(encoder)[0].kind if isinstance(encoder, str) else encoder.kind
    for name, value in (("text", text), ("image", image)):
        if value is not None and kind != name:
            raise InvalidParameter(f"{name}={value!r} names {name}s, but the encoder takes {PLURALS[kind]}")
    return encoder, kind


def _check_reasons(run: Run, on_bad_rows: str) -> None:
    """Refuse rows that could not be encoded, unless they are left out and others stay."""
    bad, ids, n_rows = run.reasons, run.dataset.ids, len(run.dataset)
    if not bad or (on_bad_rows == "drop" and len(bad) < n_rows):
        return
    reasons = first_reasons(bad, lambda row: row if ids is None else ids[row])
    advice = "" if len(bad) == n_rows else "; on_bad_rows='drop' leaves them out and encodes nothing again"
    if any(reason.startswith("not UTF-8") for reason in bad.values()):
        advice += "; other encodings, such as Latin-1, must be saved as UTF-8 first"
    raise InvalidInput(f"{len(bad):,} of {n_rows:,} rows cannot be encoded{reasons}{advice}")


@contextmanager
def _open_store(
    encoder: Encoder, target: Path | None, cache: bool, cache_dir: PathLike | None
) -> Iterator[VectorStore]:
    """Open the cache, or a folder that lasts until the result is written, or as long as this call."""
    if cache and encoder.revision is not None:
        folder = cache_folder() if cache_dir is None else Path(cache_dir)
        vectors = folder / "vectors" / folder_name(encoder.name, encoder.revision)
        with VectorStore(make_cache_folder(vectors)) as store:
            yield store
        with suppress(OSError):  # another run may trim the same folder
            trim(folder / "vectors", cache_limit())
    elif target is not None:
        work = target.with_name(f"{target.name}.work")
        if encoder.revision is None:  # nothing tells whether the vectors there would be the same
            shutil.rmtree(work, ignore_errors=True)
        with VectorStore(work / folder_name(encoder.name, encoder.revision or "")) as store:
            yield store
        shutil.rmtree(work, ignore_errors=True)
    else:
        with tempfile.TemporaryDirectory(prefix="gmmatch-") as passing, VectorStore(Path(passing)) as store:
            yield store


# ---- one pass over an input ----


@dataclass
class Run:
    """One pass over an input; afterwards `positions` tells where in the store each row's vector is."""

    dataset: Dataset
    encoder: Encoder
    store: VectorStore
    encoded: int = 0
    reasons: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.positions = np.full(len(self.dataset), -1, dtype=np.int64)
        self._under_way: set[bytes] = set()
        self._failed: dict[bytes, str] = {}
        self._items = _items(self.dataset, self.encoder)

    def encode(self, first: int, last: int, batch_size: int) -> Keys:
        """Read, prepare and encode some rows; return the keys that their vectors are kept under.

        While one batch is encoded, the next are read and prepared.
        """
        starts = range(first, last, batch_size)
        keys: list[bytes] = []
        with (
            ThreadPoolExecutor(1) as reader,
            ThreadPoolExecutor(core_count()) as pool,
            warnings.catch_warnings(),
            task(f"encoding with {self.encoder.name}", last - first) as advance,
        ):
            # Pillow would only warn of images that would fill the memory.
            warnings.filterwarnings("error", category=RuntimeWarning, module=r"PIL\.Image")
            try:
                reading = (reader.submit(self._read, at, min(at + batch_size, last)) for at in starts)
                planned = (self._plan(*batch.result(), pool) for batch in _ahead(reading, 2))
                for batch_keys, prepared in _ahead(planned, 1):
                    self._encode(prepared)
                    keys += batch_keys
                    advance(len(batch_keys))
            finally:
                reader.shutdown(cancel_futures=True)
                pool.shutdown(cancel_futures=True)
        new = [row for row in range(first, last) if self.positions[row] < 0 and row not in self.reasons]
        self.positions[new] = self.store.find(as_keys(keys[row - first] for row in new))
        self.reasons |= {row: self._failed[keys[row - first]] for row in new if self.positions[row] < 0}
        return as_keys(keys)

    def bad_rows(self) -> tuple[BadRow, ...]:
        """Return the rows that could not be read, prepared or encoded."""
        ids = range(len(self.dataset)) if self.dataset.ids is None else self.dataset.ids.tolist()
        return tuple(BadRow(row, ids[row], reason) for row, reason in sorted(self.reasons.items()))

    def _read(self, start: int, stop: int) -> tuple[int, list[object], list[bytes]]:
        contents = self._items.read(start, stop)
        for row in range(start, stop) if self.dataset.bad else ():
            if row in self.dataset.bad and not isinstance(contents[row - start], Unreadable):
                contents[row - start] = Unreadable(self.dataset.bad[row])
        return start, contents, list(map(content_key, contents))

    def _plan(
        self, start: int, contents: list[object], keys: list[bytes], pool: ThreadPoolExecutor
    ) -> tuple[list[bytes], dict[bytes, Future[object]]]:
        """Look up which contents of a batch have vectors already; return its keys, and the others by key."""
        prepared: dict[bytes, Future[object]] = {}
        self.positions[start : start + len(keys)] = self.store.find(as_keys(keys))
        for row, (content, key) in enumerate(zip(contents, keys, strict=True), start=start):
            if isinstance(content, Unreadable):
                self.reasons[row], self.positions[row] = str(content), -1
            elif self.positions[row] < 0 and key not in self._under_way:
                self._under_way.add(key)
                prepared[key] = pool.submit(self.encoder.prepare, content)
        return keys, prepared

    def _encode(self, prepared: dict[bytes, Future[object]]) -> None:
        items: dict[bytes, object] = {}
        for key, future in prepared.items():
            try:
                items[key] = future.result()
            except Unreadable as error:
                self._failed[key] = str(error)
        if items:
            vectors, keys = self.encoder.encode(list(items.values())), as_keys(items)
            finite = np.asarray(np.isfinite(vectors).all(axis=1))
            bad = (key for key, usable in zip(items, finite.tolist(), strict=True) if not usable)
            self._failed |= dict.fromkeys(bad, "the encoder returned NaN or infinite values")
            if finite.any():
                self.store.append(keys[finite], vectors[finite])
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


def _ahead(items: Iterable[T], depth: int) -> Iterator[T]:
    """Yield the items in order, drawing `depth` of them before they are requested."""
    waiting: deque[T] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > depth:
            yield waiting.popleft()
    yield from waiting


# ---- in other processes ----


Encoded = tuple[Keys, dict[int, str], int]
"""Of a part of the input, what each row's vector is kept under, why rows could not be encoded, by row
number, and how many contents were encoded; the others were known."""


@dataclass(eq=False)
class EncodeShard:
    """The function that encodes a slice of an input; it opens everything by name, once per process."""

    source: object  # path of the input
    options: Mapping[str, Any]  # of `gmmatch.data.open_dataset`
    # Spec string and parameters of the encoder.
    encoder: str | Encoder
    params: dict[str, object]
    store: Path  # folder of the vectors
    batch_size: int  # how many rows to encode together

    def __post_init__(self) -> None:
        if not isinstance(self.source, (str, Path)) or not isinstance(self.encoder, str):
            raise InvalidParameter("other processes open the input by its path and the encoder by its name")
        family, colon, argument = self.encoder.partition(":")
        if colon and Path(argument).exists():
            self.encoder = f"{family}:{Path(argument).resolve()}"
        self.source, self.store = Path(self.source).resolve(), self.store.resolve()

    @cached_property
    def run(self) -> Run:
        """The input, the encoder and the store, opened."""
        made = make_encoder(self.encoder, None, self.params)
        found = open_dataset(self.source, holds=made.kind, **self.options)
        return Run(found, made, VectorStore(self.store))

    def __call__(self, part: slice) -> Encoded:
        """Encode the rows of a slice that the store does not have yet."""
        before = self.run.encoded
        keys = self.run.encode(part.start, part.stop, self.batch_size)
        reasons = {row: why for row, why in self.run.reasons.items() if part.start <= row < part.stop}
        return keys, reasons, self.run.encoded - before


def _encode_spread(function: EncodeShard, run: Run, runner: Runner) -> None:
    """Encode a whole input in shards, and let its run know where the vectors are.

    Shards are whole batches, so that contents are encoded together as they would be on one machine.

    `function`: what encodes a shard. `runner`: what runs the function.
    """
    step = function.batch_size * _BATCHES
    n_rows = len(run.dataset)
    parts = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
    run.store.close()
    every: list[Keys] = []
    with task(f"encoding with {run.encoder.name}", n_rows) as advance:
        for keys, reasons, encoded in runner.map(function, parts):
            every.append(keys)
            run.reasons |= reasons
            run.encoded += encoded
            advance(len(keys))
    run.store = VectorStore(function.store)
    run.positions = run.store.find(np.concatenate(every))
    run.positions[list(run.reasons)] = -1
