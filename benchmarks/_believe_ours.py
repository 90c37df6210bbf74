"""What `gmmatch` says of rows, through its public names only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import gmmatch

from ._sets import Labels, Rows

_BINS = 10


@dataclass(frozen=True, eq=False)
class Judged:
    """What is said of rows: the order, the probability that a label is wrong, and the share of wrong ones."""

    order: npt.NDArray[np.float64]
    probability: npt.NDArray[np.float64]
    estimate: float | None
    interval: list[float] | None


def judge(rows: Rows, labels: Labels, seed: int, **known: Any) -> Judged:
    """Return what `gmmatch.suspects` says; `known`: what is known of the rows."""
    found = gmmatch.suspects(rows, labels, random_state=seed, **known)
    order = np.empty(len(rows))
    order[found.rows] = found.suspicion
    shares = found.summary()["wrong_labels"]
    return Judged(order, np.nan_to_num(order), shares.get("estimate"), shares.get("interval"))


def select(rows: Rows, labels: Labels, keep: float | int, seed: int, **settings: Any) -> Any:
    """Return what `gmmatch.select` keeps."""
    return gmmatch.select(rows, labels=labels, keep=keep, random_state=seed, **settings)


def calibration(probability: npt.NDArray[np.float64], wrong: npt.NDArray[np.bool_]) -> float:
    """Return by how much probabilities differ from the share of wrong labels, in bins of a tenth."""
    bins = np.minimum((probability * _BINS).astype(int), _BINS - 1)
    return float(np.abs(np.bincount(bins, weights=probability - wrong, minlength=_BINS)).sum() / len(wrong))
