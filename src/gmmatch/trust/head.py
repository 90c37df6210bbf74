"""Heads for the given labels, in closed form, that never judge a row whose label they saw.

Ridge regression of the classes on the rows, or on the rows and their lift: one Gram matrix per fold,
summed in one pass over the rows; the head of a fold is solved from the sums of the others. Where there are
fewer rows than features, the inner products of the rows take the place of those of the features. A softmax
turns a head's outputs into probabilities; its temperature, how strongly the ridge shrinks, and whether the
rows are lifted are chosen by the loss on rows out of their folds.

Sums are in float64 and over blocks of a fixed size, in order. What BLAS leaves open in them (its order of
additions may depend on the machine) is about 1e-13 of the result, and probabilities are rounded to 1e-9
before anything is decided by them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..compute import kernels
from ..compute.blocks import block_rows, by_group, group_order, map_in_order, sum_runs, tiles
from ..compute.keys import Keys, draw_order, gather, in_order
from ..compute.passes import PerRow, fold_blocks
from ..records import FloatArray, IntArray
from .inputs import Inputs

Vector = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_Piece = tuple[int, FloatArray, IntArray, Vector]  # a fold, inputs of its rows, the classes and their sums

MANY_CLASSES = 256
"""Beyond so many classes, heads judge in single precision, and rows are compared by the nearest classes."""

NEAREST_CLASSES = 64
RIDGES = (0.003, 0.03, 0.3)
"""Strengths of the ridge that are tried, as shares of the mean diagonal of the Gram matrix."""

_BLOCKS_AT_ONCE = 4
_SHARPNESS = (-3.0, 8.0)  # logarithm of the inverse temperature, least and most
_SAMPLE_VALUES = 1 << 22
_DECIMALS = 9
_CACHE_BYTES = 1 << 20  # of weights that stay close to a core


@dataclass(frozen=True, eq=False)
class Head:
    """One softmax head per fold."""

    weights: Vector  # shape (folds, inputs, classes); the last row of each holds the intercepts
    sharpness: float  # inverse temperature
    inputs: Inputs  # what the heads read
    seen: Mask  # shape (folds, classes): whether the head of a fold was fitted on any row of a class
    ridge: float  # how strongly the weights are shrunk; one of `RIDGES`
    loss: float  # mean of -log(probability of the label) over a sample of rows out of their folds
    # By class, those that its rows are likeliest to be of; None: all classes, because they are not many.
    nearest: IntArray | None = None
    # How much the loss grows where every row has the label of another, less what chance may make of nothing.
    gain: float = np.inf

    def probabilities(self, rows: FloatArray, folds: IntArray) -> FloatArray:
        """Return the class probabilities of some rows, each by the head of its own fold.

        Time: O(rows * inputs * classes). Memory: O(rows * (inputs + classes)).
        """
        return self.told(self.inputs(rows), folds)

    def told(self, read: FloatArray, folds: IntArray, exact: bool = False) -> FloatArray:
        """Return the class probabilities of rows whose inputs have been computed."""
        many = self.weights.shape[2] > MANY_CLASSES
        weights = self._single if many and not exact else self.weights
        return softmax(_scores(read, folds, weights), self.sharpness)

    @property
    def block_rows(self) -> int:
        """Rows to judge at once: what is computed of them is little memory."""
        n_classes = self.weights.shape[2]
        # Of many classes, more rows at once: what depends on the block, and not on its rows, is much there.
        return block_rows(max(self.inputs.width - 1, n_classes)) * (4 if n_classes > MANY_CLASSES else 1)

    @cached_property
    def _single(self) -> FloatArray:
        return self.weights.astype(np.float32)

    def among_nearest(self, rows: FloatArray, folds: IntArray, codes: IntArray) -> FloatArray:
        """Return how likely each of the classes nearest to a row's own is, beside the others of them."""
        assert self.nearest is not None
        read, kind = self.inputs(rows), codes * len(self.weights) + folds
        scores = np.empty((len(rows), self.nearest.shape[1]))
        order, kinds, starts = group_order(kind)
        for one, members in zip(kinds.tolist(), np.split(order, starts[1:]), strict=True):
            code, fold = divmod(one, len(self.weights))
            scores[members] = read[members] @ self.weights[fold][:, self.nearest[code]]
        return softmax(scores, self.sharpness)

    def with_nearest(self, means: Vector) -> Head:
        """Return the head that knows which classes are the nearest to each, from the means of their rows."""
        n_classes = self.weights.shape[2]
        weights, read = self.weights.mean(axis=0), self.inputs(np.nan_to_num(means))
        found = np.empty((n_classes, min(NEAREST_CLASSES, n_classes)), np.int64)
        for part in tiles(n_classes, n_classes):
            scores = (read[part] @ weights).round(6)
            scores[np.arange(len(scores)), np.arange(n_classes)[part]] = np.inf
            found[part] = _largest(scores, found.shape[1])
        return replace(self, nearest=found)


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows with what heads are fitted by."""

    # Rows, their given classes, and how many classes there are.
    rows: FloatArray
    codes: IntArray
    n_classes: int
    # Fold of each row, and how many folds there are.
    folds: IntArray
    n_folds: int
    keys: Keys  # hashes of the rows, by which samples are drawn

    def among(self, chosen: Mask, rows: FloatArray) -> Labelled:
        """Return what belongs to chosen rows, which have been read."""
        return replace(
            self, rows=rows, codes=self.codes[chosen], folds=self.folds[chosen], keys=self.keys[chosen]
        )


def softmax(scores: FloatArray, sharpness: float = 1.0) -> FloatArray:
    """Return the softmax of each row, in place; in double precision rounded, so that BLAS does not decide."""
    scores *= sharpness
    scores -= scores.max(axis=1, keepdims=True)
    powers = np.exp(scores, out=scores)
    powers /= np.add.reduce(powers, axis=1)[:, None]
    return np.round(powers, _DECIMALS, out=powers) if powers.dtype == np.float64 else powers


def nearest_of(probabilities: FloatArray, nearest: IntArray) -> FloatArray:
    """Return of each row the probabilities of some classes, as if there were no others."""
    chosen = np.take_along_axis(probabilities, nearest, axis=1).astype(np.float64)
    total = np.add.reduce(chosen, axis=1)[:, None]
    shares: Vector = np.divide(chosen, total, out=np.zeros_like(chosen), where=total > 0)
    return shares


def _largest(scores: Vector, count: int) -> IntArray:
    """Return where the largest values of each row are, of equal ones the first; ascending.

    >>> _largest(np.array([[1.0, 3.0, 2.0, 2.0]]), 2)
    array([[1, 2]])
    """
    least = np.partition(scores, -count, axis=1)[:, -count, None]
    more, equal = scores > least, scores == least
    equal &= np.cumsum(equal, axis=1) <= count - np.count_nonzero(more, axis=1)[:, None]
    return np.nonzero(more | equal)[1].reshape(len(scores), count)


def assign_folds(keys: Keys, codes: IntArray, folds: int, order: IntArray | None = None) -> IntArray:
    """Return the fold of each row: by its values and its class, never by its position.

    `order`: that of the keys, where it is known.

    Equal rows of a class share a fold, so that no head saw a copy of a row under the same label. The
    distinct rows of every class are divided evenly.
    """
    order = in_order(keys) if order is None else order
    order = order[by_group(codes[order])]
    key, code = keys[order], codes[order]
    new_class = np.r_[True, code[1:] != code[:-1]]
    new_row = new_class | np.r_[True, key[1:] != key[:-1]]
    distinct = np.cumsum(new_row, dtype=np.int32 if len(keys) < 2**31 else np.int64) - 1
    first = np.maximum.accumulate(np.where(new_class, distinct, 0))
    result = np.empty(len(keys), dtype=np.int64)
    # Classes begin at different folds, so that classes of one row do not all share a fold.
    result[order] = (distinct - first + code.astype(distinct.dtype)) % folds
    return result


def fit_heads(
    data: Labelled,
    chosen: Mask | None,
    inputs: Inputs,
    ridges: tuple[float, ...] = RIDGES,
    precision: npt.DTypeLike = np.float64,
) -> Head:
    """Fit one head per fold on chosen rows of the other folds, with the ridge of the lowest loss.

    `data`: rows and labels. `chosen`: rows to fit on, None for all; a sample of them sets ridge and
    temperature. `inputs`: what the heads read. `ridges`: strengths to choose from. `precision`: of products
    and solutions; float32, for all of some rows in memory, is several times as fast and good for the first
    three digits of the loss.

    Time: O(chosen rows * inputs^2) in BLAS, in one pass over the rows; O(chosen rows^2 * inputs) where that
    is less. Memory beyond the input: 8 * folds * inputs * (inputs + 2 * classes) bytes (for 3 folds and
    1280 features 40 MB with 10 classes, 650 MB with 10,000), and O(block).
    """
    inputs(np.empty((0, data.rows.shape[1]), data.rows.dtype))  # compiled before threads need it
    if chosen is None:
        chosen = np.ones(len(data.codes), dtype=bool)
    counts = data.folds[chosen] * data.n_classes + data.codes[chosen]
    counts = np.bincount(counts, minlength=data.n_folds * data.n_classes).reshape(data.n_folds, -1)
    seen = (counts.sum(axis=0) - counts) > 0
    few = int(chosen.sum()) < inputs.width
    found = (_dual if few else _primal)(data, chosen, inputs, ridges, np.dtype(precision))
    judging = np.float32 if data.n_classes > MANY_CLASSES else np.dtype(precision)
    sample = draw_order(data.keys)
    widest = max(inputs.width, data.n_classes)
    sample = sample[chosen[sample]][: max(256, _SAMPLE_VALUES // widest)]
    read = inputs(gather(data.rows, sample), judging)
    best: Head | None = None
    for ridge, weights in zip(ridges, found, strict=True):
        scores = _scores(read, data.folds[sample], weights.astype(judging, copy=False))
        sharpness, loss = _sharpness(scores, data.codes[sample])
        if best is None or loss < best.loss:
            gain = round(sharpness * _lead(scores, data.codes[sample]), 6)
            best = Head(weights, sharpness, inputs, seen, ridge, loss, gain=gain)
    assert best is not None
    return best


def _primal(
    data: Labelled, chosen: Mask, inputs: Inputs, ridges: tuple[float, ...], precision: np.dtype[Any]
) -> Iterator[Vector]:
    """Yield the weights for each ridge, solved from sums over the rows of each fold."""
    single = precision == np.float32
    grams, moments = _single_sums(data, inputs) if single else _sums(data, chosen, inputs)
    total_gram, total_moments = grams.sum(axis=0), moments.sum(axis=0)

    def solved(ridge_and_fold: tuple[float, int]) -> FloatArray:
        ridge, fold = ridge_and_fold
        gram = total_gram - grams[fold]
        gram[np.diag_indices_from(gram)] += _shrinkage(ridge, float(np.trace(gram)), inputs.width)
        return _solve(gram, (total_moments - moments[fold]).T)

    # One thread of BLAS for each: faster for matrices of this size, and the same bits on any number of cores.
    with threadpool_limits(1):
        found = map_in_order(solved, itertools.product(ridges, range(data.n_folds)), ahead=1)
        for _ in ridges:
            yield np.stack([next(found) for _ in range(data.n_folds)]).astype(np.float64, copy=False)


def _dual(
    data: Labelled, chosen: Mask, inputs: Inputs, ridges: tuple[float, ...], precision: np.dtype[Any]
) -> Iterator[Vector]:
    """Yield the weights for each ridge, solved from the inner products of the rows: the same weights."""
    members = np.flatnonzero(chosen)
    read = inputs(data.rows[members], precision)
    gram, folds = read @ read.T, data.folds[members]
    wanted = np.zeros((len(members), data.n_classes), precision)
    wanted[np.arange(len(members)), data.codes[members]] = 1.0
    for ridge in ridges:
        weights = np.zeros((data.n_folds, inputs.width, data.n_classes))
        for fold in range(data.n_folds):
            others = np.flatnonzero(folds != fold)
            if others.size:
                inner = gram[np.ix_(others, others)]
                shrinkage = _shrinkage(ridge, float(np.trace(inner)), inputs.width)
                inner[np.diag_indices_from(inner)] += shrinkage
                weights[fold] = read[others].T @ _solve(inner, wanted[others])
        yield weights


def _solve(matrix: FloatArray, wanted: FloatArray) -> FloatArray:
    """Solve for a positive definite matrix, which is overwritten; half the time of `scipy.linalg.solve`."""
    from scipy.linalg import cho_factor, cho_solve

    factor = cho_factor(matrix, overwrite_a=True, check_finite=False)
    solved: FloatArray = cho_solve(factor, wanted.astype(matrix.dtype, copy=False), check_finite=False)
    return solved


def _shrinkage(ridge: float, trace: float, width: int) -> float:
    return max(ridge * trace / width, 1e-12)


def _single_sums(data: Labelled, inputs: Inputs) -> tuple[FloatArray, FloatArray]:
    """Return the sums of `_sums`, over all of some rows in memory, in single precision."""
    n_folds, n_classes, width = data.n_folds, data.n_classes, inputs.width
    folds = [np.flatnonzero(data.folds == fold) for fold in range(n_folds)]

    def part(members: IntArray) -> tuple[FloatArray, FloatArray]:
        read = inputs(data.rows[members], np.float32)
        return read.T @ read, kernels.group_sums(read, data.codes[members], n_classes)[0]

    found = map_in_order(part, [half for members in folds for half in np.array_split(members, 2)], ahead=1)
    grams = np.empty((n_folds, width, width), np.float32)
    moments = np.empty((n_folds, n_classes, width))
    for fold, (one, other) in enumerate(zip(found, found, strict=True)):
        np.add(one[0], other[0], out=grams[fold])
        np.add(one[1], other[1], out=moments[fold])
    return grams, moments


def _sums(data: Labelled, chosen: Mask, inputs: Inputs) -> tuple[Vector, Vector]:
    """Return by fold the inner products of the inputs, and by fold and class their sums; in one pass."""
    n_folds, width = data.n_folds, inputs.width
    rows = data.rows
    own_code, own_fold, own_choice = PerRow(data.codes), PerRow(data.folds), PerRow(chosen)
    n_classes = data.n_classes

    def zero() -> tuple[Vector, Vector]:
        return np.zeros((n_folds, width, width)), np.zeros((n_folds, n_classes, width))

    def part(block: slice) -> Iterator[_Piece]:  # one by one: a Gram matrix may be large
        fitted = np.where(own_choice[block], own_fold[block], -1)
        if (fitted < 0).all():
            return
        read, code = rows[block], own_code[block]
        for fold in range(n_folds):
            members = np.flatnonzero(fitted == fold)
            if members.size == 0:
                continue
            members = members[by_group(code[members])]
            values = inputs(read[members])
            groups, starts = np.unique(code[members], return_index=True)
            yield fold, values, groups, sum_runs(values, starts)

    step = block_rows(width) * _BLOCKS_AT_ONCE
    size = 8 * n_folds * width * (width + n_classes)
    # One thread of BLAS per block: its order of additions is then the same on any number of cores.
    with threadpool_limits(1):
        grams, moments = fold_blocks(part, zero, _add, rows, "fitting heads", n_classes, step, size)
    for gram in grams:
        above = np.triu_indices(width, 1)
        gram.T[above] = gram[above]
    return grams, moments


def _scores(inputs: FloatArray, folds: IntArray, weights: FloatArray) -> FloatArray:
    """Return the outputs of the head of each row's fold, in the precision of the weights."""
    n_classes = weights.shape[2]
    inputs = inputs.astype(weights.dtype, copy=False)
    if weights.nbytes <= _CACHE_BYTES:
        return kernels.fold_scores(inputs, folds, weights)
    scores = np.empty((len(inputs), n_classes), weights.dtype)
    for fold in np.unique(folds):
        members = np.flatnonzero(folds == fold)
        scores[members] = inputs[members] @ weights[fold]
    return scores


