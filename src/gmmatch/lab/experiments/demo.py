"""The demo: real handwritten digits, damaged on purpose, and what each method keeps of them."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from ...api import select
from ...progress import task
from ...records import Selection
from ...selectors import METHODS
from ..corrupt import corrupt_images, corrupt_labels
from .palette import new_figure

KEEP = 0.1
WRONG_LABELS = 0.2
DAMAGED_IMAGES = 0.1
REPEATS = 5
_PIXEL_MAX = 16.0
_SHEET = (7, 10)  # rows and columns of each half of the picture
_RED, _GRAY = (0.86, 0.08, 0.24), (0.85, 0.85, 0.85)


@dataclass(frozen=True, eq=False)
class DamagedDigits:
    """Digits of which some are wrong, and the knowledge which."""

    # What a method sees: pixels in [0, 1] and given labels.
    rows: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]
    # The right labels, and whether the label or the image was damaged.
    true_labels: npt.NDArray[np.int64]
    corrupted: npt.NDArray[np.bool_]
    # Clean digits that no method sees.
    test_rows: npt.NDArray[np.float64]
    test_labels: npt.NDArray[np.int64]

    @property
    def images(self) -> npt.NDArray[np.uint8]:
        """The rows as pictures, dark ink on white."""
        return np.rint(255 * (1 - self.rows.reshape(-1, 8, 8))).astype(np.uint8)


@dataclass(frozen=True)
class DemoRow:
    """One line of the demo's table."""

    method: str
    accuracy: float
    corrupted: float
    distance: float
    seconds: float


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What the demo prints, the selection's file, and the digits and the selection that it shows."""

    introduction: str
    rows: list[DemoRow]
    kept: Path
    digits: DamagedDigits
    selection: Selection
    seconds: float


def damaged_digits(seed: int) -> DamagedDigits:
    """Return scikit-learn's digits with 20 % of the labels flipped and 10 % of the images damaged.

    >>> digits = damaged_digits(seed=0)
    >>> digits.rows.shape, round(float((digits.labels != digits.true_labels).mean()), 2)
    ((1347, 64), 0.2)
    """
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    rows, test_rows, labels, test_labels = train_test_split(
        pixels / _PIXEL_MAX, labels, test_size=0.25, random_state=seed, stratify=labels
    )
    given, flipped = corrupt_labels(labels, WRONG_LABELS, rng=seed)
    images, spoiled = corrupt_images(rows.reshape(-1, 8, 8), DAMAGED_IMAGES, severity=5, rng=seed + 1)
    rows, corrupted = images.reshape(len(rows), -1), flipped | spoiled
    return DamagedDigits(rows, given, labels, corrupted, test_rows, test_labels)


def run_demo(folder: Path, seed: int) -> DemoResult:
    """Keep 10 % of damaged digits by every method and write a selection to `folder`.

    Every figure is the mean over several splits, each damaged anew; the selection is of the first one.
    """
    names = [name for name, method in METHODS.items() if method.needs_rows_only]
    trials = [damaged_digits(seed + turn) for turn in range(REPEATS)]
    measured: dict[str, list[DemoRow]] = {name: [] for name in names}
    # Problems this small lose time when several BLAS threads wait for each other.
    with threadpool_limits(1), task("trying methods", len(names) * REPEATS) as advance:
        for digits in trials:
            for name in names:
                started = time.perf_counter()
                selection = select(
                    digits.rows, keep=KEEP, labels=digits.labels, method=name, random_state=seed
                )
                seconds = time.perf_counter() - started
                measured[name].append(_measure(digits, selection, name, seconds))
                advance(1)
        everything = np.mean([accuracy(digits, np.arange(len(digits.rows))) for digits in trials])
        started = time.perf_counter()
        shown = select(trials[0].rows, keep=KEEP, labels=trials[0].labels, random_state=seed)
        seconds = time.perf_counter() - started
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "kept.parquet"
    shown.save(kept)
    introduction = (
        f"{len(trials[0].rows):,} real handwritten digits, {WRONG_LABELS:.0%} with a wrong label and"
        f" {DAMAGED_IMAGES:.0%} with a damaged image ({trials[0].corrupted.mean():.0%} corrupted in all).\n"
        f"Each method keeps {KEEP:.0%}; a logistic regression learns from what was kept"
        f" (from all rows: {everything:.1%}). Means over {REPEATS} splits."
    )
    rows = [_mean(lines) for lines in measured.values()]
    return DemoResult(introduction, rows, kept, trials[0], shown, seconds)


def _mean(rows: list[DemoRow]) -> DemoRow:
    """Average the lines of one method."""
    names = ("accuracy", "corrupted", "distance", "seconds")
    return DemoRow(rows[0].method, *(float(np.mean([getattr(row, name) for row in rows])) for name in names))


def accuracy(digits: DamagedDigits, kept: npt.NDArray[np.int64]) -> float:
    """Return the test accuracy of a logistic regression that learns from some rows."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=300, tol=1e-3).fit(digits.rows[kept], digits.labels[kept])
    return float(model.score(digits.test_rows, digits.test_labels))


def _measure(digits: DamagedDigits, selection: Selection, method: str, seconds: float) -> DemoRow:
    kept = selection.indices
    clean_mean = digits.rows[~digits.corrupted].mean(axis=0)
    return DemoRow(
        method=method,
        accuracy=accuracy(digits, kept),
        corrupted=float(digits.corrupted[kept].mean()),
        distance=float(np.linalg.norm(digits.rows[kept].mean(axis=0) - clean_mean)),
        seconds=seconds,
    )


def draw(digits: DamagedDigits, selection: Selection, path: Path) -> None:
    """Draw the digits that were picked first and some that were dropped, wrong ones framed in red."""
    dropped = np.flatnonzero(~selection.mask())
    some = np.random.default_rng(0).choice(dropped, _SHEET[0] * _SHEET[1], replace=False)
    figure = new_figure(11, 4.4)
    for axis, shown, everyone, title in zip(
        figure.subplots(1, 2),
        (selection.indices, some),
        (selection.indices, dropped),
        ("Kept", "Dropped"),
        strict=True,
    ):
        wrong = digits.corrupted[everyone].mean()
        axis.set_title(f"{title}: {wrong:.1%} of {len(everyone):,} rows are wrong", fontsize=11)
        _contact_sheet(axis, digits, shown[: _SHEET[0] * _SHEET[1]])
    figure.supxlabel("number: the given label; red: a wrong label or a damaged image", fontsize=9)
    figure.savefig(path, dpi=110)


def _contact_sheet(axis: Any, digits: DamagedDigits, shown: npt.NDArray[np.int64]) -> None:
    """Draw images in a grid, each in a frame, with its given label beside it."""
    cell, side = 15, 8
    canvas = np.ones((_SHEET[0] * cell, _SHEET[1] * cell, 3))
    for place, row in enumerate(shown):
        top, left = (place // _SHEET[1]) * cell, (place % _SHEET[1]) * cell
        color = _RED if digits.corrupted[row] else _GRAY
        canvas[top : top + side + 2, left : left + side + 2] = color
        image = 1.0 - digits.rows[row].reshape(side, side, 1)
        canvas[top + 1 : top + 1 + side, left + 1 : left + 1 + side] = image
        axis.text(
            left + side + 4,
            top + 4.5,
            digits.labels[row],
            fontsize=7,
            ha="center",
            va="center",
            color=color if digits.corrupted[row] else "black",
        )
    axis.imshow(canvas, interpolation="nearest")
    axis.axis("off")
