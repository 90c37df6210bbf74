"""What a run found and did, as frozen records that files and JSON can hold."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]

_FLAGS = ("unlikely", "far", "clumped")


@dataclass(frozen=True, eq=False)
class Evidence:
    """What speaks against each row of the input, as a verdict found it."""

    tiers: npt.NDArray[np.int8]  # 0 (trusted), 1 (unlikely label) or 2 (outside its class)
    suspicion: npt.NDArray[np.floating[Any]]  # from 0 to 1; see `gmmatch.Suspects`
    # The class that fits best beside the label, as a position among the classes.
    suggested: npt.NDArray[np.signedinteger[Any]]
    # Whether another class is likelier than the label, the row is far outside its class, or in a clump.
    unlikely: Mask
    far: Mask
    clumped: Mask
    labels_judged: bool  # whether labels were judged, or distances alone
    # How likely the label is wrong, how far outside its class the row is (more than 0.5: beyond what the
    # class allows), both from 0 to 1, and how likely the suggested class is.
    wrong_label: npt.NDArray[np.floating[Any]]
    outlier: npt.NDArray[np.floating[Any]]
    likely: npt.NDArray[np.floating[Any]]
    # By class of the verdict: rows judged, and the estimated share of wrong labels, its least and its most.
    estimate: npt.NDArray[np.float64] | None = None

    def take(self, rows: npt.NDArray[np.int64]) -> Evidence:
        """Return the evidence of chosen rows."""
        per_row = (entry.name for entry in fields(self) if entry.name not in ("labels_judged", "estimate"))
        return replace(self, **{name: getattr(self, name)[rows] for name in per_row})

    def among(self, present: npt.NDArray[np.int64], n_classes: int | None) -> Evidence:
        """Return it by other positions of the classes: `present` says where each is among `n_classes`."""
        estimate = self.estimate
        if estimate is not None and n_classes is not None:
            estimate = np.zeros((n_classes, estimate.shape[1]))
            estimate[present] = self.estimate
        return replace(self, suggested=present.astype(np.int32)[self.suggested], estimate=estimate)

    def pack(self) -> dict[str, Any]:
        """Return it as text that JSON can hold: some ten bytes per row."""
        flags = sum(getattr(self, name).astype(np.uint8) << bit for bit, name in enumerate(_FLAGS))
        packed = {
            "tiers": pack_array(self.tiers),
            "suspicion": pack_array(self.suspicion.astype("<f4")),
            "suggested": pack_array(self.suggested.astype("<i4")),
            "flags": pack_array(np.asarray(flags, np.uint8)),
            "labels_judged": self.labels_judged,
        }
        if self.estimate is not None:
            scores = np.stack([self.wrong_label, self.outlier, self.likely])
            packed |= {"scores": pack_array(scores.astype("<f4")), "estimate": pack_array(self.estimate)}
        return packed

    @classmethod
    def unpack(cls, packed: Mapping[str, Any]) -> Evidence:
        """Return what `pack` packed."""
        flags = unpack_array(packed["flags"])
        told = {name: (flags >> bit & 1).astype(bool) for bit, name in enumerate(_FLAGS)}
        suspicion = unpack_array(packed["suspicion"])
        # Where there is one score for all that speaks against a row, flags tell what it is about.
        scores = [np.where(told[name], suspicion, 0.0) for name in ("unlikely", "far")] + [0 * suspicion]
        wrong_label, outlier, likely = unpack_array(packed["scores"]) if "scores" in packed else scores
        return cls(
            tiers=unpack_array(packed["tiers"]),
            suspicion=suspicion,
            suggested=unpack_array(packed["suggested"]).astype(np.int64),
            labels_judged=packed["labels_judged"],
            wrong_label=wrong_label,
            outlier=outlier,
            likely=likely,
            estimate=unpack_array(packed["estimate"]) if "estimate" in packed else None,
            **told,
        )


@dataclass(frozen=True)
class Facts:
    """What a run did: the same in Python, in the selection file and in `--json`.

    Attributes
    ----------
    rows, kept, classes
        Rows of the input, rows kept, and classes among them (None without labels).
    method, objective, epsilon
        As in `gmmatch.Selection`.
    center
        What was matched, by name, "mean and geometric-median" where small classes have another target; None
        where nothing was.
    reads
        How often all rows were read, the guard's reads included.
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
    output, report, suspects, materialized
        What was written; `suspects` is their summary.
    """

    rows: int
    kept: int
    classes: int | None
    method: str
    objective: float
    epsilon: float | None = None
    center: str | None = None
    reads: int | None = None
    batches: int | None = None
    chains: int | None = None
    tiers: Mapping[str, int] | None = None
    guard: Mapping[str, Any] = field(default_factory=lambda: {"mode": "off"})
    bad_rows: int = 0
    training: Mapping[str, Any] | None = None
    engine: str = field(default="local", compare=False)
    seconds: float | None = field(default=None, compare=False)
    versions: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = ""
    hint: str | None = None
    output: str | None = None
    report: str | None = None
    suspects: Mapping[str, Any] | None = None
    materialized: str | None = None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Facts:
        """Return the facts from a dictionary, as read from a file or JSON, that may hold more."""
        known = {"classes": None} | {
            entry.name: told[entry.name] for entry in fields(cls) if entry.name in told
        }
        return cls(**known)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data; `passes`, the former name of `reads`, is there as well."""
        found: dict[str, Any] = plain(asdict(self))
        return found | {"passes": self.reads}


def pack_array(values: npt.NDArray[Any]) -> dict[str, Any]:
    """Return an array as exact bytes that JSON can hold.

    >>> unpack_array(pack_array(np.array([[1.5, -2.0]])))
    array([[ 1.5, -2. ]])
    """
    body = base64.b64encode(zlib.compress(np.ascontiguousarray(values).tobytes(), 1)).decode()
    return {"shape": values.shape, "dtype": values.dtype.str, "zlib": body}


def unpack_array(packed: Mapping[str, Any]) -> npt.NDArray[Any]:
    """Return what `pack_array` packed."""
    size = math.prod(packed["shape"]) * np.dtype(packed["dtype"]).itemsize
    body = zlib.decompressobj().decompress(base64.b64decode(packed["zlib"]), max(size, 1))  # and no more
    return np.frombuffer(body, packed["dtype"]).reshape(packed["shape"])


def plain(value: Any) -> Any:
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
