"""From an input to its embedding: every content encoded once, every batch kept as soon as it is done."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..arrays import Float32Array, IntArray, Labels
from ..data import Dataset, Kind, open_dataset
from ..data.dataset import PLURALS
from ..data.request import first_reasons
from ..errors import InvalidInput, InvalidParameter
from ..files import cache_folder, check_apart, check_folder, check_new, remove_partials, whole_files
from ..progress import task
from ..records import METADATA_KEY
from ..validation import check_choice, check_positive_int
from .base import Encoder
from .registry import find_family, make_encoder
from .run import BadRow, EncodeShard, Run, Spread, encode_spread
from .store import PathLike, VectorStore, cache_limit, folder_name, make_cache_folder, trim

_CHUNK_BYTES = 32 << 20
TEXT_ENDINGS = frozenset([".csv", ".tsv", ".jsonl", ".ndjson", ".txt"])
DEFAULT_ENCODERS: dict[Kind, str] = {"image": "efficientnet-lite0", "text": "wordllama"}


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


def embed_input(
    source: Any,
    encoder: str | Encoder | None = None,
    *,
    text: str | None = None,
    image: str | None = None,
    labels: Any = None,
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
    spread: Spread | None = None,
    **params: object,
) -> Embedded:
    """Turn images or texts into vectors.

    Parameters
    ----------
    source
        What :func:`gmmatch.data.open_dataset` opens, or a dataset that is open.
    encoder
        A spec string, or any object with the members of :class:`Encoder`. By default
        ``efficientnet-lite0`` for images and ``wordllama`` for texts.
    text, image
        The column of a table that holds the texts, or the images.
    labels, ids, split, unlabelled, header
        See :func:`gmmatch.data.open_dataset`.
    on_bad_rows
        ``error``: refuse the input if any row is unreadable, once all were tried. ``drop``: leave such
        rows out and list them in the result.
    batch_size
        How many rows to encode together, in place of the encoder's own number.
    cache
        Keep vectors by content and encoder revision, so that nothing is encoded twice. Without it,
        they are kept beside `output` until that is written.
    cache_dir
        Folder of the cache; by default that named by ``GMMATCH_CACHE``, or the user's cache folder.
    output
        A ``.npy`` file to write, with a ``.parquet`` of ids, labels and paths beside it.
    overwrite
        Whether these may replace files.
    spread
        What encodes parts of the input in other processes, which must see the same files.
    **params
        Parameters of the encoder, such as `size`.

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
    >>> pictures = np.random.default_rng(0).integers(0, 256, (5, 8, 8), dtype=np.uint8)
    >>> embedded = embed_input(pictures, "pixels", labels=[0, 1, 0, 1, 1])
    >>> embedded.embeddings.shape, embedded.ids
    ((5, 64), array([0, 1, 2, 3, 4]))
    """
    check_choice(on_bad_rows, ("error", "drop"), "on_bad_rows")
    chosen, kind = choose_encoder(source, encoder, text, image)
    columns: dict[str, Any] = {"text": text, "image": image, "split": split, "header": header}
    handling: dict[str, Any] = {"on_bad_rows": on_bad_rows, "unlabelled": unlabelled}
    opened = isinstance(source, Dataset) and labels is None and ids is None
    found = source if opened else open_dataset(source, labels, ids, holds=kind, **handling, **columns)
    target = None if output is None else _check_output(output, (source, labels, ids, *found.files), overwrite)
    made = make_encoder(chosen, cache_dir, params)
    size = made.batch_size if batch_size is None else check_positive_int(batch_size, "batch_size")
    with _open_store(made, target, cache, cache_dir) as store:
        run = Run(found, made, store)
        if spread is None:
            try:
                run.encode(0, len(found), size)
            except KeyboardInterrupt as interrupt:
                if cache:
                    interrupt.add_note("what was encoded is kept: the same command goes on from there")
                raise
        else:
            shard = _shard(source, columns, encoder or made.name, params, store.folder, size)
            run = encode_spread(shard, run, spread)
        _check_bad_rows(run.bad_rows(), len(found), on_bad_rows)
        found.check_unchanged()
        return _finished(run, target)


def _finished(run: Run, target: Path | None) -> Embedded:
    """Return what a pass over an input gave, and write it if there is an output."""
    found, good = run.found, np.flatnonzero(run.positions >= 0)
    paths = None if found.content is None else found.content.paths
    result = Embedded(
        embeddings=np.empty((0, 0), dtype=np.float32),
        ids=good if found.ids is None else found.ids[good],
        labels=None if found.labels is None else found.labels[good],
        paths=None if paths is None else [paths[row] for row in good.tolist()],
        rows=good,
        bad_rows=run.bad_rows(),
        notes=found.notes,
        encoder=run.encoder.name,
        revision=run.encoder.revision,
        n_rows=len(found),
        encoded=run.encoded,
        content=found,
    )
    if target is None:
        return replace(result, embeddings=run.store.gather(run.positions[good]))
    with whole_files(*_written(target)) as (vectors, beside):
        _write_rows(beside, result)
        _write_vectors(vectors, run.store, run.positions[good])
    return replace(result, embeddings=np.load(target, mmap_mode="r"))


def _check_output(output: PathLike, inputs: tuple[object, ...], overwrite: bool) -> Path:
    """Return the path of the ``.npy`` file, in a folder that can be written to, apart from the inputs."""
    target = Path(output)
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


def _write_rows(partial: Path, result: Embedded) -> None:
    """Write ids, labels and paths beside the vectors, with what made them in the metadata."""
    n_rows = len(result)
    columns = {
        "id": pa.array(result.ids),
        "label": pa.nulls(n_rows) if result.labels is None else pa.array(result.labels),
        "path": pa.nulls(n_rows) if result.paths is None else pa.array(result.paths),
    }
    made_by = {"encoder": result.encoder, "revision": result.revision, "input_rows": result.n_rows}
    table = pa.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(made_by)})
    with partial.open("wb") as stream:
        pq.write_table(table, stream)


def _write_vectors(partial: Path, store: VectorStore, positions: IntArray) -> None:
    """Write vectors of a store, in the order of `positions`."""
    dimension = store.dimension or 0
    step = max(1, _CHUNK_BYTES // (4 * max(dimension, 1)))
    head = {"descr": "<f4", "fortran_order": False, "shape": (len(positions), dimension)}
    with partial.open("wb") as stream, task("writing", len(positions)) as advance:
        np.lib.format.write_array_header_1_0(stream, head)
        for start in range(0, len(positions), step):
            rows = store.gather(positions[start : start + step])
            stream.write(rows.astype("<f4", copy=False).tobytes())
            advance(len(rows))


def _shard(
    source: Any,
    options: dict[str, object],
    encoder: str | Encoder,
    params: dict[str, object],
    store: Path,
    size: int,
) -> EncodeShard:
    """Return the function that encodes a part of the input in another process."""
    if not isinstance(source, (str, Path)) or not isinstance(encoder, str):
        raise InvalidParameter("other processes open the input by its path and the encoder by its name")
    family, colon, argument = encoder.partition(":")
    if colon and Path(argument).exists():
        encoder = f"{family}:{Path(argument).resolve()}"
    return EncodeShard(Path(source).resolve(), options, encoder, params, store.resolve(), size)


def choose_encoder(
    source: object, encoder: str | Encoder | None, text: str | None = None, image: str | None = None
) -> tuple[str | Encoder, Kind]:
    """Return the encoder for an input, and what it takes."""
    chosen = default_encoder(source, text, image) if encoder is None else encoder
    kind = find_family(chosen)[0].kind if isinstance(chosen, str) else chosen.kind
    for name, value in (("text", text), ("image", image)):
        if value is not None and kind != name:
            raise InvalidParameter(f"--{name} {value} names {name}s, but the encoder takes {PLURALS[kind]}")
    return chosen, kind


def default_encoder(source: object, text: str | None = None, image: str | None = None) -> str:
    """Choose by what the input must be: texts where a column of texts is named or the file is text."""
    textual = isinstance(source, (str, Path)) and Path(source).suffix.lower() in TEXT_ENDINGS
    if isinstance(source, Dataset):
        textual = source.content is not None and source.content.kind == "text"
    return DEFAULT_ENCODERS["text" if text is not None or (textual and image is None) else "image"]


def _check_bad_rows(bad: tuple[BadRow, ...], n_rows: int, on_bad_rows: str) -> None:
    if not bad or (on_bad_rows == "drop" and len(bad) < n_rows):
        return
    ids = {row.row: row.id for row in bad}
    reasons = first_reasons({row.row: row.reason for row in bad}, ids.__getitem__)
    advice = "" if len(bad) == n_rows else "; on_bad_rows='drop' leaves them out and encodes nothing again"
    raise InvalidInput(f"{len(bad)} of {n_rows} rows cannot be encoded{reasons}{advice}")


@contextmanager
def _open_store(
    encoder: Encoder, target: Path | None, cache: bool, cache_dir: PathLike | None
) -> Iterator[VectorStore]:
    """Open the cache, or a folder that lasts until the result is written, or as long as this call."""
    if cache and encoder.revision is not None:
        folder = cache_folder() if cache_dir is None else Path(cache_dir)
        vectors = folder / "vectors" / folder_name(encoder.name, encoder.revision)
        with _opened(make_cache_folder(vectors)) as store:
            yield store
        with suppress(OSError):  # another run may trim the same folder
            trim(folder / "vectors", cache_limit())
    elif target is not None:
        work = target.with_name(f"{target.name}.work")
        if encoder.revision is None:  # nothing tells whether the vectors there would be the same
            shutil.rmtree(work, ignore_errors=True)
        with _opened(work / folder_name(encoder.name, encoder.revision or "")) as store:
            yield store
        shutil.rmtree(work, ignore_errors=True)
    else:
        with tempfile.TemporaryDirectory(prefix="gmmatch-") as passing, _opened(Path(passing)) as store:
            yield store


def _opened(folder: Path) -> VectorStore:
    try:
        return VectorStore(folder)
    except OSError as error:
        raise InvalidInput(f"cannot read the vectors kept in {folder}: {error.strerror or error}") from error
