"""Pools to pick from and clean rows to test on: `Scene("letters/symmetric-20", seed)`.

Names before the stroke are those of `_load`, or of a table of `_tables`; after it stands what is done to the
pool. Needs what `_features`, `_sets` and `_tables` need.
"""

from __future__ import annotations

import csv
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch import corrupt

from . import _features, _sets, _tables
from ._sets import Mask, Rows

OPEN_ROWS = 600  # texts of no intent among CLINC150's
OUTLIERS = 0.05  # share of the unlabelled pools that is planted where no outliers are known
_POOL, _TEST = 6_000, 4_000
_TABLES = 64  # columns up to which rows are scaled by column
_WIDE, _COMPONENTS = 256, 200  # wider rows are learned by so many principal components
_TAIL = 50  # times as many rows has the largest class as the smallest
_ENCODERS = {"clinc_train": "clinc150", "clinc_test": "clinc150", "clinc_minilm": "clinc150-minilm"}


def _texts(name: str) -> dict[str, Any]:
    """Return the vectors of CLINC150: the training texts, or those of validation and test."""
    with (Path(os.environ["GMMATCH_DATA"]) / "clinc150.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    store = _features.folder() / f"{_ENCODERS[name]}.npy"
    if not store.exists():
        from gmmatch.encoders.registry import encoder

        made = encoder("minilm" if "minilm" in name else "wordllama").encode([line["text"] for line in lines])
        np.save(store, made)
    vectors = np.load(store).astype(np.float32)
    splits = np.array([line["split"] for line in lines])
    part = np.isin(splits, ("val", "test") if name == "clinc_test" else ("train",))
    intents = np.array([line["intent"] for line in lines])
    return {"X": vectors[part], "y": intents[part], "X_oos": vectors[intents == "out_of_scope"]}


@lru_cache(maxsize=2)
def _load(name: str) -> dict[str, Any]:
    """Return rows X and classes y of a set; `X_oos`: rows of no class, `human`: labels that people gave."""
    if name in _ENCODERS:
        return _texts(name)
    if name == "cifar10_train":
        labels = _features.archive()
        return {"X": _features.load("train"), "y": labels["train_labels"], "human": labels["human_worst"]}
    if name == "breast_cancer":
        from sklearn.datasets import load_breast_cancer

        rows, classes = load_breast_cancer(return_X_y=True)
    elif name in ("digits", "digits4"):
        rows, classes = _sets._digits()
    elif name == "letters":
        rows, classes = _sets._letters()
    elif name == "fashion_mnist":
        rows, classes = _sets._fashion_part("train")
    else:
        rows, classes = _tables.table(name)
    return {"X": rows, "y": classes}


class Scene:
    """A pool with given labels, and clean test rows.

    Attributes
    ----------
    rows, labels
        The pool, and the label that a learner is told for each row.
    outlier
        True for rows that belong to no class, where that is known.
    labelled
        Whether methods see the labels.
    test, truth
        Clean rows and their classes.
    balanced
        Whether accuracy is averaged over classes.
    """

    def __init__(self, scenario: str, seed: int) -> None:
        name, damage = scenario.split("/")
        rng = np.random.default_rng([seed, 0x7465616368])
        found = _load(name)
        rows, truth = found["X"].astype(np.float32), np.unique(found["y"], return_inverse=True)[1]
        order = rng.permutation(len(rows))
        n_pool = min(_POOL, int(0.7 * len(rows)))
        pool, test = order[:n_pool], order[n_pool : n_pool + _TEST]
        self._photos = name, pool, test
        self.classes = int(truth.max()) + 1
        if name == "digits4":
            middle = rows[pool].mean(axis=0)
            rows = (rows - middle) @ np.linalg.svd(rows[pool] - middle, full_matrices=False)[2][:4].T
        elif rows.shape[1] <= _TABLES:
            spread = rows[pool].std(axis=0)
            rows = (rows - rows[pool].mean(axis=0)) / np.where(spread > 1e-3 * spread.max(), spread, 1.0)
        rows = rows.astype(np.float32)
        self.rows, self.labels, self.test, self.truth = rows[pool], truth[pool], rows[test], truth[test]
        self.balanced, self.labelled = damage == "tail", damage != "unlabelled"
        self.outlier: Mask = np.zeros(n_pool, dtype=bool)
        if damage == "human":
            self.labels = found["human"][pool].astype(np.int64)
        elif damage in ("open-set", "unlabelled"):
            self._plant(found.get("X_oos"), rng)
        elif damage != "none":
            self._damage(damage, rng)

    def _plant(self, others: Rows | None, rng: np.random.Generator) -> None:
        """Add rows of no class: known ones or, half each, rows whose columns are shuffled and plain noise."""
        if others is None:
            count = round(OUTLIERS * len(self.rows))
            mixed = rng.permuted(self.rows[rng.permutation(len(self.rows))[: count - count // 2]], axis=1)
            noise = rng.normal(
                self.rows.mean(axis=0), 2 * self.rows.std(axis=0), size=(count // 2, mixed.shape[1])
            )
            others = np.vstack([mixed, noise])
        others = others[:OPEN_ROWS].astype(np.float32)
        self.rows = np.vstack([self.rows, others])
        self.labels = np.concatenate([self.labels, rng.integers(0, self.classes, len(others))])
        self.outlier = np.arange(len(self.rows)) >= len(self.outlier)

    def _damage(self, damage: str, rng: np.random.Generator) -> None:
        seed = int(rng.integers(1 << 31))
        kind, _, percent = damage.partition("-") if damage[-1].isdigit() else ("symmetric", "", "20")
        if damage == "near-duplicates":
            order, few = rng.permutation(len(self.rows)), len(self.rows) // 50
            copies, copied = (
                order[few : few + 3 * len(order) // 10],
                rng.choice(order[:few], 3 * len(order) // 10),
            )
            noise = rng.normal(size=(len(copies), self.rows.shape[1])) * 1e-3 * self.rows.std()
            self.rows[copies], self.labels[copies] = self.rows[copied] + noise, self.labels[copied]
        elif damage == "tail":
            largest = np.bincount(self.labels).max()
            sizes = largest * float(_TAIL) ** (-np.arange(self.classes) / (self.classes - 1))
            parts = [np.flatnonzero(self.labels == code) for code in range(self.classes)]
            kept = np.concatenate([own[: max(5, int(size))] for own, size in zip(parts, sizes, strict=True)])
            self.rows, self.labels, self.outlier = self.rows[kept], self.labels[kept], self.outlier[kept]
        elif damage == "outliers":
            # A fifth of the rows becomes noise, half of it in one far cluster; the labels stay.
            moved = rng.permutation(len(self.rows))[: len(self.rows) // 5]
            middle, spread = self.rows.mean(axis=0), self.rows.std(axis=0)
            self.rows[moved] = rng.normal(middle, 3 * spread, size=(len(moved), len(middle)))
            self.rows[moved[::2]] += (
                8 * float(np.linalg.norm(spread)) * rng.choice([-1, 1], len(middle)) / np.sqrt(len(middle))
            )
            self.outlier[moved] = True
            return
        self.labels = corrupt.corrupt_labels(self.labels, int(percent) / 100, kind, rng=seed)[0]

    def reduced(self) -> tuple[Rows, Rows]:
        """Return pool and test rows by their principal components, where they are wide."""
        if self.rows.shape[1] <= _WIDE:
            return self.rows, self.test
        middle = self.rows.mean(axis=0)
        turn = np.linalg.eigh((self.rows - middle).T @ (self.rows - middle))[1][:, ::-1][:, :_COMPONENTS]
        return (self.rows - middle) @ turn, (self.test - middle) @ turn

    def images(self) -> tuple[Any, Any]:
        """Return the photos of the pool and of the test rows; refused where rows were added or left out."""
        name, pool, test = self._photos
        if len(pool) != len(self.rows):
            raise ValueError("this scene has rows that are no photos")
        if name == "fashion_mnist":
            photos = (_load(name)["X"].reshape(-1, 28, 28) * 255).round().astype(np.uint8)
        else:
            photos = _photos()
        return photos[pool], photos[test]


@lru_cache(maxsize=1)
def _photos() -> Any:
    return _features.decode("train")
