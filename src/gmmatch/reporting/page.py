"""From plain data to one HTML file that needs nothing else: styles, scripts and the plot library inside."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from pathlib import Path

from ..errors import InvalidParameter, require
from ..files import check_folder, whole_file
from ..version import __version__
from .map import check_projection
from .summary import Report

SCRIPTS = (
    "colours.js", "elements.js", "state.js", "map.js", "curve.js", "panel.js", "classes.js", "galleries.js",
    "review.js", "page.js",
)  # fmt: skip
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


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
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline';"
        f" script-src {_digest(library)} {_digest(script)}; base-uri 'none'; form-action 'none'"
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


def _digest(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
