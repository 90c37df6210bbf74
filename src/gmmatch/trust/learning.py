"""Learning what rows are judged by: from all of them or, where they are many, from a sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..compute.blocks import by_group
from ..compute.keys import Keys, draw_order, draw_usable, gather, take_rows
from ..location.distances import group_distances
from ..location.geometric_median import group_medians
from ..location.mean import group_means
from ..records import FloatArray, IntArray
from .gate import Gate, find_gate
from .head import MANY_CLASSES, Head, Labelled, fit_heads
from .inputs import Inputs
from .labels import LabelFilter, filter_labels
from .lift import BANDWIDTH, Lift, typical_gap

Vector = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_Choice = tuple[Head, dict[str, float]]

_ORIGIN_ROWS = 4096
_OUT_OF_SIGHT = 1e6  # times the median distance; the middle is found to a few digits fewer than float64 has
_SAMPLE_ROWS = 1 << 16
_ROWS_PER_FEATURE, _ROWS_PER_CLASS = 32, 128
_LIFTED_FEATURES = 1024
_MOST_LIFTED_BYTES = 1 << 30
_EVIDENCE_WORK = 2e10  # multiply-adds that choosing the head may take: half a second or so
_EVIDENCE_ROWS = 2048  # rows that the choice is made on at least, where there are so many
_DIGITS = 3  # of the losses that decide
_LEAST_GAIN = 0.01  # of the loss, for which a lift is worth its price; on real data it gains more, or nothing
_LEAST_KNOWN = 0.01  # gain of a head that knows something; set by reason
_NEARLY_ALL = 0.9  # share of unlikely labels that is no finding; set by reason
_MANY_UNLIKELY = 1 / 6  # share of unlikely labels from which heads that learned from them are not good enough


def sample_size(n_features: int, n_classes: int) -> int:
    """Return from how many rows the guard learns, where there are more.

    A head has a weight per feature and class, so that the sample grows with both: 32 rows for each feature
    and 128 for each class, set by reason. `python -m benchmarks.sample` tells what it costs.

    >>> sample_size(512, 10), sample_size(4096, 10), sample_size(512, 1000)
    (65536, 131072, 128000)
    """
    return max(_SAMPLE_ROWS, _ROWS_PER_FEATURE * n_features, _ROWS_PER_CLASS * n_classes)


def draw_sample(
    keys: Keys, codes: IntArray | None, usable: Mask, size: int, ordered: IntArray | None = None
) -> IntArray | None:
    """Return the rows to learn from, drawn by their values, in the order of the file; None: all of them.

    `ordered`: the order of the keys, where it is known.

    Classes of which few rows were drawn give 256 rows (128 where classes are many), or all that they have.
    """
    if int(usable.sum()) <= size:
        return None
    n_classes = 0 if codes is None else int(codes.max()) + 1
    enough = _ROWS_PER_CLASS * (1 if n_classes > MANY_CLASSES else 2)
    drawn = draw_usable(keys, usable, size, ordered)
    if codes is not None:
        missing = enough - np.bincount(codes[drawn], minlength=n_classes)
        if (missing > 0).any():
            order = draw_order(keys, order=ordered)
            rest = order[usable[order]][size:]
            rest = rest[missing[codes[rest]] > 0]
            rest = rest[by_group(codes[rest])]
            groups, starts, counts = np.unique(codes[rest], return_index=True, return_counts=True)
            place = np.arange(len(rest)) - np.repeat(starts, counts)
            drawn = np.r_[drawn, rest[place < np.repeat(missing[groups], counts)]]
    return np.sort(drawn)


def may_be_lifted(n_features: int, n_classes: int, folds: int) -> bool:
    """Tell whether the sums of lifted heads take little enough memory.

    >>> may_be_lifted(16, 10_000, 3), may_be_lifted(16, 100_000, 3)
    (True, False)
    """
    return _bytes(n_features + 1 + _LIFTED_FEATURES, n_classes, folds) <= _MOST_LIFTED_BYTES


def heads_bytes(n_features: int, n_classes: int, folds: int) -> int:
    """Return what the sums of heads, and the heads, take; lifted ones, where they may be.

    >>> heads_bytes(64, 1000, 3), heads_bytes(64, 50_000, 3)
    (80734104, 156101400)
    """
    lifted = may_be_lifted(n_features, n_classes, folds)
    return _bytes(n_features + 1 + _LIFTED_FEATURES * lifted, n_classes, folds)


def _bytes(width: int, n_classes: int, folds: int) -> int:
    return 8 * folds * width * (width + 2 * n_classes)


@dataclass(frozen=True, eq=False)
class Case:
    """Rows to learn from, and all that is known of them."""

    rows: FloatArray
    codes: IntArray | None
    n_classes: int
    folds: IntArray | None
    n_folds: int
    keys: Keys
    usable: Mask
    seed: int
    one_cloud: bool

    def among(self, sample: IntArray) -> Case:
        """Return what belongs to a sample, which is read into memory."""
        return replace(
            self,
            rows=take_rows(self.rows, sample),
            codes=None if self.codes is None else self.codes[sample],
            folds=None if self.folds is None else self.folds[sample],
            keys=self.keys[sample],
            usable=self.usable[sample],
        )


@dataclass(frozen=True, eq=False)
class Learned:
    """What the rows that were learned from taught, and what was found of themselves."""

    origin: Vector
    scale: float
    gate: Gate
    rounds: list[tuple[Head, Vector]]
    labels: LabelFilter | None = None
    losses: Mapping[str, float] = field(default_factory=dict)


def learn(case: Case) -> Learned:
    """Find the limits of the gate, the heads and the label filter's thresholds, in one round or two."""
    rows, codes, folds = case.rows, case.codes, case.folds
    origin, scale = _origin(rows, case.keys, case.usable)
    gate = find_gate(rows, codes, case.n_classes, case.keys, case.one_cloud)
    if codes is None or folds is None:
        return Learned(origin, scale, gate, [])
    passed = gate.passed & case.usable
    data = Labelled(rows, codes, case.n_classes, folds, case.n_folds, case.keys)
    head, losses = _choose_head(data, passed, origin, scale, case.seed)
    labels = filter_labels(rows, codes, case.n_classes, folds, passed, head)
    rounds = [(head, labels.thresholds)]
    share = labels.dropped.sum() / max(1, passed.sum())
    if share > _MANY_UNLIKELY:
        if head.gain < _LEAST_KNOWN or share > _NEARLY_ALL:  # chance alone dropped them
            return Learned(origin, scale, gate, [], losses=losses)
        believed = passed & ~labels.dropped
        head = fit_heads(data, believed, head.inputs)
        again = filter_labels(rows, codes, case.n_classes, folds, believed, head)
        labels = replace(again, dropped=labels.dropped | again.dropped)
        rounds.append((head, labels.thresholds))
    if case.n_classes > MANY_CLASSES:
        means = group_means(rows, np.where(passed, codes, -1), case.n_classes)
        rounds[-1] = (head.with_nearest(means), labels.thresholds)
    return Learned(origin, scale, gate, rounds, labels, losses)


