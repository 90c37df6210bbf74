"""The methods that need a training run: entry points of the package, which the registry finds by name."""

from functools import partial
from typing import Any

from ..arrays import IntArray, Mask, Vector
from ..selectors import Method, TopScores
from .optimization import Optimization


def train(
    signal: str, rows: Any, codes: IntArray, usable: Mask, **how: Any
) -> tuple[dict[str, Vector], dict[str, Any]]:
    """Make the training run: `gmmatch.lab.signals.train_for_selection`, imported when it is needed."""
    from .signals import train_for_selection

    trained = train_for_selection(signal, rows, codes, usable, **how)
    return trained.params, trained.config.as_dict()


def _ranked(name: str, keeps: str, cost: str, source: str) -> Method:
    """Return a method that keeps the rows of the highest scores."""
    run = partial(train, name)
    return Method(name, TopScores, keeps, cost, source, {"prefer": "highest"}, train=run, nested=True)


FORGETTING = _ranked(
    "forgetting", "the rows that a network forgets most often while it trains",
    "a training run", "Toneva et al. 2019",
)  # fmt: skip
EL2N = _ranked(
    "el2n", "the rows that a network errs most on, early in training",
    "the first epochs of a training run", "Paul et al. 2021",
)  # fmt: skip
GRAND = _ranked(
    "grand", "the rows with the longest gradients, early in training",
    "the first epochs of a training run", "Paul et al. 2021",
)  # fmt: skip
OPTIMIZATION = Method(
    "optimization", Optimization, "the rows whose complement moves the last layer least",
    "a training run, O(n^2) per class", "Yang et al. 2022", train=partial(train, "optimization"),
)  # fmt: skip
