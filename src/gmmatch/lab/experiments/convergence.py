"""The rate of convergence: how fast the mean of the picks comes to the geometric median.

The paper proves that the distance falls like 1/k in the number of picks k, where random picks reach
1/sqrt(k) at best, and level off at the distance between mean and median once rows are corrupted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ...api import select
from ...arrays import Vector
from ...location import geometric_median
from ...progress import task
from ...validation import check_choice
from ..corrupt import contaminate
from .grid_cells import commit
from .markdown import DEVIATIONS, GAP, table
from .palette import GREY, LIGHT, Look, look, new_figure, strip, write_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


RATES = (0.0, 0.2, 0.45)
DISTANCE, SPREAD = 5.0, 0.5
_FEWEST, _POINTS = 10, 25
_RANDOM_DRAWS = 40

MATCHING: dict[str, tuple[str, Mapping[str, Any]]] = {
    "gm-matching, residual step": ("gm-matching", {"guard": "off"}),
    "gm-matching-paper, projection step": ("gm-matching-paper", {}),
    "herding": ("herding", {}),
    "random": ("random", {}),
    "gm-matching, residual step and guard": ("gm-matching", {"clusters": "off"}),
}
EXPECTED = "random, expected"
GUARDED = "gm-matching, residual step and guard"
MATCHING_THE_MEDIAN = ("gm-matching, residual step", "gm-matching-paper, projection step")


@dataclass(frozen=True)
class Size:
    """How large the experiment of a scale is; subsets go up to a tenth of the rows."""

    rows: int
    features: int
    seeds: int


SIZES = {"smoke": Size(2000, 16, 1), "cpu": Size(10_000, 32, 5), "paper": Size(50_000, 64, 5)}


@dataclass(frozen=True)
class Curve:
    """How one method comes closer at one corruption rate."""

    rate: float
    method: str
    picks: npt.NDArray[np.int64]  # sizes of the subset
    # Distance of the subset's mean to the geometric median of all rows and to the mean of the clean ones,
    # root mean square over seeds.
    to_median: Vector
    to_clean_mean: Vector
    # Root mean square distance of all picks to their mean, as a share of that of the clean rows; NaN for an
    # expectation.
    spread: float

    @property
    def slope(self) -> float:
        """Exponent of k in the distance to the geometric median, least squares in logarithms."""
        return float(np.polyfit(np.log(self.picks), np.log(self.to_median), 1)[0])


def expected_distance(rows: Vector, point: Vector, picks: npt.NDArray[np.int64]) -> Vector:
    """Return the root mean square distance of the mean of random picks to a point, in closed form.

    Draws without replacement: bias squared plus variance / k * (n - k) / (n - 1).
    """
    mean = rows.mean(axis=0)
    variance = float(np.mean(np.sum((rows - mean) ** 2, axis=1)))
    count = len(rows)
    bias = float(np.sum((mean - point) ** 2))
    return np.asarray(np.sqrt(bias + variance / picks * (count - picks) / (count - 1)))


def prefix_distances(picked: Vector, point: Vector, picks: npt.NDArray[np.int64]) -> Vector:
    """Return the distance of the mean of the first k picks to a point, for each k."""
    sums = np.cumsum(picked - point, axis=0)[picks - 1]
    return np.asarray(np.linalg.norm(sums, axis=1) / picks)


def run_convergence(scale: str) -> list[Curve]:
    """Measure every method at every corruption rate, over the seeds of a scale."""
    size = SIZES[scale]
    most = size.rows // 10
    picks = np.unique(np.round(np.geomspace(_FEWEST, most, _POINTS)).astype(np.int64))
    squares: dict[tuple[float, str], list[tuple[Vector, Vector]]] = defaultdict(list)
    spreads: dict[tuple[float, str], list[float]] = defaultdict(list)
    with threadpool_limits(1), task("rate of convergence", len(RATES) * size.seeds) as advance:
        for rate in RATES:
            for seed in range(size.seeds):
                rows, corrupted = convergence_rows(rate, size, seed)
                ends = geometric_median(rows).point, rows[~corrupted].mean(axis=0)
                for method in MATCHING:
                    for order in _orders(rows, method, most, seed):
                        near, clean = (prefix_distances(rows[order], end, picks) ** 2 for end in ends)
                        squares[rate, method].append((near, clean))
                        spreads[rate, method].append(_radius(rows[order]) / _radius(rows[~corrupted]))
                near, clean = (expected_distance(rows, end, picks) ** 2 for end in ends)
                squares[rate, EXPECTED].append((near, clean))
                advance(1)
    curves = []
    for (rate, method), found in squares.items():
        near, clean = np.sqrt(np.mean(np.array(found), axis=0))
        spread = float(np.mean(spreads.get((rate, method), np.nan)))
        curves.append(Curve(rate, method, picks, near, clean, spread))
    return curves


def _radius(rows: Vector) -> float:
    """Return the root mean square distance of rows to their mean."""
    return float(np.sqrt(np.mean(np.sum((rows - rows.mean(axis=0)) ** 2, axis=1))))


def convergence_rows(
    rate: float, size: Size, seed: int, distance: float = DISTANCE
) -> tuple[Vector, npt.NDArray[np.bool_]]:
    """Return rows of a Gaussian with unequal axes, a share of them replaced by a far cluster."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(size.rows, size.features)) * np.linspace(2.0, 0.5, size.features)
    changed, corrupted = contaminate(rows, rate, "far-cluster", rng, distance=distance, spread=SPREAD)
    return np.asarray(changed, dtype=np.float64), corrupted