def _choose_head(data: Labelled, passed: Mask, origin: Vector, scale: float, seed: int) -> _Choice:
    """Fit heads that read the rows alone, and lifted as well; keep these where they lower the loss enough.

    Where rows are many, the choice is made on a part of them.
    """
    order = draw_order(data.keys)
    order = order[passed[order]]
    gap = typical_gap(gather(data.rows, order[:_ORIGIN_ROWS]))
    lift = Lift.draw(origin, BANDWIDTH * gap, _LIFTED_FEATURES, seed)
    kinds = {"linear": Inputs(origin, scale), "lifted": Inputs(origin, scale, lift)}
    enough = max(_EVIDENCE_ROWS, int(_EVIDENCE_WORK // kinds["lifted"].width ** 2))
    if not may_be_lifted(len(origin), data.n_classes, data.n_folds):
        del kinds["lifted"]
    chosen = np.zeros(len(passed), dtype=bool)
    chosen[order[:enough]] = True
    part = data.among(chosen, data.rows[np.flatnonzero(chosen)])
    # Few digits decide, and single precision has them. One thread of BLAS: they do not depend on the cores.
    losses: dict[str, float] = {}
    with threadpool_limits(1):
        for name, inputs in kinds.items():
            if not losses or losses["linear"] >= _LEAST_GAIN:  # else there is nothing to gain
                head = fit_heads(part, None, inputs, precision=np.float32)
                losses[name] = round(head.loss, _DIGITS)
    best = "lifted" if losses.get("lifted", np.inf) <= losses["linear"] - _LEAST_GAIN else "linear"
    del part  # memory that the sums of all rows take
    return fit_heads(data, passed, kinds[best]), losses


def _origin(rows: FloatArray, keys: Keys, usable: npt.NDArray[np.bool_]) -> tuple[Vector, float]:
    """Return the middle of the rows and their typical distance to it, from a sample."""
    order = draw_order(keys)
    sample = _in_sight(gather(rows, order[usable[order]][:_ORIGIN_ROWS]))
    origin = group_medians(sample, None, 1, 1e-4)[0].point
    distances = group_distances(sample, None, origin[None])
    scale = float(np.sort(distances)[len(distances) // 2]) or float(distances.mean()) or 1.0
    return origin, scale


def _in_sight(sample: FloatArray) -> FloatArray:
    """Leave out rows so far off that, beside their distances, those of the others would be rounded away."""
    middle = np.median(sample.astype(np.float64), axis=0)
    distances = group_distances(sample, None, middle[None])
    reach = _OUT_OF_SIGHT * float(np.median(distances))
    return sample[distances <= reach] if 0 < reach < distances.max() else sample
