"""The pictures of docs/diversity.md: what Fourier features and clusters do to points in the plane.

``python -m benchmarks.pictures [FOLDER]`` writes ``fourier-features.png`` and ``clusters.png``, by default to
docs/img.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import gmmatch
from gmmatch.lab.experiments.palette import CLEAN_COLOR, OURS_COLOR, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = npt.NDArray[np.float64]

FOLDER = Path(__file__).parents[1] / "docs" / "img"
PALE, RED = "#C9D6E3", "#C1121F"


def one_cloud() -> Points:
    """Return 800 points of a tilted Gaussian cloud."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(800, 2)) @ np.array([[1.9, 0.9], [-0.4, 0.9]])


def groups_and_outliers() -> tuple[Points, npt.NDArray[np.bool_]]:
    """Return five groups of unequal size and width with 40 points scattered about, and which these are."""
    rng = np.random.default_rng(4)
    middles = np.array([[0.0, 0.0], [5.5, 0.8], [2.4, 4.6], [-4.4, 3.4], [6.8, 5.4]])
    sizes, widths = [300, 220, 160, 120, 60], [0.9, 0.7, 0.8, 0.5, 0.4]
    parts = [middle + width * rng.normal(size=(size, 2))
             for middle, size, width in zip(middles, sizes, widths, strict=True)]  # fmt: skip
    parts.append(rng.uniform([-8.5, -4.5], [10.5, 8.5], size=(40, 2)))
    points = np.concatenate(parts)
    return points, np.arange(len(points)) >= sum(sizes)


def draw_features() -> Figure:
    """Draw what is kept of one cloud without and with Fourier features."""
    from matplotlib.figure import Figure

    points, keep = one_cloud(), 60
    labels = np.zeros(len(points), np.int64)
    figure = Figure(figsize=(9.0, 3.55), layout="constrained")
    for axes, features, name in zip(
        figure.subplots(1, 2, sharex=True, sharey=True),
        ("off", "auto"),
        ('fourier_features="off"', "with Fourier features (the default here)"),
        strict=True,
    ):
        kept = gmmatch.select(points, keep=keep, labels=labels, fourier_features=features).indices
        share = points[kept].var(axis=0).sum() / points.var(axis=0).sum()
        dots(axes, points, PALE, 7)
        dots(axes, points[kept], CLEAN_COLOR, 17)
        axes.plot(*points[kept].mean(axis=0), "*", color=OURS_COLOR, markersize=15, markeredgecolor="white")
        axes.set_title(f"{name}: {share:.0%} of the variance", fontsize=11)
        frame(axes)
    figure.supxlabel(
        f"{keep} of {len(points)} points kept (dark); orange star: their mean, nearly the same in both",
        fontsize=9,
    )
    return figure


def draw_clusters() -> Figure:
    """Draw points without labels, those that are scattered, and what is kept with and without clusters."""
    from matplotlib.figure import Figure

    points, scattered = groups_and_outliers()
    keep = 40
    figure = Figure(figsize=(11.5, 3.05), layout="constrained")
    left, middle, right = figure.subplots(1, 3, sharex=True, sharey=True)
    dots(left, points, PALE, 6)
    left.scatter(*points[scattered].T, s=16, color=RED, marker="x", linewidth=0.9)
    left.set_title(f"{len(points)} rows; red: {scattered.sum()} scattered ones", fontsize=10.5)
    for axes, clusters, name in ((middle, "auto", "with clusters"), (right, "off", 'clusters="off"')):
        kept = gmmatch.select(points, keep=keep, clusters=clusters).indices
        dots(axes, points, PALE, 6)
        dots(axes, points[kept], CLEAN_COLOR, 17)
        wrong = scattered[kept].sum()
        axes.set_title(f"{name}: {wrong} of {keep} picks scattered", fontsize=10.5)
    left.set_xlim(-9.2, 11.2)
    left.set_ylim(-5.2, 9.2)
    for axes in (left, middle, right):
        frame(axes)
    return figure


def dots(axes: Axes, points: Points, color: str, size: float) -> None:
    axes.scatter(*points.T, s=size, color=color, linewidth=0)


def frame(axes: Any) -> None:
    """Take the ticks away and lighten the frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal")
    for spine in axes.spines.values():
        spine.set_color("#CCCCCC")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    save(draw_features(), folder / "fourier-features.png", dpi=120)
    save(draw_clusters(), folder / "clusters.png", dpi=120)


if __name__ == "__main__":
    main()
