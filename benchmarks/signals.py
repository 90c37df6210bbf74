"""What each signal costs beside a training epoch, and how many wrong labels it keeps.

    python -m benchmarks.signals --data fashion-mnist --rows 20000 --epochs 15 --seeds 2

Labels of a share of the rows are replaced by another class. Every signal then scores all rows and
keeps its highest scores; ``optimization`` keeps what its discrete program chooses. Prints JSON.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch

from gmmatch.lab import signals, training

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
KEEPS = (0.1, 0.2, 0.3, 0.5)


def fashion_mnist() -> tuple[np.ndarray, np.ndarray]:
    """Read the training set of the Debian package dataset-fashion-mnist."""
    pixels = gzip.decompress((FASHION_MNIST / "train-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((FASHION_MNIST / "train-labels-idx1-ubyte.gz").read_bytes())
    images = np.frombuffer(pixels, np.uint8, offset=16).reshape(-1, 28, 28)
    return images, np.frombuffer(labels, np.uint8, offset=8).astype(np.int64)


def cifar10() -> tuple[np.ndarray, np.ndarray]:
    """Read cifar10.npz from the folder named by GMMATCH_DATA."""
    images, labels = training.read_images(Path(os.environ["GMMATCH_DATA"]) / "cifar10.npz")
    return images, np.asarray(labels, dtype=np.int64)


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return scikit-learn's digits, enlarged to 28 x 28 pixels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    large = np.kron(found.images, np.ones((1, 4, 4)))[:, 2:-2, 2:-2]
    return (large * (255 / 16)).astype(np.uint8), found.target.astype(np.int64)


DATA = {"fashion-mnist": fashion_mnist, "cifar10": cifar10, "digits": digits}


def with_wrong_labels(
    labels: np.ndarray, share: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return labels of which `share` are moved to another class at random, and which those are."""
    classes = int(labels.max()) + 1
    wrong = np.zeros(len(labels), dtype=bool)
    wrong[rng.choice(len(labels), round(share * len(labels)), replace=False)] = True
    moved = (labels + rng.integers(1, classes, len(labels))) % classes
    return np.where(wrong, moved, labels), wrong


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    result = function()
    return result, time.perf_counter() - began


def measure(images: np.ndarray, labels: np.ndarray, wrong: np.ndarray, config: training.TrainConfig) -> dict:
    """Train once for all signals, then time each and count the wrong labels that it keeps."""
    network_thousands = len(images) * config.seeds / 1000
    runs, seconds = timed(lambda: signals.train_runs(images, labels, config))
    epoch = seconds / (config.resolved().epochs * network_thousands)
    score = functools.partial(signals.score_rows, images=images, labels=labels, config=config, runs=runs)
    scorers = {name: functools.partial(score, name) for name in ("forgetting", "el2n", "grand")}
    scorers["grand, last layer"] = functools.partial(score, "grand", layers="last")
    rows: dict[str, dict[str, Any]] = {}
    for name, scorer in scorers.items():
        scores, seconds = timed(scorer)
        order = np.argsort(-scores, kind="stable")
        rows[name] = cost(seconds / network_thousands, epoch) | {
            "wrong_among_kept": {
                f"{keep:.0%}": share(wrong[order[: round(keep * len(order))]]) for keep in KEEPS
            }
        }
    influence, seconds = timed(lambda: signals.influence_of_rows(images, labels, config, runs=runs))
    kept = {f"{keep:.0%}": signals.keep_least_change(influence.vectors, keep) for keep in KEEPS[:2]}
    rows["optimization"] = cost(seconds / network_thousands, epoch) | {
        "wrong_among_kept": {keep: share(wrong[found.indices]) for keep, found in kept.items()},
        "change_over_bound": {keep: round(found.change / found.bound, 6) for keep, found in kept.items()},
    }
    return {
        "epoch_seconds_per_1000": round(epoch, 4),
        "train_accuracy_with_wrong_labels": share(runs[0].correct[-1]),
        "wrong_among_all": share(wrong),
        "signals": rows,
    }


def share(marks: np.ndarray) -> float:
    return round(float(marks.mean()), 4)


def cost(seconds: float, epoch: float) -> dict[str, float]:
    """Return the seconds for 1,000 rows and one network, and how many training epochs that is."""
    return {"seconds_per_1000": round(seconds, 6), "epochs": round(seconds / epoch, 6)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", choices=sorted(DATA), default="digits")
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--network", choices=training.NETWORKS, default="resnet8")
    parser.add_argument("--recipe", choices=sorted(training.RECIPES), default="cpu")
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--score-at", type=int, default=None)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    images, clean = DATA[options.data]()
    picked = rng.permutation(len(images))[: options.rows]
    images, clean = images[picked], clean[picked]
    labels, wrong = with_wrong_labels(clean, options.noise, rng)
    config = training.TrainConfig(
        network=options.network,
        recipe=options.recipe,
        epochs=options.epochs,
        seeds=options.seeds,
        score_at=options.score_at,
    )
    report = {
        "data": options.data,
        "rows": len(images),
        "config": config.as_dict() | {"score_at": config.early_epoch()},
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "cores": os.cpu_count(),
        **measure(images, labels, wrong, config),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
