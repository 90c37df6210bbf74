"""A linear head for the given labels, in closed form, that never judges a row whose label it saw.

Ridge regression of the classes on the rows: one Gram matrix per fold, summed in one pass over the rows;
the head of a fold is solved from the sums of the others. A softmax turns its outputs into probabilities;
the one temperature is fitted on rows out of their folds.

Sums are in float64 and over blocks of a fixed size, in order. What BLAS leaves open in them (its order of
additions may depend on the machine) is about 1e-13 of the result, and probabilities are rounded to 1e-9
before anything is decided by them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.optimize
from threadpoolctl import threadpool_limits

from ..compute.blocks import block_rows, row_norms, sum_runs
from ..compute.keys import Keys, draw_order, gather
from ..compute.passes import PerRow, fold_blocks
from ..records import FloatArray, IntArray

Vector = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_Piece = tuple[int, Vector, IntArray, Vector]  # a fold, its Gram matrix, the classes and their sums

_RIDGE = 0.03  # of the mean diagonal of the Gram matrix
_CLIP = 2.0  # typical distances from the middle: no row is heavier than one at this distance
_BLOCKS_AT_ONCE = 4
_SHARPNESS = (-3.0, 8.0)  # logarithm of the inverse temperature, least and most
_SAMPLE_VALUES = 1 << 22
_DECIMALS = 9
_NARROW = 64


@dataclass(frozen=True, eq=False)
class Head:
    """One linear softmax head per fold.

    Attributes
    ----------
    weights
        Shape (folds, features + 1, classes); the last row of each holds the intercepts.
    sharpness
        Inverse temperature.
    origin, scale
        Middle and typical distance of the rows; the heads read (row - origin) / scale, clipped.
    seen
        Shape (folds, classes): whether the head of a fold was fitted on any row of a class.
    """

    weights: Vector
    sharpness: float
    origin: Vector
    scale: float
    seen: Mask

    def probabilities(self, rows: FloatArray, folds: IntArray) -> Vector:
        """Return the class probabilities of some rows, each by the head of its own fold.

        Time: O(rows * features * classes). Memory: O(rows * (features + classes)).
        """
        scores = self.sharpness * _scores(_inputs(rows, self.origin, self.scale), folds, self.weights)
        return softmax(scores)


def softmax(scores: Vector) -> Vector:
    """Return the softmax of each row, rounded so that what BLAS leaves open does not decide."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    powers /= np.add.reduce(powers, axis=1)[:, None]
    rounded: Vector = powers.round(_DECIMALS)
    return rounded


def assign_folds(keys: Keys, codes: IntArray, folds: int) -> IntArray:
    """Return the fold of each row: by its values and its class, never by its position.

    Equal rows of a class share a fold, so that no head saw a copy of a row under the same label. The
    distinct rows of every class are divided evenly.

    Examples
    --------
    >>> assign_folds(np.array([5, 1, 5, 9], dtype=np.uint64), np.zeros(4, dtype=int), 3)
    array([1, 0, 1, 2])
    """
    order = np.lexsort((keys, codes))
    key, code = keys[order], codes[order]
    new_class = np.r_[True, code[1:] != code[:-1]]
    new_row = new_class | np.r_[True, key[1:] != key[:-1]]
    distinct = np.cumsum(new_row) - 1
    first = np.maximum.accumulate(np.where(new_class, distinct, 0))
    result = np.empty(len(keys), dtype=np.int64)
    # Classes begin at different folds, so that classes of one row do not all share a fold.
    result[order] = (distinct - first + code) % folds
    return result


@dataclass(frozen=True, eq=False)
class HeadSums:
    """What the heads are solved from; the first axis runs over folds.

    Attributes
    ----------
    grams
        Inner products of the features (the last one is a one for every row), over the rows of a fold.
    moments
        By class, the sums of these features.
    counts
        By class, how many rows.
    """

    grams: Vector
    moments: Vector
    counts: IntArray

    def without(self, other: HeadSums) -> HeadSums:
        """Return the sums over the rows that are in these, but not in others that were among them."""
        names = ("grams", "moments", "counts")
        return HeadSums(*(getattr(self, name) - getattr(other, name) for name in names))


