"""`gmmatch train`: train a network on images, or on the rows of them that a selection keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from .. import training
from ..data import open_dataset
from ..data.images import stack_images
from ..errors import InvalidInput, InvalidParameter
from ..records import IntArray, load_selection
from ..validation import as_labels
from . import _options as options
from ._friendly import say, show_progress
from ._options import READ, option

if TYPE_CHECKING:
    from ..training.networks import Network


LEARN = "How it learns"


def train(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="IMAGES", help="Images of one size: a folder, .npy, .npz, IDX, CIFAR, a table."
        ),
    ],
    labels: Annotated[
        str | None, options.column("Labels: a column or an array of IMAGES, or a file.", "FILE_OR_COLUMN")
    ] = None,
    network: Annotated[
        str | None, option(f"{', '.join(training.NETWORKS)}.  [default: resnet8]", panel=LEARN)
    ] = None,
    recipe: Annotated[
        str | None,
        option(f"{', '.join(training.RECIPES)}.  [default: cpu; fine-tune with --from]", panel=LEARN),
    ] = None,
    epochs: Annotated[int | None, option("In place of the recipe's.", panel=LEARN, min=1)] = None,
    batch_size: Annotated[int | None, option("In place of the recipe's.", panel=LEARN, min=1)] = None,
    rows: Annotated[
        Path | None, option("A selection (Parquet): train on the rows it keeps.", panel=READ)
    ] = None,
    test: Annotated[Path | None, option("Images to measure the accuracy on, as IMAGES.", panel=READ)] = None,
    test_labels: Annotated[str | None, options.column("Their labels, as --labels.", "FILE_OR_COLUMN")] = None,
    start: Annotated[
        Path | None, option("A trained network (.pt) to fine-tune.", "--from", panel=LEARN)
    ] = None,
    output: Annotated[Path, options.output("Where to write the network.")] = Path("network.pt"),
    resume: Annotated[
        bool, options.flag("resume", "Go on with the run that --output was left with.")
    ] = False,
    on_bad_rows: options.OnBadRows = "error",
    unlabelled: options.Unlabelled = "error",
    device: options.Device = "auto",
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a network on IMAGES and write its weights; `torch:FILE` then names it as an encoder.

    The file is written whole after every epoch. It holds tensors and plain facts, and is read
    without running any code that it might contain.

    Examples
    --------
        gmmatch train images.npy --labels labels.npy -o network.pt

        gmmatch train cifar10.npz --labels human_worst --rows kept.parquet --test cifar10.npz --json

        gmmatch train images.npz --network resnet18 --recipe cifar --device cuda --resume

        gmmatch train flowers.npz --from network.pt -o flowers.pt
    """
    with show_progress(quiet):
        images, given, usable = _labelled_images(source, labels, on_bad_rows, unlabelled)
        classes, codes = as_labels(given, len(images))
        learner = _learner(start, network, classes, images.shape[3], seed)
        config = training.TrainConfig(
            network=learner.name,
            recipe=recipe or ("cpu" if start is None else "fine-tune"),
            epochs=epochs,
            batch_size=batch_size,
            device=device,
        )
        judged = None if test is None else _test_set(test, test_labels, classes)
        kept = usable if rows is None else np.intersect1d(_kept_rows(rows, len(images)), usable)
        run = training.train(
            learner,
            images[kept],
            codes[kept],
            config.resolved(),
            seed=seed,
            device=device,
            checkpoint=output,
            resume=resume,
            label_names=classes.tolist(),
        )
        result = None if judged is None else training.evaluate(learner, *judged, device=device)
    facts = {
        "rows": run.correct.shape[1],
        "classes": len(classes),
        "network": learner.name,
        "parameters": sum(weights.numel() for weights in learner.parameters()),
        "recipe": config.recipe,
        "epochs": run.epochs,
        "train_accuracy": run.accuracies[-1],
        "test_accuracy": None if result is None else result.accuracy,
        "test_rows": None if result is None else result.rows,
        "seconds": round(run.seconds, 3),
        "output": str(output),
    }
    say(json.dumps(facts) if as_json else sentence(facts), err=False)


def sentence(facts: dict[str, Any]) -> str:
    """Say in words what was done."""
    tested = "" if facts["test_rows"] is None else f", {facts['test_accuracy']:.2%} right on the test images"
    return (
        f"trained {facts['network']} on {facts['rows']:,} images in {facts['classes']} classes for"
        f" {facts['epochs']} epochs in {facts['seconds']:.1f} s: {facts['train_accuracy']:.2%} right in the"
        f" last epoch{tested}; wrote {facts['output']}"
    )


def _learner(
    start: Path | None, network: str | None, classes: npt.NDArray[Any], channels: int, seed: int
) -> Network:
    """Return the network to train: a new one, or a trained one with a head that fits the classes."""
    if start is None:
        return training.build_network(network or "resnet8", len(classes), channels, seed=seed)
    trained = training.load_checkpoint(start)
    if network not in (None, trained.network.name):
        raise InvalidParameter(f"--network is {network!r}, but {start} holds a {trained.network.name}")
    if trained.labels == tuple(classes.tolist()):
        return trained.network
    return training.replace_head(trained.network, len(classes), seed=seed)


def _labelled_images(
    source: Path, labels: str | None, on_bad_rows: str, unlabelled: str
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any], IntArray]:
    """Return images, their labels, and the rows that take part."""
    found = open_dataset(source, labels, holds="image", on_bad_rows=on_bad_rows, unlabelled=unlabelled)
    if found.labels is None or found.content is None:
        raise InvalidInput(f"{source} holds no labels; name them with --labels")
    images = training.as_images(stack_images(found.content, found.name), found.name)
    return images, found.labels, np.setdiff1d(np.arange(len(found)), found.bad_rows)


def _kept_rows(path: Path, n_rows: int) -> IntArray:
    """Return the rows that a selection of these images keeps, in ascending order."""
    selection = load_selection(path)
    if selection.n_rows != n_rows:
        raise InvalidInput(f"{path} is a selection from {selection.n_rows} rows; there are {n_rows} images")
    return np.sort(selection.indices)


def _test_set(
    path: Path, labels: str | None, classes: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.uint8], IntArray]:
    """Read test images, and turn their labels into the class numbers of the training set."""
    images, given = training.read_images(path, labels, split="test")
    if given is None:
        raise InvalidInput(f"{path} holds no labels; name them with --test-labels")
    present, codes = as_labels(given, len(images), "test labels")
    unknown = set(present.tolist()) - set(classes.tolist())
    if unknown:
        raise InvalidInput(
            f"the test labels have a class {min(unknown)!r} that the training labels do not have"
        )
    return images, np.searchsorted(classes, present)[codes]
