"""The rows of `benchmarks.believe`: pools to judge, clean rows to test on, and what is done to the labels.

Sets to choose settings on and sets to report on are kept apart: see `CHOOSE` and `REPORT`. Needs what
`_sets`, `_features` and `_tables` need.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from gmmatch import corrupt

from . import _features, _sets, _tables
from ._sets import Labels, Rows, Split, Task, with_noise

CHOOSE = ("cifar10", "clinc150-train", "letters", "digits", "breast-cancer")
REPORT = ("fashion-mnist", "clinc150-test")
CLINC_SPLITS = {"clinc150-train": ("train",), "clinc150-test": ("val", "test")}
CIFAR_IMAGES = 15_000  # the first so many training images of CIFAR-10
TEST_SHARE = 0.2
MOST_TABLE_ROWS = 2_000
STREAM = 32  # apart from the streams of `_sets`
CONFIRMED = 3  # of five people must confirm a label
WEAK_COMPONENTS = (1, 2, 3, 4, 6, 8, 12, 20, 32, 60)  # how many components of the rows a weak model may see
WEAK_ROWS = 60  # of each class, that teach it


@lru_cache(maxsize=1)
def _cifar() -> tuple[Rows, Labels]:
    rows = _features.load("train")[:CIFAR_IMAGES].copy()
    return rows, _features.archive()["train_labels"][:CIFAR_IMAGES].astype(np.int64)


@lru_cache(maxsize=2)
def _clinc(name: str) -> tuple[Rows, Labels]:
    from gmmatch.encoders.registry import encoder

    with (Path(os.environ["GMMATCH_DATA"]) / "clinc150.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    store = _features.folder() / "clinc150.npy"
    if not store.exists():
        np.save(store, encoder("wordllama").encode([line["text"] for line in lines]))
    part = np.array([line["split"] in CLINC_SPLITS[name] for line in lines])
    intents = np.array([line["intent"] for line in lines])[part]
    return np.load(store)[part], np.unique(intents, return_inverse=True)[1].astype(np.int64)


def pool(name: str, draw: int) -> Split:
    """Return the rows of a set in an order by draw: those to judge, and those to test on."""
    if name in ("cifar10", *CLINC_SPLITS):
        rows, truth = _cifar() if name == "cifar10" else _clinc(name)
        return _sets._halves(rows, truth, round((1 - TEST_SHARE) * len(rows)), draw)
    return _sets.SETS[name](draw)


def table(name: str, draw: int, share: float) -> Task:
    """Return a table, or as many rows of it as are judged at most, with a share of wrong labels."""
    rows, truth = _tables.table(name)
    chosen = np.random.default_rng([draw, STREAM]).permutation(len(rows))[:MOST_TABLE_ROWS]
    rows, truth = rows[chosen], np.unique(truth[chosen], return_inverse=True)[1]
    return with_noise((rows, truth, rows[:0], truth[:0]), "symmetric", share, draw)


def some_classes(name: str, n_classes: int, size: int, draw: int) -> Split:
    """Return `size` rows of each of some classes of a set, by draw, and the test rows of these classes."""
    rows, truth, test, test_truth = pool(name, draw)
    large = np.flatnonzero(np.bincount(truth) >= size)
    classes = np.sort(np.random.default_rng([draw, STREAM, size]).permutation(large)[:n_classes])
    if len(classes) < n_classes:
        raise ValueError(f"{name} has fewer than {n_classes} classes of {size} rows")
    chosen = np.sort(np.concatenate([np.flatnonzero(truth == c)[:size] for c in classes]))
    tested = np.isin(test_truth, classes)
    return (
        rows[chosen],
        np.searchsorted(classes, truth[chosen]),
        test[tested],
        np.searchsorted(classes, test_truth[tested]),
    )


def long_tail(name: str, largest: int, ratio: float, draw: int) -> Split:
    """Return a pool whose class sizes fall from the largest to a `ratio`-th of it, classes ranked by draw."""
    rows, truth, test, test_truth = pool(name, draw)
    count = int(truth.max()) + 1
    ranks = np.random.default_rng([draw, STREAM]).permutation(count)
    sizes = np.maximum(2, np.round(largest * ratio ** (-ranks / (count - 1)))).astype(int)
    chosen = np.sort(np.concatenate([np.flatnonzero(truth == c)[:n] for c, n in enumerate(sizes)]))
    return rows[chosen], truth[chosen], test, test_truth


def human(annotators: str, size: int, draw: int) -> Task:
    """Return rows of CIFAR-10 with the labels that people gave."""
    rows, truth = _cifar()
    order = np.random.default_rng(draw).permutation(CIFAR_IMAGES)
    chosen, tested = order[:size], order[-round(TEST_SHARE * CIFAR_IMAGES) :]
    labels = _features.archive()[f"human_{annotators}"][chosen].astype(np.int64)
    return Task(rows[chosen], labels, truth[chosen], rows[tested], truth[tested])


def reviewed() -> tuple[Rows, Labels, Labels]:
    """Return the test images of CIFAR-10 and their labels, and which of these reviewers did not confirm."""
    with (Path(os.environ["GMMATCH_DATA"]) / "cifar10_test_reviewed.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    doubted = [int(line["test_image"]) for line in lines if int(line["votes_given"]) < CONFIRMED]
    unconfirmed = np.array(sorted(doubted), dtype=np.int64)
    return _features.load("test"), _features.archive()["test_labels"].astype(np.int64), unconfirmed


@dataclass(frozen=True, eq=False)
class ReferenceTask:
    """Rows that a weak model labelled, and rows known to be right."""

    task: Task
    known: Rows
    known_truth: Labels

    def reference(self, size: int, share_wrong: float, draw: int) -> tuple[Rows, Labels]:
        """Return `size` of the known rows, equally many of each class, with a share of wrong labels."""
        count = int(self.known_truth.max()) + 1
        of_class = [np.flatnonzero(self.known_truth == c)[: size // count] for c in range(count)]
        chosen = np.concatenate(of_class)
        truth = self.known_truth[chosen]
        wrong = corrupt.corrupt_labels(truth, share=share_wrong, kind="symmetric", rng=draw)[0]
        return self.known[chosen], wrong.astype(np.int64)


def weakly_labelled(name: str, n_classes: int, size: int, share: float, draw: int) -> ReferenceTask:
    """Return rows labelled by a model that sees few components, so that about a share of them is wrong."""
    rows, truth, test, test_truth = some_classes(name, n_classes, size, draw)
    ranks = np.empty(len(test), dtype=int)
    for c in range(n_classes):
        own = np.flatnonzero(test_truth == c)
        ranks[own] = np.arange(len(own))
    teaching = ranks < WEAK_ROWS
    labels = _weak_labels(rows, truth, test[teaching], test_truth[teaching], share)
    known = ~teaching
    task = Task(rows, labels, truth, test[known], test_truth[known])
    return ReferenceTask(task, test[known], test_truth[known])


def _weak_labels(rows: Rows, truth: Labels, taught: Rows, taught_truth: Labels, share: float) -> Labels:
    """Return the labels of the model whose share of wrong ones is nearest: it sees some components only."""
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression

    reduced = PCA(min(max(WEAK_COMPONENTS), *taught.shape), svd_solver="full").fit(taught)
    seen, asked = reduced.transform(taught), reduced.transform(rows)
    spread = seen.std(axis=0) + 1e-12
    seen, asked = seen / spread, asked / spread
    views = [slice(n) for n in WEAK_COMPONENTS if n <= seen.shape[1]] + [slice(n, n + 1) for n in (1, 2, 3)]
    given = [
        LogisticRegression(max_iter=500).fit(seen[:, view], taught_truth).predict(asked[:, view])
        for view in views
    ]
    return min(given, key=lambda labels: abs(float((labels != truth).mean()) - share)).astype(np.int64)
