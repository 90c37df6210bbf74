"""The guard: which rows to believe, as tiers, and the features by which they are best compared.

Passes over the rows, all classes in each: one for hashes, at most one to draw samples, three for the
gate, one for the heads, two for the label filter: eight at most, five without labels, eleven where so
many labels are unlikely that the heads are fitted again. What is kept is O(rows) numbers and
O(features * (features + classes)); probabilities of all classes are never held for more than a block of
rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..compute.keys import Keys, draw_order, gather, row_keys
from ..compute.passes import PerRow
from ..facts import Evidence
from ..location.distances import group_distances
from ..location.geometric_median import group_medians
from ..records import FloatArray, IntArray
from .gate import Gate, find_gate
from .head import Head, Inputs, Labelled, assign_folds, fit_heads
from .labels import LabelFilter, filter_labels
from .lift import BANDWIDTH, Lift, typical_gap

Vector = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_Choice = tuple[Head, dict[str, float]]

TRUSTED, UNLIKELY_LABEL, OUTSIDE = 0, 1, 2
TIERS = ("trusted", "unlikely label", "outside its class")
"""Names of the tiers, in the order in which rows are picked from them."""

FOLDS = 3
PASSES_OF_GATE = 5
PASSES_OF_LABELS = 3
_LIGHT_SUSPICION = 0.25  # of rows that few others are like: more than none, less than of rows far off
_ORIGIN_ROWS = 4096
_SAMPLE_ROWS = 1 << 16
_FEWEST_PER_CLASS = 5
_MOST_BYTES = 4 << 30
_LIFTED_FEATURES = 1024
_EVIDENCE_WORK = 4e10  # multiply-adds that choosing the head may take: a second or two
_EVIDENCE_ROWS = 2048  # rows that the choice is made on at least, where there are so many
_MANY_UNLIKELY = 1 / 6  # share of unlikely labels from which heads that learned from them are not good enough


@dataclass(frozen=True, eq=False)
class Verdict:
    """What the guard found.

    Attributes
    ----------
    tiers
        For each row 0 (trusted), 1 (unlikely label) or 2 (outside its class), int8.
    gate
        Distances, centres and thresholds of the gate.
    labels
        What the label filter found; None where it did not run.
    head, folds
        The heads and the fold of each row; None where the label filter did not run.
    origin, scale
        Middle and typical distance of the rows.
    keys
        Hashes of the rows, by which samples are drawn.
    reason
        Why the label filter did not run; None where it did.
    rounds
        How often the heads were fitted: again, without the rows whose labels were unlikely, where those
        were many.
    losses
        Loss out of fold of each kind of head that was tried.
    light
        Rows of light cells, where rows without labels were divided into cells.
    """

    tiers: npt.NDArray[np.int8]
    gate: Gate
    labels: LabelFilter | None
    head: Head | None
    folds: IntArray | None
    origin: Vector
    scale: float
    keys: Keys
    reason: str | None = None
    rounds: int = 1
    losses: Mapping[str, float] = field(default_factory=dict)
    light: Mask | None = None

    @property
    def lifted(self) -> bool:
        """Whether heads read the rows lifted, because that judges labels better."""
        return self.head is not None and self.head.inputs.lift is not None

    @property
    def reads(self) -> int:
        """How often the rows were read."""
        return PASSES_OF_GATE + (0 if self.labels is None else self.rounds * PASSES_OF_LABELS)

    def with_light(self, light: Mask) -> Verdict:
        """Return the verdict that rows of light cells are outside as well."""
        return replace(
            self, tiers=np.where(light & (self.tiers == TRUSTED), OUTSIDE, self.tiers), light=light
        )

    def evidence(self, codes: IntArray | None) -> Evidence:
        """Return what speaks against each row; `codes` are those that were judged."""
        gate, labels = self.gate, self.labels
        code = np.zeros(len(self.tiers), np.int64) if codes is None else codes
        suspicion = np.zeros(len(code)) if labels is None else labels.suspicion.copy()
        unlikely = (self.tiers == UNLIKELY_LABEL) | (suspicion > 0.5)
        reach = gate.distances + gate.thresholds[code]
        far = np.divide(gate.distances, reach, out=np.zeros(len(code)), where=gate.far & (reach > 0))
        np.maximum(suspicion, far, out=suspicion)
        suspicion[gate.clumped] = 1.0
        if self.light is not None:
            suspicion[self.light] = np.maximum(suspicion[self.light], _LIGHT_SUSPICION)
        suggested = code if labels is None else labels.suggested
        return Evidence(
            self.tiers, suspicion, suggested, unlikely, gate.far, gate.clumped, labels is not None
        )

    def summary(self) -> dict[str, Any]:
        """Return what the guard did and why, as plain data."""
        gate, labels = self.gate, self.labels
        limits = gate.thresholds[np.isfinite(gate.thresholds)]
        facts: dict[str, Any] = {
            "mode": "auto",
            "tiers": dict(zip(TIERS, np.bincount(self.tiers, minlength=len(TIERS)).tolist(), strict=True)),
            "gate": {
                "rule": "distance to the class centre at most median + 3 * 1.4826 * MAD; no clumps",
                "far": int(gate.far.sum()),
                "clumped": int(gate.clumped.sum()),
                "thresholds": [float(limits.min()), float(limits.max())] if limits.size else None,
                "classes_too_small": int(len(gate.thresholds) - limits.size),
            },
            "reads": self.reads,
        }
        if labels is None:
            facts["labels"] = {"used": False, "reason": self.reason}
        else:
            judged = labels.thresholds[np.isfinite(labels.thresholds)]
            facts["labels"] = {
                "used": True,
                "rule": "another class is likelier, and at least as likely as among its own rows",
                "rounds": self.rounds,
                "unlikely": int(labels.dropped.sum()),
                "unjudged": int(labels.unjudged.sum()),
                "thresholds": [float(judged.min()), float(judged.max())] if judged.size else None,
                "head": "lifted" if self.lifted else "linear",
                "losses": dict(self.losses),
                "folds": FOLDS if self.head is None else len(self.head.weights),
                "mean_probability_of_the_label": float(labels.own.mean()),
            }
        return facts


def expected_reads(labelled: bool) -> int:
    """Return how often `judge` reads the rows, unless very many labels are unlikely."""
    return PASSES_OF_GATE + (PASSES_OF_LABELS if labelled else 0)


def judge(
    rows: FloatArray,
    codes: IntArray | None,
    n_classes: int,
    seed: int,
    folds: int = FOLDS,
    labelled: bool = True,
    one_cloud: bool = True,
) -> Verdict:
    """Judge which rows to believe.

    Parameters
    ----------
    rows
        Rows; slices and small sorted gathers are read.
    codes
        Given class of each row, none empty; None: all rows are of one class. Rows of a negative class
        take no part; their values may be anything.
    n_classes
        Number of classes; 1 without labels.
    seed
        Seed of the hashes by which samples and folds are drawn.
    folds
        Folds of the label filter.
    labelled
        Whether the classes are labels that may be wrong; if not, the gate alone decides.
    one_cloud
        Whether the rows of a class are one cloud; if not, only gross outliers are outside.

    Notes
    -----
    Deterministic, and a function of the rows' values alone: another order of the rows gives the same
    tiers in that order. Time: 8 passes and O(rows * features^2) in BLAS; 5 passes without labels, 11 where
    many labels are unlikely. Memory beyond the input: twice that of `sum_heads`, and some 70 bytes per row.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> codes = np.repeat([0, 1], 100)
    >>> rows = rng.normal(size=(200, 8)) + 6.0 * codes[:, None]
    >>> codes[:10] = 1
    >>> rows[199] += 1000.0
    >>> tiers = judge(rows, codes, 2, seed=0).tiers
    >>> bool((tiers[:10] > 0).all()), bool((tiers[10:199] == 0).mean() > 0.95), int(tiers[199])
    (True, True, 2)
    """
    usable = np.ones(len(rows), dtype=bool) if codes is None else codes >= 0
    if not usable.all():
        rows = cast(FloatArray, UsableRows(rows, usable))
    keys = row_keys(rows, seed)
    origin, scale = _origin(rows, keys, usable)
    gate = find_gate(rows, codes, n_classes, keys, one_cloud)
    passed = gate.passed & usable
    tiers = np.where(passed, TRUSTED, OUTSIDE).astype(np.int8)
    reason = _too_little(rows, int(usable.sum()), n_classes, folds) if labelled else "no labels"
    if codes is None or reason is not None:
        return Verdict(tiers, gate, None, None, None, origin, scale, keys, reason or "one class only")
    data = Labelled(rows, codes, n_classes, assign_folds(keys, codes, folds), folds, keys)
    sampled = _sample(keys, passed, rows.shape[1], n_classes)
    head, losses = _choose_head(data, sampled, origin, scale, seed)
    labels = filter_labels(rows, codes, n_classes, data.folds, passed, head)
    rounds = 1
    if labels.dropped.sum() > _MANY_UNLIKELY * passed.sum():
        believed = passed & ~labels.dropped
        kept = sampled & believed
        head = fit_heads(data.among(kept, rows[np.flatnonzero(kept)]), None, head.inputs)
        again = filter_labels(rows, codes, n_classes, data.folds, believed, head)
        labels = replace(again, dropped=labels.dropped | again.dropped)
        rounds = 2
    tiers[labels.dropped] = UNLIKELY_LABEL
    return Verdict(tiers, gate, labels, head, data.folds, origin, scale, keys, rounds=rounds, losses=losses)


def _sample(keys: Keys, passed: Mask, n_features: int, n_classes: int) -> Mask:
    """Return the rows that heads are fitted on: all that passed, or a sample of them by their values.

    A head has a weight per feature and class: 32 rows for each feature and 256 for each class are enough to
    tell them apart from noise, beyond 65,536 rows.
    """
    size = max(_SAMPLE_ROWS, 32 * n_features, 256 * n_classes)
    if int(passed.sum()) <= size:
        return passed
    order = draw_order(keys)
    sampled = np.zeros(len(keys), dtype=bool)
    sampled[order[passed[order]][:size]] = True
    return sampled


def _choose_head(data: Labelled, passed: Mask, origin: Vector, scale: float, seed: int) -> _Choice:
    """Fit heads that read the rows alone, and lifted as well; keep those with the lower loss out of fold.

    Where rows are many, the choice is made on a part of them.
    """
    rows = data.rows[np.flatnonzero(passed)]
    data = data.among(passed, rows)
    order = draw_order(data.keys)
    gap = typical_gap(gather(rows, order[:_ORIGIN_ROWS]))
    lift = Lift.draw(origin, BANDWIDTH * gap, _LIFTED_FEATURES, seed)
    kinds = {"linear": Inputs(origin, scale), "lifted": Inputs(origin, scale, lift)}
    enough = max(_EVIDENCE_ROWS, int(_EVIDENCE_WORK // kinds["lifted"].width ** 2))
    chosen = np.zeros(len(rows), dtype=bool)
    chosen[order[:enough]] = True
    heads = {name: fit_heads(data, chosen, inputs) for name, inputs in kinds.items()}
    losses = {name: head.loss for name, head in heads.items()}
    best = heads[min(losses, key=lambda name: losses[name])]
    if len(rows) > enough:
        best = fit_heads(data, None, best.inputs)
    return best, losses


class UsableRows:
    """Rows of which some must not be looked at: those read as zeros."""

    ndim = 2

    def __init__(self, rows: FloatArray, usable: npt.NDArray[np.bool_]) -> None:
        self.rows = rows
        self.usable = PerRow(usable)
        self.shape = rows.shape
        self.dtype = rows.dtype
        self.itemsize = rows.dtype.itemsize

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: Any) -> FloatArray:
        read: FloatArray = np.array(self.rows[chosen])
        read[~self.usable[chosen]] = 0.0
        return read


def _too_little(rows: FloatArray, n_rows: int, n_classes: int, folds: int) -> str | None:
    """Say why labels cannot be judged, or return None if they can."""
    if n_classes < 2:
        return "one class only"
    if n_rows < _FEWEST_PER_CLASS * n_classes:
        return f"fewer than {_FEWEST_PER_CLASS} rows per class on average"
    if 8 * folds * rows.shape[1] * (rows.shape[1] + 2 * n_classes) > _MOST_BYTES:
        return f"a head of {rows.shape[1]} features and {n_classes} classes would take more than 4 GB"
    return None


def _origin(rows: FloatArray, keys: Keys, usable: npt.NDArray[np.bool_]) -> tuple[Vector, float]:
    """Return the middle of the rows and their typical distance to it, from a sample."""
    order = draw_order(keys)
    sample = gather(rows, order[usable[order]][:_ORIGIN_ROWS])
    origin = group_medians(sample, None, 1, 1e-4)[0].point
    distances = group_distances(sample, None, origin[None])
    scale = float(np.sort(distances)[len(distances) // 2]) or float(distances.mean()) or 1.0
    return origin, scale
