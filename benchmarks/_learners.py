"""What learners make of picks: a tuned logistic regression, five neighbours by cosine, a small network."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from ._scenes import Scene
from ._sets import Labels, Rows

LEARNERS = ("logistic", "neighbours", "network")
_STRENGTHS = (0.003, 0.03, 0.3)
_TUNING_ROWS = 1_200
_STEPS, _PHOTOS_AT_ONCE = 400, 64


def score(
    scene: Scene, views: tuple[Rows, Rows], picks: Labels, seed: int, learners: Sequence[str] = LEARNERS
) -> dict[str, float]:
    """Return the accuracy, in per cent, of each learner that is taught the picks.

    Without labels a learner is told the classes of the picks, and of outliers among them nothing.
    """
    picks = np.sort(picks if scene.labelled else picks[~scene.outlier[picks]])
    labels, kept, test = scene.labels[picks], views[0][picks], views[1]
    middle, spread = kept.mean(axis=0), max(float(kept.std(axis=0).mean()), 1e-9)
    kept, test = (kept - middle) / spread, (test - middle) / spread
    guesses = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if len(np.unique(labels)) == 1:
            guesses = dict.fromkeys(learners, np.full(len(test), labels[0]))
            learners = ()
        if "logistic" in learners:
            guesses["logistic"] = logistic(kept, labels, tuned(kept, labels)).predict(test)
        if "neighbours" in learners:
            guesses["neighbours"] = _vote(
                _unit(scene.test) @ _unit(scene.rows[picks]).T, labels, scene.classes
            )
        if "network" in learners:
            network = MLPClassifier((64,), max_iter=80, learning_rate_init=3e-3, random_state=seed)
            guesses["network"] = network.fit(kept, labels).predict(test)
        if "resnet8" in learners:
            guesses["resnet8"] = _resnet(scene, picks, seed)
    return {name: 100 * _accuracy(guess, scene.truth, scene.balanced) for name, guess in guesses.items()}


def _resnet(scene: Scene, picks: Labels, seed: int) -> Labels:
    """Return the guesses of a ResNet-8 that learned the photos of the picks from scratch.

    Crops and mirrored photos, one cycle of the learning rate; however many picks there are, as many steps.
    """
    from dataclasses import replace

    from gmmatch.lab.training import RECIPES, build_network, train
    from gmmatch.lab.training.inference import predict

    photos, test = scene.images()
    batch = min(_PHOTOS_AT_ONCE, len(picks))
    epochs = max(1, round(_STEPS * batch / len(picks)))
    recipe = replace(RECIPES["cpu"], epochs=epochs, batch_size=batch)
    network = build_network("resnet8", scene.classes, photos.shape[3] if photos.ndim == 4 else 1, seed=seed)
    train(network, photos[picks], scene.labels[picks], recipe, seed=seed, device="cpu")
    found: Labels = predict(network, test, device="cpu").argmax(axis=1)
    return found


def logistic(rows: Any, labels: Labels, strength: float) -> LogisticRegression:
    """Return a logistic regression fitted to rows; few rows get as much ridge for each row as many do.

    Otherwise the intercepts, which no ridge holds, decide among classes of two and three rows.
    """
    scaled = strength * max(1.0, _TUNING_ROWS / len(rows))
    return LogisticRegression(C=scaled, max_iter=200, tol=1e-2).fit(rows, labels)


def tuned(rows: Any, labels: Labels) -> float:
    """Return the strength with the most rows right out of three folds; the weakest ridge among equals."""
    order = np.argsort(labels, kind="stable")
    order = order[:: max(1, len(order) // _TUNING_ROWS)]
    fold, hits = np.arange(len(order)) % 3, dict.fromkeys(_STRENGTHS, 0)
    for strength in _STRENGTHS:
        for part in range(3):
            inside, outside = order[fold != part], order[fold == part]
            if len(np.unique(labels[inside])) > 1:
                guess = logistic(rows[inside], labels[inside], strength).predict(rows[outside])
                hits[strength] += int((guess == labels[outside]).sum())
    return max(reversed(_STRENGTHS), key=lambda strength: hits[strength])


def _unit(rows: Rows) -> Any:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def _vote(near: Any, labels: Labels, n_classes: int) -> Labels:
    """Return what five neighbours vote for; among equals the nearer."""
    k = min(5, near.shape[1])
    chosen = np.argpartition(-near, k - 1, axis=1)[:, :k]
    votes = np.zeros((len(near), n_classes))
    for place in range(k):
        own = chosen[:, place]
        votes[np.arange(len(near)), labels[own]] += 1 + 1e-3 * near[np.arange(len(near)), own]
    return votes.argmax(axis=1)


def _accuracy(guess: Labels, truth: Labels, balanced: bool) -> float:
    right = guess == truth
    return float(
        np.mean([right[truth == code].mean() for code in np.unique(truth)]) if balanced else right.mean()
    )
