"""Frozen records that travel between the layers and out to users."""

from __future__ import annotations

import json
import os
import warnings
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import AnyArray, IntArray, Mask, Vector
from .errors import InvalidInput, InvalidParameter, brief, first_line, require
from .facts import Evidence, JsonObject, RunInfo, check_kind, digest_of_table, pack_array, plain, unpack_array
from .files import as_path, machine_memory, whole_file

_AS_TOLD: Any = None  # the info that the other attributes of a selection tell
METADATA_KEY, EVIDENCE_KEY, DIGEST_KEY = b"gmmatch", b"gmmatch.evidence", b"gmmatch.digest"
FORMAT_VERSION = 3  # 2, of version 0.2, is the same without a digest
_DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, zlib.error)
_CARRIED = ("counts", "totals", "targets", "rows")
_MOST_PACKED = 1 << 18  # numbers: two megabytes, more than the centres of most data
_MOST_INCLUDED = 1 << 40
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

    point: Vector
    objective: float
    epsilon: float
    n_iter: int
    converged: bool


@dataclass(frozen=True, eq=False)
class Carried:
    """What is needed to go on from a selection with other data: one entry per class."""

    labels: list[Any]
    counts: IntArray  # rows picked, of all data
    totals: Vector  # the sum of each class's picks
    targets: Vector  # the mean of each class's believed rows
    rows: IntArray  # how many these are
    # Origin and directions of the Fourier features whose sums and means follow those of the rows; None: none.
    fourier: tuple[Vector, Vector] | None = None

    @property
    def n_features(self) -> int:
        """How many numbers a row has."""
        return self.totals.shape[1] if self.fourier is None else len(self.fourier[0])

    def without_fourier(self) -> Carried:
        """Return what is known of the rows alone."""
        width = self.n_features
        totals, targets = self.totals[:, :width], self.targets[:, :width]
        return replace(self, totals=totals, targets=targets, fourier=None)

    def joined(self, earlier: Carried | None) -> Carried:
        """Return it with the classes that only an earlier selection has."""
        if earlier is None:
            return self
        missing = [place for place, label in enumerate(earlier.labels) if label not in self.labels]
        own = self
        if missing and earlier.totals.shape[1] != own.totals.shape[1]:
            own, earlier = own.without_fourier(), earlier.without_fourier()
        both = {
            name: np.concatenate([getattr(own, name), getattr(earlier, name)[missing]]) for name in _CARRIED
        }
        return Carried(own.labels + [earlier.labels[at] for at in missing], **both, fourier=own.fourier)

    def pack(self) -> dict[str, Any] | None:
        """Return it as data that JSON can hold, without Fourier features or None where it is too much."""
        largest = max(array.size for array in (self.totals, *(self.fourier or ())))
        if largest > _MOST_PACKED:
            return None if self.fourier is None else self.without_fourier().pack()
        arrays = {name: pack_array(getattr(self, name)) for name in _CARRIED}
        fourier = None if self.fourier is None else [pack_array(array) for array in self.fourier]
        return {"labels": plain(dict(enumerate(self.labels))), **arrays, "fourier": fourier}

    @classmethod
    def unpack(cls, packed: JsonObject) -> Carried:
        """Return what `pack` packed."""
        arrays = {name: unpack_array(packed[name], _MOST_PACKED) for name in _CARRIED}
        labels, fourier = list(packed["labels"].values()), packed.get("fourier")
        if any(len(values) != len(labels) for values in arrays.values()):
            raise ValueError("what it carries on is of other classes than its own")
        if fourier is not None:
            origin, directions = (unpack_array(array, _MOST_PACKED) for array in fourier)
            if arrays["totals"].shape[1] != len(origin) + 2 * directions.shape[1]:
                raise ValueError("what it carries on has other Fourier features than its own")
            fourier = origin, directions
        return cls(labels, **arrays, fourier=fourier)


