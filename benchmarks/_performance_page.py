"""The page of `benchmarks.performance`, its table and its picture, all made from performance.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ._lines import lines

# The kinds of columns: how the picture names and colours them.
_KINDS = {
    "ours": ("gmmatch", "#D55E00"),
    "own": ("gmmatch, otherwise", "#F0B27A"),
    "before": ("gmmatch, version 0.2.0", "#555555"),
    "peer": ("others", "#0072B2"),
    "yardstick": ("yardsticks", "#B8B8B8"),
}
_HEAD = "| work | by | seconds, least (median) | gmmatch takes | memory, MB |\n|---|---|---:|---:|---:|"
_PAGE = """# Performance

`make bench` (`python -m benchmarks.performance --scale {scale}{before}`) writes this page, its picture and
[performance.json](performance.json). {scale_words}Measured {made} at commit `{commit}`: {processor}, {cores}
cores, Python {python}, {versions}.{missing} Other processes took {others} of the processors meanwhile
(most: {worst}).{left}

**Picks** `{picks}`

![Seconds of every line, and how they grow](performance.png)

All who do the work of a line take turns in one run, each in a process of its own with as many threads as it
takes by itself. The first turn of each is not counted, so that neither start-up nor compilation decides; of
the lines about start-up every turn is a new process. Three turns or more are counted, but who has taken two
minutes in all gets no other (performance.json says how many); if that was the first, it counts.
Files are in the system's cache. Rows are mixtures of as
many classes as said, with a fifth of the labels wrong; 10 % is kept where nothing else is said. *Memory* is
the most that a process held beside mapped files, its libraries among it. *gmmatch takes* is its least time as
a multiple of the other's least. A read pass is `X[i:i+8192].sum()` over the mapped file. The machine's limit
is the time of reading every value once at the bandwidth that threads copy with, or of the fewest products
(every pick with the good rows that it was chosen from; for suspects every row with every class) at the rate
of a large matrix product, whichever is longer; both rates are measured in turns with the rest. Peers do
another job where their method is another: only the time is compared.

Ahead of gmmatch in time:

{ahead}

{table}

{growth}
"""


def write(known: dict[str, Any], folder: Path) -> None:
    """Write the page and the picture of the full run, or of the small one where there is no full one."""
    scale = "full" if "full" in known else "small"
    (folder / "performance.md").write_text(page(scale, known[scale]), encoding="utf-8")
    draw(known[scale], folder / "performance.png")


def page(scale: str, run: dict[str, Any]) -> str:
    """Return the page's text."""
    shares = {name: line["others"] for name, line in run["lines"].items()}
    worst = max(shares, key=shares.__getitem__)
    left = [line.name for line in lines(scale) if line.name not in shares]
    absent = [name for name, number in run["versions"].items() if number is None]
    return _PAGE.format(
        **{name: run[name] for name in ("commit", "picks", "made", "processor", "cores", "python")},
        scale=scale,
        before=" --before FOLDER" if run.get("before") else "",
        scale_words="" if scale == "full" else "This is the small form, whose ratios CI compares. ",
        versions=", ".join(f"{name} {number}" for name, number in run["versions"].items() if number),
        missing=f" Not installed: {', '.join(absent)}." if absent else "",
        others=f"{np.mean(list(shares.values())):.0%}",
        worst=f"{shares[worst]:.0%}, {worst}",
        left=f" Not measured in this run: {', '.join(left)}." if left else "",
        ahead=_ahead(run),
        table=table(run),
        growth=_growth(run),
    )


def table(run: dict[str, Any]) -> str:
    """Return one row per line and column."""
    rows = [_HEAD]
    for line in run["lines"].values():
        ours = next(iter(line["columns"].values()))
        for place, (title, column) in enumerate(line["columns"].items()):
            work = f"**{line['title']}**{_size(line)}" if place == 0 else ""
            if "missing" in column:
                rows.append(f"| {work} | {title} | did not run: {column['missing'].replace('|', '/')} | | |")
                continue
            reads = f", {column['reads']:g} reads" if "reads" in column else ""
            times = f"{_number(ours['least'] / column['least'])} x" if place else ""
            seconds = f"{_number(column['least'])} ({_number(column['median'])})"
            memory = "" if column["kind"] == "yardstick" or not line["size"][0] else f"{column['peak_mb']:,}"
            rows.append(f"| {work} | {title}{reads} | {seconds} | {times} | {memory} |")
    return "\n".join(rows)


