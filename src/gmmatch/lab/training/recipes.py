"""Training recipes as data: how long, how fast, with which augmentation. No torch here."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from ...validation import check_choice

Precision = Literal["auto", "full", "mixed"]


@dataclass(frozen=True)
class Recipe:
    """What a training run does, apart from the network, the data and the seed."""

    name: str  # among :data:`RECIPES`, for reports
    # Passes over the rows, and rows per step.
    epochs: int
    batch_size: int
    learning_rate: float  # the first rate (``steps``) or the highest (``one-cycle``)
    # ``steps`` divides the rate by `divide_by` after each epoch in `milestones`; ``one-cycle`` rises linearly
    # over the first `warmup` share of all steps and falls linearly to zero.
    schedule: Literal["steps", "one-cycle"]
    weight_decay: float  # acts on all parameters
    momentum: float = 0.9  # of stochastic gradient descent
    nesterov: bool = False
    milestones: tuple[int, ...] = ()
    divide_by: float = 1.0
    warmup: float = 0.0
    crop: int = 0  # pixels of black border from which an image of the old size is cut at random; 0 for none
    flip: bool = False  # whether half of the images, drawn at random, are mirrored left to right

    def rate_at(self, step: int, steps_per_epoch: int) -> float:
        """Return the learning rate of a step, counted from 0 over all epochs.

        >>> cifar = RECIPES["cifar"]
        >>> [round(cifar.rate_at(epoch * 391, 391), 5) for epoch in (0, 59, 60, 120, 160)]
        [0.1, 0.1, 0.02, 0.004, 0.0008]
        """
        if self.schedule == "steps":
            passed = sum(step >= milestone * steps_per_epoch for milestone in self.milestones)
            return self.learning_rate / self.divide_by**passed
        last = self.epochs * steps_per_epoch
        peak = self.warmup * last
        if step < peak:
            return self.learning_rate * (step + 1) / (math.floor(peak) + 1)
        return self.learning_rate * (last - step) / (last - peak)


_ONE_CYCLE: dict[str, Any] = {
    "schedule": "one-cycle", "weight_decay": 5e-4, "nesterov": True, "warmup": 0.25
}  # fmt: skip
# Name, epochs, batch size and learning rate, then what else a recipe asks for.
_ALL = (
    Recipe("cifar", 200, 128, 0.1, "steps", 5e-4, milestones=(60, 120, 160), divide_by=5, crop=4, flip=True),
    Recipe("tiny-imagenet", 90, 256, 0.1, "steps", 1e-4, milestones=(30, 60), divide_by=10, flip=True),
    Recipe("cpu", 10, 128, 0.2, **_ONE_CYCLE, crop=4, flip=True),
    Recipe("cpu-plain", 5, 128, 0.2, **_ONE_CYCLE),
    # For deep networks and few steps: EfficientNet-B0 does not learn at ten times this rate.
    Recipe("cpu-deep", 5, 32, 0.02, **_ONE_CYCLE),
    Recipe("fine-tune", 10, 128, 0.05, **_ONE_CYCLE | {"warmup": 0.1}),
    Recipe("linear", 20, 64, 0.5, **_ONE_CYCLE | {"warmup": 0.05}),
)
RECIPES: Mapping[str, Recipe] = MappingProxyType({recipe.name: recipe for recipe in _ALL})


def as_recipe(recipe: Recipe | str) -> Recipe:
    """Return the recipe of that name, or the recipe itself."""
    if isinstance(recipe, Recipe):
        return recipe
    return RECIPES[check_choice(recipe, RECIPES, "recipe")]
