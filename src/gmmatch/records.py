"""Frozen records that travel between the layers and out to users."""

from __future__ import annotations

import json
import os
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import InvalidInput, InvalidParameter, first_line
from .facts import Evidence, Facts, pack_array, plain, unpack_array
from .files import as_path, whole_file

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.int64]

_AS_TOLD: Any = None  # the facts that the other attributes of a selection tell
METADATA_KEY, EVIDENCE_KEY = b"gmmatch", b"gmmatch.evidence"
FORMAT_VERSION = 2
_DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, zlib.error)
_MOST_PACKED = 1 << 18  # numbers: two megabytes, more than the centres of most data
_MOST_EVIDENCE = 1 << 22  # rows: beyond, the metadata would weigh more than the rows that were kept


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
        Row numbers to keep, unique, in pick order. The first k are what a budget
        of k keeps, for methods whose picks are nested.
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
        For every input row how far it is trusted (0: most), where they were judged.
    evidence
        For every input row what speaks against it, where they were judged. Files leave it out beyond four
        million rows.
    centers
        The centre that the picks of each class were compared with, in the order of the sorted labels;
        one where the rows were not divided by class. Files leave out more than a quarter of a million
        numbers.
    facts
        What the run did: `gmmatch.Facts`; what the other attributes tell by default.
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
    evidence: Evidence | None = None
    facts: Facts = _AS_TOLD

    def __post_init__(self) -> None:
        if self.facts is _AS_TOLD:
            told = (self.n_rows, len(self.indices), None, self.method, self.objective, self.epsilon)
            object.__setattr__(self, "facts", Facts(*told))

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of the libraries used."""
        return self.facts.versions

    @property
    def fingerprint(self) -> str:
        """A fingerprint of the input."""
        return self.facts.fingerprint

    @property
    def details(self) -> Mapping[str, Any]:
        """The former name of `facts`, as a dictionary."""
        warnings.warn("Selection.details is now Selection.facts", DeprecationWarning, stacklevel=2)
        return self.facts.as_dict()

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

    def head(self, k: int) -> Selection:
        """Return the selection of the first `k` picks: what a budget of `k` would have kept.

        Its objective is known for methods that match a centre, and NaN for others.

        Examples
        --------
        >>> import numpy as np, gmmatch
        >>> rows = np.random.default_rng(0).normal(size=(100, 4))
        >>> gmmatch.select(rows, keep=20).head(5)
        Selection(5 of 100 rows by gm-matching, objective ...)
        """
        if not (isinstance(k, (int, np.integer)) and 1 <= k <= len(self)) or isinstance(k, bool):
            raise InvalidInput(f"head takes from 1 to {len(self)} picks; got {k!r}")
        cut = {
            name: None if values is None else values[:k]
            for name, values in (("labels", self.labels), ("ids", self.ids))
        }
        objective = self._objective_of(k)
        return replace(
            self,
            indices=self.indices[:k],
            scores=self.scores[:k],
            distances=self.distances[:k],
            objective=objective,
            params={**self.params, "keep": k},
            facts=replace(self.facts, kept=k, objective=objective),
            **cut,  # type: ignore[arg-type]
        )

    def _objective_of(self, k: int) -> float:
        """Return the mean of the classes' last scores among the first `k` picks, weighted by their picks."""
        if self.facts.center is None or (self.facts.chains or 1) > 1:
            return self.objective if k == len(self) else float("nan")
        grouped = self.labels is not None and self.params.get("by_class", True)
        labels = self.labels[:k] if grouped and self.labels is not None else np.zeros(k)
        _, from_the_end, counts = np.unique(labels[::-1], return_index=True, return_counts=True)
        return float(np.average(self.scores[:k][::-1][from_the_end], weights=counts))

    def apply(self, x: Any) -> Any:
        """Return the kept rows of the data that the selection was made for, in pick order.

        Parameters
        ----------
        x
            A list, a NumPy array, a torch tensor, a pandas, polars or Arrow table, a Hugging Face
            ``Dataset`` (its ``select``), a torch ``Dataset`` (a ``Subset``) or what `gmmatch.open` returned,
            with one entry per input row.

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
            Where to write; an existing file is replaced. For other forms, see `output` of `gmmatch.select`.
        """
        import pyarrow.parquet as pq

        if str(path).lower().endswith((".csv", ".npy", ".txt", ".jsonl")):
            raise InvalidParameter(f"Selection.save writes Parquet; name a file that ends so; got {path}")
        stored = self._stored()
        against = json.dumps(stored.pop("evidence"))
        table = self.to_arrow().replace_schema_metadata({METADATA_KEY: json.dumps(stored)})
        # Arrow takes no names that are not UTF-8, as files may have; an open file has none.
        with whole_file(as_path(path, "path")) as partial, partial.open("wb") as file:
            writer = pq.ParquetWriter(file, table.schema)
            writer.write_table(table)
            writer.add_key_value_metadata({EVIDENCE_KEY: against})  # of a schema files hold two copies
            writer.close()

    def to_arrow(self) -> Any:
        """Return an Arrow table with one row per kept row: the columns of the selection file."""
        import pyarrow as pa

        rows = pa.array(self.indices)
        columns = {
            "id": rows if self.ids is None else pa.array(self.ids),
            "row": rows,
            "label": pa.nulls(len(self)) if self.labels is None else pa.array(self.labels),
            "rank": pa.array(np.arange(len(self))),
            "score": pa.array(self.scores),
            "distance": pa.array(self.distances),
            "tier": pa.nulls(len(self), pa.int8()) if self.tiers is None else self.tiers[self.indices],
        }
        return pa.table(columns)

    def _stored(self) -> dict[str, Any]:
        """Return what a file holds beside its columns."""
        centers, tiers, evidence = self.centers, self.tiers, self.evidence
        against = None if tiers is None else {"tiers": pack_array(tiers)}
        if against is not None and evidence is not None and self.n_rows <= _MOST_EVIDENCE:
            against |= evidence.pack()
        # The same rows, parameters and seed give the same bytes, whoever ran it, wherever and how fast.
        told = replace(
            self.facts, seconds=None, engine="local", output=None, report=None, materialized=None
        ).as_dict()
        return told | {
            "format": FORMAT_VERSION,
            "params": plain(self.params),
            "n_rows": self.n_rows,
            "random_state": self.random_state,
            "has_ids": self.ids is not None,
            "centers": None if centers is None or centers.size > _MOST_PACKED else pack_array(centers),
            "evidence": against,
        }

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

    table, facts = _read(path)
    try:
        found = _selection(table, facts)
        _check(found)
    except InvalidInput as error:
        raise InvalidInput(f"the selection {path} is damaged: {error}") from error
    except (*_DAMAGED, pa.ArrowException) as error:
        wrong = "its columns and its metadata are not those of a selection"
        raise InvalidInput(f"the selection {path} is damaged: {wrong}") from error
    return found


