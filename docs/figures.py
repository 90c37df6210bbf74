"""The figures of the pages under "Understand", of the start page and of the architecture.

``python docs/figures.py [FOLDER] [NAME ...]`` writes them, by default all, to docs/img.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import gmmatch
from gmmatch.lab.experiments.palette import CLEAN_COLOR, GREY, LIGHT, OURS_COLOR, save, strip

FOLDER = Path(__file__).parent / "img"
PALE, RED, SKY, PURPLE = "#C9D6E3", "#C1121F", "#56B4E9", "#CC79A7"


def frame(axes: Any) -> None:
    """Take the ticks away and lighten the frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal")
    for spine in axes.spines.values():
        spine.set_color("#CCCCCC")


def one_class(share: float = 0.25, rows: int = 600) -> tuple[Any, Any]:
    """Return points of one class with a far cluster of wrong ones, and which these are."""
    rng = np.random.default_rng(3)
    points = rng.normal(size=(rows, 2)) @ np.array([[1.2, 0.3], [0.0, 0.9]])
    wrong = np.arange(rows) < share * rows
    points[wrong] = [6.5, 3.0] + 0.5 * rng.normal(size=(int(wrong.sum()), 2))
    return points, wrong


def problem() -> Figure:
    """Two classes of which many rows are wrong: what random picks and what gmmatch keeps."""
    rng = np.random.default_rng(1)
    truth = np.arange(900) % 2
    points = rng.normal(size=(900, 2)) * [0.9, 1.1] + np.where(truth[:, None] == 1, [1.9, 0.0], [-1.9, 0.0])
    wrong = rng.random(900) < 0.3
    labels = np.where(wrong & (rng.random(900) < 0.7), 1 - truth, truth)
    far = wrong & (labels == truth)
    points[far] = [0.0, 5.2] + 0.45 * rng.normal(size=(int(far.sum()), 2))
    figure = Figure(figsize=(11.0, 3.5), layout="constrained")
    kept = gmmatch.select(points, keep=90, labels=labels).indices
    draws = [
        gmmatch.select(points, keep=90, labels=labels, method="random", random_state=seed).indices
        for seed in range(9)
    ]
    random = sorted(draws, key=lambda rows: wrong[rows].sum())[4]  # neither lucky nor unlucky
    shown = {"Your data": np.arange(900), "90 rows at random": random, "90 rows by gmmatch": kept}
    for axes, (title, rows) in zip(
        figure.subplots(1, 3, sharex=True, sharey=True), shown.items(), strict=True
    ):
        axes.scatter(*points.T, s=5, color="#E3E8EE", linewidth=0)
        for label, color in ((0, CLEAN_COLOR), (1, SKY)):
            good = rows[(labels[rows] == label) & ~wrong[rows]]
            axes.scatter(*points[good].T, s=11, color=color, linewidth=0)
        bad = rows[wrong[rows]]
        axes.scatter(*points[bad].T, s=17, color=RED, marker="x", linewidth=1.0)
        axes.set_title(f"{title}: {len(bad) / len(rows):.0%} wrong", fontsize=11.5)
        frame(axes)
    figure.supxlabel(
        "Two classes (dark and light blue). Red: wrong label, or not of these classes at all.", fontsize=10
    )
    return figure


