"""Blocks and standings as Markdown."""

from collections.abc import Iterable, Sequence

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
    best = block.best()
    rows = []
    for method, values in block.rows.items():
        cells = [show(value, block.digits, at in best[method]) for at, value in enumerate(values)]
        mean = block.mean(method)
        average = show(None if mean is None else Value(mean), block.digits, len(values) in best[method])
        rows.append([method, *cells, average])
    return table([*header, "mean"], rows)


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
    header = [
        "gm-matching against",
        "cells",
        "better in",
        "worse in",
        "ahead on average",
        "in its worst cell",
    ]
    return table(
        header,
        [
            [
                duel.method,
                str(duel.cells),
                str(duel.won),
                str(duel.lost),
                signed(duel.mean),
                signed(duel.worst),
            ]
            for duel in found
        ],
    )


def standings_table(standings: Sequence[Standing]) -> str:
    """Return where gm-matching stands, with the places where it does not lead."""
    header = [
        "scenario",
        "gm-matching",
        "best other",
        "lead",
        "over random",
        "least over random",
        "best in",
        "where it does not lead",
        "paper: lead",
        "paper: over random",
    ]
    rows = [
        [
            entry.name,
            f"{entry.ours:.2f}",
            GAP if entry.other is None else f"{entry.other:.2f} ({entry.best})",
            signed(entry.lead),
            signed(entry.over_random),
            signed(entry.least),
            f"{entry.won} of {entry.cells}",
            entry.remark,
            signed(entry.paper_lead),
            signed(entry.paper_over_random),
        ]
        for entry in standings
    ]
    return table(header, rows)
