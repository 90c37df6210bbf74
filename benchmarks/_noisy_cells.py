"""The 45 balanced cells with wrong labels that suspects are measured on: a set, a kind of noise, a seed."""

from __future__ import annotations

import numpy as np

from . import _features
from ._sets import SETS as SETS_OF_ROWS
from ._sets import Task, with_noise

_MOST_ROWS = {"cifar10": 6_000, "fashion-mnist": 6_000}
SEEDS = (0, 1, 2)
NOISES = ("symmetric-20", "asymmetric-20", "open-set")
HUMAN = ("human-aggregate", "human-random1", "human-worst")
SETS = {"cifar10": (*HUMAN, *NOISES), "clinc150": NOISES, "letters": NOISES, "digits": NOISES}
_KINDS = {"symmetric-20": ("symmetric", 0.2), "asymmetric-20": ("pair", 0.2), "open-set": ("open-set", 0.2)}


def case(name: str, noise: str, seed: int) -> Task:
    """Return the rows of a cell with their given labels."""
    rows, truth, test, test_truth = SETS_OF_ROWS[name](seed)
    if name in _MOST_ROWS:
        rows, truth = rows[: _MOST_ROWS[name]], truth[: _MOST_ROWS[name]]
    if noise in HUMAN:
        order = np.random.default_rng(seed).permutation(50_000)[: len(rows)]
        labels = _features.archive()[noise.replace("-", "_")].astype(np.int64)[order]
        return Task(rows, labels, truth, test, test_truth)
    return with_noise((rows, truth, test, test_truth), *_KINDS[noise], seed)
