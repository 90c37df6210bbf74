"""From plain data to one HTML file that needs nothing else: styles, scripts and the plot library inside."""

import base64
import hashlib
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from ..data import Dataset
from ..errors import InvalidParameter, require
from ..files import check_apart, check_folder, check_new, whole_file
from ..inputs import open_data
from ..records import Selection, load_selection
from ..validation import as_size
from ..version import __version__
from .content import find_content
from .map import check_projection
from .summarise import summarise
from .summary import Report

SCRIPTS = (
    "colours.js", "elements.js", "state.js", "map.js", "curve.js", "panel.js", "classes.js", "galleries.js",
    "review.js", "page.js",
)  # fmt: skip
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


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
        labels) or `pca`.
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
    reading: dict[str, Any] = {"on_bad_rows": "drop", "header": header, "before_encoding": check_page}
    reading["memory"] = None if memory is None else as_size(memory)
    rows = open_data(data, labels, ids, encoder, encode=True, **columns, **reading)
    check_page(rows)
    known = None if chosen.labels is None else labels
    opened = {"data": data, "labels": known, "ids": ids, "encoder": encoder, **columns}
    content = find_content(rows, images=images, texts=texts, image=image, text=text)
    shown: dict[str, Any] = {"content": content, "projection": projection, "opened": opened}
    page = summarise(chosen, rows, command=command, any_input=force, **shown)
    rows.check_unchanged()
    write_report(page, path)
    return page


def check_report(path: Path, projection: str = "classes") -> None:
    """Refuse a report that could not be made or written, before any work is done."""
    check_projection(projection)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InvalidParameter(f"the report must end in .html; got {path}")
    check_folder(path)
    plot_library()


def render(report: Report) -> str:
    """Return the page.

    Texts of the report reach the page in two ways: through the template, which escapes them, and as JSON
    in an element that is not run, whose scripts set text and never markup. The page's policy lets no
    other script run and no address be fetched.
    """
    jinja2 = require("jinja2", "Jinja2", "report")
    markup = require("markupsafe", "MarkupSafe", "report").Markup
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"count": "{:,}".format, "number": number}
    parts = "\n".join(_template(name) for name in SCRIPTS)
    library, script = plot_library(), _inline(f'"use strict";\n(() => {{\n{parts}\n}})();')
    digests = [base64.b64encode(hashlib.sha256(code.encode()).digest()) for code in (library, script)]
    scripts = " ".join(f"'sha256-{digest.decode()}'" for digest in digests)
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline';"
        f" script-src {scripts}; base-uri 'none'; form-action 'none'"
    )
    page: str = environment.from_string(_template("report.html")).render(
        report=report,
        version=__version__,
        policy=policy,
        style=markup(_template("report.css")),
        data=markup(embed(report.as_dict())),
        library=markup(library),
        script=markup(script),
    )
    return page


def write_report(report: Report, path: Path) -> None:
    """Write the page; the file appears whole or not at all."""
    page = render(report).encode("utf-8", "replace")  # names of files may be no text at all
    with whole_file(path) as partial:
        partial.write_bytes(page)


def embed(data: object) -> str:
    r"""Return data as JSON that cannot end the element it stands in.

    Examples
    --------
    >>> print(embed({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES)


def number(value: float) -> str:
    """Return a number with three significant digits, very small ones with a power of ten."""
    if value and abs(value) < 1e-3:
        digits, _, power = f"{value:.1e}".partition("e")
        return f"{digits} \N{MULTIPLICATION SIGN} 10{str(int(power)).translate(_RAISED)}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{float(f'{value:.3g}'):g}"


@cache
def plot_library() -> str:
    """Return the scripts of Bokeh, from the installed package."""
    resources = require("bokeh.resources", "bokeh", "report")
    parts = resources.Resources(mode="inline", minified=True, components=["bokeh", "bokeh-api"]).js_raw
    return _inline("\n".join(parts))


def _template(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def _inline(script: str) -> str:
    """Return a script that can stand inside an element: nothing in it ends the element."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
