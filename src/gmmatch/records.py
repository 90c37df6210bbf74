"""Frozen records that travel between the layers and out to users."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import InvalidInput
from .files import whole_file

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.int64]

METADATA_KEY = b"gmmatch"
FORMAT_VERSION = 1
_MOST_PACKED = 1 << 18  # numbers: two megabytes, more than the centres of most data


@dataclass(frozen=True, eq=False)
class GeometricMedian:
    """A point that is nearly the geometric median, and the proof of how nearly.

    Attributes
    ----------
    point
        The estimate, float64.
    objective
        Weighted sum of the distances from the rows to `point`.
    epsilon
        Certified: the objective exceeds the smallest possible one by at most this share of it.
    n_iter
        Passes over the rows that were needed.
    converged
        Whether the requested epsilon was reached.
    """

    point: npt.NDArray[np.float64]
    objective: float
    epsilon: float
    n_iter: int
    converged: bool


@dataclass(frozen=True, eq=False)
class Selection:
    """The rows to keep, in the order they were picked, and what is needed to repeat the choice.

    Attributes
    ----------
    indices
        Row numbers to keep, unique, in pick order. Every prefix is itself a class-proportional subset.
    scores
        One number per pick. For matching methods: the distance between the mean of the picks so far
        (of that class) and the centre (of that class).
    distances
        Distance of each picked row to the centre of its class.
    objective
        Final distance between the mean of the picks and the centre; over several classes the mean of
        the classes' values, weighted by their picks.
    method, params, random_state
        What to call to get the same rows again.
    n_rows
        Rows in the input.
    labels, ids
        Label and id of each kept row, where the input had them.
    epsilon
        Certified accuracy of the centre (the worst class): of a geometric median or Huber centre; 0 for a
        mean, which is exact; None for others.
    tiers
        For every input row how far it is trusted (0: most), where the guard looked at them.
    centers
        The centre that the picks of each class were compared with, in the order of the sorted labels;
        one where the rows were not divided by class. Files leave out more than a quarter of a million
        numbers.
    details
        Further facts that a method reports, as plain data.
    versions, fingerprint
        Versions of the libraries used, and a fingerprint of the input.
    """

    indices: IntArray
    scores: npt.NDArray[np.float64]
    distances: npt.NDArray[np.float64]
    objective: float
    method: str
    params: Mapping[str, Any]
    n_rows: int
    random_state: int | None = 0
    labels: npt.NDArray[Any] | None = None
    ids: npt.NDArray[Any] | None = None
    epsilon: float | None = None
    tiers: npt.NDArray[np.int8] | None = None
    centers: npt.NDArray[np.float64] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = ""

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return (
            f"Selection({len(self)} of {self.n_rows} rows by {self.method}, objective {self.objective:.4g})"
        )

    def mask(self) -> npt.NDArray[np.bool_]:
        """Return a boolean array over the input's rows, true where the row is kept.

        Examples
        --------
        >>> import numpy as np, gmmatch
        >>> selection = gmmatch.select(np.eye(4), keep=2)
        >>> selection.mask().sum()
        np.int64(2)
        """
        kept = np.zeros(self.n_rows, dtype=bool)
        kept[self.indices] = True
        return kept

    def apply(self, x: Any) -> Any:
        """Return the kept rows of the data that the selection was made for, in pick order.

        Parameters
        ----------
        x
            A list, a NumPy array, a torch tensor, a pandas, polars or Arrow table, a Hugging Face
            ``Dataset`` (its ``select``) or a torch ``Dataset`` (a ``Subset``), with one entry per input row.

        Examples
        --------
        >>> import numpy as np, gmmatch
        >>> selection = gmmatch.select(np.eye(3), keep=1.0)
        >>> sorted(selection.apply(["a", "b", "c"]))
        ['a', 'b', 'c']
        """
        from .handover import take_rows

        return take_rows(x, self.indices, self.n_rows)

    def sampler(self, shuffle: bool = True, random_state: int = 0) -> Any:
        """Return a sampler of the kept rows for a torch ``DataLoader`` over all rows.

        Parameters
        ----------
        shuffle
            A new random order in every epoch, or pick order.
        random_state
            Seed of the orders.
        """
        from .handover import index_sampler

        return index_sampler(self.indices, shuffle, random_state)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the selection as Parquet: one row per kept row, everything else in the metadata.

        The file appears whole or not at all.

        Parameters
        ----------
        path
            Where to write; an existing file is replaced.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = pa.array(self.indices)
        columns = {
            "id": rows if self.ids is None else pa.array(self.ids),
            "row": rows,
            "label": pa.nulls(len(self)) if self.labels is None else pa.array(self.labels),
            "rank": pa.array(np.arange(len(self))),
            "score": pa.array(self.scores),
            "distance": pa.array(self.distances),
        }
        facts = {
            "format": FORMAT_VERSION,
            "objective": self.objective,
            "method": self.method,
            "params": plain(self.params),
            "n_rows": self.n_rows,
            "random_state": self.random_state,
            "epsilon": self.epsilon,
            "details": plain(self.details),
            "versions": dict(self.versions),
            "fingerprint": self.fingerprint,
            "has_ids": self.ids is not None,
            "centers": _pack(self.centers),
        }
        table = pa.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(facts)})
        with whole_file(path) as partial:
            pq.write_table(table, partial)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Selection:
        """Read a selection written by :meth:`save`."""
        return load_selection(path)


def load_selection(path: str | os.PathLike[str]) -> Selection:
    """Read a selection written by :meth:`Selection.save`.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, gmmatch
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "kept.parquet"
    >>> gmmatch.select(np.eye(4), keep=2).save(file)
    >>> gmmatch.load_selection(file)
    Selection(2 of 4 rows by gm-matching, objective ...)
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise InvalidInput(f"cannot read the selection {path}: {error}") from error
    try:
        facts = json.loads((table.schema.metadata or {})[METADATA_KEY])
    except KeyError:
        raise InvalidInput(f"{path} is a Parquet file, but not a selection written by gmmatch") from None
    if facts["format"] != FORMAT_VERSION:
        raise InvalidInput(
            f"{path} has selection format {facts['format']}; this version of gmmatch reads {FORMAT_VERSION}"
        )
    labels = table.column("label")
    return Selection(
        indices=table.column("row").to_numpy(),
        scores=table.column("score").to_numpy(),
        distances=table.column("distance").to_numpy(),
        objective=facts["objective"],
        method=facts["method"],
        params=facts["params"],
        n_rows=facts["n_rows"],
        random_state=facts["random_state"],
        labels=None if pa.types.is_null(labels.type) else labels.to_numpy(),
        ids=table.column("id").to_numpy() if facts["has_ids"] else None,
        epsilon=facts["epsilon"],
        centers=_unpack(facts.get("centers")),
        details=facts["details"],
        versions=facts["versions"],
        fingerprint=facts["fingerprint"],
    )


def _pack(points: npt.NDArray[np.float64] | None) -> dict[str, Any] | None:
    """Return points as exact bytes that JSON can hold, unless they are too many."""
    if points is None or points.size > _MOST_PACKED:
        return None
    return {"shape": points.shape, "float64": base64.b64encode(points.astype("<f8").tobytes()).decode()}


def _unpack(packed: Mapping[str, Any] | None) -> npt.NDArray[np.float64] | None:
    if packed is None:
        return None
    return np.frombuffer(base64.b64decode(packed["float64"]), "<f8").reshape(packed["shape"])


def plain(value: Any) -> Any:
    """Turn parameters into data that JSON can hold; long arrays become their shape.

    Examples
    --------
    >>> plain({"keep": np.float64(0.5), "center": np.zeros(3)})
    {'keep': 0.5, 'center': 'array of shape (3,)'}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value] if len(value) <= 100 else f"{len(value)} values"
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return repr(value)
