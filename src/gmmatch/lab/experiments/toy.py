"""The paper's toy figure: which rows of a corrupted cloud of points each method keeps.

Vector of an anisotropic Gaussian in the plane, of which 0, 20 or 45 % are replaced by a cloud that an
adversary placed elsewhere; every method keeps a tenth. Methods from top to bottom, corruption from left to
right, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ...api import select
from ...arrays import Mask, Vector
from ...progress import task
from ...validation import check_choice
from .grid_cells import commit
from .markdown import DEVIATIONS, table
from .palette import CLEAN_COLOR, OURS_COLOR, new_figure, write_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


KEEP = 0.1
RATES = (0.0, 0.2, 0.45)
SIZES = {"smoke": (300, 1), "cpu": (1000, 10), "paper": (1000, 10)}
"""Rows and seeds of each scale; the figure shows seed 0."""

METHODS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "random": ("random", {}),
    "easy": ("easy", {}),
    "hard": ("hard", {}),
    "moderate": ("moderate", {}),
    "herding": ("herding", {}),
    "gm-matching-paper": ("gm-matching-paper", {}),
    "gm-matching": ("gm-matching", {}),
    "gm-matching, concentrated centre": ("gm-matching", {"center": "concentrated"}),
}


@dataclass(frozen=True)
class Adversary:
    """Where the corrupted points lie, in units of the clean points' root mean square radius."""

    distance: float
    spread: float


ADVERSARIES = {
    "loose cloud": Adversary(5.0, 0.5),
    "tight clump": Adversary(5.0, 0.1),
    "cloud farther away": Adversary(8.0, 0.5),
}
SHOWN = "loose cloud"
_CENTER = np.array([3.0, 2.0])
_AXES = np.array([2.0, 0.8])  # standard deviations along the two axes of the Gaussian
_TILT = np.pi / 6
_DIRECTION = np.array([0.96, -0.28])  # unit vector from the clean points to the corrupted ones


@dataclass(frozen=True)
class ToyRow:
    """What one method kept of one data set."""

    adversary: str
    rate: float
    seed: int
    method: str
    corrupted_picks: float  # share of the picks that are corrupted
    # From the mean of the picks to the mean of the clean points, in units of the clean points' radius.
    distance: float
    # Root mean square distance of the picks to their mean, in the same units: 1 is as diverse as the clean
    # points.
    spread: float


def toy_points(rate: float, rows: int, seed: int, adversary: Adversary) -> tuple[Vector, Mask]:
    """Return points, and which of them the adversary placed."""
    rng = np.random.default_rng(seed)
    turn = np.array([[np.cos(_TILT), -np.sin(_TILT)], [np.sin(_TILT), np.cos(_TILT)]])
    points = _CENTER + (rng.normal(size=(rows, 2)) * _AXES) @ turn.T
    corrupted = np.zeros(rows, dtype=bool)
    corrupted[rng.permutation(rows)[: round(rate * rows)]] = True
    radius = np.sqrt(np.sum(_AXES**2))
    cloud = rng.normal(size=(rows, 2)) * (adversary.spread / np.sqrt(2.0)) + adversary.distance * _DIRECTION
    points[corrupted] = _CENTER + radius * cloud[corrupted]
    return points, corrupted


def keep_points(points: Vector, method: str, seed: int) -> npt.NDArray[np.int64]:
    """Return the points that a method of the figure keeps."""
    name, params = METHODS[method]
    # All points have one label, which says that the majority is right: without labels a far group is a group.
    one_class = np.zeros(len(points), dtype=np.int64)
    return select(points, keep=KEEP, labels=one_class, method=name, random_state=seed, **params).indices


def measure(points: Vector, corrupted: Mask, kept: npt.NDArray[np.int64]) -> tuple[float, float, float]:
    """Return corrupted share, distance and spread of the picks, as in `ToyRow`."""
    clean = points[~corrupted]
    radius = np.sqrt(np.mean(np.sum((clean - clean.mean(axis=0)) ** 2, axis=1)))
    picks = points[kept]
    offset = np.linalg.norm(picks.mean(axis=0) - clean.mean(axis=0))
    spread = np.sqrt(np.mean(np.sum((picks - picks.mean(axis=0)) ** 2, axis=1)))
    return float(corrupted[kept].mean()), float(offset / radius), float(spread / radius)


def run_toy(scale: str) -> list[ToyRow]:
    """Measure every method on every adversary, rate and seed of a scale."""
    rows, seeds = SIZES[scale]
    found = []
    # Problems this small lose time when several BLAS threads wait for each other.
    with threadpool_limits(1), task("toy figure", len(ADVERSARIES) * len(RATES) * seeds) as advance:
        for label, adversary in ADVERSARIES.items():
            for rate in RATES:
                for seed in range(seeds):
                    points, corrupted = toy_points(rate, rows, seed, adversary)
                    for method in METHODS:
                        kept = keep_points(points, method, seed)
                        found.append(ToyRow(label, rate, seed, method, *measure(points, corrupted, kept)))
                    advance(1)
    return found


def write_toy(folder: Path, scale: str) -> list[Path]:
    """Write the toy figure, its caption and its figures as ``toy.png``, ``toy.md`` and ``toy.csv``.

    `scale`: ``smoke`` (300 points, one seed), ``cpu`` or ``paper`` (1,000 points, ten seeds).
    """
    check_choice(scale, SIZES, "scale")
    found = run_toy(scale)
    with threadpool_limits(1):
        figure = draw_toy(SIZES[scale][0])
    header = [entry.name for entry in fields(ToyRow)]
    lines = [
        [round(value, 6) if isinstance(value, float) else value for value in astuple(row)] for row in found
    ]
    return write_page(folder, "toy", figure, toy_caption(found, scale), header, lines, dpi=110)


