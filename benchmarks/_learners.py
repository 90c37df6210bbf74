"""Three learners that say what a subset teaches: logistic regression, nearest neighbours, RBF-SVM.

All read the same view: rows about the mean of the kept rows, either divided by the spread of each column
(tables of numbers) or by one spread for all (pixels, embeddings); sets of more than 256 columns through the
leading 200 principal components of the pool.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from ._sets import Labels, Rows, Scene

LEARNERS = ("logistic", "neighbours", "svm")
VERSION = "1"  # of sets and learners; to be raised with any change that moves a figure
_TABLES = 64  # sets of at most so many columns are scaled by column
_WIDE, _COMPONENTS = 256, 200
_STRENGTHS = (0.01, 0.1, 1.0, 10.0)
_FOLDS = 3
_TUNING_ROWS = 3_000  # about as many are tuned on where more are kept
_SVM_C = 10.0
_LARGE_KERNEL = 6_000  # kept rows up to which a kernel matrix in memory pays

Matrix = npt.NDArray[np.float64]


@lru_cache(maxsize=2)
def reduce(scene: Scene) -> tuple[Rows, Rows]:
    """Return pool and test rows as learners may read them: wide ones by their principal components."""
    if scene.rows.shape[1] <= _WIDE:
        return scene.rows, scene.test
    middle = scene.rows.mean(axis=0)
    centred = scene.rows - middle
    _, vectors = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    turn = vectors[:, ::-1][:, :_COMPONENTS].astype(np.float32)
    return centred @ turn, (scene.test - middle) @ turn


def scale(kept: Rows, test: Rows) -> tuple[Matrix, Matrix]:
    """Return kept and test rows on the scale of the kept rows."""
    middle, spread = kept.mean(axis=0, dtype=np.float64), kept.std(axis=0, dtype=np.float64)
    if kept.shape[1] <= _TABLES:
        spread = np.where(spread > 1e-3 * spread.max(), spread, max(float(spread.max()), 1e-12))
    else:
        spread = np.full_like(spread, max(float(np.sqrt(np.mean(spread**2))), 1e-12))
    return (kept - middle) / spread, (test - middle) / spread


def predict(learner: str, kept: Matrix, labels: Labels, test: Matrix) -> Labels:
    """Return the classes that a learner gives the test rows."""
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) == 1:
        return np.full(len(test), classes[0])
    if learner == "logistic":
        strength = _tuned(kept, codes)
        return classes[_logistic(kept, codes, strength).predict(test)]
    if learner == "neighbours":
        return classes[KNeighborsClassifier(min(3, len(kept))).fit(kept, codes).predict(test)]
    if learner == "svm":
        return classes[_svm(kept, codes, test)]
    raise ValueError(f"there is no learner {learner!r}; expected one of {', '.join(LEARNERS)}")


def recalls(
    kept: Rows, labels: Labels, test: Rows, truth: Labels, learners: Iterable[str] = LEARNERS
) -> dict[str, Matrix]:
    """Return for each learner the share of each true class that it gets right."""
    scaled, asked = scale(kept, test)
    found = {}
    for learner in learners:
        right = predict(learner, scaled, labels, asked) == truth
        found[learner] = np.bincount(truth, weights=right) / np.maximum(np.bincount(truth), 1)
    return found


def _logistic(rows: Matrix, codes: Labels, strength: float) -> LogisticRegression:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="The number of unique classes", category=UserWarning)
        return LogisticRegression(C=strength, max_iter=300, tol=1e-3).fit(rows, codes)


def _tuned(rows: Matrix, codes: Labels) -> float:
    """Return the strength with the most held-out rows right; the most regular one among equals.

    Rows of a class are dealt to the folds in turn, so that classes of two rows are in two folds.
    """
    order = np.argsort(codes, kind="stable")
    order = order[:: max(1, len(order) // _TUNING_ROWS)]
    rows, codes, turn = rows[order], codes[order], np.arange(len(order)) % _FOLDS
    right = []
    for strength in _STRENGTHS:
        hits = 0
        for fold in range(_FOLDS):
            held = turn == fold
            if len(np.unique(codes[~held])) > 1 and held.any():
                head = _logistic(rows[~held], codes[~held], strength)
                hits += int((head.predict(rows[held]) == codes[held]).sum())
        right.append(hits)
    return _STRENGTHS[int(np.argmax(right))]


def _svm(kept: Matrix, codes: Labels, test: Matrix) -> Labels:
    gamma = 1 / (kept.shape[1] * max(float(kept.var()), 1e-12))
    if len(kept) > _LARGE_KERNEL:
        return SVC(C=_SVM_C, gamma=gamma, cache_size=1000).fit(kept, codes).predict(test)
    # Kernel values by BLAS: several times as fast as the library's own for wide rows.
    machine = SVC(C=_SVM_C, kernel="precomputed", cache_size=1000).fit(_kernel(kept, kept, gamma), codes)
    parts = [
        machine.predict(_kernel(test[start : start + 2000], kept, gamma))
        for start in range(0, len(test), 2000)
    ]
    return np.concatenate(parts)


def _kernel(left: Matrix, right: Matrix, gamma: float) -> Matrix:
    squares = (left**2).sum(axis=1)[:, None] - 2 * left @ right.T + (right**2).sum(axis=1)
    return np.exp(-gamma * np.maximum(squares, 0))
