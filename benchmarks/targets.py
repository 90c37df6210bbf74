"""Which centre of the trusted rows to match: damaged digits, three centres, twenty splits.

``python -m benchmarks.targets`` prints one JSON document. Scikit-learn's digits, a fifth of them with a
wrong label and a tenth with a damaged image; accuracy of a logistic regression on what was kept, share of
corrupted picks, and how far picks are from their class's mean, as a part of what all rows are (root mean
square, right labels only).
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

import gmmatch
from gmmatch.lab.experiments.demo import DamagedDigits, accuracy, damaged_digits

KEEPS = (0.05, 0.1, 0.3)
CENTERS = ("geometric-median", "huber", "mean")
SPLITS = 20


def spread(digits: DamagedDigits, picks: npt.NDArray[np.int64]) -> float:
    """Return how far rightly labelled picks are from the mean of their class, all such rows being 1."""
    right = digits.labels == digits.true_labels
    means = np.stack([digits.rows[right & (digits.labels == c)].mean(axis=0) for c in range(10)])
    squares = np.square(digits.rows - means[digits.labels]).sum(axis=1)
    return float(np.sqrt(squares[picks][right[picks]].mean() / squares[right].mean()))


def measure(center: str, keep: float) -> dict[str, Any]:
    """Return the means over the splits, and the standard error of the accuracy."""
    found = []
    for seed in range(SPLITS):
        digits = damaged_digits(seed)
        picks = gmmatch.select(digits.rows, keep=keep, labels=digits.labels, center=center).indices
        found.append((accuracy(digits, picks), digits.corrupted[picks].mean(), spread(digits, picks)))
    scores, corrupted, spreads = np.transpose(found)
    return {
        "accuracy": round(100 * float(scores.mean()), 2),
        "standard error": round(100 * float(scores.std(ddof=1)) / SPLITS**0.5, 2),
        "corrupted picks": round(100 * float(corrupted.mean()), 1),
        "spread": round(float(spreads.mean()), 2),
    }


def main() -> None:
    print(json.dumps({f"{keep:.0%}": {name: measure(name, keep) for name in CENTERS} for keep in KEEPS}))


if __name__ == "__main__":
    main()
