"""Blocks and standings as Markdown."""

from collections.abc import Iterable, Mapping, Sequence

from .grid import Block, Value, setting_label
from .standings import Duel, Standing

GAP = "\N{EN DASH}"
DEVIATIONS = "How runs differ from the paper's: [deviations](../deviations.md)."


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Return a Markdown table; bars in cells are escaped."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(header), "|---" + "|---:" * (len(header) - 1) + "|", *map(line, rows)])


def block_table(block: Block) -> str:
    """Return a block: methods as rows, keep ratios as columns, the mean last, the best in bold."""
    several = block.setting is None
    header = ["method"] + [
        (f"{setting_label(column.setting)}: " if several else "") + f"{100 * column.keep:g} %"
        for column in block.columns
    ]
    return table([*header, "mean"], ([method, *cells] for method, cells in block.shown(show)))


def show(value: Value | None, digits: int, bold: bool) -> str:
    """Return a cell: mean and spread, bold if it is the best, the paper's figure in brackets."""
    if value is None:
        return GAP
    spread = "" if value.spread is None else f" ± {value.spread:.{digits}f}"
    text = f"{value.mean:.{digits}f}{spread}"
    text = f"**{text}**" if bold else text
    return text if value.paper is None else f"{text} ({value.paper.accuracy:.2f})"


def signed(value: float | None) -> str:
    """Return a difference with its sign.

    >>> signed(1.234), signed(-0.004), signed(None)
    ('+1.23', '+0.00', '–')
    """
    return GAP if value is None else f"{round(value, 2) + 0.0:+.2f}"


def duels_table(found: Sequence[Duel]) -> str:
    """Return gm-matching against each other method."""
    return _named(
        {
            "gm-matching against": duel.method,
            "cells": str(duel.cells),
            "better in": str(duel.won),
            "worse in": str(duel.lost),
            "ahead on average": signed(duel.mean),
            "in its worst cell": signed(duel.worst),
        }
        for duel in found
    )


def standings_table(standings: Sequence[Standing]) -> str:
    """Return where gm-matching stands, with the places where it does not lead."""
    compared = any(entry.paper_lead is not None or entry.paper_over_random is not None for entry in standings)
    return _named(
        {
            "scenario": entry.name,
            "gm-matching": f"{entry.ours:.2f}",
            "best other": GAP if entry.other is None else f"{entry.other:.2f} ({entry.best})",
            "lead": signed(entry.lead),
            "over random": signed(entry.over_random),
            "least over random": signed(entry.least),
            "best in": f"{entry.won} of {entry.cells}",
            "where it does not lead": entry.remark,
            **(_beside(entry) if compared else {}),
        }
        for entry in standings
    )


def _beside(entry: Standing) -> dict[str, str]:
    """Return the paper's figures."""
    return {
        "paper: lead": signed(entry.paper_lead),
        "paper: over random": signed(entry.paper_over_random),
    }


def _named(lines: Iterable[Mapping[str, str]]) -> str:
    """Return a table of cells by the names of their columns; at least one line."""
    rows = list(lines)
    return table(list(rows[0]), [list(row.values()) for row in rows])