def draw(run: dict[str, Any], path: Path) -> None:
    """Draw the seconds of all columns as bars, and the growth as lines."""
    from matplotlib.patches import Patch

    from gmmatch.lab.experiments.palette import new_figure, save, strip

    plain = {name: line for name, line in run["lines"].items() if not line["growth"] and name != "methods"}
    bars = sum(len(line["columns"]) + 1 for line in plain.values())
    figure = new_figure(11.0, 0.19 * bars + 0.8)
    grid = figure.add_gridspec(3, 2, width_ratios=[2.4, 1])
    axes = figure.add_subplot(grid[:, 0])
    ticks, place = [], 0
    for line in plain.values():
        axes.text(0.0, place, f"{line['title']}{_size(line)}", transform=axes.get_yaxis_transform(),
                  fontsize=8.5, fontweight="bold", va="center")  # fmt: skip
        for title, column in line["columns"].items():
            place += 1
            ticks.append((place, title))
            if "least" in column:
                axes.barh(place, column["least"], color=_KINDS[column["kind"]][1], height=0.75)
                axes.text(column["least"], place, f" {_number(column['least'])}", fontsize=7.5, va="center")
        place += 1
    axes.set_xscale("log")
    axes.set_yticks([tick for tick, _ in ticks], [title for _, title in ticks], fontsize=7.5)
    axes.set_ylim(place, -0.8)
    axes.set_xlabel("seconds, least of the turns", fontsize=8.5)
    handles = [Patch(color=colour, label=label) for label, colour in _KINDS.values()]
    figure.legend(handles=handles, loc="outside upper center", ncols=5, fontsize=8.5, frameon=False)
    strip(axes)
    for number, line in enumerate(line for line in run["lines"].values() if line["growth"]):
        sizes, seconds = _grown(line)
        axes = figure.add_subplot(grid[number, 1])
        axes.loglog(sizes, seconds, "o-", color=_KINDS["ours"][1])
        axes.set_title(f"{line['title']}: power {_power(line):.2f}", fontsize=8.5)
        axes.set_ylim(min(seconds) / 3, max(seconds) * 3)
        axes.set_yticks([])
        for size, value in zip(sizes, seconds, strict=True):
            axes.text(size, value * 1.25, f"{_number(value)} s", fontsize=7.5, ha="center")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.minorticks_off()
        strip(axes)
    save(figure, path)


def _ahead(run: dict[str, Any]) -> str:
    """Say which peers take less time than gmmatch."""
    found = []
    for line in run["lines"].values():
        ours = next(iter(line["columns"].values()))["least"]
        found += [
            f"- {line['title']}{_size(line)}: {title}; gmmatch takes {_number(ours / column['least'])} x"
            for title, column in line["columns"].items()
            if column["kind"] in ("peer", "before") and column.get("least", np.inf) < ours
        ]
    return "\n".join(found) or "- none of those that ran"


def _growth(run: dict[str, Any]) -> str:
    """Say by which power of each size the time grows."""
    said = [f"{line['growth']} {_power(line):.2f}" for line in run["lines"].values() if line["growth"]]
    return f"Time grows with the power of the size that fits best: {', '.join(said)}." if said else ""


def _grown(line: dict[str, Any]) -> tuple[list[int], list[float]]:
    """Return the sizes of a line about growth, and their seconds, the smallest first."""
    found = [
        (int(title.split()[-2].replace(",", "")), column["least"])
        for title, column in line["columns"].items()
    ]
    sizes, seconds = zip(*sorted(found), strict=True)
    return list(sizes), list(seconds)


def _power(line: dict[str, Any]) -> float:
    return float(np.polyfit(*np.log(_grown(line)), 1)[0])


def _size(line: dict[str, Any]) -> str:
    rows, features, classes = line["size"]
    if not rows:
        return ""
    return f", {rows:,} x {features:,}" + (f", {classes:,} classes" if classes > 1 else "")


def _number(value: float) -> str:
    """Return three digits of a number, without a power of ten."""
    digits = max(0, 2 - int(np.floor(np.log10(value)))) if value > 0 else 0
    return f"{value:,.{min(digits, 6)}f}"
