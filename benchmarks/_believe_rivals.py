"""What `benchmarks.believe` compares with, each at its best: tuned regression, boosting, a network, cleanlab.

All give class probabilities out of fold. Rows of a class are dealt to the folds in turn, so that a class of
five rows is in all of them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ._sets import Labels, Mask, Rows

FOLDS = 5
STRENGTHS = tuple(10.0 ** (exponent / 2) for exponent in range(-4, 8))  # of rows of mean square length one
SCORES = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
VERSION = "1"  # to be raised with any change that moves a figure of a rival or of the data
_TABLES = 64  # rows of at most so many columns may be scaled by column
_HIDDEN, _EPOCHS, _BATCH = 256, 4, 128  # of the network
_SMALLEST = 1e-9
LEARNER_STRENGTH = 10.0  # near the best on tails of letters, CIFAR-10 and CLINC150 without wrong labels

Matrix = npt.NDArray[np.float64]


def folds_of(labels: Labels, seed: int, count: int = FOLDS) -> Labels:
    """Return the fold of each row."""
    rng, folds = np.random.default_rng(seed), np.empty(len(labels), dtype=np.int64)
    for code in np.unique(labels):
        own = rng.permutation(np.flatnonzero(labels == code))
        folds[own] = (np.arange(len(own)) + code) % count
    return folds


def _scale(taught: Rows, asked: Rows, by_column: bool) -> tuple[Rows, Rows]:
    """Return rows about the mean, divided by the spread of each column or by one spread for all."""
    middle, spread = taught.mean(axis=0, dtype=np.float64), taught.std(axis=0, dtype=np.float64)
    if not by_column:
        spread = np.full_like(spread, np.sqrt(np.mean(spread**2)))
    spread = np.where(spread > 1e-3 * spread.max(), spread, max(float(spread.max()), 1e-12))
    return ((taught - middle) / spread).astype(np.float32), ((asked - middle) / spread).astype(np.float32)


def _regression(strength: float, n_features: int, **more: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=strength / n_features, max_iter=200, **more)


def _fit(model: Any, rows: Rows, labels: Labels) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes that a fold lacks, steps that do not suffice
        return model.fit(rows, labels)


def _spread_out(model: Any, rows: Rows, n_classes: int) -> Matrix:
    """Return the probabilities of all classes, also of those that the model never met."""
    found = np.full((len(rows), n_classes), _SMALLEST)
    found[:, model.classes_] += model.predict_proba(rows)
    return found / found.sum(axis=1, keepdims=True)


def _loss(probabilities: Matrix, labels: Labels) -> float:
    return float(-np.log(probabilities[np.arange(len(labels)), labels]).mean())


@dataclass(frozen=True, eq=False)
class Tuned:
    """The logistic regression of least out-of-fold loss: its probabilities out of fold, and its settings."""

    loss: float
    probabilities: Matrix
    strength: float
    by_column: bool


def tuned_regression(rows: Rows, labels: Labels, seed: int, folds: int = FOLDS) -> Tuned:
    """Return the logistic regression of least out-of-fold loss.

    Rows of few columns are tried on both scales. The strengths are tried from the most regular on, each from
    the solution of the last, until two in turn have a higher loss than the best.
    """
    scales = (False, True) if rows.shape[1] <= _TABLES else (False,)
    return min(
        (_path(rows, labels, seed, folds, by_column) for by_column in scales), key=lambda found: found.loss
    )


def _path(rows: Rows, labels: Labels, seed: int, folds: int, by_column: bool) -> Tuned:
    fold, n_classes = folds_of(labels, seed, folds), int(labels.max()) + 1
    parts = [(*_scale(rows[fold != f], rows[fold == f], by_column), labels[fold != f]) for f in range(folds)]
    models = [_regression(1.0, rows.shape[1], warm_start=True) for _ in range(folds)]
    best: Tuned | None = None
    worse = 0
    for strength in STRENGTHS:
        found = np.empty((len(rows), n_classes))
        for f, (model, (taught, asked, given)) in enumerate(zip(models, parts, strict=True)):
            model.set_params(C=strength / rows.shape[1])
            found[fold == f] = _spread_out(_fit(model, taught, given), asked, n_classes)
        loss = _loss(found, labels)
        if best is None or loss <= best.loss:
            best, worse = Tuned(loss, found, strength, by_column), 0
        else:
            worse += 1
        if worse == 2:
            break
    assert best is not None
    return best


def regression_on(known: Rows, known_labels: Labels, rows: Rows, seed: int) -> Matrix:
    """Return the probabilities of rows by a tuned regression that other rows teach."""
    folds = int(np.clip(np.bincount(known_labels).min(), 2, FOLDS))
    tuned = tuned_regression(known, known_labels, seed, folds)
    taught, asked = _scale(known, rows, tuned.by_column)
    model = _fit(_regression(tuned.strength, rows.shape[1]), taught, known_labels)
    return _spread_out(model, asked, int(known_labels.max()) + 1)


def boosting(rows: Rows, labels: Labels, seed: int) -> Matrix:
    """Return out-of-fold probabilities by histogram gradient boosting."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    fold, n_classes = folds_of(labels, seed), int(labels.max()) + 1
    found = np.empty((len(rows), n_classes))
    for f in range(FOLDS):
        model = _fit(HistGradientBoostingClassifier(random_state=0), rows[fold != f], labels[fold != f])
        found[fold == f] = _spread_out(model, rows[fold == f], n_classes)
    return found


