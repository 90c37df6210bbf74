"""Learners: who is trained on the kept rows, and how well, measured on the clean test set."""

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ...arrays import Float32Array, IntArray
from .. import training
from ..training.probe import early_stopped_probe, linear_probe
from .benchmarks import Benchmark
from .proxies import content_key
from .specs import PROBE, Training

COMPONENTS = 512
_CONVERGED_STEPS = 100
_NEIGHBOURS = 5
_SAMPLE = 10_000  # rows from which the principal components are worked out


class Learner(Protocol):
    """What is trained on kept rows."""

    key: str  # digest of the training inputs and the test set

    def accuracy(self, picks: IntArray, labels: IntArray, seed: int, checkpoint: Path | None = None) -> float:
        """Return the test accuracy in percent after training on the rows `picks` with `labels`.

        The order of the rows decides nothing. `checkpoint`: where a long training goes on after a kill.
        """

    def recipe(self, rows: int) -> dict[str, Any]:
        """Return how it is trained on so many rows, as plain data."""


class ProbeLearner:
    """The linear probe on a proxy's features.

    It reads the leading principal components of the undamaged training features, at most 512, each
    divided by the fourth root of its variance: as accurate as all features and several times as fast.
    ``linear-probe`` lets a tenth of the kept rows, labels as they are, decide when to stop;
    ``linear-probe-converged`` is trained to the end, as the paper trains its networks, and learns
    wrong labels by heart if there are any; ``neighbours`` asks the five kept rows at the smallest angles, of
    all features: as is usual for embeddings (by distance in the components it is 10 to 25 points worse).

    `name`: which of the three. `reference`: features of the undamaged training set, which the view is worked
    out from. `rows`: features of the training set as given. `test`, `test_labels`: the clean test set.
    """

    def __init__(
        self,
        name: str,
        reference: Float32Array,
        rows: Float32Array,
        test: Float32Array,
        test_labels: IntArray,
    ) -> None:
        self.name = name
        self.view = directions if name == "neighbours" else View(reference)
        self.rows = self.view(rows)
        self.test, self.test_labels = self.view(test), test_labels
        self.key = content_key(self.rows, self.test, test_labels)

    def accuracy(self, picks: IntArray, labels: IntArray, seed: int, checkpoint: Path | None = None) -> float:
        """Fit the probe and return its test accuracy in percent."""
        order = np.argsort(picks)
        rows, labels = self.rows[picks[order]], labels[order]
        if self.name == "neighbours":
            from sklearn.neighbors import KNeighborsClassifier

            learner = KNeighborsClassifier(min(_NEIGHBOURS, len(rows)), algorithm="brute").fit(rows, labels)
            return 100.0 * float(np.mean(learner.predict(self.test) == self.test_labels))
        if self.name == PROBE:
            probe = early_stopped_probe(rows, labels, seed=seed)
        else:
            probe = linear_probe(rows, labels, max_iter=_CONVERGED_STEPS)
        return 100.0 * probe.accuracy(self.test, self.test_labels)

    def recipe(self, rows: int) -> dict[str, Any]:
        """Return how the probe is trained."""
        ways = {
            PROBE: "softmax regression, L-BFGS, stopped at the lowest loss on a tenth of the kept rows",
            "linear-probe-converged": "softmax regression, L-BFGS, l2 1e-4, to convergence or"
            f" {_CONVERGED_STEPS} steps",
            "neighbours": f"{_NEIGHBOURS} nearest neighbours by cosine",
        }
        return {"probe": ways[self.name], "components": int(self.rows.shape[1])}


class View:
    """Principal components of a reference, damped by the fourth root of their variance."""

    def __init__(self, reference: Float32Array) -> None:
        step = max(1, len(reference) // _SAMPLE)
        self.mean = reference.mean(axis=0, dtype=np.float64).astype(np.float32)
        some = reference[::step] - self.mean
        if len(some) < some.shape[1]:  # fewer rows than features: the same components from the rows' products
            values, sides = np.linalg.eigh((some @ some.T / len(some)).astype(np.float64))
            scale = np.sqrt(np.maximum(values * len(some), np.finfo(np.float32).tiny))
            vectors = some.T @ (sides / scale)
        else:
            values, vectors = np.linalg.eigh((some.T @ some / len(some)).astype(np.float64))
        wanted = np.flatnonzero(values > values[-1] * 1e-6)[::-1][:COMPONENTS]
        self.turn = (vectors[:, wanted] / values[wanted] ** 0.25).astype(np.float32)

    def __call__(self, rows: Float32Array) -> Float32Array:
        """Return the components of rows."""
        return np.asarray((rows - self.mean) @ self.turn)


def directions(rows: Float32Array) -> Float32Array:
    """Return rows of length one: their distances follow from their angles.

    >>> directions(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))


class NetworkLearner:
    """A network that learns the kept images from scratch."""

    def __init__(
        self, name: str, how: Training, data: Benchmark, images: npt.NDArray[Any], device: str = "auto"
    ) -> None:
        self.name, self.how, self.data, self.images, self.device = name, how, data, images, device
        self.key = content_key(images, data.test_inputs, data.test_labels)

    def accuracy(self, picks: IntArray, labels: IntArray, seed: int, checkpoint: Path | None = None) -> float:
        """Train the network and return its test accuracy in percent."""
        order = np.sort(picks)
        channels = 1 if self.images.ndim == 3 else self.images.shape[3]
        network = training.build_network(self.name, self.data.classes, channels, seed=seed)
        recipe = self._config(len(picks)).resolved()
        training.train(
            network,
            self.images[order],
            labels[np.argsort(picks)],
            recipe,
            seed=seed,
            device=self.device,
            checkpoint=checkpoint,
        )
        test = self.data.test_inputs, self.data.test_labels
        result = training.evaluate(network, *test, device=self.device)
        return 100.0 * result.accuracy

    def recipe(self, rows: int) -> dict[str, Any]:
        """Return the training configuration."""
        return self._config(rows).as_dict()

    def _config(self, rows: int) -> training.TrainConfig:
        return self.how.config(self.name, rows, self.data.recipe)
