"""The paper's bounds beside what is measured: its Lemma for the geometric median, its Theorem for the picks.

With G the clean rows, B the corrupted ones and mu their means, both bound a squared distance to mu_G by

    8 |G| / (|G| - |B|)^2 * sum over G of |x - mu_G|^2 + 2 e^2 / (|G| - |B|)^2,

the Lemma for the geometric median, whose sum of distances is at most e too large; the Theorem for the mean of
the picks as their number grows. On the way there the proof allows a further (|theta_0| + r / kappa) / k, with
r the length of the longest row: nothing that holds at a given k where rows lie arbitrarily far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ...api import select
from ...arrays import Vector
from ...location import geometric_median
from ...progress import task
from .convergence import GUARDED, MATCHING, SIZES, Size, convergence_rows
from .grid_cells import commit
from .markdown import DEVIATIONS, table
from .palette import GREY, Look, look, new_figure, strip, write_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure


RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.49)
DISTANCES = (5.0, 100.0, 1e6)
LEMMA = "geometric median"
PICKED = {name: how for name, how in MATCHING.items() if name != GUARDED}


@dataclass(frozen=True)
class Measured:
    """Distances to the mean of the clean rows at one rate of corruption, root mean square over seeds."""

    distance: float  # of the corrupted rows, in radii of the clean ones
    rate: float
    bound: float  # the root of what Lemma and Theorem allow
    found: Mapping[str, float]  # by what was measured: the geometric median, and the picks of each method


def paper_bound(rows: Vector, corrupted: npt.NDArray[np.bool_], excess: float) -> float:
    """Return the squared distance to the mean of the clean rows that Lemma and Theorem allow.

    >>> paper_bound(np.array([[0.0], [2.0], [9.0]]), np.array([False, False, True]), 0.0)
    32.0
    """
    clean = rows[~corrupted]
    gap = len(clean) - int(corrupted.sum())
    squares = float(np.sum((clean - clean.mean(axis=0)) ** 2))
    return 8 * len(clean) * squares / gap**2 + 2 * excess**2 / gap**2


def run_bounds(scale: str) -> list[Measured]:
    """Measure at every distance and rate, a tenth of the rows picked."""
    size = SIZES[scale]
    results = []
    with threadpool_limits(1), task("bounds", len(DISTANCES) * len(RATES) * size.seeds) as advance:
        for distance in DISTANCES:
            for rate in RATES:
                squares: dict[str, list[float]] = {}
                for seed in range(size.seeds):
                    for name, value in _measure(distance, rate, size, seed).items():
                        squares.setdefault(name, []).append(value)
                    advance(1)
                means = {name: float(np.sqrt(np.mean(values))) for name, values in squares.items()}
                results.append(Measured(distance, rate, means.pop("bound"), means))
    return results


def _measure(distance: float, rate: float, size: Size, seed: int) -> dict[str, float]:
    """Return squared distances to the mean of the clean rows, and the bound on them."""
    rows, corrupted = convergence_rows(rate, size, seed, distance)
    aim = rows[~corrupted].mean(axis=0)
    median = geometric_median(rows)
    picked = {
        name: rows[
            select(rows, keep=size.rows // 10, method=method, random_state=seed, **params).indices
        ].mean(0)
        for name, (method, params) in PICKED.items()
    }
    ends = {LEMMA: median.point, **picked}
    return {
        "bound": paper_bound(rows, corrupted, median.epsilon * median.objective),
        **{name: float(np.sum((end - aim) ** 2)) for name, end in ends.items()},
    }


def write_bounds(folder: Path, scale: str) -> list[Path]:
    """Write the bounds and what is measured as ``bounds.png``, ``.md`` and ``.csv``; return the files."""
    measured = run_bounds(scale)
    header = ["distance", "rate", "what", "to_clean_mean", "bound", "inside"]
    lines = [
        [f"{entry.distance:g}", entry.rate, name, f"{value:.6g}", f"{entry.bound:.6g}", value <= entry.bound]
        for entry in measured
        for name, value in entry.found.items()
    ]
    return write_page(folder, "bounds", draw_bounds(measured), bounds_report(measured, scale), header, lines)


def bounds_report(measured: Sequence[Measured], scale: str) -> str:
    """Return the distances as Markdown, those beyond the bound marked."""
    size = SIZES[scale]
    parts = [
        "# The paper's bounds, and what is measured",
        f"`gmmatch reproduce bounds --scale {scale} -o FOLDER` writes this page, the picture and"
        f" `bounds.csv`; commit {commit()}. {DEVIATIONS}",
        "![Distance to the mean of the clean rows against the share of corrupted rows](bounds.png)",
        f"{size.rows:,} Gaussian rows of {size.features} features; a share of them is replaced by a cluster "
        "5, 100 or a million radii away. Distance to the mean of the clean rows, of the geometric median of "
        f"all rows (the Lemma) and of the mean of {size.rows // 10:,} picks (the Theorem); root mean square "
        f"over {size.seeds} seed{'s' if size.seeds > 1 else ''}. Both bounds are one number. The Theorem "
        "speaks of the limit of many picks; what the proof allows on the way grows with the longest row.",
    ]
    for distance in DISTANCES:
        some = [entry for entry in measured if entry.distance == distance]
        names = list(some[0].found)
        lines = [
            [f"{entry.rate:.0%}", f"{entry.bound:.4g}", *(_cell(entry, name) for name in names)]
            for entry in some
        ]
        parts += [f"## Corrupted rows {distance:g} radii away", table(["corrupted", "bound", *names], lines)]
    outside = [
        f"{name} ({sum(entry.found[name] > entry.bound for entry in measured)} of {len(measured)})"
        for name in measured[0].found
        if any(entry.found[name] > entry.bound for entry in measured)
    ]
    parts.append(f"Bold: beyond the bound. That happens to: {', '.join(outside) or 'none'}.")
    return "\n\n".join(parts) + "\n"


def _cell(entry: Measured, name: str) -> str:
    value = entry.found[name]
    return f"{value:.4g}" if value <= entry.bound else f"**{value:.4g}**"


def draw_bounds(measured: Sequence[Measured]) -> Figure:
    """Return the figure: one panel per distance, the bound in grey."""
    figure = new_figure(10.5, 4.2)
    panels = figure.subplots(1, len(DISTANCES), sharey=True)
    for axes, distance in zip(panels, DISTANCES, strict=True):
        some = [entry for entry in measured if entry.distance == distance]
        rates = [100 * entry.rate for entry in some]
        axes.semilogy(rates, [entry.bound for entry in some], color=GREY, linestyle="--", label="bound")
        for name in some[0].found:
            style = Look("#000000", "D", width=1.8) if name == LEMMA else look(name.split(",")[0])
            axes.semilogy(rates, [entry.found[name] for entry in some], label=name, **style.line())
        axes.set_title(f"{distance:g} radii away", fontsize=11, loc="left", fontweight="bold")
        axes.set_xlabel("corrupted rows, percent", fontsize=9)
        axes.grid(which="major", color="#E4E4E4", linewidth=0.8)
        strip(axes)
    panels[0].set_ylabel("distance to the mean of the clean rows", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure
