"""What a run found and did, as frozen records that files and JSON can hold."""

from __future__ import annotations

import base64
import hashlib
import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from .arrays import AnyArray, FloatArray, IntArray, Mask, Vector
from .files import machine_memory

JsonObject = Mapping[str, Any]
"""Plain data by name, as JSON holds it."""

_FLAGS = ("unlikely", "far", "clumped", "light")
_LAST_TIER = 2
_DIGEST_BYTES = 16
_LIGHT = 0.25  # doubt about rows that few others are like: more than none, less than about rows far off
WRONG = 0.5
"""A label whose probability of being wrong reaches this is not believed."""

SURELY_RIGHT = 0.05
"""A label whose probability of being wrong is at most this is hardly doubted; its row may teach first."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What speaks against each row of the input: one table, whoever asks."""

    tiers: npt.NDArray[np.int8]  # 0 (trusted), 1 (unlikely label) or 2 (outside its class)
    wrong: FloatArray  # probability that the given label is wrong
    # The likeliest other class, as a position among the classes, and its probability.
    suggested: npt.NDArray[np.signedinteger[Any]]
    likely: FloatArray
    outside: FloatArray  # probability that the row belongs to no class
    # How far outside its class the row is, from 0 to 1; more than 0.5: beyond what the class allows.
    outlier: FloatArray
    # Whether the row is far outside its class, or in a dense cluster of it.
    far: Mask
    clumped: Mask
    labels_judged: bool  # whether labels were judged, or distances alone
    light: Mask | None = None  # rows of light clusters, where rows without labels were divided
    # By class of the verdict, then over all: rows judged, the share of wrong labels, its least and its most.
    estimate: Vector | None = None

    @property
    def unlikely(self) -> Mask:
        """Rows whose label is more likely wrong than right."""
        found: Mask = self.wrong >= WRONG
        return found

    @property
    def doubt(self) -> Vector:
        """What orders the rows that follow the trusted ones, least first: label, place and cluster."""
        doubt = np.where(self.far, np.maximum(self.wrong, self.outlier), self.wrong).astype(np.float64)
        doubt[self.clumped] = 1.0
        if self.light is not None:
            doubt[self.light] = np.maximum(doubt[self.light], _LIGHT)
        return doubt

    @property
    def judged(self) -> Mask:
        """Which rows took part: what is in the last tier, and for no reason, did not."""
        reason: Mask = self.far | self.clumped | (False if self.light is None else self.light)
        return (self.tiers < _LAST_TIER) | reason

    def among(self, present: IntArray, n_classes: int | None) -> Evidence:
        """Return it by other positions of the classes: `present` says where each is among `n_classes`."""
        estimate = self.estimate
        if estimate is not None and n_classes is not None:
            estimate = np.zeros((n_classes + 1, estimate.shape[1]))
            estimate[np.append(present, n_classes)] = self.estimate
        return replace(self, suggested=present.astype(np.int32)[self.suggested], estimate=estimate)

    def pack(self) -> dict[str, Any]:
        """Return it as text that JSON can hold: some ten bytes per row."""
        every = vars(self).items()
        return {name: pack_array(own) if isinstance(own, np.ndarray) else own for name, own in every}

    @classmethod
    def unpack(cls, packed: JsonObject, n_rows: int) -> Evidence:
        """Return what `pack` packed, or what version 0.2 did, of so many rows; refuse what is none."""
        most = 4 * (n_rows + 1)  # entries of an array
        found = {
            name: unpack_array(own, most) if isinstance(own, dict) else own for name, own in packed.items()
        }
        if "suspicion" in found:
            found = _of_0_2(found)
        by_row = [own for name, own in found.items() if isinstance(own, np.ndarray) and name != "estimate"]
        if any(own.shape != (n_rows,) for own in by_row):
            raise ValueError(f"evidence is of other than {n_rows} rows")
        tiers, suggested = found["tiers"], found["suggested"]
        if n_rows and (suggested.min() < 0 or not 0 <= tiers.min() <= tiers.max() <= _LAST_TIER):
            raise ValueError("evidence names a class or a tier that there is not")
        return cls(**found)


def _of_0_2(found: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `Evidence` from those of version 0.2, with one score for all against a row."""
    flags, suspicion, estimate = found.pop("flags"), found.pop("suspicion"), found.get("estimate")
    masks = {name: (flags >> bit & 1).astype(bool) for bit, name in enumerate(_FLAGS)}
    unlikely, nothing = masks.pop("unlikely"), 0 * suspicion
    one_score = np.where(unlikely, suspicion, 0), np.where(masks["far"], suspicion, 0), nothing
    scores = dict(zip(("wrong", "outlier", "likely"), found.pop("scores", one_score), strict=True))
    if estimate is not None:
        sizes = estimate[:, 0]
        whole = sizes @ estimate[:, 1:] / max(1.0, sizes.sum())
        found["estimate"] = np.vstack([estimate, [sizes.sum(), *whole]])
    return {**found, **masks, **scores, "outside": nothing}


@dataclass(frozen=True)
class RunInfo:
    """What a run did: the same in Python, in the selection file and in `--json`.

    Attributes
    ----------
    rows, kept, classes
        Rows of the input, rows kept, and classes among them (None without labels).
    method, objective, epsilon
        As in `gmmatch.Selection`; `objective` is None where the method matches no centre.
    center
        What was matched, by name, "mean and geometric-median" where small classes have another target; None
        where nothing was.
    reads
        How often all rows were read, counted as they were, the reads of the check and of the guard included.
        Rows that are looked up by their numbers beside that, samples and picks, are no reads.
    batches, chains
        Into how many batches the rows were divided, in how many chains at most for one class; None: all
        rows of a class competed at once.
    tiers
        How many rows are in each tier; None where nothing was judged.
    guard
        What the guard did and why.
    bad_rows
        Rows that were left out because of NaN, infinite or absurd values.
    training
        The training run, where the method needs one.
    engine, seconds
        Who ran the passes, and how long the run took; None where it was not timed.
    versions, fingerprint
        Versions of the libraries used, and a fingerprint of the input.
    hint
        What else the user may want to ask for, or should know of the input, a line each: long tails, labels
        that were not judged, classes of nearly the same name, columns that look like ids. None: nothing.
    strategy
        The way of picking that was chosen, and what students learned from each on a sample: at how many
        `picks`, how many rows they were `asked` for, their `accuracy`, and a `sentence`. None where nothing
        was chosen.
    leaks
        With `holdout`: how many `rows` are near-duplicates of how many of its rows (`test_rows`), the largest
        distance of such (`reach`, also as a `cosine`), and the nearest `pairs`. None without.
    aims
        What was wanted of the picks, and how far it was met, by the name of the parameter: `include`,
        `exclude`, `duplicates`, `cost`, `strata`, `match_to`, `quality`. None where nothing was.
    settings
        What repeats the run beside the parameters of the method: `keep` as it was asked for, `fix`, and the
        aims that name columns. None where there is nothing of it.
    output, report, suspects, materialized
        What was written; `suspects` is their summary.
    """

    rows: int
    kept: int
    classes: int | None
    method: str
    objective: float | None = None
    epsilon: float | None = None
    center: str | None = None
    reads: int | None = None
    batches: int | None = None
    chains: int | None = None
    tiers: Mapping[str, int] | None = None
    guard: JsonObject = field(default_factory=lambda: {"mode": "off"})
    bad_rows: int = 0
    training: JsonObject | None = None
    engine: str = field(default="local", compare=False)
    seconds: float | None = field(default=None, compare=False)
    versions: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = ""
    hint: str | None = None
    strategy: JsonObject | None = None
    leaks: JsonObject | None = None
    aims: JsonObject | None = None
    settings: JsonObject | None = None
    output: str | None = None
    report: str | None = None
    suspects: JsonObject | None = None
    materialized: str | None = None

    @classmethod
    def of(cls, values: JsonObject) -> RunInfo:
        """Return the facts from a dictionary, as read from a file or JSON, that may hold more."""
        known = {"classes": None} | {
            entry.name: values[entry.name] for entry in fields(cls) if entry.name in values
        }
        for name, value in known.items():
            check_kind(name, value, *_KINDS[name])
        return cls(**known)

    def learned(self) -> str | None:
        """Say what a linear model learns from such picks and from random ones, where the run tried it out.

        It tried a sample, at a few numbers of picks; this is the number nearest to what was kept.
        """
        tried = self.strategy or {}
        accuracy, picks = tried.get("accuracy") or {}, tried.get("picks") or []
        mine, other = accuracy.get(tried.get("strategy"), {}), accuracy.get("random", {})
        if not picks or "linear" not in mine or "linear" not in other:
            return None
        at = int(np.abs(np.log(np.array(picks) / max(self.kept, 1))).argmin())
        ours, theirs = float(mine["linear"][at]), float(other["linear"][at])
        # Two standard errors of an accuracy.
        chance = 2 * np.sqrt(ours * (1 - ours) / max(1, tried.get("asked", 1)))
        level = " (the difference may be chance)" if abs(ours - theirs) < chance else ""
        curve = tried.get("curve")
        share = (
            f" {100 * curve['share']:.3g} % of the believed rows teach 99 % of what all do." if curve else ""
        )
        return (
            f"Tried on a sample: trained on {picks[at]:,} such picks, a linear model gets {100 * ours:.0f} %"
            f" of the labels of other rows right; trained on {picks[at]:,} random rows, {100 * theirs:.0f} %"
            f"{level}. Wrong labels count against both.{share}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        found: dict[str, Any] = plain(asdict(self))
        return found


def check_kind(name: str, value: object, *kinds: type) -> None:
    """Refuse what a file holds in place of something of these types; a whole number may stand for another.

    >>> check_kind("n_rows", 3, int), check_kind("objective", 3, float)
    (None, None)
    """
    known = (*kinds, int) if float in kinds else kinds
    if not isinstance(value, known) or (isinstance(value, bool) and bool not in kinds):
        raise TypeError(f"{name} is a {type(value).__name__}")


def _kinds(hint: Any) -> tuple[Any, ...]:
    """Return the types that a value of a declared type may have."""
    parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return tuple(get_origin(part) or part for part in parts)


_KINDS = {name: _kinds(hint) for name, hint in get_type_hints(RunInfo).items()}


def pack_array(values: AnyArray) -> dict[str, Any]:
    """Return an array as exact bytes that JSON can hold.

    >>> unpack_array(pack_array(np.array([[1.5, -2.0]])), most=2)
    array([[ 1.5, -2. ]])
    """
    body = base64.b64encode(zlib.compress(np.ascontiguousarray(values).tobytes(), 1)).decode()
    return {"shape": values.shape, "dtype": values.dtype.str, "zlib": body}


def unpack_array(packed: JsonObject, most: int) -> AnyArray:
    """Return what `pack_array` packed, of at most so many entries, which is looked at before."""
    entries, kind = math.prod(packed["shape"]), np.dtype(packed["dtype"])
    size = entries * kind.itemsize
    if not 0 <= entries <= most or size > machine_memory() or kind.kind not in "biuf":
        raise ValueError(f"an array declares {packed['shape']} entries")
    body = zlib.decompressobj().decompress(base64.b64decode(packed["zlib"]), max(size, 1))  # and no more
    return np.frombuffer(body, packed["dtype"]).reshape(packed["shape"])


def plain(value: object) -> Any:
    """Turn parameters into data that JSON can hold; long arrays become their shape."""
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


def digest_of_arrays(arrays: Mapping[str, AnyArray]) -> str:
    """Return a digest of arrays of numbers and texts: their names, types, shapes and values.

    >>> one, other = {"rows": np.arange(3)}, {"rows": np.arange(3)[::-1].copy()}
    >>> digest_of_arrays(one) == digest_of_arrays(dict(one)), digest_of_arrays(one) == digest_of_arrays(other)
    (True, False)
    """
    found = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name in sorted(arrays):
        values = np.ascontiguousarray(arrays[name])
        found.update(f"{name}\0{values.dtype.str}\0{arrays[name].shape}\0".encode())
        found.update(values.reshape(-1).view(np.uint8).data if values.size else b"")
    return found.hexdigest()


def digest_of_table(table: Any, *beside: bytes) -> str:
    """Return a digest of an Arrow table, the names and types of its columns, and of bytes that go with it.

    It does not depend on how the columns are divided into chunks, nor on what stands in empty cells.
    """
    arrays = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        cells = column.to_numpy()
        if cells.dtype.kind not in "biuf":
            cells = np.frombuffer(repr(cells.tolist()).encode("utf-8", "surrogatepass"), np.uint8)
        arrays[name] = cells
    found = hashlib.blake2b(digest_of_arrays(arrays).encode(), digest_size=_DIGEST_BYTES)
    for content in beside:
        found.update(f"{len(content)}\0".encode() + content)
    return found.hexdigest()
