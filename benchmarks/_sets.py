"""Real data sets and what is done to them, for the benchmark of diversity.

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
SMALL = ("digits", "digits4", "breast-cancer")  # cells of these are means over REPEATS splits per seed
REPEATS = 5
NO_CLASS = -1  # the true class of a row that belongs to none
TAIL = 50  # how many times as large the largest class of a long tail is as the smallest
POOL = 6_000  # rows of an unlabelled pool, beside open-set rows
LABELLED = 12_000  # rows of a labelled pool of CIFAR-10 or Fashion-MNIST
OPEN_ROWS = 600
COPIES, COPIED = 0.3, 5  # the share of the pool that is made copies, and of how many rows


@dataclass(frozen=True, eq=False)
class Scene:
    """A pool to pick from and the test rows that judge the picks.

    Attributes
    ----------
    rows, labels
        What a method is given; labels are None where none are given.
    truth
        The true class of each row, `NO_CLASS` for open-set rows.
    taught
        The class that a learner is told for each row: the given label, or the truth where none is given.
    copied
        True for rows that are copies of another row.
    test, test_truth
        Clean rows of the same kind.
    """

    rows: Rows
    labels: Labels | None
    truth: Labels
    test: Rows
    test_truth: Labels
    copied: Mask

    @property
    def taught(self) -> Labels:
        """Return the class that a learner is told for each row."""
        return self.truth if self.labels is None else self.labels


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


def _digits4(seed: int) -> Split:
    from sklearn.decomposition import PCA

    rows, truth, test, test_truth = _halves(*_digits(), 1_200, seed)
    reduced = PCA(4, svd_solver="full").fit(rows)
    return (
        reduced.transform(rows).astype(np.float32),
        truth,
        reduced.transform(test).astype(np.float32),
        test_truth,
    )


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
    "digits4": _digits4,
    "breast-cancer": _breast_cancer,
    "fashion-mnist": _fashion,
    "clinc150": _clinc_split,
    "cifar10": _cifar_split,
}


def _labelled(split: Split, kind: str, share: float, seed: int) -> Scene:
    rows, truth, test, test_truth = split
    labels = truth
    if kind == "open-set":
        # The last fifth of the classes leaves the task; its rows stay in the pool under other classes.
        known = round(0.8 * (truth.max() + 1))
        stray, rng = truth >= known, np.random.default_rng(seed)
        labels = np.where(stray, rng.integers(known, size=len(truth)), truth)
        truth = np.where(stray, NO_CLASS, truth)
        test, test_truth = test[test_truth < known], test_truth[test_truth < known]
    elif kind != "clean":
        labels = corrupt.corrupt_labels(truth, share=share, kind=kind, rng=seed)[0].astype(np.int64)
    return Scene(rows, labels, truth, test, test_truth, np.zeros(len(rows), dtype=bool))


def _long_tail(split: Split, seed: int) -> Scene:
    """Return a pool whose class sizes fall from the largest to a fiftieth of it, in an order by seed."""
    rows, truth, test, test_truth = split
    sizes = np.bincount(truth)
    ranks = np.random.default_rng(seed).permutation(len(sizes))
    wanted = np.maximum(1, np.round(sizes.min() * TAIL ** (-ranks / (len(sizes) - 1)))).astype(int)
    kept = np.sort(np.concatenate([np.flatnonzero(truth == c)[:n] for c, n in enumerate(wanted)]))
    return Scene(rows[kept], truth[kept], truth[kept], test, test_truth, np.zeros(len(kept), dtype=bool))


def _unlabelled(name: str, split: Split, copies: bool, seed: int) -> Scene:
    rows, truth, test, test_truth = split
    rows, truth, rng = rows[:POOL], truth[:POOL], np.random.default_rng(seed)
    if name == "clinc150":
        strays = _clinc()["open"][0]
        rows = np.concatenate([rows, strays[rng.permutation(len(strays))[:OPEN_ROWS]]])
        truth = np.concatenate([truth, np.full(OPEN_ROWS, NO_CLASS)])
    copied = np.zeros(len(rows), dtype=bool)
    if copies:
        # A stream of its own: a method under the same seed must not draw the same permutation.
        rng = np.random.default_rng([seed, COPIED])
        order = rng.permutation(len(rows))
        originals, places = order[:COPIED], order[COPIED : COPIED + round(COPIES * len(rows))]
        sources = originals[rng.integers(COPIED, size=len(places))]
        jitter = 0.001 * rows.std(axis=0).mean() * rng.standard_normal((len(places), rows.shape[1]))
        rows, truth = rows.copy(), truth.copy()
        rows[places] = rows[sources] + jitter.astype(np.float32)
        truth[places], copied[places] = truth[sources], True
    return Scene(rows, None, truth, test, test_truth, copied)


_KINDS = {"symmetric": "symmetric", "asymmetric": "pair", "clean": "clean", "open-set": "open-set"}
SCENARIOS = (
    "clean",
    "symmetric-20",
    "symmetric-30",
    "asymmetric-20",
    "asymmetric-30",
    "open-set",
    "unlabelled",
    "unlabelled-copies",
    "long-tail",
)


@lru_cache(maxsize=8)
def scene(name: str, scenario: str, seed: int) -> Scene:
    """Return the pool of a set under a scenario: the same for the same seed."""
    split = SETS[name](seed)
    if scenario == "long-tail":
        return _long_tail(split, seed)
    if scenario.startswith("unlabelled"):
        return _unlabelled(name, split, scenario.endswith("copies"), seed)
    if name == "cifar10":
        split = (split[0][:LABELLED], split[1][:LABELLED], *split[2:])
    return labelled(split, scenario, seed)


def labelled(split: Split, scenario: str, seed: int) -> Scene:
    """Return a split whose labels are as a scenario says."""
    kind, _, percent = scenario.rpartition("-") if scenario[-1].isdigit() else (scenario, "", "0")
    return _labelled(split, _KINDS[kind], int(percent) / 100, seed)