def network(rows: Rows, labels: Labels, seed: int) -> Matrix:
    """Return out-of-fold probabilities by a network with a hidden layer and dropout, few epochs long."""
    import torch
    from torch import nn

    fold, n_classes = folds_of(labels, seed), int(labels.max()) + 1
    found = np.empty((len(rows), n_classes))
    for f in range(FOLDS):
        taught, asked = _scale(rows[fold != f], rows[fold == f], by_column=False)
        codes = torch.from_numpy(labels[fold != f])
        torch.manual_seed(FOLDS * seed + f)
        model = nn.Sequential(
            nn.Dropout(0.2),
            nn.Linear(rows.shape[1], _HIDDEN),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(_HIDDEN, n_classes),
        )
        _train(model, torch.from_numpy(taught), codes)
        with torch.no_grad():
            found[fold == f] = torch.softmax(model.eval()(torch.from_numpy(asked)), dim=1).numpy()
    return found


def _train(model: Any, rows: Any, codes: Any) -> None:
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=5e-4)
    steps = _EPOCHS * (len(rows) // _BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps)
    loss = torch.nn.CrossEntropyLoss()
    for _ in range(_EPOCHS):
        for batch in torch.randperm(len(rows))[: len(rows) // _BATCH * _BATCH].split(_BATCH):
            optimizer.zero_grad()
            loss(model(rows[batch]), codes[batch]).backward()
            optimizer.step()
            schedule.step()


def told(wrong: Mask, scores: npt.NDArray[np.float64]) -> list[float]:
    """Return the area under the ROC curve and the average precision of an order of the rows."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    if wrong.all() or not wrong.any():
        return [float("nan"), float("nan")]
    return [float(roc_auc_score(wrong, scores)), float(average_precision_score(wrong, scores))]


def cleanlab_orders(labels: Labels, probabilities: Matrix) -> dict[str, Matrix]:
    """Return the three scores of cleanlab, the most doubtful rows highest."""
    from cleanlab.rank import get_label_quality_scores

    return {score: -get_label_quality_scores(labels, probabilities, method=score) for score in SCORES}


def accuracy(taught: Rows, labels: Labels, test: Rows, truth: Labels, n_classes: int) -> float:
    """Return the balanced accuracy, in percent, of a regression with class weights taught by some rows."""
    if len(np.unique(labels)) == 1:
        return 100.0 / n_classes
    scaled, asked = _scale(taught, test, by_column=taught.shape[1] <= _TABLES)
    model = _fit(_regression(LEARNER_STRENGTH, taught.shape[1], class_weight="balanced"), scaled, labels)
    right = model.predict(asked) == truth
    found = np.bincount(truth, weights=right, minlength=n_classes) / np.maximum(
        np.bincount(truth, minlength=n_classes), 1
    )
    return 100 * float(found[np.bincount(truth, minlength=n_classes) > 0].mean())
