"""From images and labels to scores: the training runs behind the signals."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...errors import InvalidInput, InvalidParameter
from ...validation import as_labels, as_seed, check_choice
from .. import training
from ..training.config import LINEAR, TrainConfig, as_config
from ..training.images import Inputs, as_inputs
from .influence import Influence, parameter_influence
from .scores import el2n_scores, forgetting_scores

if TYPE_CHECKING:
    from ..training.networks import Network

Layers = Literal["all", "last"]
Signal = Literal["forgetting", "el2n", "grand", "optimization"]

SIGNALS = ("forgetting", "el2n", "grand", "optimization")
EARLY = ("el2n", "grand")
"""The signals that look at networks early in training; the others look at whole runs."""


@dataclass(frozen=True, eq=False)
class SignalRun:
    """One training run as the signals see it."""

    early: Network  # the network after ``config.early_epoch()`` epochs
    final: Network | None  # the network after the last epoch, or None where the run stopped early
    # Shape (epochs, rows): whether the network was right about a row when it came up.
    correct: npt.NDArray[np.bool_]


def train_runs(
    images: Any,
    labels: Any,
    config: TrainConfig | None = None,
    *,
    seed: int = 0,
    whole: bool = True,
    folder: str | os.PathLike[str] | None = None,
) -> tuple[SignalRun, ...]:
    """Train ``config.seeds`` networks on all rows; several signals can share the result.

    Parameters
    ----------
    images
        uint8, shape (rows, height, width) or (rows, height, width, channels); or embeddings, shape
        (rows, features).
    labels
        One class per row, numbers or text; at least two classes.
    config
        What to train, and how; by default a ResNet-8 with the recipe ``cpu``, and for embeddings a
        softmax regression.
    seed
        Each network's own seed is drawn from it.
    whole
        Whether to train to the end; EL2N and GraNd need the early epochs only.
    folder
        Where to keep checkpoints, so that an interrupted call goes on where it was.
    """
    pictures, codes, _, config = _checked(images, labels, config)
    return tuple(
        train_run(pictures, codes, config, seed=seed, member=member, whole=whole, folder=folder)
        for member in range(config.seeds)
    )


def train_run(
    images: Any,
    labels: Any,
    config: TrainConfig | None = None,
    *,
    seed: int = 0,
    member: int = 0,
    whole: bool = True,
    folder: str | os.PathLike[str] | None = None,
) -> SignalRun:
    """Train one of the networks of :func:`train_runs`, the `member`-th from 0."""
    pictures, codes, classes, config = _checked(images, labels, config)
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    own = _member_seed(as_seed(seed), member)
    return _train_member(pictures, codes, classes, config, own, whole, member, folder)


def score_rows(
    name: Signal,
    images: Any,
    labels: Any,
    config: TrainConfig | None = None,
    *,
    seed: int = 0,
    runs: Sequence[SignalRun] | None = None,
    folder: str | os.PathLike[str] | None = None,
    layers: Layers = "all",
) -> npt.NDArray[np.float64]:
    """Return one score per row, the mean over ``config.seeds`` networks; higher means harder.

    `name`: ``forgetting``: forgetting events over the whole run. ``el2n`` and ``grand``: length of the error,
    or of the gradient, early in training. ``optimization``: how far removing the row moves the last layer of
    the trained network (root mean square over networks); its own selection is :func:`keep_least_change` of
    :func:`influence_of_rows`. `images`, `labels`, `config`, `seed`, `folder`: as :func:`train_runs` takes
    them. `runs`: runs of :func:`train_runs` on the same rows, to train only once for several signals.
    `layers`: whose gradient ``grand`` takes: ``all`` parameters, or the ``last`` layer's, which is as cheap
    as EL2N.

    >>> from gmmatch.lab.training import TrainConfig
    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(32) % 2
    >>> images = (rng.integers(0, 90, (32, 28, 28)) + 90 * labels[:, None, None]).astype(np.uint8)
    >>> config = TrainConfig(recipe="cpu-plain", epochs=2, batch_size=8, device="cpu")
    >>> score_rows("el2n", images, labels, config).shape
    (32,)
    """
    check_choice(name, SIGNALS, "signal")
    if name == "optimization":
        return influence_of_rows(images, labels, config, seed=seed, runs=runs, folder=folder).scores
    if runs is None:
        whole = name not in EARLY
        runs = train_runs(images, labels, config, seed=seed, whole=whole, folder=folder)
    pictures, codes, _, config = _checked(images, labels, config)
    scores = [_score(name, run, pictures, codes, config, layers) for run in runs]
    return np.asarray(np.mean(scores, axis=0))


def influence_of_rows(
    images: Any,
    labels: Any,
    config: TrainConfig | None = None,
    *,
    seed: int = 0,
    runs: Sequence[SignalRun] | None = None,
    folder: str | os.PathLike[str] | None = None,
    l2: float = 1e-3,
    sketch: int | None = 256,
) -> Influence:
    """Return each row's influence on the last layer of the trained networks, side by side.

    With several networks the vectors are joined and divided by the root of their number, so that a
    row's length is the root mean square of its lengths.
    """
    if runs is None:
        runs = train_runs(images, labels, config, seed=seed, folder=folder)
    pictures, codes, _, config = _checked(images, labels, config)
    parts = []
    for member, run in enumerate(runs):
        if run.final is None:
            raise InvalidParameter("optimization needs runs that went to the end; these stopped early")
        rows = training.features(run.final, pictures, device=config.device)
        parts.append(
            parameter_influence(
                rows,
                codes,
                l2=l2,
                sketch=sketch,
                random_state=_member_seed(as_seed(seed), member),
                device=None if training.resolve_device(config.device).type == "cpu" else config.device,
            )
        )
    return Influence(
        vectors=np.concatenate([part.vectors for part in parts], axis=1) / np.sqrt(len(parts)),
        exact=all(part.exact for part in parts),
        converged=all(part.converged for part in parts),
    )


def _score(
    name: str, run: SignalRun, pictures: Inputs, codes: IntArray, config: TrainConfig, layers: Layers
) -> npt.NDArray[np.float64]:
    if name == "forgetting":
        return forgetting_scores(run.correct)
    if name == "el2n":
        return el2n_scores(training.predict(run.early, pictures, device=config.device), codes)
    from .grand import grand_scores

    return grand_scores(run.early, pictures, codes, layers=layers, device=config.device)


def _train_member(
    pictures: Inputs,
    codes: IntArray,
    classes: int,
    config: TrainConfig,
    seed: int,
    whole: bool,
    member: int,
    folder: str | os.PathLike[str] | None,
) -> SignalRun:
    """Train one network, keeping a copy of what it was after the early epochs."""
    early_epoch = config.early_epoch()
    early_file = None if folder is None else Path(folder) / f"network-{member}-early.pt"
    early: list[Network] = []

    def keep_early(epoch: int, network: Network) -> None:
        if epoch == early_epoch:
            early.append(copy.deepcopy(network).eval())
            if early_file is not None:
                training.save_checkpoint(early_file, network)

    network = training.build_network(config.network, classes, pictures.shape[-1], seed=seed)
    run = training.train(
        network,
        pictures,
        codes,
        config.resolved(),
        seed=seed,
        device=config.device,
        precision=config.precision,
        checkpoint=None if folder is None else Path(folder) / f"network-{member}.pt",
        stop_after=None if whole else early_epoch,
        on_epoch=keep_early,
    )
    if not early and early_file is not None:
        early.append(training.load_checkpoint(early_file).network)
    return SignalRun(early=early[0], final=network if run.finished else None, correct=run.correct)


def _checked(
    images: Any, labels: Any, config: TrainConfig | None
) -> tuple[Inputs, IntArray, int, TrainConfig]:
    pictures = as_inputs(images)
    config = as_config(config, embeddings=pictures.ndim == 2)
    if (config.network == LINEAR) != (pictures.ndim == 2):
        raise InvalidInput(
            f"the network {config.network!r} takes {'embeddings' if config.network == LINEAR else 'images'};"
            f" got an array of shape {pictures.shape}"
        )
    classes, codes = as_labels(labels, len(pictures))
    if len(classes) < 2:
        raise InvalidInput(f"a signal needs labels of at least two classes; got only {classes[0]!r}")
    return pictures, codes, len(classes), config


def _member_seed(seed: int, member: int) -> int:
    return int(np.random.SeedSequence([seed, member]).generate_state(1)[0])
