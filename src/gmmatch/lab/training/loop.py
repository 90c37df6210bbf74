"""The training loop: seeded, resumable, the same on every device up to rounding.

All randomness of an epoch comes from the seed and the epoch's number, so an interrupted run that
starts again at an epoch's beginning draws exactly what an undisturbed run draws.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from ...errors import InvalidInput, InvalidParameter
from ...progress import task
from ...validation import as_seed, check_choice, check_positive_int, fingerprint
from .augment import augment
from .checkpoint import load_checkpoint, save_checkpoint
from .images import Inputs, as_codes, as_inputs
from .inference import check_fits, resolve_device, to_pixels
from .networks import Network
from .networks.base import seeded
from .recipes import Precision, Recipe, as_recipe

OnEpoch = Callable[[int, Network], None]


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """What happened in a training run."""

    # Per epoch, over the batches as they were trained on (augmented, before each step).
    losses: tuple[float, ...]
    accuracies: tuple[float, ...]
    # Shape (epochs, rows): whether the network was right about a row when it came up in an epoch. This is the
    # history that forgetting events are counted in.
    correct: npt.NDArray[np.bool_]
    epochs: int  # epochs done, those before an interruption included
    seconds: float  # time taken, those before an interruption included
    finished: bool  # whether the recipe's last epoch is done


def train(
    network: Network,
    images: Any,
    labels: Any,
    recipe: Recipe | str = "cpu",
    *,
    seed: int = 0,
    device: str | torch.device = "auto",
    precision: Precision = "auto",
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = True,
    stop_after: int | None = None,
    on_epoch: OnEpoch | None = None,
    label_names: Sequence[Any] | None = None,
) -> TrainingRun:
    """Train `network` in place.

    An epoch is split into batches of nearly equal size, at most the recipe's, so that every row
    comes up once per epoch and no batch is left with a single row.

    Parameters
    ----------
    network
        From :func:`build_network` (or a loaded one, to fine-tune it). An untrained one takes the
        mean and spread of its pixels from `images`.
    images
        uint8, shape (rows, height, width) or (rows, height, width, channels); a memory map is read
        batch by batch. For the network ``linear``, rows of numbers.
    labels
        Class numbers from 0 to ``network.classes - 1``.
    recipe
        A :class:`Recipe` or the name of one.
    seed
        Of the order of rows, the augmentation and dropout.
    device
        ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.
    precision
        ``mixed`` computes in bfloat16 where torch deems it safe; ``auto`` means ``mixed`` on CUDA
        devices that have it and ``full`` elsewhere.
    checkpoint
        File to write after every epoch, whole or not at all.
    resume
        Whether to go on from `checkpoint` if it is there; it must be of the same run. On the CPU the
        final weights are those of a run that was never interrupted, bit for bit.
    stop_after
        Epochs after which to stop although the recipe goes on.
    on_epoch
        Called after each epoch, before the checkpoint is written, with the number of epochs done and
        the network.
    label_names
        What the class numbers stand for, to be kept in the checkpoint.

    Examples
    --------
    >>> from gmmatch.lab.training import RECIPES, build_network
    >>> from dataclasses import replace
    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(64) % 2
    >>> images = (rng.integers(0, 100, (64, 28, 28)) + 100 * labels[:, None, None]).astype(np.uint8)
    >>> network = build_network("resnet8", classes=2, channels=1)
    >>> run = train(network, images, labels, replace(RECIPES["cpu-plain"], batch_size=16), device="cpu")
    >>> run.epochs, run.correct.shape
    (5, (5, 64))
    """
    recipe = as_recipe(recipe)
    pictures = as_inputs(images)
    check_fits(network, pictures)
    if pictures.ndim == 2 and (recipe.crop or recipe.flip):
        raise InvalidParameter(
            f"recipe {recipe.name!r} crops or flips images; rows of numbers need one that does not"
        )
    codes = as_codes(labels, len(pictures), network.classes)
    if len(pictures) < 2:
        raise InvalidInput("training needs at least 2 rows; got 1")
    if checkpoint is not None and not Path(checkpoint).parent.is_dir():
        raise InvalidInput(f"cannot write {os.fspath(checkpoint)}: its folder does not exist")
    last = recipe.epochs
    if stop_after is not None:
        last = min(last, check_positive_int(stop_after, "stop_after"))
    state = _State.start(network, pictures, codes, recipe, as_seed(seed), resolve_device(device), precision)
    if checkpoint is not None and resume and Path(checkpoint).exists():
        state.restore(checkpoint)
    while state.epoch < last:
        state.run_epoch(pictures, codes)
        if on_epoch is not None:
            on_epoch(state.epoch, network)
        if checkpoint is not None:
            state.save(checkpoint, label_names)
    network.eval()
    return state.result()


@dataclass
class _State:
    """A run between two epochs."""

    network: Network
    optimiser: torch.optim.SGD
    recipe: Recipe
    seed: int
    device: torch.device
    mixed: bool
    identity: Mapping[str, Any]
    correct: npt.NDArray[np.bool_]
    losses: list[float]
    shape: tuple[int, ...]  # of an image
    seconds: float = 0.0

    @classmethod
    def start(
        cls,
        network: Network,
        pictures: Inputs,
        codes: npt.NDArray[np.int64],
        recipe: Recipe,
        seed: int,
        device: torch.device,
        precision: str,
    ) -> _State:
        """Return a run before its first epoch."""
        check_choice(precision, ("auto", "full", "mixed"), "precision")
        identity = {
            "network": network.name,
            "recipe": asdict(recipe) | {"milestones": list(recipe.milestones)},
            "seed": seed,
            "data": fingerprint(pictures, codes),
            "initial weights": _digest(network),
        }
        if not network.standardised:
            network.standardise(pictures)
        network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        optimiser = torch.optim.SGD(
            network.parameters(),
            lr=recipe.learning_rate,
            momentum=recipe.momentum,
            nesterov=recipe.nesterov,
            weight_decay=recipe.weight_decay,
        )
        has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
        mixed = precision == "mixed" or (precision == "auto" and has_bfloat16)
        nothing = np.empty((0, len(pictures)), dtype=bool)
        return cls(network, optimiser, recipe, seed, device, mixed, identity, nothing, [], pictures.shape[1:])

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return len(self.losses)

    def run_epoch(self, pictures: Inputs, codes: npt.NDArray[np.int64]) -> None:
        """Show every row once, and note the loss and which rows the network was right about."""
        began = time.perf_counter()
        epoch, rows = self.epoch, len(pictures)
        steps = math.ceil(rows / self.recipe.batch_size)
        rng = np.random.default_rng([self.seed, epoch])
        order = rng.permutation(rows)
        correct = torch.zeros(rows, dtype=torch.bool, device=self.device)
        loss_sum = torch.zeros((), device=self.device)
        self.network.train()
        with seeded(self.seed, epoch), task(self._headline(), total=rows) as advance:
            for step, picked in enumerate(np.array_split(order, steps)):
                for group in self.optimiser.param_groups:
                    group["lr"] = self.recipe.rate_at(epoch * steps + step, steps)
                batch = torch.from_numpy(pictures[picked]).to(self.device)
                pixels = to_pixels(augment(batch, self.recipe.crop, self.recipe.flip, rng))
                target = torch.from_numpy(codes[picked]).to(self.device)
                with torch.autocast(self.device.type, torch.bfloat16, enabled=self.mixed):
                    logits = self.network(pixels)
                    loss = F.cross_entropy(logits, target)
                self.optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                self.optimiser.step()
                correct[torch.from_numpy(picked).to(self.device)] = logits.detach().argmax(1) == target
                loss_sum += loss.detach() * len(picked)
                advance(len(picked))
        mean_loss = float(loss_sum) / rows
        if not math.isfinite(mean_loss):
            raise InvalidInput(
                f"the loss is {mean_loss} in epoch {epoch + 1}; the learning rate"
                f" {self.recipe.learning_rate:g} is too high for this network and data"
            )
        self.losses.append(mean_loss)
        self.correct = np.concatenate((self.correct, correct.cpu().numpy()[None]))
        self.seconds += time.perf_counter() - began

    def _headline(self) -> str:
        """Say where the run stands: epoch, accuracy so far, time left."""
        line = f"epoch {self.epoch + 1} of {self.recipe.epochs}"
        if self.epoch:
            left = self.seconds / self.epoch * (self.recipe.epochs - self.epoch)
            line += f", {self.correct[-1].mean():.1%} right in the last one, {_duration(left)} left"
        return line

    def save(self, path: str | os.PathLike[str], label_names: Sequence[Any] | None) -> None:
        """Write the network; and, until the last epoch is done, what the next one needs."""
        metadata = {
            "run": self.identity,
            "shape": list(self.shape),
            "losses": self.losses,
            "accuracies": self.correct.mean(axis=1).tolist(),
            "seconds": self.seconds,
            "versions": {"torch": str(torch.__version__), "numpy": np.__version__},
        }
        progress = {
            "correct": torch.from_numpy(self.correct),
            "optimiser": None if self.epoch == self.recipe.epochs else self.optimiser.state_dict(),
        }
        save_checkpoint(path, self.network, labels=label_names, metadata=metadata, progress=progress)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Take up a run where its checkpoint left it."""
        saved = load_checkpoint(path)
        if saved.progress is None or "run" not in saved.metadata:
            raise InvalidInput(f"{os.fspath(path)} does not hold a training run that could be resumed")
        run = saved.metadata["run"]
        differing = [key for key, value in self.identity.items() if run.get(key) != value]
        if differing:
            raise InvalidInput(
                f"{os.fspath(path)} is of another training run (its {' and '.join(differing)} differ);"
                " name another file, or start anew without resuming"
            )
        self.network.load_state_dict(saved.network.state_dict())
        if saved.progress["optimiser"] is not None:
            self.optimiser.load_state_dict(saved.progress["optimiser"])
        self.losses = list(saved.metadata["losses"])
        self.correct = saved.progress["correct"].numpy()
        self.seconds = saved.metadata["seconds"]

    def result(self) -> TrainingRun:
        """Return the record of the run."""
        return TrainingRun(
            losses=tuple(self.losses),
            accuracies=tuple(self.correct.mean(axis=1).tolist()),
            correct=self.correct,
            epochs=self.epoch,
            seconds=self.seconds,
            finished=self.epoch == self.recipe.epochs,
        )


def _digest(network: Network) -> str:
    """Return a short digest of a network's weights."""
    digest = hashlib.blake2b(digest_size=16)
    for key, value in network.state_dict().items():
        digest.update(key.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _duration(seconds: float) -> str:
    """Return a duration as people say it.

    >>> _duration(42.0), _duration(150.0), _duration(7300.0)
    ('42 s', '2 min 30 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
