"""Training recipes as data: how long, how fast, with which augmentation. No torch here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ..validation import check_choice

Precision = Literal["auto", "full", "mixed"]


@dataclass(frozen=True)
class Recipe:
    """What a training run does, apart from the network, the data and the seed.

    Attributes
    ----------
    name
        Name among :data:`RECIPES`, for reports.
    epochs, batch_size
        Passes over the rows, and rows per step.
    learning_rate
        The first rate (``steps``) or the highest (``one-cycle``).
    schedule
        ``steps`` divides the rate by `divide_by` after each epoch in `milestones`; ``one-cycle``
        rises linearly over the first `warmup` share of all steps and falls linearly to zero.
    momentum, nesterov, weight_decay
        Of stochastic gradient descent; the decay acts on all parameters.
    crop
        Pixels of black border from which an image of the old size is cut at random; 0 for none.
    flip
        Whether half of the images, drawn at random, are mirrored left to right.
    """

    name: str
    epochs: int
    batch_size: int
    learning_rate: float
    schedule: Literal["steps", "one-cycle"]
    weight_decay: float
    momentum: float = 0.9
    nesterov: bool = False
    milestones: tuple[int, ...] = ()
    divide_by: float = 1.0
    warmup: float = 0.0
    crop: int = 0
    flip: bool = False

    def rate_at(self, step: int, steps_per_epoch: int) -> float:
        """Return the learning rate of a step, counted from 0 over all epochs.

        Examples
        --------
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


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        recipe.name: recipe
        for recipe in (
            Recipe(
                name="cifar",
                epochs=200,
                batch_size=128,
                learning_rate=0.1,
                schedule="steps",
                weight_decay=5e-4,
                milestones=(60, 120, 160),
                divide_by=5.0,
                crop=4,
                flip=True,
            ),
            Recipe(
                name="tiny-imagenet",
                epochs=90,
                batch_size=256,
                learning_rate=0.1,
                schedule="steps",
                weight_decay=1e-4,
                milestones=(30, 60),
                divide_by=10.0,
                flip=True,
            ),
            Recipe(
                name="cpu",
                epochs=10,
                batch_size=128,
                learning_rate=0.2,
                schedule="one-cycle",
                nesterov=True,
                warmup=0.25,
                weight_decay=5e-4,
                crop=4,
                flip=True,
            ),
            Recipe(
                name="cpu-plain",
                epochs=5,
                batch_size=128,
                learning_rate=0.2,
                schedule="one-cycle",
                nesterov=True,
                warmup=0.25,
                weight_decay=5e-4,
            ),
            # For deep networks and few steps: EfficientNet-B0 does not learn at ten times this rate.
            Recipe(
                name="cpu-deep",
                epochs=5,
                batch_size=32,
                learning_rate=0.02,
                schedule="one-cycle",
                nesterov=True,
                warmup=0.25,
                weight_decay=5e-4,
            ),
            Recipe(
                name="fine-tune",
                epochs=10,
                batch_size=128,
                learning_rate=0.05,
                schedule="one-cycle",
                nesterov=True,
                warmup=0.1,
                weight_decay=5e-4,
            ),
            Recipe(
                name="linear",
                epochs=20,
                batch_size=64,
                learning_rate=0.5,
                schedule="one-cycle",
                nesterov=True,
                warmup=0.05,
                weight_decay=5e-4,
            ),
        )
    }
)


def as_recipe(recipe: Recipe | str) -> Recipe:
    """Return the recipe of that name, or the recipe itself."""
    if isinstance(recipe, Recipe):
        return recipe
    return RECIPES[check_choice(recipe, RECIPES, "recipe")]