def _selection(table: Any, facts: dict[str, Any]) -> Selection:
    """Build the selection from the table of a file and its metadata."""
    import pyarrow as pa

    labels, centers, against = table.column("label"), facts["centers"], facts.get("evidence")
    if facts["format"] == 1:  # centres were packed in another way, and fingerprints were of some rows
        told = facts["details"] | {"rows": facts["n_rows"], "kept": len(table)}
        facts, centers = told | {"reads": told.get("passes")} | facts | {"fingerprint": ""}, None
    return Selection(
        indices=table.column("row").to_numpy(),
        scores=table.column("score").to_numpy(),
        distances=table.column("distance").to_numpy(),
        objective=facts["objective"],
        method=facts["method"],
        params=facts["params"],
        n_rows=facts["n_rows"],
        facts=Facts.of(facts),
        random_state=facts["random_state"],
        labels=None if pa.types.is_null(labels.type) else labels.to_numpy(),
        ids=table.column("id").to_numpy() if facts["has_ids"] else None,
        epsilon=facts["epsilon"],
        centers=None if centers is None else unpack_array(centers),
        tiers=None if against is None else unpack_array(against["tiers"]),
        evidence=None if against is None or len(against) == 1 else Evidence.unpack(against),
    )


def _read(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Return the table of a selection file, and its metadata as a dictionary."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not as_path(path, "selection").is_file():
        raise InvalidInput(f"cannot read the selection {path}: there is no such file")
    try:
        with open(path, "rb") as file:
            reader = pq.ParquetFile(file)
            table, beside = reader.read(), reader.metadata.metadata or {}
        table.validate(full=True)
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:  # names of columns in a damaged table
        wrong = first_line(error)
        if not os.fspath(path).endswith(".parquet"):
            wrong = "only .parquet files can be read again; write one with -o NAME.parquet"
        raise InvalidInput(f"cannot read the selection {path}: {wrong}") from error
    try:
        facts = json.loads((table.schema.metadata or {})[METADATA_KEY])
        if EVIDENCE_KEY in beside and isinstance(facts, dict):
            facts["evidence"] = json.loads(beside[EVIDENCE_KEY])
    except KeyError:
        raise InvalidInput(f"{path} is a Parquet file, but not a selection written by gmmatch") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the selection {path} is damaged: its metadata is no JSON") from error
    version = facts.get("format") if isinstance(facts, dict) else None
    if version not in (1, FORMAT_VERSION):
        raise InvalidInput(
            f"{path} has selection format {version}; this version of gmmatch reads {FORMAT_VERSION}"
        )
    return table, facts


def _check(found: Selection) -> None:
    """Refuse a selection that no run can have made: rows that there are not, or the same row twice."""
    rows, n_rows = found.indices, found.n_rows
    wrong = None
    if rows.dtype.kind not in "iu":
        wrong = f"column row holds {rows.dtype}; expected whole numbers"
    elif len(rows) and not 0 <= rows.min() <= rows.max() < n_rows:
        row = rows[(rows < 0) | (rows >= n_rows)][0]
        wrong = f"column row has {row}; expected numbers from 0 to {n_rows - 1}"
    elif len(np.unique(rows)) < len(rows):
        values, counts = np.unique(rows, return_counts=True)
        wrong = f"row {values[counts > 1][0]} is there more than once; expected every row once"
    elif found.tiers is not None and found.tiers.shape != (n_rows,):
        wrong = f"it has tiers of shape {found.tiers.shape}; expected one for each of {n_rows} rows"
    if wrong is not None:
        raise InvalidInput(wrong)
