"""Herding: rows whose mean matches the mean of their class."""

from __future__ import annotations

from typing import Literal

from .gm_matching import GMMatching


class Herding(GMMatching):
    """Keep rows whose mean matches the mean of the data: GM Matching with another centre.

    Parameters
    ----------
    step
        `projection` picks the row with the largest inner product with the accumulated error, which
        starts at the centre; `residual` picks the row that leaves the smallest accumulated error.

    Notes
    -----
    Scores are the distance between the mean of the picks so far and the centre. Without batches a
    smaller budget's picks of a class are a prefix of a larger one's.

    Time and memory as for `GMMatching`.

    References
    ----------
    Welling: Herding Dynamical Weights to Learn, 2009. Chen, Welling, Smola: Super-Samples from Kernel
    Herding, 2010.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> rows = np.random.default_rng(0).normal(size=(200, 8))
    >>> herded = gmmatch.select(rows, keep=20, method="herding")
    >>> bool(herded.objective < gmmatch.select(rows, keep=20, method="random", center="mean").objective)
    True
    """

    name = "herding"

    step: str = "projection"
    center: object = "mean"
    fourier_features: int | Literal["auto", "off"] = "off"
    clusters: int | Literal["auto", "off"] = "off"
    guard: str = "off"