def toy_caption(found: Sequence[ToyRow], scale: str) -> str:
    """Return the caption: what is drawn, what each method kept, and how to draw it again."""
    rows, seeds = SIZES[scale]
    adversary = ADVERSARIES[SHOWN]
    drawn = [row for row in found if row.adversary == SHOWN and row.seed == 0]
    free = {
        rate: [row.method for row in drawn if row.rate == rate and row.corrupted_picks == 0]
        for rate in RATES[1:]
    }
    sentences = " ".join(
        f"With {rate:.0%} corrupted, no corrupted point is kept by: {'; '.join(names) or 'none of them'}."
        for rate, names in free.items()
    )
    parts = [
        "# The toy figure",
        f"`gmmatch reproduce toy --scale {scale} -o FOLDER` writes this page, the picture and `toy.csv`; "
        f"commit {commit()}. {DEVIATIONS}",
        "![Which points each method keeps](toy.png)",
        f"{rows:,} points in the plane, of which 0, 20 and 45 % (left to right) are replaced by an "
        f"adversary's {SHOWN}: {adversary.distance:g} radii away, {adversary.spread:g} radii wide (a radius "
        "is the root mean square distance of the clean points to their mean). Each method (top to bottom) "
        f"keeps {KEEP:.0%}. Pale: all points, the corrupted ones as red crosses. Strong: the points kept, "
        "blue if clean, red if corrupted. Black plus: the mean of the clean points; orange star: the mean "
        f"of the points kept. Seed 0. {sentences}",
        "## The picture in figures",
        _figures_table(drawn),
        "Corrupted: share of the picks. Distance: from the mean of the picks to the clean mean, in radii. "
        "Spread: root mean square distance of the picks to their mean, in radii; 1 is as diverse as the "
        "clean points. All points have one label. In the plane `gm-matching` matches Fourier features of "
        "the points as well, see [diversity](../diversity.md); without them the picks would all be close to "
        "the centre.",
    ]
    for label, other in ADVERSARIES.items():
        rows_of = [row for row in found if row.adversary == label]
        parts += [
            f"## {label.capitalize()}: {other.distance:g} radii away, {other.spread:g} wide, "
            f"mean over {seeds} seed{'s' if seeds > 1 else ''}",
            _figures_table(rows_of),
        ]
    return "\n\n".join(parts) + "\n"


def _figures_table(found: Sequence[ToyRow]) -> str:
    """Return one line per method, means over seeds."""
    header = ["method"]
    header += [f"corrupted, {rate:.0%}" for rate in RATES[1:]]
    header += [f"{what}, {rate:.0%}" for what in ("distance", "spread") for rate in RATES]
    lines = []
    for method in METHODS:
        means = {
            (name, rate): float(
                np.mean([getattr(row, name) for row in found if (row.method, row.rate) == (method, rate)])
            )
            for name in ("corrupted_picks", "distance", "spread")
            for rate in RATES
        }
        shares = [f"{100 * means['corrupted_picks', rate]:.1f} %" for rate in RATES[1:]]
        lengths = [f"{means[name, rate]:.3f}" for name in ("distance", "spread") for rate in RATES]
        lines.append([method, *shares, *lengths])
    return table(header, lines)


def draw_toy(rows: int) -> Figure:
    """Return the figure: methods from top to bottom, corruption rates from left to right."""
    figure = new_figure(9.0, 1.42 * len(METHODS) + 0.4)
    grid = figure.subplots(len(METHODS), len(RATES), sharex=True, sharey=True)
    for across, rate in enumerate(RATES):
        points, corrupted = toy_points(rate, rows, 0, ADVERSARIES[SHOWN])
        grid[0, across].margins(x=0.03, y=0.16)
        grid[0, across].set_title(f"{rate:.0%} corrupted", fontsize=11)
        for down, method in enumerate(METHODS):
            axes = grid[down, across]
            _draw(axes, points, corrupted, keep_points(points, method, 0))
            if across == 0:
                axes.set_ylabel(method.replace(", ", ",\n"), fontsize=9)
    return figure


def _draw(axes: Axes, points: Vector, corrupted: Mask, kept: npt.NDArray[np.int64]) -> None:
    """Draw one panel: all points pale, the kept ones strong, both means."""
    red = "#C1121F"
    picked = np.zeros(len(points), dtype=bool)
    picked[kept] = True
    for chosen, size, color, marker in (
        (~corrupted, 4, "#BFD3E6", "o"),
        (corrupted, 6, "#F2B8B5", "x"),
        (picked & ~corrupted, 9, CLEAN_COLOR, "o"),
        (picked & corrupted, 9, red, "o"),
    ):
        axes.scatter(
            points[chosen, 0], points[chosen, 1], s=size, color=color, marker=marker,
            linewidth=0.6 if marker == "x" else 0,
        )  # fmt: skip
    clean_mean, mean = points[~corrupted].mean(axis=0), points[picked].mean(axis=0)
    axes.plot(*clean_mean, "+", color="white", markersize=12, markeredgewidth=3.5)
    axes.plot(*clean_mean, "+", color="black", markersize=10, markeredgewidth=1.6)
    axes.plot(*mean, "*", color=OURS_COLOR, markersize=11, markeredgecolor="white", markeredgewidth=0.7)
    if corrupted.any():
        share = corrupted[kept].mean()
        text = f"{share:.0%} of the picks corrupted"
        axes.text(0.98, 0.94, text, transform=axes.transAxes, ha="right", va="top", fontsize=8,
                  color=red if share else CLEAN_COLOR)  # fmt: skip
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color("#CCCCCC")
