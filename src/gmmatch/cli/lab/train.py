"""`gmmatch train`: train a network on images, or on the rows of them that a selection keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from ...arrays import IntArray
from ...data import Dataset, open_dataset
from ...data.joining import match_names
from ...errors import InvalidInput, InvalidParameter
from ...files import check_apart, check_new
from ...lab import training
from ...lab.training.images import stack_images
from ...records import load_selection
from ...validation import as_labels
from .. import options
from ..friendly import say, show_progress
from ..options import READ, option

if TYPE_CHECKING:
    from ...lab.training.networks import Network


LEARN = "How it learns"


def train(
    source: Annotated[
        Path,
        typer.Argument(metavar="IMAGES", help="A folder of photos, .npy, .npz, IDX, CIFAR, a table."),
    ],
    labels: Annotated[
        str | None, options.column("Labels: a column or an array of IMAGES, or a file.", "FILE_OR_COLUMN")
    ] = None,
    image: options.Image = None,
    size: Annotated[
        int | None,
        option(
            "Side that images are resampled to.  [default: as they are; 64 where they differ or are large]",
            panel=READ,
            metavar="PIXELS",
            min=8,
            show_default=False,
        ),
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
        Path | None,
        option("A selection (Parquet): train on the rows it keeps, found by their ids.", panel=READ),
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
    overwrite: options.Overwrite = False,
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
    check_apart([output], (source, labels, rows, test, test_labels, start))
    with show_progress(quiet):
        found = open_dataset(
            source, labels, image=image, holds="image", on_bad_rows=on_bad_rows, unlabelled=unlabelled
        )
        check_apart([output], found.files)
        check_new(output, overwrite or resume)
        images, given, usable = _labelled_images(found, size, on_bad_rows == "drop")
        classes, codes = as_labels(given, len(images))
        learner = _learner(start, network, classes, images.shape[3], seed)
        config = training.TrainConfig(
            network=learner.name,
            recipe=recipe or ("cpu" if start is None else "fine-tune"),
            epochs=epochs,
            batch_size=batch_size,
            device=device,
        )
        judged = None if test is None else _test_set(test, test_labels, classes, images.shape, size)
        kept = usable if rows is None else np.intersect1d(kept_rows(rows, found), usable)
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
    epochs = "epoch" if facts["epochs"] == 1 else "epochs"
    return (
        f"trained {facts['network']} on {facts['rows']:,} images in {facts['classes']} classes for"
        f" {facts['epochs']} {epochs} in {facts['seconds']:.1f} s: {facts['train_accuracy']:.2%} right in the"
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
    found: Dataset, size: int | None, drop: bool
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any], IntArray]:
    """Return images, their labels, and the rows that take part."""
    if found.labels is None or found.content is None:
        raise InvalidInput(f"{found.name} holds no labels; name them with --labels")
    stacked, bad, note = stack_images(found.content, found.name, size, drop)
    say(*(f"gmmatch: {words}" for words in (*found.notes, *([note] if note else []))))
    usable = np.setdiff1d(np.arange(len(found)), [*found.bad, *bad]).astype(np.int64)
    return training.as_images(stacked, found.name), found.labels, usable


def kept_rows(path: Path, found: Dataset) -> IntArray:
    """Return the rows that a selection keeps, in ascending order: by id where both have ids."""
    selection = load_selection(path)
    if selection.ids is None or found.ids is None:
        if selection.n_rows != len(found):
            raise InvalidInput(
                f"{path} is a selection from {selection.n_rows} rows; there are {len(found)} images"
            )
        return np.sort(selection.indices)
    keys = [str(key) for key in selection.ids.tolist()]
    places = match_names(keys, [str(name) for name in found.ids.tolist()]) or [None] * len(found)
    missing = sorted(set(range(len(keys))).difference(place for place in places if place is not None))
    if missing:
        raise InvalidInput(
            f"{len(missing)} of the {len(keys)} rows that {path} keeps are not in {found.name}"
            f" (first: {keys[missing[0]]}); give the images that it was made from"
        )
    return np.flatnonzero([place is not None for place in places])


def _test_set(
    path: Path,
    labels: str | None,
    classes: npt.NDArray[Any],
    shape: tuple[int, ...],
    size: int | None,
) -> tuple[npt.NDArray[np.uint8], IntArray]:
    """Read test images, as large as those of the training set, and turn their labels into its classes."""
    found = open_dataset(path, labels, holds="image", split="test")
    if found.labels is None or found.content is None:
        raise InvalidInput(f"{path} holds no labels; name them with --test-labels")
    square = shape[1] if shape[1] == shape[2] and shape[3] == 3 else None
    stacked = stack_images(found.content, found.name, size or square)[0]
    images = training.as_images(stacked, found.name)
    if images.shape[3] != shape[3]:
        raise InvalidInput(
            f"the images of {path} have {images.shape[3]} channels, those to learn from {shape[3]};"
            " --size makes both RGB"
        )
    present, codes = as_labels(found.labels, len(images), "test labels")
    unknown = set(present.tolist()) - set(classes.tolist())
    if unknown:
        raise InvalidInput(
            f"the test labels have a class {min(unknown)!r} that the training labels do not have"
        )
    return images, np.searchsorted(classes, present)[codes]
