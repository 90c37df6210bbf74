"""Open rows to choose from, or make them of images and texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .data import Dataset, open_dataset, values_of_rows
from .errors import InvalidParameter

if TYPE_CHECKING:
    from .encoders import Embedded


def open_data(
    x: Any,
    labels: Any = None,
    ids: Any = None,
    encoder: Any = None,
    *,
    groups: Any = None,
    text: str | None = None,
    image: str | None = None,
    on_bad_rows: str = "error",
    unlabelled: str = "error",
    split: str = "train",
    header: str = "auto",
    engine: Any = "local",
    **options: Any,
) -> Dataset:
    """Open whatever holds rows, images or texts; see `gmmatch.open`.

    `engine`: `ray` leaves columns in their files, so that other processes can read them. `options`: without
    encoding, others of `gmmatch.data.open_dataset`: `embedding`, `memory`, `mapped`; with it, others of
    `gmmatch.encoders.embed_input`, and `before_encoding`, called with the images or texts, which can refuse
    them before they are encoded.
    """
    handling: dict[str, Any] = {"on_bad_rows": on_bad_rows, "unlabelled": unlabelled, "header": header}
    check: Callable[[Dataset], None] | None = options.pop("before_encoding", None)
    if encoder is None and text is None and image is None:
        options["mapped"] = options.get("mapped", False) or engine == "ray"
        return _grouped(open_dataset(x, labels, ids, split=split, **handling, **options), groups)
    if engine != "local":
        raise InvalidParameter(
            f"engine={engine!r} selects from embeddings; encode first with gmmatch embed, in Python"
            " gmmatch.embed"
        )
    from .encoders import choose_encoder, embed_input

    handling["memory"] = options.pop("memory", None)
    for name in ("embedding", "mapped"):
        options.pop(name, None)  # what has to do with rows that are there already
    chosen, kind = choose_encoder(x, encoder, text, image)
    found = open_dataset(x, labels, ids, text=text, image=image, holds=kind, split=split, **handling)
    found = _grouped(found, groups)
    if check is not None:
        check(found)
    return _encoded(found, embed_input(found, chosen, on_bad_rows=on_bad_rows, **options))


def _grouped(found: Dataset, groups: Any) -> Dataset:
    """Return a dataset with what rows belong together, one value per row."""
    return found if groups is None else found.replace(groups=values_of_rows(found, groups, "groups"))


def _encoded(found: Dataset, embedded: Embedded) -> Dataset:
    """Return a dataset with its embeddings; rows that could not be encoded are bad, and NaN."""
    rows = embedded.embeddings
    if embedded.bad_rows:
        rows = np.full((embedded.n_rows, embedded.embeddings.shape[1]), np.nan, rows.dtype)
        rows[embedded.rows] = embedded.embeddings
    reasons = {bad.row: bad.reason for bad in embedded.bad_rows}
    return found.replace(rows=rows, bad={**found.bad, **reasons})
