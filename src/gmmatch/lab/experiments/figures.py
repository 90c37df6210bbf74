"""Accuracy against the share kept: one panel per scenario, one line per method."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput
from .grid import OURS, Block, Record, accuracy_blocks, order_methods, setting_label
from .palette import GREY, Look, look, new_figure, save, strip

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = (3.3, 2.7)  # inches
_MOST_ACROSS = 4
_LOG_FROM = 8.0  # ratio of the largest to the smallest share kept
_LEGEND_COLUMNS = 6
_DEEPEST = 20.0  # points below the middle method that a panel shows
_NOTE_WIDTH = 46


def write_curves(records: Sequence[Record], path: Path) -> None:
    """Draw mean accuracy against the share kept, with the spread over seeds, and write it to `path`.

    `records`: one dictionary per cell and seed; see `grid`. Missing cells interrupt nothing: a line connects
    the cells that are there. `path`: the picture; its ending says the format.
    """
    if not records:
        raise InvalidInput("a figure needs at least one record; got none")
    save(draw_curves(records), path)


def draw_curves(records: Sequence[Record]) -> Figure:
    """Return the figure of `write_curves`."""
    panels = _panels(records)
    methods = order_methods(method for block in panels for method in block.rows)
    looks = {name: look(name, place) for place, name in enumerate(methods)}
    across = min(_MOST_ACROSS, len(panels))
    down = math.ceil(len(panels) / across)
    legend_rows = math.ceil(len(methods) / min(_LEGEND_COLUMNS, 2 * across))
    figure = new_figure(max(_PANEL[0] * across, 5.0), _PANEL[1] * down + 0.22 * legend_rows + 0.5)
    grid = figure.subplots(down, across, squeeze=False)
    for axes, block in zip(grid.flat, panels, strict=False):
        _draw(axes, block, looks)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for place, axes in enumerate(grid.flat[: len(panels)]):
        if place % across == 0:
            axes.set_ylabel("test accuracy, %", fontsize=9)
        if place + across >= len(panels):
            axes.set_xlabel("share of the rows kept, %", fontsize=9)
    lines = {
        line.get_label(): line
        for axes in grid.flat
        for line in axes.get_lines()
        if not str(line.get_label()).startswith("_")
    }
    shown = [name for name in reversed(methods) if name in lines]
    figure.legend(
        [lines[name] for name in shown],
        shown,
        loc="outside lower center",
        ncols=min(_LEGEND_COLUMNS, 2 * across, len(shown)),
        frameon=False,
        fontsize=9,
        handlelength=2.8,
    )
    return figure


def _panels(records: Sequence[Record]) -> list[Block]:
    """Return one block per scenario and setting."""
    settings = sorted({(record["dataset"], record["proxy"], record["target"]) for record in records})
    same_data = len({dataset for dataset, _, _ in settings}) == 1
    panels = []
    for setting in settings:
        chosen = [
            record for record in records if (record["dataset"], record["proxy"], record["target"]) == setting
        ]
        for block in accuracy_blocks(chosen):
            where = f"{setting[1]} → {setting[2]}" if same_data else setting_label(setting)
            named = f"{block.title}\n{where}" if len(settings) > 1 else block.title
            panels.append(replace(block, title=named))
    return panels


def _draw(axes: Axes, block: Block, looks: dict[str, Look]) -> None:
    """Draw the lines of one panel, ours above the others."""
    keeps = np.array([100 * column.keep for column in block.columns])
    for method, values in block.rows.items():
        there = np.array([value is not None for value in values])
        found = [value for value in values if value is not None]
        means = np.array([value.mean for value in found])
        spreads = np.array([value.spread or 0.0 for value in found])
        style, level = looks[method], 4 if method == OURS else 3
        axes.plot(keeps[there], means, label=method, zorder=level, **style.line())
        if spreads.any():
            axes.fill_between(
                keeps[there],
                means - spreads,
                means + spreads,
                color=style.color,
                alpha=0.22 if method == OURS else 0.10,
                linewidth=0,
                zorder=level - 1.5,
            )
    axes.set_title(block.title, fontsize=10, loc="left", fontweight="bold")
    _dress(axes, keeps)
    _cut(axes, block)


def _cut(axes: Axes, block: Block) -> None:
    """Leave out what lies far below the others, and name it, so that the others can be told apart."""
    lines = {name: [value.mean for value in row if value is not None] for name, row in block.rows.items()}
    middle = float(np.median([min(values) for values in lines.values()]))
    floor = middle - _DEEPEST
    below = {name: min(values) for name, values in lines.items() if min(values) < floor}
    if not below:
        return
    axes.set_ylim(bottom=floor)
    lowest = sorted(below, key=below.__getitem__)
    names = ", ".join(f"{name}\N{NO-BREAK SPACE}{below[name]:.0f}" for name in lowest)
    note = axes.text(
        0.98,
        0.02,
        textwrap.fill(f"lowest, out of sight: {names}", _NOTE_WIDTH),
        transform=axes.transAxes,
        ha="right",
        fontsize=7,
        color=GREY,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0},
        zorder=5,
    )
    note.set_in_layout(False)  # or the panel would shrink to make room for it


def _dress(axes: Axes, keeps: npt.NDArray[np.float64]) -> None:
    """Set the scale and the ticks, and take away what is not needed."""
    from matplotlib.ticker import FixedLocator, NullLocator

    if keeps.max() / keeps.min() >= _LOG_FROM:
        axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(keeps)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(keeps, [f"{keep:g}" for keep in keeps])
    axes.grid(axis="y", color="#E4E4E4", linewidth=0.8, zorder=0)
    strip(axes)
