"""What a row looks like: a thumbnail or the beginning of a text, for as many rows as there is room for."""

import base64
import io
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import AnyArray, IntArray
from ..compute.blocks import map_in_order
from ..data import Dataset, Items, Unreadable, open_dataset
from ..data.images import as_pixels, image_of
from ..data.joining import id_text, match_names
from ..data.remote import is_remote
from ..errors import InvalidInput, InvalidParameter
from ..progress import task

SIDE = 96
_SMALL_SIDE = 48  # smaller images are kept pixel by pixel
_MOST_LETTERS, _MOST_CELL_LETTERS = 600, 120
_MOST_COLUMNS, _MOST_CELLS = 40, 4_000_000  # of a table whose values are shown
_ROOM = {"image": 3_000_000, "text": 1_500_000}  # bytes in the page
_MOST_THUMBNAILS = 2_500
_TOGETHER = 64


@dataclass(frozen=True, eq=False)
class Content:
    """Images or texts that belong to the rows."""

    found: Dataset  # the dataset that holds the images or texts
    # By row of the input, the place of its image or text; -1: it has none. None: row by row.
    places: IntArray | None = None

    @property
    def kind(self) -> str:
        """`image` or `text`."""
        return "rows" if self.found.content is None else self.found.content.kind

    def previews(self, rows: IntArray) -> dict[int, str]:
        """Return what to show of the rows, by position in `rows`: the first ones, while there is room."""
        content, shown, room = self.found.content, dict[int, str](), _ROOM[self.kind]
        if content is None:
            return shown
        make = thumbnail if self.kind == "image" else excerpt
        rows = rows[:_MOST_THUMBNAILS] if self.kind == "image" else rows
        places = rows if self.places is None else self.places[rows]
        with task("making previews", len(rows)) as advance:
            for start in range(0, len(rows), _TOGETHER):
                part = places[start : start + _TOGETHER].tolist()
                # Read in the order of the file: a table may hold one piece of itself at a time.
                items = {at: content.read(at, at + 1)[0] for at in sorted(part) if at >= 0}
                for position, preview in enumerate(map_in_order(make, map(items.get, part)), start):
                    advance(1)
                    if preview is not None:
                        shown[position] = preview
                        room -= len(preview)
                        if room < 0:
                            return shown
        return shown


def find_content(
    rows: Dataset, *, images: Any = None, texts: Any = None, image: str | None = None, text: str | None = None
) -> Content | None:
    """Open what rows look like: images or texts beside them, what they were encoded from, or columns."""
    if images is not None and texts is not None:
        raise InvalidParameter("images and texts were both given; expected one of them")
    if images is not None or texts is not None:
        kind, path, column = ("text", texts, text) if images is None else ("image", images, image)
        return open_content(path, kind, len(rows), rows.ids, **{kind: column})
    # Row numbers are those of the input, so that the images or texts belong to the rows by order.
    return table_content(rows) if rows.content is None else Content(rows)


def open_content(path: Path | str, kind: str, n_rows: int, ids: AnyArray | None, **options: Any) -> Content:
    """Open the images or texts that belong to rows.

    They belong to the rows by name where the rows have ids that are names of theirs (the path in the
    folder, or its last part, with or without the ending), else by order.

    `path`: a folder of images, a table, or anything else that `gmmatch embed` reads. `kind`: `image` or
    `text`. `n_rows`, `ids`: number of rows of the input, and their ids. `options`: `image`, `text` and others
    of `gmmatch.data.open_dataset`.
    """
    found = open_dataset(path, holds="image" if kind == "image" else "text", on_bad_rows="drop", **options)
    if ids is not None:
        names = range(len(found)) if found.ids is None else found.ids.tolist()
        named = match_names([str(name) for name in names], [id_text(entry) for entry in ids.tolist()])
        places = np.array([-1 if place is None else place for place in named or ()], np.int64)
        if named is not None and (places >= 0).mean() > 0.5:  # else hardly any is a name
            return Content(found, places)
    if len(found) != n_rows:
        raise InvalidInput(
            f"{path} has {len(found)} {kind}s for {n_rows} rows, and the rows' ids are not their names;"
            " expected one per row"
        )
    return Content(found)


def table_content(found: Dataset) -> Content | None:
    """Return the columns of a table as texts, one per row; None where it is none, or too large to look at."""
    read, names = found.read_column, found.scalars[:_MOST_COLUMNS]
    far = any(map(is_remote, found.files))
    if read is None or not names or far or len(found) * len(names) > _MOST_CELLS:
        return None
    first = {name: next(iter(read(name, 0, 1)), None) for name in names}
    shown = [name for name, value in first.items() if not isinstance(value, (bytes, list, dict, np.ndarray))]
    if not shown:
        return None

    @cache
    def columns() -> list[Any]:
        return [read(name) for name in shown]

    def texts(start: int, stop: int) -> list[object]:
        cells = [[_cell(values[row]) for values in columns()] for row in range(start, stop)]
        return [" · ".join(f"{name} {cell}" for name, cell in zip(shown, row, strict=True)) for row in cells]

    return Content(found.replace(content=Items("text", len(found), texts)))


def _cell(value: Any) -> str:
    """Return a value of a table as a reader expects it."""
    if value is None or isinstance(value, Unreadable):
        return "-"
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)[:_MOST_CELL_LETTERS]


def excerpt(item: object) -> str | None:
    """Return the beginning of a text."""
    if item is None or isinstance(item, Unreadable):
        return None
    text = str(item)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}…"


def thumbnail(item: Any) -> str | None:
    """Return a small picture of an image as a data URI; None where it cannot be read.

    `item`: an image as :func:`gmmatch.data.images.as_pixels` takes it.

    Images of up to 48 pixels are kept as they are (PNG); of larger ones the centre square, at 96 pixels.
    """
    from PIL import Image

    if item is None or isinstance(item, Unreadable):
        return None
    try:
        if isinstance(item, np.ndarray):
            side = max(item.shape[:2])
        else:
            with Image.open(io.BytesIO(item)) as opened:
                side = max(opened.size)
    except (OSError, Image.DecompressionBombError, ValueError, SyntaxError):
        return None
    small, buffer = side <= _SMALL_SIDE, io.BytesIO()
    try:
        pixels = as_pixels(item, None if small else SIDE)
    except (Unreadable, OSError):
        return None
    kind = "png" if small else "jpeg"
    image_of(pixels).save(buffer, kind, optimize=True, **({} if small else {"quality": 72}))
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