def _add(total: tuple[Vector, Vector], part: Iterator[_Piece] | tuple[Vector, Vector]) -> None:
    """Add the sums of a block, or of a span, to others in place; of Gram matrices one triangle."""
    from scipy.linalg.blas import dsyrk

    if isinstance(part, tuple):
        for own, other in zip(total, part, strict=True):
            own += other
        return
    for fold, values, groups, sums in part:
        # The products go where their sum is; to BLAS, which counts along columns, all is transposed.
        dsyrk(1.0, values.T, 1.0, total[0][fold].T, lower=1, overwrite_c=1)
        total[1][fold, groups] += sums


def _lead(scores: FloatArray, codes: IntArray) -> float:
    """Return by how much rows score higher for their class than others do, less three standard errors."""
    if not len(codes):
        return 0.0
    usual = scores.mean(axis=0, dtype=np.float64)
    lead = scores[np.arange(len(codes)), codes] - usual[codes]
    return float(lead.mean() - 3 * lead.std() / np.sqrt(len(codes)))


def _sharpness(scores: FloatArray, codes: IntArray) -> tuple[float, float]:
    """Return the inverse temperature under which the given labels are most likely, and the loss."""
    import scipy.optimize

    if not len(codes):  # no row to learn from: every class is as likely
        return 1.0, round(float(np.log(scores.shape[1])), 6)

    def loss(logarithm: float) -> float:
        sharp = float(np.exp(logarithm)) * scores
        sharp -= sharp.max(axis=1, keepdims=True)
        own = sharp[np.arange(len(codes)), codes]
        np.exp(sharp, out=sharp)
        return float(np.mean(np.log(np.add.reduce(sharp, axis=1)) - own, dtype=np.float64))

    best = scipy.optimize.minimize_scalar(loss, bounds=_SHARPNESS, method="bounded", options={"xatol": 1e-3})
    # Coarse on purpose: the last digits of the search are noise, and must not decide between heads.
    return float(np.exp(np.round(best.x, 2))), round(float(best.fun), 6)
