"""Real data sets and what is done to their labels.

The folder named by GMMATCH_DATA holds letters.csv, clinc150.csv and cifar10.npz; Fashion-MNIST is the Debian
package dataset-fashion-mnist; digits and breast cancer come with scikit-learn. What takes long to load is
kept as .npy in the folder of `_features`.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gmmatch import corrupt

from . import _features

Rows = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
NO_CLASS = -1  # the true class of a row that belongs to none
LABELLED = 12_000  # rows of a pool of Fashion-MNIST


@dataclass(frozen=True, eq=False)
class Task:
    """Rows with partly wrong labels, and clean rows of the same classes to test on.

    The true class of an open-set row is `NO_CLASS`.
    """

    rows: Rows
    labels: Labels
    truth: Labels
    test: Rows
    test_truth: Labels

    @property
    def wrong(self) -> Mask:
        """Return which labels are wrong; all labels of open-set rows are."""
        return self.labels != self.truth


Split = tuple[Rows, Labels, Rows, Labels]


def _halves(rows: Rows, truth: Labels, n_train: int, seed: int) -> Split:
    order = np.random.default_rng(seed).permutation(len(rows))
    train, test = order[:n_train], order[n_train:]
    return rows[train], truth[train], rows[test], truth[test]


def _data(name: str) -> Path:
    return Path(os.environ["GMMATCH_DATA"]) / name


@lru_cache
def _letters() -> tuple[Rows, Labels]:
    with _data("letters.csv").open() as file:
        table = list(csv.reader(file))[1:]
    truth = np.array([ord(line[0]) - ord("A") for line in table], dtype=np.int64)
    return np.array([line[1:] for line in table], dtype=np.float32), truth


@lru_cache
def _digits() -> tuple[Rows, Labels]:
    from sklearn.datasets import load_digits

    found = load_digits()
    return (found.data / 16).astype(np.float32), found.target.astype(np.int64)


def _breast_cancer(seed: int) -> Split:
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    rows, truth, test, test_truth = _halves(found.data, found.target.astype(np.int64), 400, seed)
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    return (
        ((rows - mean) / spread).astype(np.float32),
        truth,
        ((test - mean) / spread).astype(np.float32),
        test_truth,
    )


@lru_cache
def _fashion_part(part: str) -> tuple[Rows, Labels]:
    pixels = gzip.decompress((FASHION_MNIST / f"{part}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((FASHION_MNIST / f"{part}-labels-idx1-ubyte.gz").read_bytes())
    rows = np.frombuffer(pixels, np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / 255
    return rows, np.frombuffer(labels, np.uint8, offset=8).astype(np.int64)


def _fashion(seed: int) -> Split:
    rows, truth, _, _ = _halves(*_fashion_part("train"), LABELLED, seed)
    return rows, truth, *_fashion_part("t10k")


@lru_cache
def _clinc() -> dict[str, tuple[Rows, Labels]]:
    """Return the embedded texts by split: train (with val), test, and open (those of no intent)."""
    from gmmatch.encoders.registry import encoder

    with _data("clinc150.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    store = _features.folder() / "clinc150.npy"
    if not store.exists():
        np.save(store, encoder("wordllama").encode([line["text"] for line in lines]))
    vectors = np.load(store)
    names = sorted({line["intent"] for line in lines} - {"out_of_scope"})
    codes = {name: code for code, name in enumerate(names)} | {"out_of_scope": NO_CLASS}
    truth = np.array([codes[line["intent"]] for line in lines], dtype=np.int64)
    test = np.array([line["split"] == "test" for line in lines])
    parts = {"train": (truth >= 0) & ~test, "test": (truth >= 0) & test, "open": truth < 0}
    return {name: (vectors[part], truth[part]) for name, part in parts.items()}


def _clinc_split(seed: int) -> Split:
    parts = _clinc()
    order = np.random.default_rng(seed).permutation(len(parts["train"][0]))
    return parts["train"][0][order], parts["train"][1][order], *parts["test"]


@lru_cache
def _cifar() -> Split:
    archive = _features.archive()
    return (
        _features.load("train"),
        archive["train_labels"].astype(np.int64),
        _features.load("test"),
        archive["test_labels"].astype(np.int64),
    )


def _cifar_split(seed: int) -> Split:
    rows, truth, test, test_truth = _cifar()
    order = np.random.default_rng(seed).permutation(len(rows))
    return rows[order], truth[order], test, test_truth


SETS: dict[str, Callable[[int], Split]] = {
    "letters": lambda seed: _halves(*_letters(), 12_000, seed),
    "digits": lambda seed: _halves(*_digits(), 1_200, seed),
    "breast-cancer": _breast_cancer,
    "fashion-mnist": _fashion,
    "clinc150": _clinc_split,
    "cifar10": _cifar_split,
}


def with_noise(split: Split, kind: str, share: float, seed: int) -> Task:
    """Return a split whose labels are wrong as `kind` says: symmetric, pair, or open-set."""
    rows, truth, test, test_truth = split
    labels = truth
    if kind == "open-set":
        # The last fifth of the classes leaves the task; its rows stay in the pool under other classes.
        known = round(0.8 * (truth.max() + 1))
        stray, rng = truth >= known, np.random.default_rng(seed)
        labels = np.where(stray, rng.integers(known, size=len(truth)), truth)
        truth = np.where(stray, NO_CLASS, truth)
        test, test_truth = test[test_truth < known], test_truth[test_truth < known]
    elif share > 0:
        labels = corrupt.corrupt_labels(truth, share=share, kind=kind, rng=seed)[0]
    return Task(rows, labels.astype(np.int64), truth, test, test_truth)
