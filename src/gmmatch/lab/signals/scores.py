"""Scores of rows: EL2N (Paul et al., 2021), forgetting events (Toneva et al., 2019), and their file."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput, InvalidInputType
from ...outputs import write_array
from ...validation import as_rows
from ..training.images import as_codes
from ..training.softmax import errors


def el2n_scores(logits: Any, labels: Any) -> npt.NDArray[np.float64]:
    """Return ||softmax(logits) - one-hot label|| of each row; higher means harder, at most sqrt(2).

    `logits`: shape (rows, classes), from a network early in training. `labels`: class numbers from 0.

    >>> el2n_scores(np.array([[0.0, 0.0], [50.0, 0.0], [50.0, 0.0]]), np.array([0, 0, 1])).round(4)
    array([0.7071, 0.    , 1.4142])
    """
    rows = as_rows(logits, "logits")
    codes = as_codes(labels, len(rows), rows.shape[1])
    return np.asarray(np.linalg.norm(errors(rows, codes), axis=1))


def forgetting_scores(correct: Any) -> npt.NDArray[np.float64]:
    """Count each row's forgetting events; higher means harder.

    A forgetting event is an epoch in which the network is wrong about a row that it was right about
    the time before. A row that it never got right is the most forgotten of all (its authors: infinitely
    often) and gets the number of epochs, which no other row can reach.

    `correct`: booleans of shape (epochs, rows): right or wrong when the row came up, as
    :attr:`gmmatch.lab.training.TrainingRun.correct` holds them.

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


def save_scores(path: str | os.PathLike[str], scores: Any) -> None:
    """Write one score per row; the file appears whole or not at all.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "el2n.npy"
    >>> save_scores(file, [0.5, 0.25])
    >>> load_scores(file, n_rows=2)
    array([0.5 , 0.25])
    """
    values = _checked(np.asarray(scores), "scores")
    write_array(values, Path(path))


def load_scores(path: str | os.PathLike[str], n_rows: int | None = None) -> npt.NDArray[np.float64]:
    """Read scores written by :func:`save_scores`, and check that there is one for each of `n_rows`."""
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InvalidInput(f"cannot read the scores {os.fspath(path)}: {error}") from error
    values = _checked(found, os.fspath(path))
    if n_rows is not None and len(values) != n_rows:
        raise InvalidInput(
            f"{os.fspath(path)} has {len(values)} scores for {n_rows} rows; expected one per row"
        )
    return values


def _checked(scores: Any, name: str) -> npt.NDArray[np.float64]:
    if not isinstance(scores, np.ndarray) or scores.ndim != 1 or scores.dtype.kind not in "fiu":
        raise InvalidInput(f"{name} must hold one number per row")
    values = scores.astype(np.float64)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InvalidInput(f"{name} must be finite; got {values[row]} at row {row}")
    return values
