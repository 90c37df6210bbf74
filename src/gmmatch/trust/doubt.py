"""How likely the label of each row is wrong, and how many labels are: from what the label filter measured.

The fit of a class is its probability, divided by the average that rows with this label give it. With f the
fit of the label and b that of the best other class, the odds that the label is wrong grow with (b + 1) / f:
a class that nobody named is thought to fit as well as classes do on average. Chosen among self-confidence,
normalised margin, confidence-weighted entropy, b / f and averages of their ranks (docs/results/suspects.md).

How many labels are wrong is counted by the confident joint (Northcutt, Jiang and Chuang 2021), among rows of
which some class is as likely as among its own rows. The others are thought to be wrong half as often: the
joint by itself takes them to be wrong as often, and says too much where classes overlap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..records import IntArray
from .labels import LabelFilter

Vector = npt.NDArray[np.float64]

_UNSURE = 1 / 2  # how often rows without a likely class are wrong, beside the others; chosen on few sets
_BINS = 4096
_RANGE = 25.0  # of the logarithm of the odds, either way
_STEEPNESS = 2.0  # power of the odds; with it wrong labels are as frequent as their scores say


@dataclass(frozen=True, eq=False)
class Doubt:
    """What is thought of every label."""

    wrong: Vector  # probability that the label is wrong; those of all judged rows add up to the estimate
    likely: Vector  # probability that the suggested class is right; 0 where the label is as likely
    # By class, shape (classes, 4): judged rows, and as shares of them the labels that are wrong, those where
    # another class is as likely as among its own rows, and all where another fits better.
    by_class: Vector


def overall(by_class: Vector) -> tuple[float, float, float]:
    """Return the share of wrong labels among all judged rows, its least and its most.

    >>> overall(np.array([[30, 0.1, 0.1, 0.2], [10, 0.5, 0.3, 0.6]]))
    (0.2, 0.15, 0.3)
    """
    sizes, shares = by_class[:, 0], by_class[:, 1:]
    share, low, high = (round(float(part), 12) for part in sizes @ shares / max(1.0, sizes.sum()))
    return share, low, high


def doubt_labels(labels: LabelFilter, codes: IntArray) -> Doubt:
    """Tell how likely each label is wrong; rows that are not judged, or of a negative class, have 0.

    Time and memory: O(rows).
    """
    n_classes = len(labels.thresholds)
    judged = (codes >= 0) & ~labels.unjudged
    code, suggested = np.where(judged, codes, 0), labels.suggested
    with np.errstate(divide="ignore", invalid="ignore"):
        fit = labels.own / labels.thresholds[code]
        best = fit * labels.suspicion / (1 - labels.suspicion)
        # Where the label has no probability at all, the others share all of it.
        best = np.where(np.isfinite(best), best, 1 / labels.thresholds[suggested])
        likely = best * labels.thresholds[suggested]
    likely = np.minimum(np.where(np.isfinite(likely), likely, 1.0), 1 - labels.own)
    better = judged & (best > fit)
    another = better & (best >= 1)
    sure = judged & (fit >= 1) & ~another
    sizes, high, low, own = (
        np.bincount(code[found], minlength=n_classes) for found in (judged, better, another, sure)
    )
    counts = np.maximum(sizes, 1)
    share = np.divide(low, low + own, out=np.zeros(n_classes), where=low + own > 0)
    share = np.clip(low / counts + _UNSURE * (share - low / counts), low / counts, high / counts)
    wrong = np.zeros(len(codes))
    if judged.any():
        with np.errstate(divide="ignore"):
            odds = np.log(best[judged] + 1) - np.log(fit[judged])
        wrong[judged] = _calibrated(odds, max(float(sizes @ share), 1.0))
    by_class = np.stack([sizes, share, low / counts, high / counts], axis=1)
    # Of what is not the label's, the suggested class has its share.
    right = wrong * np.divide(likely, 1 - labels.own, out=np.zeros(len(codes)), where=labels.own < 1)
    return Doubt(wrong, np.where(judged & (right > 1 - wrong), right, 0.0), by_class)


def _calibrated(odds: Vector, total: float) -> Vector:
    """Return probabilities that grow with the logarithms of the odds and add up to `total`."""
    odds = np.clip(odds, -_RANGE, _RANGE)
    counts, edges = np.histogram(odds, _BINS, (-_RANGE, _RANGE))
    middle, shifts = (edges[1:] + edges[:-1]) / 2, (-2 * _RANGE, 2 * _RANGE)
    for _ in range(40):
        shift = sum(shifts) / 2
        enough = counts @ _logistic(_STEEPNESS * (middle - shift)) >= total
        shifts = (shift, shifts[1]) if enough else (shifts[0], shift)
    return _logistic(_STEEPNESS * (odds - shifts[0]))


def _logistic(values: Vector) -> Vector:
    result: Vector = 1 / (1 + np.exp(-values))
    return result
