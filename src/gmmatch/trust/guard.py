"""The guard: which rows to believe, as tiers, and the features by which they are best compared.

Where rows are many, a sample of them, drawn by their values and held in memory, teaches all that rows are
judged by: centres, limits and clumps of the gate, heads, temperature, thresholds of the labels. One pass
then judges every row, and adds up the trusted ones of each class. Where rows are few, they are judged by
what all of them teach, in more passes. What is kept is O(rows) numbers and O(features * (features +
classes)); probabilities of all classes are held for few rows only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..compute.keys import Keys, row_keys
from ..compute.passes import PerRow
from ..facts import Evidence
from ..records import FloatArray, IntArray
from .doubt import doubt_labels
from .gate import Gate
from .head import Head, assign_folds
from .labels import LabelFilter, doubt_from, in_doubt
from .learning import Case, draw_sample, learn, may_be_lifted, sample_size
from .rules import LabelRules, Means, judge_rows, measure_rows

Vector = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

TRUSTED, UNLIKELY_LABEL, OUTSIDE = 0, 1, 2
TIERS = ("trusted", "unlikely label", "outside its class")
"""Names of the tiers, in the order in which rows are picked from them."""

FOLDS = 3
PASSES_OF_GATE = 4  # one for samples, two for distances, one for a mean
PASSES_OF_LABELS = 3  # one for heads, two for the label filter
_LIGHT_SUSPICION = 0.25  # of rows that few others are like: more than none, less than of rows far off
_FEWEST_PER_CLASS = 5
_CLASSES_PER_FEATURE = 32  # that a head on the rows alone tells apart, or so
_MOST_BYTES = 4 << 30
_MANY_ROWS = 1 << 17
_NOTHING_KNOWN = "the classes cannot be told from the rows"

Recall = Callable[[str, Callable[[], Any]], Any]
"""Returns what a run before finished under a name, or what the function makes."""


def make_now(name: str, make: Callable[[], Any]) -> Any:
    """Recall nothing."""
    return make()


@dataclass(frozen=True, eq=False)
class Verdict:
    """What the guard found."""

    tiers: npt.NDArray[np.int8]  # for each row 0 (trusted), 1 (unlikely label) or 2 (outside its class), int8
    gate: Gate  # distances, centres and thresholds of the gate
    labels: LabelFilter | None  # what the label filter found; None where it did not run
    # The heads and the fold of each row; None where the label filter did not run.
    head: Head | None
    folds: IntArray | None
    # Middle and typical distance of the rows.
    origin: Vector
    scale: float
    keys: Keys  # hashes of the rows, by which samples are drawn
    reason: str | None = None  # why the label filter did not run; None where it did
    # How often the heads were fitted: again, without the rows whose labels were unlikely, where those were
    # many.
    rounds: int = 1
    # Loss out of fold of each kind of head that was tried.
    losses: Mapping[str, float] = field(default_factory=dict)
    doubt: float = 1.0  # suspicion beyond which labels are unlikely, in view of how many are
    light: Mask | None = None  # rows of light cells, where rows without labels were divided into cells
    sample: int | None = None  # how many rows the guard learned from; None: all of them
    # What the trusted rows of each class are on average, where they were added up while judging.
    means: Means | None = None
    reads: int = 0  # how often all rows were read

    @property
    def lifted(self) -> bool:
        """Whether heads read the rows lifted, because that judges labels better."""
        return self.head is not None and self.head.inputs.lift is not None

    def with_light(self, light: Mask) -> Verdict:
        """Return the verdict that rows of light cells are outside as well."""
        return replace(
            self, tiers=np.where(light & (self.tiers == TRUSTED), OUTSIDE, self.tiers), light=light
        )

    def evidence(self, codes: IntArray | None, doubt: bool = True) -> Evidence:
        """Return what speaks against each row; `codes` are those that were judged.

        `doubt`: whether to tell also of many rows how likely their labels are wrong, which takes a while.
        """
        gate, labels = self.gate, self.labels
        code = np.zeros(len(self.tiers), np.int64) if codes is None else codes
        suspicion = np.zeros(len(code)) if labels is None else labels.suspicion.copy()
        unlikely = (self.tiers == UNLIKELY_LABEL) | (suspicion > 0.5)
        reach = gate.distances + gate.thresholds[code]
        outlier = np.divide(gate.distances, reach, out=np.zeros(len(code)), where=reach > 0)
        np.maximum(suspicion, outlier, out=suspicion, where=gate.far)
        suspicion[gate.clumped] = 1.0
        if self.light is not None:
            suspicion[self.light] = np.maximum(suspicion[self.light], _LIGHT_SUSPICION)
        suggested = code if labels is None else labels.suggested
        told = None
        if labels is not None and (doubt or len(code) <= _MANY_ROWS):
            told = doubt_labels(labels, code)
        return Evidence(
            self.tiers,
            suspicion,
            suggested,
            unlikely,
            gate.far,
            gate.clumped,
            labels is not None,
            np.where(unlikely, suspicion, 0.0) if told is None else told.wrong,
            np.where(code >= 0, outlier, 0.0),
            np.zeros(len(code)) if told is None else told.likely,
            None if told is None else told.by_class,
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
            "sample": self.sample,
            "reads": self.reads,
        }
        if labels is None:
            facts["labels"] = {"used": False, "reason": self.reason}
        else:
            judged = labels.thresholds[np.isfinite(labels.thresholds)]
            facts["labels"] = {
                "used": True,
                "rule": "another class is likelier, and at least as likely as among its own rows,"
                " or so much likelier that with so many unlikely labels one in four is wrong",
                "rounds": self.rounds,
                "unlikely": int(labels.dropped.sum()),
                "unjudged": int(labels.unjudged.sum()),
                "doubt": round(self.doubt, 6),
                "thresholds": [float(judged.min()), float(judged.max())] if judged.size else None,
                "head": "lifted" if self.lifted else "linear",
                "losses": dict(self.losses),
                "folds": FOLDS if self.head is None else len(self.head.weights),
                "mean_probability_of_the_label": float(labels.own.mean()),
            }
        return facts


def expected_reads(n_rows: int, n_features: int, n_classes: int, labelled: bool) -> int:
    """Return how often `judge` reads rows with known hashes, unless few and with very many unlikely labels.

    >>> expected_reads(10**6, 512, 10, labelled=True), expected_reads(1000, 512, 10, labelled=True)
    (1, 7)
    """
    if n_rows > sample_size(n_features, n_classes):
        return 1
    return PASSES_OF_GATE + (PASSES_OF_LABELS if labelled else 0)


def judge(
    rows: FloatArray,
    codes: IntArray | None,
    n_classes: int,
    seed: int,
    folds: int = FOLDS,
    labelled: bool = True,
    one_cloud: bool = True,
    keys: Keys | None = None,
    recall: Recall = make_now,
) -> Verdict:
    """Judge which rows to believe.

    `rows`: rows; slices and small sorted gathers are read. `codes`: given class of each row, none empty;
    None: all rows are of one class. Rows of a negative class take no part; their values may be anything.
    `n_classes`: number of classes; 1 without labels. `seed`: seed of the hashes by which samples and folds
    are drawn. `folds`: folds of the label filter. `labelled`: whether the classes are labels that may be
    wrong; if not, the gate alone decides. `one_cloud`: whether the rows of a class are one cloud; if not,
    only gross outliers are outside. `keys`: hashes of the rows by this seed, from `compute.keys.row_keys`,
    where they are known already. `recall`: what keeps `learned`, the work of minutes, across a kill.

    Deterministic, and a function of the rows' values alone: another order of the rows gives the same
    tiers in that order. Time: one pass over all rows, O(rows * features * classes), beside one for hashes
    where they are not known, and O(sample * features^2) in BLAS, with the sample of `sample_size`; fewer
    rows than that are read 4 times, 7 with labels, 10 where many labels are unlikely. Memory beyond the
    input: the sample, twice that of `fit_heads`, and some 70 bytes per row.
    """
    usable = np.ones(len(rows), dtype=bool) if codes is None else codes >= 0
    if not usable.all():
        rows = cast(FloatArray, UsableRows(rows, usable))
    reads = int(keys is None)
    if keys is None:
        keys = row_keys(rows, seed)
    reason = _too_little(rows, int(usable.sum()), n_classes, folds) if labelled else "no labels"
    if codes is None and reason is None:
        reason = "one class only"
    fold = None if codes is None or reason is not None else assign_folds(keys, codes, folds)
    case = Case(rows, codes, n_classes, fold, folds, keys, usable, seed, one_cloud)
    sample = draw_sample(keys, codes, usable, sample_size(rows.shape[1], n_classes))
    learned = recall("learned", lambda: learn(case if sample is None else case.among(sample)))
    gate, labels, means = learned.gate, learned.labels, None
    rounds = max(1, len(learned.rounds))
    judged = usable if sample is None else usable[sample]
    doubt = 1.0 if labels is None else doubt_from(labels.dropped, gate.passed & judged)
    if sample is None:
        reads += PASSES_OF_GATE + (0 if labels is None else rounds * PASSES_OF_LABELS)
    else:
        reads += 1
        code = np.zeros(len(rows), np.int64) if codes is None else codes
        if labels is None or fold is None:
            gate = measure_rows(rows, code, gate.limits)
        else:
            rules = LabelRules(learned.rounds, labels.mean, labels.scale, doubt)
            gate, labels, means = judge_rows(rows, code, fold, gate.limits, rules)
    tiers = np.where(gate.passed & usable, TRUSTED, OUTSIDE).astype(np.int8)
    if labels is not None and codes is not None:
        doubtful = in_doubt(labels, codes, gate.passed & usable, doubt)
        labels = replace(labels, dropped=labels.dropped | doubtful)
        tiers[labels.dropped] = UNLIKELY_LABEL
    return Verdict(
        tiers,
        gate,
        labels,
        learned.rounds[-1][0] if learned.rounds else None,
        fold,
        learned.origin,
        learned.scale,
        keys,
        reason or (_NOTHING_KNOWN if labels is None else None),
        rounds,
        learned.losses,
        doubt,
        sample=None if sample is None else len(sample),
        means=means,
        reads=reads,
    )


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
    n_features = rows.shape[1]
    if n_classes > _CLASSES_PER_FEATURE * n_features and not may_be_lifted(n_features, n_classes, folds):
        return f"{n_classes} classes are more than a head of {n_features} features tells apart"
    if 8 * folds * n_features * (n_features + 2 * n_classes) > _MOST_BYTES:
        return f"a head of {n_features} features and {n_classes} classes would take more than 4 GB"
    return None
