"""From rows and labels to what a method selects by: the training run that `gmmatch.select` makes."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from ..records import IntArray
from ..training.config import TrainConfig, as_config
from ..training.images import as_inputs
from .runs import Signal, influence_of_rows, score_rows


@dataclass(frozen=True, eq=False)
class Trained:
    """What a training run gives to a method."""

    # The parameter that the method takes: `influence` for ``optimization``, `scores` for the others.
    params: dict[str, npt.NDArray[np.float64]]
    config: TrainConfig  # how it was trained


def train_for_selection(
    method: str,
    rows: Any,
    codes: IntArray,
    usable: npt.NDArray[np.bool_],
    *,
    images: Any = None,
    config: Any = None,
    seed: int = 0,
) -> Trained:
    """Train on all usable rows at once, and return one score (or influence vector) for every row.

    Parameters
    ----------
    method
        ``forgetting``, ``el2n``, ``grand`` or ``optimization``.
    rows
        Embeddings, shape (rows, features); a softmax regression learns them where there are no `images`.
    codes
        Class number of each row.
    usable
        Which rows to train on; the others get zeros, the least that a row can have.
    images
        uint8 images, one per row.
    config
        As :func:`gmmatch.training.config.as_config` takes it.
    seed
        Of the training run.

    Examples
    --------
    >>> codes = np.arange(40) % 2
    >>> rows = np.random.default_rng(0).normal(size=(40, 3)) + 4.0 * codes[:, None]
    >>> codes[6] = 1
    >>> trained = train_for_selection("el2n", rows, codes, np.ones(40, dtype=bool))
    >>> int(trained.params["scores"].argmax()), trained.config.network
    (6, 'linear')
    """
    settings = as_config(config, embeddings=images is None)
    n_rows = len(rows)
    if images is not None and len(images) != n_rows:
        raise InvalidInput(f"there are {len(images)} images for {n_rows} rows; expected one per row")
    whole = bool(usable.all())
    given = rows if images is None else images
    inputs = as_inputs(given if whole else given[usable], "X" if images is None else "images")
    labels = codes if whole else codes[usable]
    if method == "optimization":
        name = "influence"
        found = influence_of_rows(inputs, labels, settings, seed=seed).vectors
    else:
        name = "scores"
        found = score_rows(cast(Signal, method), inputs, labels, settings, seed=seed)
    if not whole:
        every = np.zeros((n_rows, *found.shape[1:]))
        every[usable] = found
        found = every
    return Trained({name: found}, settings)
