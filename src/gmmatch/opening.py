"""Open rows to choose from, or make them of images and texts."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .compute.engine import open_engine
from .errors import InvalidParameter
from .records import IntArray
from .sources import Source, open_source, read_values

if TYPE_CHECKING:
    from .encoders import Embedded


def open_data(
    x: Any,
    labels: Any = None,
    ids: Any = None,
    encoder: Any = None,
    *,
    text: str | None = None,
    image: str | None = None,
    embedding: str | None = None,
    memory: int | None = None,
    on_bad_rows: str = "error",
    engine: Any = "local",
) -> Source:
    """Open rows for selection without loading more than fits; images and texts are encoded first.

    Parameters
    ----------
    x
        A file, a folder, a glob, a URL, an array, a Hugging Face dataset, or what was opened already.
    labels, ids
        A column, a file with one value per row, or an array.
    encoder, text, image
        What turns images or texts into rows, as for `gmmatch.embed`, and the column that holds them.
    embedding
        Column, array or tensor that holds the embeddings.
    memory
        Bytes that rows may take in memory; a quarter of the machine by default.
    on_bad_rows
        `error` refuses images and texts that cannot be encoded; `drop` leaves them out.
    engine
        `ray` decodes columns into files, so that other processes can map them.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> gmmatch.open(np.eye(5), labels=[0, 0, 1, 1, 1]).shape
    (5, 5)
    """
    if isinstance(x, Source):
        return _with(x, labels, ids)
    if encoder is not None or text is not None or image is not None:
        if engine != "local":
            raise InvalidParameter(
                f"--engine {engine} selects from embeddings; encode first, with:"
                f" gmmatch embed --engine {engine}"
            )
        options = {"text": text, "image": image, "labels": beside(labels), "ids": ids}
        return encode(x, encoder, on_bad_rows=on_bad_rows, **options)
    if isinstance(x, (str, os.PathLike)) or (hasattr(x, "with_format") and hasattr(x, "features")):
        return open_source(x, embedding, labels, ids, memory, mapped=engine == "ray")
    return _with(Source(x, "X", "array"), labels, ids)


def beside(labels: Any) -> Any:
    """Return the labels in a table that lies beside images or texts; others as they are."""
    table = isinstance(labels, (str, os.PathLike)) and str(labels).endswith((".csv", ".parquet"))
    return read_values(labels, "labels") if table and os.path.isfile(labels) else labels


def _with(source: Source, labels: Any, ids: Any) -> Source:
    """Return a source with other labels and ids, where there are some."""
    if isinstance(labels, (str, os.PathLike)):
        labels = read_values(labels, "labels")
    source = source if labels is None else replace(source, labels=labels)
    return source if ids is None else replace(source, ids=read_values(ids, "ids"))


def embed(
    path: Any,
    encoder: Any = None,
    *,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    **options: Any,
) -> Embedded:
    """Turn images or texts into vectors, on this machine or on a Ray cluster.

    Parameters
    ----------
    path, encoder, options
        See `gmmatch.encoders.embed_input`. On a cluster every node must see the input, the cache and the
        output under the same paths.
    engine, address, workers
        As for `gmmatch.select`.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> gmmatch.embed(np.zeros((3, 8, 8), "uint8"), "pixels").embeddings.shape
    (3, 64)
    """
    from .encoders import embed_input

    with open_engine(engine, None, address, workers) as running:
        spread = None if running is None else running.map
        return embed_input(path, encoder, spread=spread, **options)


def encode(path: Any, encoder: Any = None, **options: Any) -> Source:
    """Turn images or texts into a source of rows; see `gmmatch.encoders.embed_input` for the options.

    Rows that cannot be encoded are left out where ``on_bad_rows="drop"`` asks for it: they are rows of NaN
    here, so that row numbers stay those of the input.
    """
    embedded = embed(path, encoder, **options)
    rows, ids, labels = embedded.embeddings, embedded.ids, embedded.labels
    if embedded.bad_rows:
        rows = np.full((embedded.n_rows, rows.shape[1]), np.nan, rows.dtype)
        rows[embedded.rows] = embedded.embeddings
        ids = _spread(ids, embedded.rows, embedded.n_rows)
        labels = None if labels is None else _spread(labels, embedded.rows, embedded.n_rows)
    content = None if embedded.content.kind == "rows" else embedded.content
    return Source(rows, str(path), "encoded", ids=ids, labels=labels, content=content)


def _spread(values: npt.NDArray[Any], rows: IntArray, n_rows: int) -> npt.NDArray[Any]:
    """Put values at their rows; other rows, which take no part, repeat the first value."""
    spread = np.full(n_rows, values[0], values.dtype)
    spread[rows] = values
    return spread