def _orders(rows: Vector, method: str, most: int, seed: int) -> list[npt.NDArray[np.int64]]:
    """Return the picks of a method in order: each prefix is what it picks for a smaller budget."""
    name, params = MATCHING[method]
    draws = range(_RANDOM_DRAWS) if name == "random" else range(1)
    return [
        select(rows, keep=most, method=name, random_state=seed + 1000 * draw, **params).indices
        for draw in draws
    ]


def write_convergence(folder: Path, scale: str) -> list[Path]:
    """Write the rate of convergence as ``convergence.png``, ``.md`` and ``.csv``; return the files.

    `scale`: ``smoke``, ``cpu`` or ``paper``; see `SIZES`.
    """
    check_choice(scale, SIZES, "scale")
    curves = run_convergence(scale)
    header = ["rate", "method", "picks", "to_median", "to_clean_mean"]
    lines = [
        [curve.rate, curve.method, k, f"{near:.6g}", f"{clean:.6g}"]
        for curve in curves
        for k, near, clean in zip(curve.picks, curve.to_median, curve.to_clean_mean, strict=True)
    ]
    page = convergence_report(curves, scale)
    return write_page(folder, "convergence", draw_convergence(curves), page, header, lines)


def convergence_report(curves: Sequence[Curve], scale: str) -> str:
    """Return slopes and end points as Markdown, with what was run."""
    size = SIZES[scale]
    first, last = curves[0].picks[[0, -1]]
    seeds = f"{size.seeds} seed{'s' if size.seeds > 1 else ''}"
    slopes, ends, spreads = _tables(curves)
    parts = [
        "# The rate of convergence",
        f"`gmmatch reproduce convergence --scale {scale} -o FOLDER` writes this page, the picture and "
        f"`convergence.csv`; commit {commit()}. {DEVIATIONS}",
        "![Distance of the subset's mean against its size](convergence.png)",
        f"{size.rows:,} Gaussian rows of {size.features} features, axes of unequal length; 0, 20 or 45 % of "
        f"them replaced by a cluster {DISTANCE:g} radii away and {SPREAD:g} wide. Upper panels: distance of "
        "the mean of the first k picks to the geometric median of all rows, the paper's objective. Lower "
        "panels: distance to the mean of the clean rows, which is what one would like to reach. Root mean "
        f"square over {seeds} (random: {_RANDOM_DRAWS} draws of each). The guard chooses another target, "
        "the geometric median of the rows it trusts, and so is drawn in the lower panels alone.",
        "## Slopes",
        f"Exponent of k in the distance to the geometric median, fitted to k = {first} to {last:,}: the "
        "theory bounds matching by a multiple of 1/k; random picks of clean rows have -0.5. Random picks "
        "and herding go to the mean, so on corrupted rows they level off.",
        slopes,
        f"## Distances after {last:,} picks",
        ends,
        f"## Spread of {last:,} picks",
        "Root mean square distance of the picks to their mean, as a share of that of the clean rows: 1 is as "
        "diverse as the clean rows.",
        spreads,
    ]
    return "\n\n".join(parts) + "\n"