def sum_heads(
    rows: FloatArray,
    codes: IntArray,
    n_classes: int,
    folds: IntArray,
    n_folds: int,
    chosen: Mask,
    origin: Vector,
    scale: float,
) -> HeadSums:
    """Add up what heads are solved from, in one pass.

    Parameters
    ----------
    rows, codes, n_classes
        Rows, their given classes, and how many classes there are.
    folds, n_folds
        Fold of each row, and how many folds there are.
    chosen
        Rows to add up.
    origin, scale
        Middle and typical distance of the rows.

    Notes
    -----
    Time: O(chosen rows * features^2) in BLAS. Memory beyond the input: 8 * folds * features * (features +
    2 * classes) bytes (for 3 folds and 1280 features 40 MB with 10 classes, 650 MB with 10,000), and
    O(block).
    """
    width = rows.shape[1] + 1
    own_code, own_fold, own_choice = PerRow(codes), PerRow(folds), PerRow(chosen)

    def zero() -> tuple[Vector, Vector]:
        return np.zeros((n_folds, width, width)), np.zeros((n_folds, n_classes, width))

    def part(block: slice) -> list[_Piece]:
        read, code = rows[block], own_code[block]
        fitted, pieces = np.where(own_choice[block], own_fold[block], -1), []
        for fold in range(n_folds):
            members = np.flatnonzero(fitted == fold)
            if members.size == 0:
                continue
            members = members[np.argsort(code[members], kind="stable")]
            values = _inputs(read[members], origin, scale)
            groups, starts = np.unique(code[members], return_index=True)
            pieces.append((fold, values.T @ values, groups, sum_runs(values, starts)))
        return pieces

    step = block_rows(rows.shape[1]) * _BLOCKS_AT_ONCE
    size = 8 * n_folds * width * (width + n_classes)
    # One thread of BLAS per block: its order of additions is then the same on any number of cores.
    with threadpool_limits(1):
        grams, moments = fold_blocks(part, zero, _add, rows, "learning the labels", n_classes, step, size)
    counts = np.bincount((folds * n_classes + codes)[chosen], minlength=n_folds * n_classes)
    return HeadSums(grams, moments, counts.reshape(n_folds, n_classes))


def solve_heads(
    sums: HeadSums,
    rows: FloatArray,
    codes: IntArray,
    folds: IntArray,
    fitted: Mask,
    origin: Vector,
    scale: float,
    keys: Keys,
) -> Head:
    """Solve for one head per fold, from the sums over the rows of the other folds.

    Parameters
    ----------
    sums
        Over the rows to fit on.
    rows, codes, folds, origin, scale
        As for `sum_heads`.
    fitted
        Rows that the sums are over; a sample of them, drawn by the hashes `keys`, sets the temperature.

    Notes
    -----
    Time: O(features^3) per fold.
    """
    n_folds, n_classes, width = sums.moments.shape
    total_gram, total_moments = sums.grams.sum(axis=0), sums.moments.sum(axis=0)
    weights = np.empty((n_folds, width, n_classes))
    for fold in range(n_folds):
        gram = total_gram - sums.grams[fold]
        gram[np.diag_indices_from(gram)] += max(_RIDGE * float(np.trace(gram)) / len(gram), 1e-12)
        weights[fold] = scipy.linalg.solve(gram, (total_moments - sums.moments[fold]).T, assume_a="pos")
    seen = (sums.counts.sum(axis=0) - sums.counts) > 0
    sample = draw_order(keys)
    sample = sample[fitted[sample]][: max(256, _SAMPLE_VALUES // max(rows.shape[1], n_classes))]
    inputs = _inputs(gather(rows, sample), origin, scale)
    sharpness = _sharpness(_scores(inputs, folds[sample], weights), codes[sample])
    return Head(weights, sharpness, origin, scale, seen)


def _inputs(rows: FloatArray, origin: Vector, scale: float) -> Vector:
    """Return what the head reads: scaled rows, none longer than the clip, and a one."""
    inputs = np.ones((len(rows), rows.shape[1] + 1))
    offsets = np.subtract(rows, origin, dtype=np.float64, out=inputs[:, :-1])
    lengths = row_norms(offsets)
    offsets *= np.minimum(1 / scale, _CLIP / np.maximum(lengths, scale))[:, None]
    return inputs


def _scores(inputs: Vector, folds: IntArray, weights: Vector) -> Vector:
    n_folds, width, n_classes = weights.shape
    if n_folds * n_classes <= _NARROW:
        # One product for all folds costs less than taking the rows of each apart.
        products = inputs @ weights.transpose(1, 0, 2).reshape(width, -1)
        own: Vector = products.reshape(len(inputs), n_folds, n_classes)[np.arange(len(inputs)), folds]
        return own
    scores = np.empty((len(inputs), n_classes))
    for fold in np.unique(folds):
        members = np.flatnonzero(folds == fold)
        scores[members] = inputs[members] @ weights[fold]
    return scores


def _add(total: tuple[Vector, Vector], part: list[_Piece] | tuple[Vector, Vector]) -> None:
    """Add the sums of a block, or of a span, to others in place."""
    if isinstance(part, tuple):
        for own, other in zip(total, part, strict=True):
            own += other
        return
    for fold, gram, groups, sums in part:
        total[0][fold] += gram
        total[1][fold, groups] += sums


def _sharpness(scores: Vector, codes: IntArray) -> float:
    """Return the inverse temperature under which the given labels of the sample are most likely."""

    def loss(logarithm: float) -> float:
        sharp = np.exp(logarithm) * scores
        sharp -= sharp.max(axis=1, keepdims=True)
        own = sharp[np.arange(len(codes)), codes]
        return float(np.mean(np.log(np.add.reduce(np.exp(sharp), axis=1)) - own))

    best = scipy.optimize.minimize_scalar(loss, bounds=_SHARPNESS, method="bounded", options={"xatol": 1e-3})
    # Coarse on purpose: the last digits of the search are noise.
    return float(np.exp(np.round(best.x, 2)))
