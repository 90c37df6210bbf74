"""Scores on disk: one float64 per row in a plain ``.npy`` file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from ..files import whole_file


def save_scores(path: str | os.PathLike[str], scores: Any) -> None:
    """Write one score per row; the file appears whole or not at all.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "el2n.npy"
    >>> save_scores(file, [0.5, 0.25])
    >>> load_scores(file, n_rows=2)
    array([0.5 , 0.25])
    """
    values = _checked(np.asarray(scores), "scores")
    with whole_file(path) as partial, open(partial, "wb") as stream:
        np.save(stream, values, allow_pickle=False)


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
