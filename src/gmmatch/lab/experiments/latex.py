r"""Blocks as LaTeX tables in the paper's layout; they need ``\usepackage{booktabs}`` and nothing else."""

from collections.abc import Sequence
from itertools import groupby

from .grid import Block, Column, Setting, Value, setting_label

_MOST_LINES = 52  # of a float that must fit on a page
_ESCAPES = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "→": r"$\to$", "±": r"$\pm$", "\N{EN DASH}": "--",
}  # fmt: skip


def escape(text: str) -> str:
    r"""Return text that LaTeX prints as it stands."""
    return "".join(_ESCAPES.get(letter, letter) for letter in text)


def tables(blocks: Sequence[Block], caption: str, label: str) -> str:
    """Return ``table*`` floats of at most a page; neighbouring blocks of the same columns share a tabular.

    `blocks`: its blocks, from top to bottom. `caption`, `label`: plain text; both are escaped.
    """
    pages: list[list[Block]] = []
    for block in blocks:
        if pages and sum(len(other.rows) + 2 for other in [*pages[-1], block]) <= _MOST_LINES:
            pages[-1].append(block)
        else:
            pages.append([block])
    floats = []
    for number, page in enumerate(pages, start=1):
        part = f" (part {number} of {len(pages)})" if len(pages) > 1 else ""
        floats.append(_float(page, caption + part, label + (f"-{number}" if number > 1 else "")))
    return "\n".join(floats)


def _float(blocks: Sequence[Block], caption: str, label: str) -> str:
    parts = [_tabular(list(group)) for _, group in groupby(blocks, _shape)]
    return "\n".join(
        [
            r"\begin{table*}",
            r"\footnotesize",
            r"\centering",
            "\n\\par\\medskip\n".join(parts),
            rf"\caption{{{escape(caption)}}}",
            rf"\label{{tab:{_label(label)}}}",
            r"\end{table*}",
            "",
        ]
    )


def _label(text: str) -> str:
    return "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in text)


def _shape(block: Block) -> tuple[bool, tuple[object, ...]]:
    """Return what blocks must share to stand under one header."""
    several = block.setting is None
    return several, tuple(column if several else column.keep for column in block.columns)


def _tabular(blocks: Sequence[Block]) -> str:
    first = blocks[0]
    width = len(first.columns) + 2
    lines = [rf"\begin{{tabular}}{{l{'c' * (width - 1)}}}", r"\toprule"]
    if first.setting is None:
        lines += _group_header(first.columns)
    keeps = [rf"\textbf{{{100 * column.keep:g}\%}}" for column in first.columns]
    lines.append(_line([r"\textbf{Method / Ratio}", *keeps, r"\textbf{Mean}"]))
    for block in blocks:
        lines += [
            r"\midrule",
            rf"\multicolumn{{{width}}}{{c}}{{\textbf{{{escape(block.title)}}}}} \\",
            r"\midrule",
            *(_line([escape(method), *cells]) for method, cells in block.shown(_cell)),
        ]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _group_header(columns: Sequence[Column]) -> list[str]:
    """Return the line that names the settings over their columns, and the rules under the names."""
    groups: list[tuple[Setting, int]] = [
        (setting, len(list(members))) for setting, members in groupby(columns, lambda column: column.setting)
    ]
    names = [
        rf"\multicolumn{{{size}}}{{c}}{{\textbf{{{escape(setting_label(name))}}}}}" for name, size in groups
    ]
    rules, start = [], 2
    for _, size in groups:
        rules.append(rf"\cmidrule(r){{{start}-{start + size - 1}}}")
        start += size
    return [_line(["", *names, ""]), " ".join(rules)]


def _cell(value: Value | None, digits: int, bold: bool) -> str:
    if value is None:
        return "--"
    text = f"{value.mean:.{digits}f}"
    if value.spread is not None:
        text += rf"$\pm${value.spread:.{digits}f}"
    if bold:
        text = rf"\textbf{{{text}}}"
    return text if value.paper is None else rf"{text} ({value.paper.accuracy:.2f})"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
