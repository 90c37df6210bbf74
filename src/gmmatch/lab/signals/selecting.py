"""From rows and labels to what a method selects by: the training run that `gmmatch.select` makes."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...compute.runner import hold_rows
from ...errors import InvalidInput
from ..training.config import TrainConfig, as_config
from ..training.images import as_inputs, read_images
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
    device: str = "auto",
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
        uint8 images, one per row, or a file or folder of them.
    config
        As :func:`gmmatch.lab.training.config.as_config` takes it.
    device
        Where to train; `auto` leaves it to `config`.
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
    if isinstance(images, (str, os.PathLike)):
        images = read_images(Path(images))[0]
    settings = as_config(config, embeddings=images is None)
    if device != "auto":
        settings = replace(settings, device=device)
    n_rows = len(rows)
    if images is not None and len(images) != n_rows:
        raise InvalidInput(f"there are {len(images)} images for {n_rows} rows; expected one per row")
    whole = bool(usable.all())
    given = images
    if images is None:
        given = hold_rows(rows, np.flatnonzero(usable))
    elif not whole:
        given = images[usable]
    inputs = as_inputs(given, "X" if images is None else "images")
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