def _tables(curves: Sequence[Curve]) -> tuple[str, str, str]:
    """Return the tables of slopes, of the last distances, and of spreads."""
    by_case = {(curve.rate, curve.method): curve for curve in curves}
    names = list(dict.fromkeys(curve.method for curve in curves))
    rates = [f"{rate:.0%} corrupted" for rate in RATES]
    slopes = [
        [name, *(GAP if name == GUARDED else f"{by_case[rate, name].slope:.2f}" for rate in RATES)]
        for name in names
    ]
    ends = [
        [
            name,
            *(f"{by_case[rate, name].to_median[-1]:.4f}" for rate in RATES),
            *(f"{by_case[rate, name].to_clean_mean[-1]:.4f}" for rate in RATES),
        ]
        for name in names
    ]
    spreads = [
        [name, *(f"{by_case[rate, name].spread:.2f}" for rate in RATES)] for name in names if name != EXPECTED
    ]
    targets = [f"to the {point}, {rate}" for point in ("median", "clean mean") for rate in rates]
    return (
        table(["method", *rates], slopes),
        table(["method", *targets], ends),
        table(["method", *rates], spreads),
    )


def draw_convergence(curves: Sequence[Curve]) -> Figure:
    """Return the figure: corruption from left to right, the objective above, the clean mean below."""
    figure = new_figure(10.5, 6.8)
    grid = figure.subplots(2, len(RATES), sharex=True, sharey="row")
    for across, rate in enumerate(RATES):
        chosen = [curve for curve in curves if curve.rate == rate]
        _draw(grid[0, across], [curve for curve in chosen if curve.method != GUARDED], "to_median")
        _draw(grid[1, across], chosen, "to_clean_mean")
        _guides(grid[0, across], chosen)
        grid[0, across].set_title(f"{rate:.0%} corrupted", fontsize=11, loc="left", fontweight="bold")
        grid[1, across].set_xlabel("picks k", fontsize=9)
    grid[0, 0].set_ylabel("distance to the geometric median", fontsize=9)
    grid[1, 0].set_ylabel("distance to the mean of the clean rows", fontsize=9)
    handles, labels = grid[1, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def _draw(axes: Axes, curves: Sequence[Curve], what: str) -> None:
    for curve in curves:
        style = _look(curve.method)
        marked = {"marker": "", "zorder": 2} if curve.method == EXPECTED else {"markevery": 4, "zorder": 3}
        axes.loglog(curve.picks, getattr(curve, what), label=curve.method, **(style.line() | marked))
    axes.grid(which="major", color="#E4E4E4", linewidth=0.8)
    strip(axes)


def _look(method: str) -> Look:
    if method == EXPECTED:
        return Look(LIGHT, "", width=4.0)
    if method == GUARDED:
        return Look("#000000", "D", width=1.8)
    return look(method.split(",")[0])


def _guides(axes: Axes, curves: Sequence[Curve]) -> None:
    """Draw the slopes of the theory, from above where the matching of the median begins."""
    picks = curves[0].picks
    start = 1.6 * max(curve.to_median[0] for curve in curves if curve.method in MATCHING_THE_MEDIAN)
    for power, label in ((0.5, r"$1/\sqrt{k}$"), (1.0, r"$1/k$")):
        line = start * (picks / picks[0]) ** -power
        axes.loglog(picks, line, color=GREY, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
        axes.annotate(
            label, (picks[-1], line[-1]), xytext=(3, 0), textcoords="offset points", va="center",
            fontsize=8.5, color=GREY, annotation_clip=False,
        )  # fmt: skip
