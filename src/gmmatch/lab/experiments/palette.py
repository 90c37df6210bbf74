"""Colours, markers and dashes of the methods: the same in every figure, told apart by the colour-blind.

Hues are those of Okabe and Ito; lines of one hue differ in marker and dashes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import require
from ...files import whole_file, whole_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS_COLOR, CLEAN_COLOR = "#D55E00", "#0B4F8A"
GREY, LIGHT = "#555555", "#B8B8B8"
_BLUE, _SKY, _GREEN, _PINK, _YELLOW, _BLACK = (
    "#0072B2",
    "#56B4E9",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#000000",
)
Dashes = str | tuple[int, tuple[float, ...]]
_DASHED: Dashes = (0, (4, 1.6))
_DOTTED: Dashes = (0, (1.2, 1.2))


@dataclass(frozen=True)
class Look:
    """How the line of a method is drawn."""

    color: str
    marker: str
    dashes: Dashes = "-"
    width: float = 1.2

    def line(self) -> dict[str, Any]:
        """Return it as arguments of matplotlib's ``plot``."""
        return {
            "color": self.color,
            "marker": self.marker,
            "linestyle": self.dashes,
            "linewidth": self.width,
            "markersize": 3.2 + self.width,
            "markeredgecolor": "white",
            "markeredgewidth": 0.5,
        }


_LOOKS = {
    "gm-matching": Look(OURS_COLOR, "o", width=2.6),
    "gm-matching-paper": Look(OURS_COLOR, "o", _DOTTED, 1.6),
    "random": Look(GREY, "s", _DASHED, 1.6),
    "herding": Look(_BLUE, "^"),
    "moderate": Look(_GREEN, "D"),
    "easy": Look(_SKY, "v"),
    "hard": Look(_PINK, "X"),
    "self-supervised": Look(_YELLOW, "P"),
    "forgetting": Look(_BLACK, ">", _DOTTED),
    "el2n": Look(_PINK, "<", _DASHED),
    "grand": Look(_GREEN, "p", _DASHED),
    "optimization": Look(_BLUE, "h", _DASHED),
    "k-center": Look(_BLACK, "v"),
    "facility-location": Look(_SKY, "D", _DASHED),
    "stratified": Look(_YELLOW, "s", _DASHED),
}
_FURTHER = (
    Look(_BLACK, "*", _DASHED),
    Look(_BLUE, "s", _DOTTED),
    Look(_GREEN, "*", _DOTTED),
    Look(_PINK, "d", _DOTTED),
)


def look(method: str, place: int = 0) -> Look:
    """Return how a method is drawn; `place` tells methods apart that are not in the registry."""
    return _LOOKS.get(method) or _FURTHER[place % len(_FURTHER)]


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches."""
    figures = require("matplotlib.figure", "Matplotlib", "figures")
    figure: Figure = figures.Figure(figsize=(width, height), layout="constrained")
    return figure


def save(figure: Figure, path: Path, dpi: int = 130) -> None:
    """Write a figure; a PNG with 256 colours, which look the same and take a third of the space."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind, drawn = path.suffix.lower()[1:], io.BytesIO()
    figure.savefig(drawn, format=kind, dpi=dpi)
    with whole_file(path) as partial:
        if kind != "png":
            partial.write_bytes(drawn.getvalue())
            return
        from PIL import Image

        with Image.open(drawn) as picture:
            small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
            small.save(partial, "PNG", optimize=True)


def write_page(
    folder: Path,
    name: str,
    figure: Figure,
    page: str,
    header: Sequence[str],
    lines: Iterable[Sequence[Any]],
    dpi: int = 130,
) -> list[Path]:
    """Write a figure, its page and its numbers as ``.png``, ``.md`` and ``.csv``; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    picture, report, figures = (folder / f"{name}.{ending}" for ending in ("png", "md", "csv"))
    save(figure, picture, dpi)
    with (
        whole_files(report, figures) as (text, numbers),
        numbers.open("w", newline="", encoding="utf-8") as file,
    ):
        text.write_text(page, encoding="utf-8")
        csv.writer(file, lineterminator="\n").writerows([header, *lines])
    return [picture, report, figures]


def strip(axes: Any) -> None:
    """Take away the frame that says nothing and lighten the rest."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#888888")
    axes.tick_params(labelsize=8.5, length=3, color="#888888")
    axes.set_axisbelow(True)
