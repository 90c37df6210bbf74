"""Rules that a sample taught, and the one pass in which every row is judged by them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..compute import kernels
from ..compute.passes import PerRow, map_blocks
from ..records import FloatArray, IntArray
from .gate import Gate, Limits
from .head import Head, nearest_of
from .labels import LabelFilter, decide, make_ready, may_be_doubted, may_be_kept
from .mixups import MixedUp, nowhere

Vector = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Measured = tuple[Vector, Mask, Mask]
_Columns = tuple[npt.NDArray[Any], ...]
_Sums = tuple[npt.NDArray[Any], ...]

_MEAN_DECIMALS = 6  # of means of probabilities in single precision


@dataclass(frozen=True, eq=False)
class LabelRules:
    """How labels are judged."""

    # Heads, and what the averages of their probabilities are by class: a label that any of them finds
    # unlikely is. The last one tells the probabilities.
    rounds: list[tuple[Head, Vector]]
    # Average probabilities over the sample, and the root mean square of what is left without it.
    mean: Vector
    scale: float
    doubt: float  # suspicion beyond which labels are in doubt
    mixed_up: MixedUp  # which wrong labels rows of each class are given


@dataclass(frozen=True, eq=False)
class Means:
    """What the trusted rows of each class are on average."""

    # Mean of the rows, and of their class probabilities, where classes are many those of the nearest ones;
    # NaN for a class without trusted rows.
    rows: Vector
    probabilities: Vector


def measure_rows(rows: FloatArray, codes: IntArray, limits: Limits) -> Gate:
    """Judge every row by its distance alone, in one pass."""
    own_code = PerRow(codes)
    _compile(rows, limits)

    def part(block: slice) -> Measured:
        return limits.judge(np.asarray(rows[block]), own_code[block])

    distances, far, clumped = zip(*map_blocks(part, rows, "judging rows"), strict=True)
    return Gate(np.concatenate(far), np.concatenate(clumped), np.concatenate(distances), limits)


def judge_rows(
    rows: FloatArray, codes: IntArray, folds: IntArray, limits: Limits, rules: LabelRules
) -> tuple[Gate, LabelFilter, Means]:
    """Judge every row, and add up the likely ones of each class, those in doubt apart, in one pass.

    `rows`, `codes`, `folds`: rows, the given class of each (a negative one takes no part), and the fold of
    each. `limits`, `rules`: what the sample taught.

    Sums are in float64, over blocks of a fixed size, added in the order of the rows. Memory beyond the input:
    some 48 bytes per row, O(classes * (features + classes)), and 8 bytes per row and class where the
    probabilities of all rows are kept.
    """
    n_classes = len(limits.centers)
    few = may_be_kept(len(rows), n_classes)
    own_code, own_fold = PerRow(codes), PerRow(folds)
    _compile(rows, limits)
    for head, _ in rules.rounds:
        make_ready(head)

    def part(block: slice) -> tuple[_Columns, _Sums]:
        fold = own_fold[block].astype(np.int64)
        return _judge_block(np.asarray(rows[block]), own_code[block], fold, limits, rules, few)

    columns: list[npt.NDArray[Any]] = []
    done = 0
    counts = np.zeros(2 * n_classes, np.int64)
    nearest = rules.rounds[-1][0].nearest
    compared = n_classes if nearest is None else nearest.shape[1]
    totals = np.zeros((2 * n_classes, rows.shape[1])), np.zeros((2 * n_classes, compared))
    step = rules.rounds[0][0].block_rows
    # One thread of BLAS per block: the same bits on any number of cores.
    with threadpool_limits(1):
        for found, (present, number, *sums) in map_blocks(part, rows, "judging rows", step):
            # Filled block by block: joined in the end, all would be held twice.
            columns = columns or [np.empty((len(rows), *own.shape[1:]), own.dtype) for own in found]
            for column, own in zip(columns, found, strict=True):
                column[done : done + len(own)] = own
            done += len(found[0])
            counts[present] += number
            for total, own in zip(totals, sums, strict=True):
                total[present] += own
    distances, far, clumped, dropped, own, suspicion, suggested, unjudged, kept, *others = columns
    labels = LabelFilter(
        dropped,
        own,
        rules.rounds[-1][1],
        rules.mean,
        rules.scale,
        unjudged,
        suspicion,
        suggested,
        kept if few else None,
        rules.mixed_up,
        *others,
    )
    beyond = may_be_doubted(np.bincount(codes[dropped], minlength=n_classes), counts[n_classes:])
    both = np.where(beyond, 0, 1)[:, None]
    with np.errstate(invalid="ignore"):
        means = Means(*(_mean(total, counts, both) for total in totals))
    if nearest is not None:
        means = Means(means.rows, means.probabilities.round(_MEAN_DECIMALS))
    return Gate(far, clumped, distances, limits), labels, means


def _mean(totals: Vector, counts: IntArray, both: IntArray) -> Vector:
    """Return the means by class, of rows and rows in doubt where `both` is 1, from the sums of each kind."""
    (sure, doubtful), (few, more) = np.split(totals, 2), np.split(counts[:, None], 2)
    mean: Vector = (sure + both * doubtful) / (few + both * more)
    return mean


def _judge_block(
    values: FloatArray, code: IntArray, fold: IntArray, limits: Limits, rules: LabelRules, few: bool
) -> tuple[_Columns, _Sums]:
    """Return what is found of each row of a block, and the sums of the trusted ones by class."""
    distances, far, clumped = limits.judge(values, code)
    passed = ~(far | clumped) & (code >= 0)
    read = rules.rounds[0][0].inputs(values)
    dropped = np.zeros(len(code), dtype=bool)
    for head, thresholds in rules.rounds:
        probabilities, (wrong, suspicion, suggested) = decide(head, read, fold, code, thresholds)
        unjudged = ~head.seen[fold, code] & (code >= 0)
        dropped |= wrong & passed & ~unjudged
    suspicion[unjudged] = 0.0
    own = probabilities[np.arange(len(code)), code].astype(np.float64)
    kept = probabilities if few else np.empty((len(code), 0))
    suggested = suggested.astype(np.int32)  # held for all rows
    others = rules.mixed_up.elsewhere(probabilities, code), nowhere(probabilities)
    columns = distances, far, clumped, dropped, own, suspicion, suggested, unjudged, kept, *others
    trusted = np.flatnonzero(passed & ~dropped)
    n_classes = probabilities.shape[1]
    kind = code[trusted] + n_classes * (suspicion[trusted] > rules.doubt)
    counts = np.bincount(kind, minlength=2 * n_classes)
    present = np.flatnonzero(counts)
    among = np.full(len(code), -1)
    among[trusted] = (np.cumsum(counts > 0) - 1)[kind]
    compared = probabilities if head.nearest is None else nearest_of(probabilities, head.nearest[code])
    sums = (kernels.group_sums(part, among, len(present))[0] for part in (values, compared))
    return columns, (present, counts[present], *sums)


def _compile(rows: FloatArray, limits: Limits) -> None:
    """Compile the loops of a pass before threads need them."""
    nothing, nobody = np.empty((0, rows.shape[1]), rows.dtype), np.empty(0, np.int64)
    kernels.group_distances(nothing, nobody, limits.centers)
    kernels.group_sums(nothing, nobody, 1)
    kernels.group_sums(np.empty((0, 1)), nobody, 1)
