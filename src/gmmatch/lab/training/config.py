"""The training run behind a signal, as data that a file can hold. No torch here."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ...errors import InvalidInput, InvalidParameter
from ...validation import check_choice, check_parameters, check_positive_int
from .recipes import RECIPES, Precision, Recipe

LINEAR = "linear"
NETWORKS = ("resnet8", "resnet18", "resnet50", "vgg16", "shufflenetv2", "senet18", "efficientnet-b0")

# What a configuration leaves open, where the rows are embeddings and not images.
FOR_EMBEDDINGS = {"network": LINEAR, "recipe": "linear", "device": "cpu"}


@dataclass(frozen=True)
class TrainConfig:
    """Which network is trained how, how often, and when it is looked at.

    Attributes
    ----------
    network
        One of :data:`NETWORKS` for images; ``linear`` for embeddings.
    recipe
        Name of a recipe.
    epochs, batch_size
        In place of the recipe's, where given; milestones of the recipe move in proportion.
    seeds
        Number of networks, each with its own weights and order of rows; scores are their mean.
    score_at
        Epochs after which EL2N and GraNd look at the network: early in training, as their authors
        found best. None means a tenth of all epochs, at least 1.
    device, precision
        Where and how to compute, as :func:`gmmatch.lab.training.train` takes them.

    Examples
    --------
    >>> TrainConfig(epochs=20).resolved().epochs, TrainConfig(epochs=20).early_epoch()
    (20, 2)
    """

    network: str = "resnet8"
    recipe: str = "cpu"
    epochs: int | None = None
    batch_size: int | None = None
    seeds: int = 1
    score_at: int | None = None
    device: str = "auto"
    precision: Precision = "auto"

    def __post_init__(self) -> None:
        check_choice(self.network, (*NETWORKS, LINEAR), "network")
        check_choice(self.recipe, RECIPES, "recipe")
        check_choice(self.precision, ("auto", "full", "mixed"), "precision")
        for name in ("epochs", "batch_size", "score_at"):
            if getattr(self, name) is not None:
                check_positive_int(getattr(self, name), name)
        check_positive_int(self.seeds, "seeds")
        if not isinstance(self.device, str):
            raise InvalidParameter(f"device must be text such as 'auto' or 'cpu'; got {self.device!r}")
        if self.early_epoch() > self.resolved().epochs:
            raise InvalidParameter(
                f"score_at must be at most the run's {self.resolved().epochs} epochs; got {self.score_at}"
            )

    def resolved(self) -> Recipe:
        """Return the recipe with this configuration's epochs and batch size."""
        base = RECIPES[self.recipe]
        epochs = self.epochs or base.epochs
        return replace(
            base,
            epochs=epochs,
            batch_size=self.batch_size or base.batch_size,
            milestones=tuple(round(milestone * epochs / base.epochs) for milestone in base.milestones),
        )

    def early_epoch(self) -> int:
        """Return the epochs after which EL2N and GraNd look at the network."""
        return self.score_at or max(1, self.resolved().epochs // 10)

    def as_dict(self) -> dict[str, Any]:
        """Return the configuration as plain data, for :meth:`from_dict`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainConfig:
        """Build a configuration from plain data, refusing names that it does not have."""
        check_parameters(values, [field.name for field in fields(cls)], "a training configuration")
        return cls(**values)


def as_config(
    given: TrainConfig | Mapping[str, Any] | str | os.PathLike[str] | None, *, embeddings: bool = False
) -> TrainConfig:
    """Return a configuration from any form that users give it in.

    `given`: a configuration, plain data, or a file of it; None for the defaults. `embeddings`: whether the
    rows are embeddings, for which plain data and files that name no network mean a softmax regression on the
    CPU.
    """
    if isinstance(given, TrainConfig):
        return given
    if isinstance(given, (str, os.PathLike)):
        given = _read_settings(Path(given))
    if given is not None and not isinstance(given, Mapping):
        raise InvalidParameter(
            f"a training configuration must be a TrainConfig, a dictionary or a file; got {given!r}"
        )
    return TrainConfig.from_dict((FOR_EMBEDDINGS if embeddings else {}) | dict(given or {}))


def load_config(path: str | os.PathLike[str]) -> TrainConfig:
    r"""Read a configuration from a ``.toml`` or ``.json`` file.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "train.toml"
    >>> _ = file.write_text('network = "resnet8"\nseeds = 3\n')
    >>> load_config(file).seeds
    3
    """
    return TrainConfig.from_dict(_read_settings(Path(path)))


def _read_settings(source: Path) -> dict[str, Any]:
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read the training configuration {source}: {error}") from error
    if source.suffix not in (".toml", ".json"):
        raise InvalidInput(f"{source} has the ending {source.suffix!r}; expected .toml or .json")
    try:
        values = (tomllib if source.suffix == ".toml" else json).loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{source} is not valid {source.suffix[1:].upper()}: {error}") from error
    if not isinstance(values, dict):
        raise InvalidInput(f"{source} must hold one table of settings; got {type(values).__name__}")
    return values
