"""Open rows to choose from, or make them of images and texts."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .compute.engine import open_engine
from .data import Dataset, open_dataset
from .errors import InvalidParameter

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
    on_bad_rows: str = "error",
    unlabelled: str = "error",
    split: str = "train",
    engine: Any = "local",
    **options: Any,
) -> Dataset:
    """Open whatever holds rows, images or texts; with an encoder, images and texts become rows.

    Parameters
    ----------
    x, labels, ids, text, image, on_bad_rows, unlabelled, split
        See `gmmatch.data.open_dataset`: files, folders, globs, addresses, arrays, tables, datasets; columns,
        files or values of labels and ids; and what to do with rows that have none.
    encoder
        What turns images or texts into rows, as for `gmmatch.embed`. Not needed where a column of texts
        or images is named; without it, `rows` of what holds images or texts is None.
    engine
        `ray` leaves columns in their files, so that other processes can read them.
    **options
        Without encoding, others of `gmmatch.data.open_dataset`: `embedding`, `memory`, `mapped`.
        With it, others of `gmmatch.encoders.embed_input`: `batch_size`, `cache_dir`, `size` and so on.

    Returns
    -------
    Dataset
        What `gmmatch.select`, `gmmatch.suspects` and `gmmatch.report` take.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> gmmatch.open(np.eye(5), labels=[0, 0, 1, 1, 1]).shape
    (5, 5)
    >>> pictures = np.random.default_rng(0).integers(0, 256, (6, 8, 8), dtype=np.uint8)
    >>> gmmatch.open(pictures).rows is None, gmmatch.open(pictures, encoder="pixels").shape
    (True, (6, 64))
    """
    handling: dict[str, Any] = {"on_bad_rows": on_bad_rows, "unlabelled": unlabelled}
    if encoder is None and text is None and image is None:
        options["mapped"] = options.get("mapped", False) or engine == "ray"
        return open_dataset(x, labels, ids, split=split, **handling, **options)
    if engine != "local":
        raise InvalidParameter(
            f"--engine {engine} selects from embeddings; encode first, with: gmmatch embed --engine {engine}"
        )
    from .encoders import choose_encoder, embed_input

    for name in ("embedding", "memory", "mapped"):
        options.pop(name, None)  # what has to do with rows that are there already
    chosen, kind = choose_encoder(x, encoder, text, image)
    found = open_dataset(x, labels, ids, text=text, image=image, holds=kind, split=split, **handling)
    return _encoded(found, embed_input(found, chosen, on_bad_rows=on_bad_rows, **options))


def _encoded(found: Dataset, embedded: Embedded) -> Dataset:
    """Return a dataset with its embeddings; rows that could not be encoded are bad, and NaN."""
    rows = embedded.embeddings
    if embedded.bad_rows:
        rows = np.full((embedded.n_rows, embedded.embeddings.shape[1]), np.nan, rows.dtype)
        rows[embedded.rows] = embedded.embeddings
    reasons = {bad.row: bad.reason for bad in embedded.bad_rows}
    return found.replace(rows=rows, bad={**found.bad, **reasons})


def open_source(
    path: Any, embedding: str | None = None, labels: Any = None, ids: Any = None, *rest: Any, **options: Any
) -> Dataset:
    """Open rows by the former name of `gmmatch.open`."""
    warnings.warn(
        "gmmatch.open_source goes with the next version; use gmmatch.open(x, labels=..., ids=...)",
        DeprecationWarning,
        stacklevel=2,
    )
    options |= dict(zip(("memory", "cache", "mapped"), rest, strict=False))
    options.pop("cache", None)  # nothing is decoded into files any more
    return open_dataset(path, labels, ids, embedding=embedding, **options)


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
