"""Rows and what they look like, as the options of a command name them."""

from __future__ import annotations

from pathlib import Path

from .. import pipeline
from ..encoders.registry import find_family
from ..errors import InvalidParameter
from ..report import Content, open_content
from ..sources import Source, open_source


def open_rows(
    source: str,
    *,
    encoder: str | None,
    text: str | None,
    image: str | None,
    labels: str | None,
    ids: str | None,
    embedding: str | None = None,
    memory: int | None = None,
    on_bad_rows: str = "error",
    engine: str = "local",
) -> Source:
    """Open embeddings, or encode images or texts."""
    if encoder is None and text is None and image is None:
        return open_source(source, embedding, labels, ids, memory, mapped=engine == "ray")
    if engine != "local":
        raise InvalidParameter(
            f"--engine {engine} selects from embeddings; encode first, with: gmmatch embed --engine {engine}"
        )
    options = {"text": text, "image": image, "labels": labels, "ids": ids}
    return pipeline.encode(source, encoder, on_bad_rows=on_bad_rows, **options)


def find_content(
    source: str,
    rows: Source,
    *,
    encoder: str | None = None,
    text: str | None = None,
    image: str | None = None,
    images: Path | None = None,
    texts: Path | None = None,
) -> Content | None:
    """Open what the rows look like: images or texts beside them, or those that they were encoded from."""
    if images is not None and texts is not None:
        raise InvalidParameter("--images and --texts were both given; expected one of them")
    if images is not None:
        return open_content(images, "image", len(rows), rows.ids, column=image)
    if texts is not None:
        return open_content(texts, "text", len(rows), rows.ids, column=text)
    if encoder is None and text is None and image is None:
        return None
    kind = ("image" if text is None else "text") if encoder is None else find_family(encoder)[0].kind
    if kind == "rows":
        return None
    # Row numbers are those of the input, so that the images or texts belong to the rows by order.
    return open_content(source, kind, len(rows), None, column=text if kind == "text" else image)