def median() -> Figure:
    """Where the mean and the geometric median go as more and more rows are wrong."""
    figure = Figure(figsize=(10.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.1, 1.0])
    points, wrong = one_class()
    left.scatter(*points[~wrong].T, s=7, color=PALE, linewidth=0)
    left.scatter(*points[wrong].T, s=7, color=RED, alpha=0.5, linewidth=0)
    middle, mean = gmmatch.geometric_median(points).point, points.mean(axis=0)
    left.plot(*mean, "s", color=GREY, markersize=9, markeredgecolor="white", label="mean")
    left.plot(
        *middle, "*", color=OURS_COLOR, markersize=16, markeredgecolor="white", label="geometric median"
    )
    left.legend(frameon=False, loc="upper left", fontsize=9)
    left.set_title("A quarter of the rows is wrong", fontsize=11)
    frame(left)
    shares = np.linspace(0.0, 0.6, 25)
    found: dict[str, list[float]] = {"mean": [], "geometric median": []}
    for share in shares:
        points, wrong = one_class(share)
        good = points[~wrong].mean(axis=0)
        found["mean"].append(float(np.linalg.norm(points.mean(axis=0) - good)))
        found["geometric median"].append(float(np.linalg.norm(gmmatch.geometric_median(points).point - good)))
    for (name, values), color in zip(found.items(), (GREY, OURS_COLOR), strict=True):
        right.plot(100 * shares, values, color=color, linewidth=2.2, label=name)
    right.axvline(50, color=LIGHT, linewidth=1, linestyle="--")
    right.set_xlabel("wrong rows, %", fontsize=9.5)
    right.set_ylabel("distance to the middle of the good rows", fontsize=9.5)
    right.legend(frameon=False, fontsize=9)
    strip(right)
    return figure


def certificate() -> Figure:
    """The proven bound beside the true excess, for many problems."""
    rng = np.random.default_rng(0)
    asked, proven, true = [], [], []
    for trial in range(40):
        rows = rng.standard_t(1.5 + trial % 4, size=(200, 2 + trial % 20))
        best = gmmatch.geometric_median(rows, epsilon=1e-10).objective
        epsilon = 10.0 ** rng.uniform(-7, -1)
        found = gmmatch.geometric_median(rows, epsilon=epsilon)
        asked.append(epsilon)
        proven.append(found.epsilon)
        true.append(max(found.objective / best - 1, 1e-10))
    figure = Figure(figsize=(5.6, 3.9), layout="constrained")
    axes = figure.subplots()
    axes.loglog([1e-10, 1e-1], [1e-10, 1e-1], color=LIGHT, linewidth=1.2)
    axes.scatter(true, proven, s=22, color=OURS_COLOR, linewidth=0)
    axes.set_xlabel("true excess over the best possible sum of distances", fontsize=9.5)
    axes.set_ylabel("proven: epsilon", fontsize=9.5)
    axes.text(
        1e-6, 2e-9, "no point lies below the line:\nthe proof never promises too much", fontsize=9, color=GREY
    )
    strip(axes)
    return figure


