"""A page about a selection, from Python and from the command line alike."""

import os
from pathlib import Path
from typing import Any

from ..data import Dataset
from ..files import check_apart
from ..inputs import open_data
from ..outputs import check_new
from ..records import Selection, load_selection
from ..validation import as_size
from .content import find_content
from .page import check_report, write_report
from .repeat import opened_as, shell_command
from .summarise import summarise
from .summary import Report


def report(
    selection: Selection | str | os.PathLike[str],
    data: object,
    output: str | os.PathLike[str] = "report.html",
    *,
    labels: object = None,
    ids: object = None,
    encoder: object = None,
    text: str | None = None,
    image: str | None = None,
    embedding: str | None = None,
    images: object = None,
    texts: object = None,
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
    chosen = selection if isinstance(selection, Selection) else load_selection(selection)

    def check_page(found: Dataset) -> None:
        check_apart([path], found.files)
        check_new(path, overwrite)
        check_report(path, projection)

    columns: dict[str, Any] = {"embedding": embedding}
    if images is None and texts is None:
        columns |= {"text": text, "image": image}
    held = None if memory is None else as_size(memory)
    reading: dict[str, Any] = {"on_bad_rows": "drop", "header": header, "before_encoding": check_page}
    rows = open_data(data, labels, ids, encoder, memory=held, encode=True, **columns, **reading)
    check_page(rows)
    opened = opened_as(data, {"labels": labels, "ids": ids, "encoder": encoder, **columns})
    if command is None and isinstance(data, str | os.PathLike):
        options = columns | {"labels": None if chosen.labels is None else labels, "ids": ids}
        options |= {"encoder": encoder, "on-bad-rows": "drop" if rows.bad else None}
        command = shell_command(chosen, os.fspath(data), options)
    content = find_content(rows, images=images, texts=texts, image=image, text=text)
    shown: dict[str, Any] = {"content": content, "projection": projection, "command": command}
    page = summarise(chosen, rows, any_input=force, opened=opened, **shown)
    rows.check_unchanged()
    write_report(page, path)
    return page
