"""The label filter: which labels are likely wrong, by probabilities out of fold.

The rule of confident learning (Northcutt, Jiang and Chuang 2021): a class is likely for a row if its
probability is at least the average that rows with this label give it. A row whose likeliest such class is
another one than its label is dropped.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..compute import kernels
from ..compute.passes import PerRow, map_blocks
from ..records import FloatArray, IntArray
from .head import MANY_CLASSES, Head
from .mixups import MixedUp, nowhere

Vector = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Decided = tuple[Mask, Vector, IntArray]
"""Which labels are likely wrong, how well the best other class fits beside the label, and that class."""

VERY_UNLIKELY = 0.2
"""Labels whose probability is less than this, beside what is usual for the class, are very unlikely."""

_MOST_KEPT = 1 << 24
_SINGLE_ERROR = 1e-4  # of probabilities in single precision, as a share of them, generously
_ODDS_DECIMALS = 4  # that are good then
_HARM = 3.0  # right rows that make up for a wrong one; set by reason


@dataclass(frozen=True, eq=False)
class LabelFilter:
    """What the filter measured and decided."""

    dropped: Mask  # rows with a likely wrong label
    own: Vector  # probability of each row's label
    thresholds: Vector  # by class, the average probability that passed rows with this label give it
    # Average probabilities over the passed rows, and the root mean square of what is left without it.
    mean: Vector
    scale: float
    unjudged: Mask  # rows whose label their head never saw
    # With r how many times as likely the best other class is as the label, each measured against the rows
    # that bear it: r / (1 + r), 0 for unjudged rows; and that class.
    suspicion: Vector
    suggested: IntArray
    # Class probabilities of all rows, where they are few enough to keep; else None.
    probabilities: FloatArray | None
    mixed_up: MixedUp  # which wrong labels rows of each class are given
    # How likely each row is of another class whose rows are given its label, up to a factor; and how likely
    # it is not of its likeliest class. Both in single precision.
    elsewhere: FloatArray
    nowhere: FloatArray


def doubt_from(dropped: Mask, passed: Mask) -> float:
    """Return the suspicion beyond which a label is in doubt: better left out than kept.

    Where a share d of the labels is likely wrong, one whose best other class is r times as likely is wrong at
    odds of r d / (1 - d). A wrong row harms more than a right one helps: three to one.

    >>> [round(doubt_from(np.arange(100) < wrong, np.ones(100, bool)), 2) for wrong in (1, 10, 20, 30)]
    [0.97, 0.75, 0.57, 0.44]
    """
    share = dropped.sum() / max(1, passed.sum())
    return float((1 - share) / (1 - share + _HARM * share))


def in_doubt(labels: LabelFilter, codes: IntArray, passed: Mask, doubt: float) -> Mask:
    """Tell which labels that were not dropped are in doubt."""
    doubtful: Mask = passed & ~labels.dropped & (labels.suspicion > doubt)
    counts = (
        np.bincount(codes[rows], minlength=len(labels.thresholds)) for rows in (labels.dropped, doubtful)
    )
    return doubtful & may_be_doubted(*counts)[codes]


def may_be_doubted(dropped: IntArray, doubtful: IntArray) -> Mask:
    """Tell which classes have no more labels in doubt than dropped ones; heads know too little of others."""
    result: Mask = doubtful <= dropped
    return result


def may_be_kept(n_rows: int, n_classes: int) -> bool:
    """Tell whether the class probabilities of all rows are few enough to keep."""
    return n_rows * n_classes <= _MOST_KEPT


def filter_labels(
    rows: FloatArray, codes: IntArray, n_classes: int, folds: IntArray, passed: Mask, head: Head
) -> LabelFilter:
    """Judge the label of every row by the head of its fold.

    `rows`, `codes`, `n_classes`: rows, their given classes, and how many classes there are. `folds`: fold of
    each row. `passed`: rows that passed the gate, over which averages are taken. `head`: the heads, one per
    fold.

    Two passes: averages, then decisions. Probabilities are computed block by block; where all of them
    take at most 128 MB they are kept, and the second pass is not needed. Memory beyond the input:
    O(block * (features + classes)), some 20 bytes per row, and those 128 MB.
    """
    few = may_be_kept(len(rows), n_classes)
    step = head.block_rows
    make_ready(head)

    own_code, own_fold, own_passed = PerRow(codes), PerRow(folds), PerRow(passed)

    def read(block: slice) -> tuple[Vector, Vector, Vector, FloatArray | None, FloatArray]:
        probabilities = head.probabilities(rows[block], own_fold[block])
        own = probabilities[np.arange(len(probabilities)), own_code[block]]
        inside = probabilities[own_passed[block]]
        sums, squares = (np.add.reduce(part, dtype=np.float64) for part in (inside, inside * inside))
        return own, sums, squares, probabilities if few else None, nowhere(probabilities)

    # One thread of BLAS per block: the same bits on any number of cores.
    with threadpool_limits(1):
        found = list(map_blocks(read, rows, "reading the labels", step))
    own = np.concatenate([part[0] for part in found])
    sums, squares = np.zeros(n_classes), np.zeros(n_classes)
    for part in found:
        sums += part[1]
        squares += part[2]
    kept = np.concatenate([part[3] for part in found if part[3] is not None]) if few else None
    unjudged = ~head.seen[folds, codes] & (codes >= 0)
    thresholds = _averages(own, codes, n_classes, passed & ~unjudged)
    counted = max(1, int(passed.sum()))
    mean = sums / counted
    spread = np.maximum(squares / counted - mean * mean, 0.0)

    def again(block: slice) -> Decided:
        return decide(head, head.inputs(rows[block]), own_fold[block], own_code[block], thresholds)[1]

    if kept is not None and kept.dtype == np.float64:
        decided = [kernels.judge_labels(kept, codes, thresholds, 0.0)[:3]]
    else:
        with threadpool_limits(1):
            decided = list(map_blocks(again, rows, "judging the labels", step))
    wrong, suspicion, suggested = (np.concatenate(part) for part in zip(*decided, strict=True))
    suspicion[unjudged] = 0.0
    mixed_up = MixedUp(None)
    if kept is not None and n_classes <= MANY_CLASSES:
        surely = wrong & (codes >= 0) & ~unjudged & (own < VERY_UNLIKELY * thresholds[codes])
        mixed_up = MixedUp.count(codes[surely], suggested[surely], thresholds)
    return LabelFilter(
        wrong & passed & ~unjudged,
        own,
        thresholds,
        mean,
        float(np.sqrt(np.add.reduce(spread))),
        unjudged,
        suspicion,
        suggested,
        kept,
        mixed_up,
        np.asarray(1 - own, np.float32) if kept is None else mixed_up.elsewhere(kept, codes),
        np.concatenate([part[4] for part in found]),
    )


def decide(
    head: Head, read: FloatArray, folds: IntArray, codes: IntArray, thresholds: Vector
) -> tuple[FloatArray, Decided]:
    """Return the class probabilities of rows whose inputs were read, and what they say of the labels.

    Where probabilities are in single precision and rounding may have decided, double precision does.
    """
    told = head.told(read, folds)
    single = told.dtype != np.float64
    slack = _SINGLE_ERROR if single else 0.0
    wrong, odds, other, close = kernels.judge_labels(told, codes, thresholds, slack)
    if single:
        exact = head.told(read[close], folds[close], exact=True)
        wrong[close], odds[close], other[close], _ = kernels.judge_labels(
            exact, codes[close], thresholds, 0.0
        )
        odds = odds.round(_ODDS_DECIMALS)
    return told, (wrong, odds, other)


def make_ready(head: Head) -> None:
    """Have all that `decide` needs compiled and made before threads need it."""
    nobody = np.empty(0, np.int64)
    decide(head, np.empty((0, head.inputs.width)), nobody, nobody, np.ones(head.weights.shape[2]))


def _averages(own: Vector, codes: IntArray, n_classes: int, counted: Mask) -> Vector:
    """Return by class the average probability of the label; infinite for classes without counted rows."""
    counts = np.bincount(codes[counted], minlength=n_classes)
    sums = np.bincount(codes[counted], own[counted], n_classes)
    averages = np.full(n_classes, np.inf)
    np.divide(sums, counts, out=averages, where=counts > 0)
    # Rows that are all alike have the average itself as their probability.
    return averages * (1 - 1e-9)