def matching() -> Figure:
    """The first picks of one class, and how the error falls with the number of picks."""
    rng = np.random.default_rng(5)
    figure = Figure(figsize=(10.0, 3.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    points = rng.normal(size=(300, 2))
    target = points.mean(axis=0)
    kept = gmmatch.select(points, keep=5, method="herding").indices
    left.scatter(*points.T, s=8, color=PALE, linewidth=0)
    means = np.cumsum(points[kept], axis=0) / np.arange(1, 6)[:, None]
    left.plot(*means.T, color=OURS_COLOR, linewidth=1.2, marker="o", markersize=3.5)
    for place, row in enumerate(kept, 1):
        left.plot(*points[row], "o", color=CLEAN_COLOR, markersize=6)
        left.annotate(str(place), points[row], textcoords="offset points", xytext=(5, 4), fontsize=9)
    left.plot(*target, "*", color=OURS_COLOR, markersize=15, markeredgecolor="white")
    left.set_title("Five picks (blue); their mean (orange) nears the target", fontsize=10.5)
    frame(left)
    rows = rng.normal(size=(2000, 32))
    picks = np.arange(1, 301)
    herded = gmmatch.select(rows, keep=300, method="herding").indices
    lines = {"matching": (herded, OURS_COLOR), "random": (rng.permutation(2000)[:300], GREY)}
    for name, (order, color) in lines.items():
        error = np.linalg.norm(np.cumsum(rows[order], axis=0) / picks[:, None] - rows.mean(axis=0), axis=1)
        right.loglog(picks, error, color=color, linewidth=2.2, label=name)
    right.loglog(picks, 5.6 / picks, color=LIGHT, linewidth=1, linestyle="--", label="1/k")
    right.loglog(picks, 5.6 / np.sqrt(picks), color=LIGHT, linewidth=1, linestyle=":", label="1/√k")
    right.set_xlabel("picks", fontsize=9.5)
    right.set_ylabel("distance of the picks' mean to the target", fontsize=9.5)
    right.legend(frameon=False, fontsize=9)
    strip(right)
    return figure


def verdict() -> Figure:
    """What the guard says of each row, and what is picked then."""
    rng = np.random.default_rng(2)
    truth = np.arange(700) % 2
    points = rng.normal(size=(700, 2)) + np.where(truth[:, None] == 1, [1.4, 0.0], [-1.4, 0.0])
    labels = np.where(rng.random(700) < 0.15, 1 - truth, truth)
    points[:40] = rng.uniform([-9, -7], [9, 7], size=(40, 2))
    found = gmmatch.select(points, keep=70, labels=labels)
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    axes = figure.subplots(1, 3, sharex=True, sharey=True)
    for label, color in ((0, CLEAN_COLOR), (1, SKY)):
        axes[0].scatter(*points[labels == label].T, s=8, color=color, linewidth=0)
    axes[0].set_title("Labels as given (two colours)", fontsize=10.5)
    said = {0: ("trusted", PALE), 1: ("unlikely label", OURS_COLOR), 2: ("outside its class", RED)}
    for tier, (name, color) in said.items():
        rows = found.tiers == tier
        axes[1].scatter(*points[rows].T, s=10, color=color, linewidth=0, label=f"{name}: {rows.sum()}")
    axes[1].set_title("The verdict", fontsize=10.5)
    figure.legend(
        *axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=9
    )
    axes[2].scatter(*points.T, s=6, color="#E3E8EE", linewidth=0)
    for label, color in ((0, CLEAN_COLOR), (1, SKY)):
        rows = found.indices[labels[found.indices] == label]
        axes[2].scatter(*points[rows].T, s=14, color=color, linewidth=0)
    axes[2].set_title("70 picks", fontsize=10.5)
    for each in axes:
        frame(each)
    return figure


def budgets() -> Figure:
    """How classes of unequal size share a budget."""
    sizes = np.array([2000, 1000, 500, 250, 120, 60, 30, 15])
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.random.default_rng(0).normal(size=(len(labels), 4)) + labels[:, None]
    figure = Figure(figsize=(7.5, 3.4), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(sizes))
    colors = {"proportional": GREY, "sqrt": OURS_COLOR, "equal": CLEAN_COLOR}
    for shift, (how, color) in zip((-0.27, 0.0, 0.27), colors.items(), strict=True):
        kept = gmmatch.select(rows, keep=200, labels=labels, budgets=how, method="random").indices
        counts = np.bincount(labels[kept], minlength=len(sizes))
        axes.bar(places + shift, counts, width=0.25, color=color, label=how)
    axes.set_xticks(places, [f"{size:,}" for size in sizes])
    axes.set_xlabel("rows in the class", fontsize=9.5)
    axes.set_ylabel("picks, of 200", fontsize=9.5)
    axes.legend(frameon=False, fontsize=9)
    strip(axes)
    return figure


def batches() -> Figure:
    """The error of picks from all rows, from batches that carry it on, and from batches on their own."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(8192, 32))
    target, picks = rows.mean(axis=0), np.arange(1, 410)
    how: dict[str, Any] = {"center": "mean", "guard": "off", "clusters": "off"}
    whole = gmmatch.select(rows, keep=409, batch_size=None, **how).indices
    carried = gmmatch.select(rows, keep=409, batch_size=256, **how).indices
    alone = np.concatenate([
        part[gmmatch.select(rows[part], keep=13, batch_size=None, **how).indices]
        for part in np.split(rng.permutation(8192), 32)
    ])[:409]  # fmt: skip
    lines = {
        "all rows compete for every pick": (whole, CLEAN_COLOR, "-"),
        "batches of 256, error carried on": (carried, OURS_COLOR, "-"),
        "batches of 256, each on its own": (alone, GREY, "-"),
        "random": (rng.permutation(8192)[:409], LIGHT, "--"),
    }
    figure = Figure(figsize=(6.6, 3.8), layout="constrained")
    axes = figure.subplots()
    for name, (order, color, dashes) in lines.items():
        error = np.linalg.norm(np.cumsum(rows[order], axis=0) / picks[: len(order), None] - target, axis=1)
        axes.loglog(picks[: len(order)], error, color=color, linewidth=2.0, linestyle=dashes, label=name)
    axes.set_xlabel("picks", fontsize=9.5)
    axes.set_ylabel("distance of the picks' mean to the target", fontsize=9.5)
    axes.legend(frameon=False, fontsize=8.5)
    strip(axes)
    return figure


# The packages in the order of the data's way: name, what it does.
WAY = [
    ("data/", "opens files, tables,\narrays: a Dataset"),
    ("encoders/", "images and texts\nbecome numbers"),
    ("trust/", "judges every row\nonce: the Verdict"),
    ("location/", "finds the middle,\nwith a proof"),
    ("matching/", "features, clusters,\nbudgets, picks"),
    ("selectors/", "one file per method,\none contract"),
    ("reporting/", "what was kept,\nand why"),
]


def architecture() -> Figure:
    """The packages, the way of the data through them, and what surrounds it."""
    figure = Figure(figsize=(12.0, 3.9))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, 12), ylim=(0, 3.9))
    axes.axis("off")

    def box(x: float, y: float, width: float, height: float, color: str, title: str, said: str) -> None:
        from matplotlib.patches import FancyBboxPatch

        shape = FancyBboxPatch(
            (x, y), width, height, boxstyle="round,pad=0,rounding_size=0.08", fc=color, ec="#8FA3B8"
        )
        axes.add_patch(shape)
        axes.text(
            x + width / 2, y + height - 0.24, title, ha="center", va="center", fontsize=11, weight="bold"
        )
        axes.text(
            x + width / 2, y + (height - 0.4) / 2, said, ha="center", va="center", fontsize=9, color="#333333"
        )

    box(0.2, 3.1, 11.6, 0.65, "#F4E3D7", "cli/, and the names of gmmatch in Python", "ask for a Plan")
    box(
        0.2,
        2.25,
        11.6,
        0.65,
        "#FBF1EA",
        "run.py",
        "Plan → run → Outcome (selection, verdict, dataset, info) → write",
    )
    for place, (name, said) in enumerate(WAY):
        x = 0.2 + 1.667 * place
        box(x, 0.95, 1.5, 1.1, "#DCE8F3", name, said)
        if place:
            axes.annotate(
                "", (x, 1.5), (x - 0.167, 1.5), arrowprops={"arrowstyle": "->", "color": CLEAN_COLOR}
            )
    box(
        0.2,
        0.12,
        7.6,
        0.65,
        "#EEF2F6",
        "compute/",
        "reads of the rows, block by block: threads, or a Ray cluster, with the same bits",
    )
    box(
        8.0,
        0.12,
        3.8,
        0.65,
        "#EEF2F6",
        "lab/",
        "corrupt, training, signals, experiments",
    )
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "problem": problem, "median": median, "certificate": certificate, "matching": matching,
    "verdict": verdict, "budgets": budgets, "batches": batches, "architecture": architecture,
}  # fmt: skip


def main(arguments: list[str]) -> None:
    """Write the figures that were asked for."""
    names = [name for name in arguments if name in FIGURES] or list(FIGURES)
    folder = next((Path(name) for name in arguments if name not in FIGURES), FOLDER)
    for name in names:
        save(FIGURES[name](), folder / f"{name}.png", dpi=120)


if __name__ == "__main__":
    main(sys.argv[1:])
