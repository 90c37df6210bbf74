"""How likely the label of each row is wrong, and how many labels are: from what the label filter measured.

A label is the more likely wrong the less likely it is itself, the likelier the row is of a class whose rows
are given this label (`mixups`), and, where wrong rows are of no class at all, the less likely every class is.
Which of the latter two counts, the labels tell that are very unlikely: mostly another class is likely in
their place, or mostly none is. Chosen among self-confidence, normalised margin, confidence-weighted entropy,
their mixtures and others (docs/results/suspects.md).

How many labels are wrong is counted among those that are very unlikely while another class is as likely as
among its own rows: where classes overlap few right labels are among them. How many of the wrong labels these
are, the rows tell whose label fits best: as if they had been given any other label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..records import IntArray
from .labels import VERY_UNLIKELY, LabelFilter

Vector = npt.NDArray[np.float64]

# How often another class is likely where the label is very unlikely, beside how often the label is likely
# where it fits best: up to the first, wrong rows are thought to be of no class, from the second on of others.
_NO_CLASS, _OTHER_CLASS = 0.45, 0.65
_AGAINST_ALL = 1.25  # power of the odds against every class, where no class counts
_SEEN_BEFORE = 5  # such labels are thought to have been seen before, with another class as likely as is usual
_LEAST = 1e-9  # probabilities are rounded to this
_BINS = 4096
_RANGE = 25.0  # of the logarithm of the odds, either way
_STEEPNESS = 1.5  # power of the odds; with it wrong labels are as frequent as their scores say


@dataclass(frozen=True, eq=False)
class Doubt:
    """What is thought of every label."""

    wrong: Vector  # probability that the label is wrong; those of all judged rows add up to the estimate
    likely: Vector  # probability that the suggested class is right; 0 where the label is as likely
    # By class, shape (classes, 4): judged rows, and as shares of them the labels that are wrong, those that
    # are very unlikely while another class is as likely as among its own rows, and all where another fits
    # better.
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
    unlikely = better & (fit < VERY_UNLIKELY)
    found = unlikely & (best >= 1)
    sizes, high, low = (np.bincount(code[some], minlength=n_classes) for some in (judged, better, found))
    right = judged & ~better
    sure = right & (fit >= 1)
    # Rows with a wrong label are found where their own class is likely, and the label's class is not near.
    near = float((sure & (best >= VERY_UNLIKELY)).sum()) / max(1, n_classes - 1)
    usual, caught = (float(count) / max(1, int(right.sum())) for count in (sure.sum(), sure.sum() - near))
    counts = np.maximum(sizes, 1)
    share = np.clip(low / counts / (caught or 1.0), low / counts, high / counts)
    wrong = np.zeros(len(codes))
    if judged.any():
        known = _known(int(found.sum()), int(unlikely.sum()), usual)
        against = (part[judged].astype(np.float64) for part in (fit, labels.elsewhere, labels.nowhere))
        own, elsewhere, nowhere = (np.log(np.fmax(part, _LEAST)) for part in against)
        odds = known * elsewhere + (1 - known) * _AGAINST_ALL * nowhere - own
        wrong[judged] = _calibrated(odds, max(float(sizes @ share), 1.0))
    by_class = np.stack([sizes, share, low / counts, high / counts], axis=1)
    # Of what is not the label's, the suggested class has its share.
    likely = wrong * np.divide(likely, 1 - labels.own, out=np.zeros(len(codes)), where=labels.own < 1)
    return Doubt(wrong, np.where(judged & (likely > 1 - wrong), likely, 0.0), by_class)


def _known(known: int, unlikely: int, usual: float) -> float:
    """Return how much other classes count, from 0 (wrong rows are of no class) to 1 (they are of others).

    `unlikely`, `known`: labels that are very unlikely, and those among them where another class is likely.
    `usual`: the share of rows whose best class is a likely one, where that is the label.

    >>> [round(_known(found, 1000, 0.8), 1) for found in (100, 440, 800)], _known(0, 0, 0.8)
    ([0.0, 0.5, 1.0], 1.0)
    """
    share = (known + _SEEN_BEFORE * usual) / (unlikely + _SEEN_BEFORE)
    ratio = share / usual if usual > 0 else 1.0
    return float(np.clip((ratio - _NO_CLASS) / (_OTHER_CLASS - _NO_CLASS), 0.0, 1.0))


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
