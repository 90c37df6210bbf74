"""The 45 balanced cells with wrong labels that suspects are measured on: a set, a kind of noise, a seed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from . import _features, _sets

CIFAR_ROWS = 6_000
SEEDS = (0, 1, 2)
NOISES = ("symmetric-20", "asymmetric-20", "open-set")
HUMAN = ("human-aggregate", "human-random1", "human-worst")
SETS = {"cifar10": (*HUMAN, *NOISES), "clinc150": NOISES, "letters": NOISES, "digits": NOISES}

Rows, Labels, Mask = npt.NDArray[np.float32], npt.NDArray[np.int64], npt.NDArray[np.bool_]


def case(name: str, noise: str, seed: int) -> tuple[Rows, Labels, Mask]:
    """Return rows, their given labels, and which of these are wrong."""
    if name == "cifar10":
        rows, truth, test, test_truth = _sets.SETS[name](seed)
        rows, truth = rows[:CIFAR_ROWS], truth[:CIFAR_ROWS]
        if noise in HUMAN:
            order = np.random.default_rng(seed).permutation(50_000)[:CIFAR_ROWS]
            labels = _features.archive()[noise.replace("-", "_")].astype(np.int64)[order]
            return rows, labels, labels != truth
        scene = _sets.labelled((rows, truth, test, test_truth), noise, seed)
    else:
        scene = _sets.scene(name, noise, seed)
    assert scene.labels is not None
    return scene.rows, scene.labels, scene.labels != scene.truth
