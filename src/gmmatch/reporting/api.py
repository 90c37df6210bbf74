"""A page about a selection, from Python and from the command line alike."""

import os
from pathlib import Path
from typing import Any

from ..data import Dataset
from ..errors import InvalidParameter
from ..files import check_apart
from ..inputs import open_data
from ..outputs import check_new
from ..records import Selection, load_selection
from ..validation import as_size, check_input
from .content import Content, open_content, table_content
from .map import check_projection
from .page import check_report, write_report
from .repeat import shell_command
from .summarise import summarise
from .summary import Report


def report(
    selection: Selection | str | os.PathLike[str],
    data: Any,
    output: str | os.PathLike[str] = "report.html",
    *,
    labels: Any = None,
    ids: Any = None,
    encoder: Any = None,
    text: str | None = None,
    image: str | None = None,
    embedding: str | None = None,
    images: Any = None,
    texts: Any = None,
    projection: str = "classes",
    memory: int | str | None = None,
    header: str = "auto",
    overwrite: bool = False,
    force: bool = False,
    command: str | None = None,
) -> Report:
    """Show what was kept, what was dropped and why, in one page that needs nothing else.

    Parameters
    ----------
    selection
        What `gmmatch.select` returned, or the file that it was saved to.
    data
        What the rows were selected from, as for `gmmatch.select`.
    output
        The page to write: .html.
    labels, ids, encoder, text, image, embedding, memory, header
        As for `gmmatch.select`; with `images` or `texts`, `image` and `text` name columns of those.
    images, texts
        What the rows look like, where `data` does not hold it: a folder, a table, an array.
    projection
        How the map is laid out: `classes` (by a classifier of the believed rows; `pca` where there are no
        labels), `pca`, `umap` or `auto`.
    overwrite, force
        Whether to replace an existing page, and to go on where the rows or labels are not those that the
        selection was made from.
    command
        What to show as the command that repeats the selection.

    Returns
    -------
    Report
        What the page shows, as plain data.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, gmmatch
    >>> rows = np.random.default_rng(0).normal(size=(300, 8))
    >>> page = pathlib.Path(tempfile.mkdtemp()) / "page.html"
    >>> gmmatch.report(gmmatch.select(rows, keep=30), rows, page).glance.kept, page.exists()
    (30, True)
    """
    path = Path(output)
    check_apart([path], (selection, data, labels, ids, images, texts))
    check_projection(projection)
    chosen = selection if isinstance(selection, Selection) else load_selection(selection)
    beside = images is not None or texts is not None

    def check_page(found: Dataset) -> None:
        check_apart([path], found.files)
        check_new(path, overwrite)
        check_report(path)

    columns: dict[str, Any] = {"embedding": embedding} | ({} if beside else {"text": text, "image": image})
    reading: dict[str, Any] = {
        "on_bad_rows": "drop",
        "header": header,
        "before_encoding": check_page,
        "encode": True,
    }
    held = None if memory is None else as_size(memory)
    rows = open_data(data, labels, ids, encoder, memory=held, **columns, **reading)
    check_page(rows)
    opened = None
    if isinstance(data, str | os.PathLike):
        asked = {"labels": labels, "ids": ids, "encoder": encoder, **columns}
        told = {
            name: os.fspath(value) for name, value in asked.items() if isinstance(value, str | os.PathLike)
        }
        if len(told) == sum(value is not None for value in asked.values()):
            opened = (os.fspath(data), told)
    if command is None and isinstance(data, str | os.PathLike):
        named = columns | {"labels": None if chosen.labels is None else labels, "ids": ids}
        named |= {"encoder": encoder, "on-bad-rows": "drop" if rows.bad else None}
        command = shell_command(chosen, os.fspath(data), named)
    checked = check_input(rows.numbers(), rows.labels, name=rows.name, finite=False)
    content = find_content(rows, images=images, texts=texts, image=image, text=text)
    shown: dict[str, Any] = {"content": content, "projection": projection, "command": command}
    page = summarise(chosen, rows, checked=checked, any_input=force, opened=opened, **shown)
    rows.check_unchanged()
    write_report(page, path)
    return page


def find_content(
    rows: Dataset, *, images: Any = None, texts: Any = None, image: str | None = None, text: str | None = None
) -> Content | None:
    """Open what rows look like: images or texts beside them, what they were encoded from, or columns."""
    if images is not None and texts is not None:
        raise InvalidParameter("images and texts were both given; expected one of them")
    if images is not None:
        return open_content(images, "image", len(rows), rows.ids, image=image)
    if texts is not None:
        return open_content(texts, "text", len(rows), rows.ids, text=text)
    # Row numbers are those of the input, so that the images or texts belong to the rows by order.
    return table_content(rows) if rows.content is None else Content(rows)
