"""Forgetting events (Toneva et al., 2019): how often a network unlearns a row while it trains."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, InvalidInputType


def forgetting_scores(correct: Any) -> npt.NDArray[np.float64]:
    """Count each row's forgetting events; higher means harder.

    A forgetting event is an epoch in which the network is wrong about a row that it was right about
    the time before. A row that it never got right is the most forgotten of all (its authors: infinitely
    often) and gets the number of epochs, which no other row can reach.

    Parameters
    ----------
    correct
        Booleans of shape (epochs, rows): right or wrong when the row came up, as
        :attr:`gmmatch.training.TrainingRun.correct` holds them.

    Examples
    --------
    Learned at once; learned, forgotten and learned again; never learned:

    >>> forgetting_scores([[True, True, False], [True, False, False], [True, True, False]])
    array([0., 1., 3.])
    """
    history = np.asarray(correct)
    if history.dtype != bool:
        raise InvalidInputType(f"correct must be true or false; got values of type {history.dtype}")
    if history.ndim != 2 or len(history) == 0:
        raise InvalidInput(f"correct must have the shape (epochs, rows); got {history.shape}")
    events: npt.NDArray[np.float64] = np.sum(history[:-1] & ~history[1:], axis=0, dtype=np.float64)
    events[~history.any(axis=0)] = len(history)
    return events