@dataclass(frozen=True, eq=False)
class Included:
    """Rows of other data that an earlier selection has picked."""

    fingerprint: str  # of that data
    rows: IntArray
    ids: AnyArray | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def pack(self) -> dict[str, Any]:
        """Return it as data that JSON can hold."""
        ids = None if self.ids is None else self.ids.tolist()
        return {"fingerprint": self.fingerprint, "rows": pack_array(self.rows), "ids": ids}

    @classmethod
    def unpack(cls, packed: JsonObject) -> Included:
        """Return what `pack` packed."""
        ids = None if packed["ids"] is None else np.array(packed["ids"])
        return cls(packed["fingerprint"], unpack_array(packed["rows"], _MOST_INCLUDED), ids)


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
        (of that class) and the centre (of that class). NaN (in files: empty) where the method gives none, as
        `random`, and for untrusted picks of methods that score rows, which did not look at them.
    distances
        Distance of each picked row to the centre of its class; NaN for methods that compare rows with none.
    objective
        Final distance between the mean of the picks and the centre; over several classes the mean of
        the classes' values, weighted by their picks. NaN for methods that only rank or draw rows.
    method, params, random_state
        What to call to get the same rows again.
    n_rows
        Rows in the input.
    labels, ids
        Label and id of each kept row, where the input had them.
    given_labels
        The label that the input had for each kept row, where `fix` changed some; otherwise None.
    epsilon
        Certified accuracy of the centre (the worst class): of a geometric median or Huber centre; 0 for a
        mean, which is exact; None for others.
    tiers
        For every input row how far it is trusted (0: most), where they were judged.
    weights
        How many believed rows each pick stands for: those of its class (or, without labels, of its cluster)
        per pick of it, scaled to mean one. Pass them as `sample_weight`, or to a weighted sampler.
    evidence
        For every input row what speaks against it, where they were judged. Files leave it out beyond four
        million rows.
    centers
        The centre that the picks of each class were compared with, in the order of the sorted labels;
        one where the rows were not divided by class; None where they were compared with none. Files leave
        out more than a quarter of a million numbers.
    info
        What the run did: `gmmatch.RunInfo`; what the other attributes tell by default.
    included
        Rows of other data that were in already, of one or several earlier selections, in their order.
    carried
        What is needed to go on from it with other data: by class how many rows were picked, their sum, and
        the target; None where labels were not judged, and of a part of a selection.
    made
        The run that made it, which the verbs `report`, `materialize` and `suspects` go back to; None for one
        that was loaded or fitted: pass them the data.
    """

    indices: IntArray
    scores: Vector
    distances: Vector
    objective: float
    method: str
    params: JsonObject
    n_rows: int
    random_state: int | None = 0
    labels: AnyArray | None = None
    ids: AnyArray | None = None
    given_labels: AnyArray | None = None
    epsilon: float | None = None
    tiers: npt.NDArray[np.int8] | None = None
    weights: Vector = _AS_TOLD
    centers: Vector | None = None
    evidence: Evidence | None = None
    info: RunInfo = _AS_TOLD
    included: tuple[Included, ...] = ()
    carried: Carried | None = None
    made: Any = None

    def __post_init__(self) -> None:
        if self.info is _AS_TOLD:
            told = (self.n_rows, len(self.indices), None, self.method, _known(self.objective), self.epsilon)
            object.__setattr__(self, "info", RunInfo(*told))
        if self.weights is _AS_TOLD:
            object.__setattr__(self, "weights", np.ones(len(self.indices)))

    @property
    def facts(self) -> RunInfo:
        """The name of `info` in version 0.2; it goes with 0.4."""
        warnings.warn("Selection.facts is called info now", DeprecationWarning, stacklevel=2)
        return self.info

    @property
    def to_label(self) -> IntArray:
        """Row numbers of the picks that have no label yet, in pick order, with ``unlabelled="pick"``."""
        told = (self.info.aims or {}).get("unlabelled")
        if told is None or self.labels is None:
            return np.empty(0, np.int64)
        rows: IntArray = self.indices[self.labels == told["label"]]
        return rows

    @property
    def settings(self) -> dict[str, Any]:
        """What repeats the run on other data: ``select(new, **sel.settings)``."""
        return verb("settings")(self)  # type: ignore[no-any-return]

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of the libraries used."""
        return self.info.versions

    @property
    def fingerprint(self) -> str:
        """A fingerprint of the input."""
        return self.info.fingerprint

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the run: a selection that is sent or copied is the picks, not the data they are of."""
        return {**vars(self), "made": None}

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, picks: Any) -> Any:
        """Return some picks as a selection, the first k by ``[:k]``; or the row number of one.

        `picks`: a slice, places among the picks, a mask with an entry per pick, or one place.
        """
        wanted = np.array(picks, np.int64) if isinstance(picks, (list, tuple)) and not len(picks) else picks
        try:
            numbers = np.arange(len(self))[list(wanted) if isinstance(wanted, tuple) else wanted]
        except IndexError as error:
            raise IndexError(
                f"a selection of {len(self)} picks takes a slice, places, or a mask with an entry per pick:"
                f" {first_line(error)}"
            ) from None
        if numbers.ndim == 0:
            return int(self.indices[numbers])
        if len(numbers) and (numbers == np.arange(len(numbers))).all():
            return self.head(len(numbers))
        return self._cut(numbers, self.weights[numbers], float("nan"))

    def _cut(self, picks: IntArray, weights: Vector, objective: float) -> Selection:
        """Return some of the picks as a selection."""
        # What was asked for is not what is kept any more.
        settings = {name: value for name, value in (self.info.settings or {}).items() if name != "keep"}
        names = "indices", "scores", "distances", "labels", "ids", "given_labels"
        known = {name: getattr(self, name) for name in names}
        by_pick: dict[str, Any] = {name: own if own is None else own[picks] for name, own in known.items()}
        info = replace(self.info, kept=len(picks), objective=_known(objective), settings=settings or None)
        if self.tiers is not None and "picked" in info.guard:
            counts = np.bincount(self.tiers[by_pick["indices"]], minlength=len(info.guard["picked"]))
            picked = dict(zip(info.guard["picked"], counts.tolist(), strict=False))
            info = replace(info, guard={**info.guard, "picked": picked})
        return replace(
            self,
            weights=weights,
            objective=objective,
            carried=self.carried if np.array_equal(picks, np.arange(len(self))) else None,
            params={**self.params, "keep": len(picks)},
            info=info,
            **by_pick,
        )

    def __repr__(self) -> str:
        objective = "" if np.isnan(self.objective) else f", objective {self.objective:.4g}"
        return f"Selection({len(self)} of {self.n_rows} rows by {self.method}{objective})"

    def mask(self) -> Mask:
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
            raise InvalidInput(f"head takes from 1 to {len(self)} picks; got {brief(k)}")
        return self._cut(np.arange(k), self._weights_of(k), self._objective_of(k))

    @property
    def _by_parts(self) -> bool:
        """Whether other parts than classes shared the budget; files do not name them."""
        return bool({"strata", "match_to"} & set(self.info.aims or ()))

    def _objective_of(self, k: int) -> float:
        """Return the mean of the classes' last scores among the first `k` picks, weighted by their picks."""
        if self.info.center is None or (self.info.chains or 1) > 1 or self._by_parts:
            return self.objective if k == len(self) else float("nan")
        grouped = self.labels is not None and self.params.get("by_class", True)
        labels = self.labels[:k] if grouped and self.labels is not None else np.zeros(k)
        _, from_the_end, counts = np.unique(labels[::-1], return_index=True, return_counts=True)
        return float(np.average(self.scores[:k][::-1][from_the_end], weights=counts))

    def _weights_of(self, k: int) -> Vector:
        """Return the weights of the first `k` picks: a class stands for the same rows by fewer picks.

        Clusters are not known here; picks of them keep their weights beside each other.
        """
        weights: Vector = self.weights[:k]
        if self.labels is not None and self.params.get("by_class", True) and not self._by_parts:
            codes = np.unique(self.labels, return_inverse=True)[1]
            weights = weights * np.bincount(codes)[codes[:k]] / np.bincount(codes[:k])[codes[:k]]
        scaled: Vector = weights / weights.mean()
        return scaled

    def apply(self, x: object) -> Any:
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

        return take_rows(x, self.indices, self.n_rows, self.ids)

    def sampler(self, shuffle: bool = True, random_state: int = 0) -> Any:
        """Return a sampler of the kept rows for a torch ``DataLoader`` over all rows.

        Parameters
        ----------
        shuffle
            A new random order in every epoch, or pick order.
        random_state
            Seed of the orders.
        """
        torch = require("torch", "torch", "torch")
        if not shuffle:
            return self.indices.tolist()
        generator = torch.Generator().manual_seed(random_state)  # torch's own is left alone
        return torch.utils.data.SubsetRandomSampler(self.indices.tolist(), generator=generator)

    def report(
        self,
        path: str | os.PathLike[str] = "report.html",
        data: Any = None,
        *,
        projection: str = "classes",
        overwrite: bool = False,
        **options: Any,
    ) -> Any:
        """Write the page that shows what was kept, what was dropped and why; return it as plain data.

        `data`: what the rows were selected from, for a selection that was loaded. `projection`: how the map
        is laid out: `classes` or `pca`. `overwrite`: whether an existing page may be replaced.
        `options`: others of `gmmatch.report`.
        """
        return verb("report")(self, path, data, projection=projection, overwrite=overwrite, **options)

    def materialize(self, folder: str | os.PathLike[str], data: object = None) -> None:
        """Write the kept rows themselves into a new folder, as the kind of data that they came from.

        `data`: what the rows were selected from, for a selection that was loaded.
        """
        verb("materialize")(self, folder, data)

    def suspects(self, data: object = None, labels: object = None) -> Any:
        """Return the rows that seem wrong, by what the run judged: `gmmatch.Suspects`.

        `data`, `labels`: what the rows were selected from, for a selection that was loaded; they are judged
        again.
        """
        return verb("suspects")(self, data, labels)

    def show(self, data: object = None, height: int = 900, **options: object) -> Any:
        """Return the page about the selection, for a notebook to show in a cell of this height.

        `data`, `options`: as for `report`.
        """
        return verb("show")(self, data, height, **options)

    def plot(self, data: object = None) -> Any:
        """Return a figure of matplotlib: where the kept rows are among all, and the error by picks.

        `data`: what the rows were selected from, for a selection that was loaded; without it, no map.
        """
        return verb("plot")(self, data)

    def _repr_html_(self) -> str:
        return verb("html")(self)  # type: ignore[no-any-return]

    def to_pandas(self) -> Any:
        """Return the columns of the selection file as a pandas DataFrame, one row per kept row."""
        table = self.to_arrow()
        columns = {name: table.column(name).to_numpy() for name in table.column_names}
        return require("pandas", "pandas", "hf").DataFrame(columns)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the selection as Parquet: one row per kept row, everything else in the metadata.

        The file appears whole or not at all, with a digest by which damage is found when it is read.

        Parameters
        ----------
        path
            Where to write; an existing file is replaced, unless the run read it. The command line writes
            other forms, too.
        """
        import pyarrow.parquet as pq

        if str(path).lower().endswith((".csv", ".npy", ".txt", ".jsonl")):
            raise InvalidParameter(f"Selection.save writes Parquet; name a file that ends so; got {path}")
        place = as_path(path, "path")
        if self.made is not None:
            self.made.check_apart(place)
        centers, tiers, evidence = self.centers, self.tiers, self.evidence
        against = None if tiers is None else {"tiers": pack_array(tiers)}
        if against is not None and evidence is not None and self.n_rows <= _MOST_EVIDENCE:
            against = evidence.pack()
        # The same rows, parameters and seed give the same bytes, whoever ran it, wherever and how fast.
        info = replace(self.info, seconds=None, engine="local", output=None, report=None, materialized=None)
        stored = info.as_dict() | {
            "format": FORMAT_VERSION,
            "params": plain(self.params),
            "n_rows": self.n_rows,
            "random_state": self.random_state,
            "has_ids": self.ids is not None,
            "centers": None if centers is None or centers.size > _MOST_PACKED else pack_array(centers),
            "carried": None if self.carried is None else self.carried.pack(),
            "included": [own.pack() for own in self.included],
        }
        told, beside = json.dumps(stored), json.dumps(against)
        table = self.to_arrow().replace_schema_metadata({METADATA_KEY: told})
        digest = digest_of_table(table, told.encode(), beside.encode())
        # Arrow takes no names that are not UTF-8, as files may have; an open file has none.
        with whole_file(place) as partial, partial.open("wb") as file:
            writer = pq.ParquetWriter(file, table.schema, write_page_checksum=True)
            writer.write_table(table)
            writer.add_key_value_metadata({EVIDENCE_KEY: beside, DIGEST_KEY: digest})
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
            "score": pa.array(self.scores, from_pandas=True),
            "distance": pa.array(self.distances),
            "tier": pa.nulls(len(self), pa.int8()) if self.tiers is None else self.tiers[self.indices],
            "weight": pa.array(self.weights),
        }
        if len(self.to_label):
            columns["to_label"] = pa.array(np.isin(self.indices, self.to_label))
        if self.given_labels is not None:
            columns["given_label"] = pa.array(self.given_labels)
        return pa.table(columns)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Selection:
        """Read a selection written by :meth:`save`."""
        return load_selection(path)


def verb(name: str) -> Callable[..., Any]:
    """Return what a verb of a result calls, from the one table of calls upwards."""
    return import_module(".api", __package__).VERBS[name]  # type: ignore[no-any-return]


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
        return _selection(table, facts)
    except (*_DAMAGED, pa.ArrowException) as error:
        known = isinstance(error, InvalidInput)  # which is a ValueError, too
        wrong = error if known else "its columns and its metadata are not those of a selection"
        raise InvalidInput(f"the selection {path} is damaged: {wrong}") from error


def _selection(table: Any, facts: dict[str, Any]) -> Selection:
    """Build the selection from the table of a file and its metadata."""
    import pyarrow as pa

    pairs = zip(table.column_names, table.columns, strict=True)
    columns = {name: own.to_numpy() for name, own in pairs if not pa.types.is_null(own.type)}
    rows, n_rows, centers, against = columns["row"], facts["n_rows"], facts["centers"], facts.get("evidence")
    check_kind("n_rows", n_rows, int)
    check_kind("params", facts["params"], dict)
    check_kind("random_state", facts["random_state"], int, type(None))
    tiers = None if against is None else unpack_array(against["tiers"], n_rows)
    # What no run can have made: rows that there are not, or the same row twice.
    if rows.dtype.kind not in "iu":
        raise InvalidInput(f"column row holds {rows.dtype}; expected whole numbers")
    if len(rows) and not 0 <= rows.min() <= rows.max() < n_rows:
        row = rows[(rows < 0) | (rows >= n_rows)][0]
        raise InvalidInput(f"column row has {row}; expected numbers from 0 to {n_rows - 1}")
    values, counts = np.unique(rows, return_counts=True)
    if len(values) < len(rows):
        raise InvalidInput(f"row {values[counts > 1][0]} is there more than once; expected every row once")
    own = None if centers is None else unpack_array(centers, _MOST_PACKED)
    if own is not None and own.ndim != 2:
        raise InvalidInput(f"it has centers of shape {own.shape}; expected a row for each")
    if tiers is not None and tiers.shape != (n_rows,):
        raise InvalidInput(f"it has tiers of shape {tiers.shape}; expected one for each of {n_rows} rows")
    return Selection(
        indices=rows,
        scores=columns["score"],
        distances=columns["distance"],
        objective=np.nan if facts["objective"] is None else facts["objective"],
        info=RunInfo.of(facts),
        labels=columns.get("label"),
        ids=columns["id"] if facts["has_ids"] else None,
        given_labels=columns.get("given_label"),
        weights=columns.get("weight", np.ones(len(rows))),
        centers=own,
        tiers=tiers,
        evidence=None if against is None or len(against) == 1 else Evidence.unpack(against, n_rows),
        carried=None if facts.get("carried") is None else Carried.unpack(facts["carried"]),
        included=tuple(map(Included.unpack, facts.get("included", ()))),
        **{name: facts[name] for name in ("method", "params", "n_rows", "random_state", "epsilon")},
    )


def _read(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Return the table of a selection file, and its metadata as a dictionary."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not as_path(path, "selection").is_file():
        raise InvalidInput(f"cannot read the selection {path}: there is no such file")
    try:
        with open(path, "rb") as file:
            reader = pq.ParquetFile(file, page_checksum_verification=True)
            declared = 8 * reader.metadata.num_rows * reader.metadata.num_columns
            if declared > machine_memory():
                raise InvalidInput(f"the selection {path} declares more rows than memory holds")
            # Arrow's threads go on with other columns, of a closed file, where one is damaged.
            table, beside = reader.read(use_threads=False), reader.metadata.metadata or {}
        table.validate(full=True)
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:  # names of columns in a damaged table
        wrong = first_line(error)
        if not os.fspath(path).endswith(".parquet"):
            wrong = "only .parquet files can be read again; write one that ends so"
        raise InvalidInput(f"cannot read the selection {path}: {wrong}") from error
    told, more = (table.schema.metadata or {}).get(METADATA_KEY), beside.get(EVIDENCE_KEY)
    if told is None:
        raise InvalidInput(f"{path} is a Parquet file, but not a selection written by gmmatch")
    try:
        facts = json.loads(told)
        evidence = None if more is None else json.loads(more)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the selection {path} is damaged: its metadata is no JSON") from error
    version = facts.get("format") if isinstance(facts, dict) else None
    if version not in (2, FORMAT_VERSION):
        raise InvalidInput(f"{path} has selection format {version}; this gmmatch reads {FORMAT_VERSION}")
    digest = digest_of_table(table, told, more or b"").encode()
    if beside.get(DIGEST_KEY, digest if version < FORMAT_VERSION else None) != digest:
        wrong = "its content is not what was written; select again"
        raise InvalidInput(f"the selection {path} is damaged: {wrong}")
    return table, facts | {"evidence": evidence}


def _known(objective: float) -> float | None:
    """Return an objective as facts and files hold it: None where there is none."""
    return None if np.isnan(objective) else objective
