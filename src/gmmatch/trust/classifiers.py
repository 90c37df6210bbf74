"""Classifiers of the given labels that never judge a row by its own label.

A ridge regression of the classes on the rows (linear) or on the rows and their random Fourier features
(kernel), classes weighted alike whatever their size. Leaving one row out has a closed form: with h the
leverage of a row, the score without it is (score - h * label) / (1 - h). So one fit and one number per row
are enough, every row is judged by a model that learned from all others, and rows that taught nothing are
judged by the same weights with a leverage of zero.

How strongly the ridge shrinks, and whether the kernel is worth its price, is chosen by the loss of scores
that leave the row out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..arrays import FloatArray, IntArray, Vector
from ..compute import kernels
from ..compute.blocks import block_rows, map_in_order, turns
from ..compute.runner import cut
from .inputs import BANDWIDTH, FourierFeatures, Inputs, leading_directions, typical_gap

_Solved = Iterator[tuple[float, Vector, FloatArray]]  # penalty, weights, and the leverage of each row

RIDGES = (0.01, 0.05, 0.25, 1.25)
"""Strengths of the ridge that are tried, as shares of the mean diagonal of the Gram matrix."""

STRONG_RIDGES = (6.25, 31.25)
"""Strengths that are tried beside them where rows are fewer than inputs."""

MOST_DIRECTIONS = 1024
"""That classifiers of wide rows are fitted to, those of more than twice as many features."""

KERNEL_FEATURES = 1024
_ROW_WEIGHTS = (0.0, 0.1)  # of a row beside a row of the reference
_ALONE = 4.0  # odds for the reference alone, as other rows repeat what wrong labels have in common
_ROWS_PER_CLASS = 32  # that the choice of the kernel needs, unless all rows are fewer
_CHOICE_WORK = 1e10  # multiply-adds that the Gram matrix of the choice may take
_CHOICE_ROWS = 2048  # rows that the choice is made on at least, where there are so many
_GAP_ROWS = 4096
_LEAST_GAIN = 0.01  # of the loss, for which the kernel is worth its price
_MOST_KERNEL_BYTES = 1 << 30
_MOST_BYTES = 4 << 30
_SHARPNESS = (-3.0, 8.0)  # logarithm of the factor of the scores, least and most
_MOST_STEPS, _SAME = 40, 1e-4  # of the search for it
_BLUNTEST = -12.0  # of scores that were sharpened by rows that the gate let through, and meet all others
_LOSS_VALUES = 1 << 21
_LOSS_ROWS = 2048  # that a choice is judged by
_JUDGED_AT_ONCE = 1024
_SINGLE_ROWS = 1 << 14  # from which products of blocks of rows are in single precision; their sums never are
_WIDE_ROWS = 1 << 13
_LEAST_LEFT = 1e-6  # of 1 - leverage


@dataclass(frozen=True, eq=False)
class Taught:
    """Rows in memory that classifiers learn from, with what is known of them."""

    rows: FloatArray
    codes: IntArray  # given classes
    n_classes: int
    weights: Vector  # of the rows, beside that of their class: 0 for rows that teach nothing
    folds: IntArray | None = None  # of the rows, where rows that belong together must judge none of their own

    def without(self, fold: int) -> Taught:
        """Return the same rows, of which those of a fold teach nothing."""
        return replace(self, weights=self.weights * (self.folds != fold), folds=None)

    def part(self, chosen: IntArray) -> Taught:
        """Return some of the rows."""
        folds = None if self.folds is None else self.folds[chosen]
        return Taught(self.rows[chosen], self.codes[chosen], self.n_classes, self.weights[chosen], folds)

    def balanced(self) -> Vector:
        """Return the weights, each class as heavy as any other, their mean one."""
        masses = np.bincount(self.codes, self.weights, self.n_classes)
        present = max(1, int((masses > 0).sum()))
        own = np.divide(1.0, masses, out=np.zeros_like(masses), where=masses > 0)
        balanced: Vector = self.weights * own[self.codes] * (masses.sum() / present)
        return balanced


@dataclass(frozen=True, eq=False)
class Classifier:
    """Scores for every class, linear in what is read of a row."""

    # (inputs, classes), the intercepts last; scores are log-likelihoods up to a constant. With folds
    # (inputs, folds * classes): the weights without each fold side by side.
    weights: Vector
    inputs: Inputs
    sharpness: float  # factor that the scores have to be that
    penalty: float  # what the ridge adds to the diagonal of the Gram matrix
    loss: float  # mean of -log(probability of the label), classes alike, each row left out
    folds: int = 1
    precision: str = "float64"  # of products of blocks of rows
    # Of an average of classifiers, whose weights are side by side: the factor of the scores of each.
    factors: tuple[float, ...] = ()

    @property
    def kernel(self) -> bool:
        """Whether the classifier reads Fourier features beside the rows."""
        return self.inputs.fourier is not None

    @property
    def block_rows(self) -> int:
        """Rows to judge at once: what is computed of them is little memory."""
        return block_rows(max(self.inputs.width - 1, self.weights.shape[1]))

    def scores(
        self, rows: FloatArray, codes: IntArray, leverage: FloatArray, precision: npt.DTypeLike | None = None
    ) -> FloatArray:
        """Return the scores of some rows for every class, each as if it had not been learned from.

        `codes`, `leverage`: the given class of each row, and its leverage from `fit`, 0 where it taught
        nothing; its fold, where the classifier has folds; in an average, of each of its classifiers.
        `precision`: by default the classifier's own.
        Time: O(rows * inputs * classes).
        """
        kind = np.dtype(self.precision if precision is None else precision)
        scores: FloatArray = self.inputs(rows, kind) @ self.weights.astype(kind, copy=False)
        by_fold = scores.reshape(len(rows), self.folds, self.weights.shape[1] // self.folds)
        if self.factors:
            parts = zip(np.moveaxis(by_fold, 1, 0), leverage.T, self.factors, strict=True)
            average: FloatArray = np.add.reduce([leave_out(part, codes, *own) for part, *own in parts])
            return average
        if self.folds == 1:
            return leave_out(scores, codes, leverage, self.sharpness)
        chosen: FloatArray = by_fold[np.arange(len(rows)), leverage.astype(np.int64)]
        return chosen


@dataclass(frozen=True, eq=False)
class Reduced:
    """Wide rows as classifiers are fitted to them: by the directions in which they vary most.

    The directions follow from rows without their labels, so that leaving a row out stays exact; and a fitted
    classifier reads the rows themselves.
    """

    inputs: Inputs
    turn: FloatArray  # orthonormal columns

    @classmethod
    def of(cls, rows: FloatArray, order: IntArray, inputs: Inputs, seed: int) -> Reduced | None:
        """Return the view for rows in a random order of some of them; None if they are few or not wide."""
        if min(rows.shape[1], len(order)) <= 2 * MOST_DIRECTIONS:
            return None
        with threadpool_limits(1):
            read = inputs(rows[order[: 2 * MOST_DIRECTIONS]], np.float32)[:, :-1]
            return cls(inputs, leading_directions(read, MOST_DIRECTIONS, seed))

    @property
    def own_inputs(self) -> Inputs:
        """What a linear classifier of such rows reads of them: all, as it is."""
        return Inputs(np.zeros(self.turn.shape[1]), 1.0)

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Return rows scaled and clipped, in the directions alone. Time: O(rows * features * directions)."""
        step = block_rows(self.inputs.width) * 4

        def part(start: int) -> FloatArray:
            found: FloatArray = self.inputs(rows[start : start + step], np.float32)[:, :-1] @ self.turn
            return found

        with threadpool_limits(1):
            return np.concatenate(list(map_in_order(part, range(0, len(rows), step))))

    def widen(self, classifier: Classifier) -> Classifier:
        """Return a classifier of such rows as one of the rows themselves.

        Fourier features are those of rows that are not clipped: the few that are get others than they taught.
        """
        n_directions, fourier = self.turn.shape[1], classifier.inputs.fourier
        weights = np.concatenate(
            [self.turn @ classifier.weights[:n_directions], classifier.weights[n_directions:]]
        )
        if fourier is not None:
            fourier = FourierFeatures(self.inputs.origin, self.turn @ fourier.directions / self.inputs.scale)
        return replace(classifier, weights=weights, inputs=replace(self.inputs, fourier=fourier))


def leave_out(
    scores: FloatArray, codes: IntArray, leverage: FloatArray, sharpness: float = 1.0
) -> FloatArray:
    """Return scores, in place, as if the classifier had not learned from the rows themselves."""
    left = np.maximum(1.0 - leverage.astype(np.float64), _LEAST_LEFT).astype(scores.dtype)
    scores[np.arange(len(scores)), codes] -= sharpness * leverage
    if leverage.any():
        scores /= left[:, None]
    return scores


def choose(taught: Taught, order: IntArray, inputs: Inputs, seed: int) -> tuple[Classifier, dict[str, float]]:
    """Return the better of a linear and a kernel classifier, and the loss of each that was tried.

    `taught`: the rows. `order`: a random order of those that teach, by their values. `inputs`: of a linear
    classifier. `seed`: of the Fourier features. Where rows are many, the choice is made on the first of the
    order; the penalty, which does not depend on how many rows there are, stands.
    """
    gap = typical_gap(taught.rows[order[:_GAP_ROWS]])
    fourier = FourierFeatures.draw(inputs.origin, BANDWIDTH * gap, KERNEL_FEATURES, seed)
    kinds = {"linear": inputs, "kernel": replace(inputs, fourier=fourier)}
    enough = max(_CHOICE_ROWS, int(_CHOICE_WORK // kinds["kernel"].width ** 2))
    few = enough < min(len(order), _ROWS_PER_CLASS * taught.n_classes)
    if few or matrix_bytes(kinds["kernel"].width, taught.n_classes) > _MOST_KERNEL_BYTES:
        del kinds["kernel"]
    # Classes take turns, so that the first rows, which the choice is judged by, have some of each.
    chosen = order[:enough]
    part = taught.part(chosen[np.argsort(turns(taught.codes[chosen]), kind="stable")])
    found: dict[str, Classifier] = {}
    for name, inputs in kinds.items():
        if not found or found["linear"].loss >= _LEAST_GAIN:  # else there is nothing to gain
            found[name] = _best_ridge(part, inputs)
    losses = {name: round(one.loss, 3) for name, one in found.items()}
    best = "kernel" if losses.get("kernel", np.inf) <= losses["linear"] - _LEAST_GAIN else "linear"
    return found[best], losses


def fit(taught: Taught, like: Classifier, order: IntArray) -> tuple[Classifier, FloatArray]:
    """Fit a classifier like another to all rows; return it, and the leverage of each row in single precision.

    `order`: a random order of the rows that teach; a part of them sets the sharpness. Where rows have folds,
    there is a fit without each of them, and the fold of each row takes the place of its leverage.

    Time: O(rows * inputs^2) in BLAS for each fold. Memory: O(inputs^2 + inputs * classes), and O(rows^2)
    where rows are fewer than inputs.
    """
    folds = 1 if taught.folds is None else int(taught.folds.max()) + 1
    parts = [taught] if taught.folds is None else [taught.without(fold) for fold in range(folds)]
    precision = np.dtype(np.float64 if len(taught.rows) < _SINGLE_ROWS else np.float32)
    solved = [next(_solve(part, like.inputs, like.penalty, precision)) for part in parts]
    leverage = solved[0][2] if taught.folds is None else taught.folds.astype(np.float32)
    weights = np.concatenate([weights for _, weights, _ in solved], axis=1)
    found = replace(like, weights=weights, sharpness=1.0, folds=folds, precision=np.dtype(precision).name)
    some = order[: max(256, _LOSS_VALUES // max(like.inputs.width, taught.n_classes))]
    scores = found.scores(taught.rows[some], taught.codes[some], leverage[some])
    sharpness, loss = _sharpness(scores, taught.codes[some], taught.balanced()[some])
    return replace(found, weights=weights * sharpness, sharpness=sharpness, loss=loss), leverage


def fit_with_reference(
    taught: Taught, like: Classifier, reference: FloatArray, codes: IntArray
) -> tuple[Classifier, FloatArray, float]:
    """Fit classifiers to rows and to a reference, whose labels are known to be right, and average them.

    They differ in how much a row counts beside a row of the reference, and in whether Fourier features are
    read; each has the ridge of the lowest loss on the reference, every row of it left out. A small reference
    hardly tells which of them is best: each has a share by its loss, in parts of what chance may make of it.
    Returns the average, the leverage of each row in each of them, and how much a row counts on average.
    """
    n_known = len(codes)
    rows = np.concatenate([reference.astype(taught.rows.dtype, copy=False), taught.rows])
    every = np.concatenate([codes, taught.codes])
    # Alone, the reference teaches nothing of classes that it has hardly a row of.
    counts = _ROW_WEIGHTS[int(np.bincount(codes, minlength=taught.n_classes).min() < 2) :]
    kinds = [replace(like.inputs, fourier=None), like.inputs][: 1 + like.kernel]
    found, leverages, tried = [], [], list(itertools.product(kinds, counts))
    for inputs, count in tried:
        both = Taught(rows, every, taught.n_classes, np.r_[np.ones(n_known), count * taught.weights])
        best = _best_ridge(both, inputs, n_known)
        _, weights, leverage = next(_solve(both, inputs, best.penalty, np.dtype(np.float64)))
        # The weight of Fourier features that a classifier does not read is zero.
        unread = [inputs.width - 1] * (like.inputs.width - inputs.width)
        found.append(replace(best, weights=np.insert(weights, unread, 0.0, axis=0)))
        leverages.append(leverage[n_known:])
    losses = np.array([one.loss for one in found])
    odds = np.exp(np.sqrt(n_known) * (losses.min() - losses)) * [1.0 if c else _ALONE for _, c in tried]
    shares = odds / odds.sum()
    factors = tuple((shares * [one.sharpness for one in found]).tolist())
    weights = np.concatenate([f * one.weights for f, one in zip(factors, found, strict=True)], axis=1)
    average = replace(like, weights=weights, loss=float(shares @ losses), folds=len(found), factors=factors)
    return average, np.stack(leverages, axis=1), round(float(shares @ [count for _, count in tried]), 3)


def left_out_loss(scores: FloatArray, codes: IntArray, n_classes: int) -> float:
    """Return the mean of -log(probability of the label), classes alike, by scores that leave the rows out."""
    weights = Taught(scores, codes, n_classes, np.ones(len(codes))).balanced()
    return _sharpness(scores, codes, weights, _BLUNTEST)[1]


def matrix_bytes(width: int, n_classes: int) -> int:
    """Return what the Gram matrix and the weights of a classifier take while it is fitted."""
    return 8 * width * (2 * width + 2 * n_classes)


def classifier_bytes(n_features: int, n_classes: int) -> int:
    """Return what fitting takes at most beside the rows: the kernel's matrices, where it may be tried."""
    widest = n_features + 1 + KERNEL_FEATURES
    kernel = matrix_bytes(widest, n_classes)
    return kernel if kernel <= _MOST_KERNEL_BYTES else matrix_bytes(n_features + 1, n_classes)


def too_large(n_features: int, n_classes: int) -> bool:
    """Return True if a linear classifier would take more than 4 GB."""
    return matrix_bytes(n_features + 1, n_classes) > _MOST_BYTES


def _best_ridge(taught: Taught, inputs: Inputs, n_judged: int = 0) -> Classifier:
    """Return the classifier with the ridge of the lowest loss, in single precision.

    Ridges are tried from the weakest on, until the loss grows. Where rows have folds, those of the first one
    are judged, and the others teach. `n_judged`: how many rows, the first, are judged; all ridges are tried
    then, as the loss on few rows goes up and down.
    """
    some = slice(0, n_judged or max(256, min(_LOSS_ROWS, _LOSS_VALUES // taught.n_classes)))
    codes, read = taught.codes[some], inputs(taught.rows[some], np.float32)
    balanced = Taught(taught.rows, codes, taught.n_classes, taught.weights[some]).balanced()
    if taught.folds is not None:
        balanced, taught = balanced * (taught.folds[some] == 0), taught.without(0)
    best: Classifier | None = None
    for penalty, weights, leverage in _solve(taught, inputs, None, np.dtype(np.float32), read):
        scores = leave_out(read @ weights.astype(np.float32), codes, leverage[some])
        sharpness, loss = _sharpness(scores, codes, balanced)
        if best is not None and loss > best.loss and not n_judged:
            break
        if best is None or loss < best.loss:
            best = Classifier(weights, inputs, sharpness, penalty, loss)
    assert best is not None
    return best


def _solve(
    taught: Taught,
    inputs: Inputs,
    penalty: float | None,
    precision: np.dtype[Any],
    judged: FloatArray | None = None,
) -> _Solved:
    """Yield the weights, and the leverage of each row, for one penalty, or for that of each of `RIDGES`.

    `judged`: what is read of the first rows, in single precision, where only these must have their leverage.

    One thread of BLAS for each product: the bits are the same on any number of cores.
    """
    few = int((taught.weights > 0).sum()) < inputs.width
    with threadpool_limits(1):
        yield from (_dual if few else _primal)(taught, inputs, penalty, precision, judged)


def _damped(gram: FloatArray, penalty: float | None, width: int) -> Iterator[tuple[float, FloatArray]]:
    """Yield each penalty and the Gram matrix of inputs, or of fewer rows, with it added to the diagonal."""
    trace = float(np.trace(gram, dtype=np.float64))
    ridges = RIDGES if len(gram) == width else RIDGES + STRONG_RIDGES
    for strength in [max(ridge * trace / width, 1e-12) for ridge in ridges] if penalty is None else [penalty]:
        damped = gram.copy()
        damped[np.diag_indices_from(damped)] += damped.dtype.type(strength)
        yield strength, damped


def _primal(
    taught: Taught,
    inputs: Inputs,
    penalty: float | None,
    precision: np.dtype[Any],
    judged: FloatArray | None = None,
) -> _Solved:
    from scipy.linalg import cho_factor, cho_solve, solve_triangular

    rows, codes, weights = taught.rows, taught.codes, taught.balanced()
    # Of wide rows many at once: a Gram matrix is added up after each block.
    step = max(block_rows(inputs.width) * 4, min(_WIDE_ROWS, inputs.width) // 2)
    parts = cut(slice(0, len(rows)), step)

    def sums(part: slice) -> tuple[FloatArray, Vector]:
        read = inputs(rows[part], precision)
        moments, _ = kernels.group_sums(read, codes[part], taught.n_classes, weights[part])
        read *= np.sqrt(weights[part])[:, None].astype(precision)
        return read.T @ read, moments

    gram = np.zeros((inputs.width, inputs.width))
    moments = np.zeros((taught.n_classes, inputs.width))
    for own_gram, own_moments in map_in_order(sums, parts, ahead=1):
        gram += own_gram
        moments += own_moments
    for strength, damped in _damped(gram, penalty, inputs.width):
        # The matrix is symmetric: its transpose is in the order that LAPACK wants, without a copy.
        factor = cho_factor(damped.T, lower=True, overwrite_a=True, check_finite=False)
        solved, lower = cho_solve(factor, moments.T, check_finite=False), factor[0].astype(np.float32)

        def leverages(part: slice, lower: FloatArray = lower) -> FloatArray:
            read = inputs(rows[part], np.float32) if judged is None else judged[part]
            turned = solve_triangular(lower, read.T, lower=True, check_finite=False)
            found: FloatArray = np.add.reduce(turned * turned, axis=0) * weights[part].astype(np.float32)
            return found

        wanted = parts if judged is None else cut(slice(0, len(judged)), _JUDGED_AT_ONCE)
        yield strength, solved, np.concatenate(list(map_in_order(leverages, wanted, ahead=1)))


def _dual(
    taught: Taught,
    inputs: Inputs,
    penalty: float | None,
    precision: np.dtype[Any],
    judged: FloatArray | None = None,
) -> _Solved:
    """Solve by the inner products of the rows, which are fewer than the inputs: the same weights."""
    from scipy.linalg import cho_factor, cho_solve

    members = np.flatnonzero(taught.weights > 0)
    root = np.sqrt(taught.balanced()[members])
    read = inputs(taught.rows[members], precision) * root[:, None].astype(precision)
    gram = read @ read.T
    wanted = np.zeros((len(members), taught.n_classes), precision)
    wanted[np.arange(len(members)), taught.codes[members]] = root
    for strength, damped in _damped(gram, penalty, inputs.width):
        factor = cho_factor(damped, lower=True, overwrite_a=True, check_finite=False)
        inverse = cho_solve(factor, np.eye(len(members), dtype=precision), check_finite=False)
        leverage = np.zeros(len(taught.rows), np.float32)
        leverage[members] = 1.0 - strength * inverse.diagonal()
        yield strength, (read.T @ (inverse @ wanted)).astype(np.float64), leverage


def _sharpness(
    scores: FloatArray, codes: IntArray, weights: Vector, least: float = _SHARPNESS[0]
) -> tuple[float, float]:
    """Return the factor of the scores under which the given labels are most likely, and the loss."""
    counted = weights > 0
    scores, codes, weights = scores[counted], codes[counted], weights[counted]
    if not len(codes):  # no row to learn from: every class is as likely
        return 1.0, round(float(np.log(scores.shape[1])), 6)
    place, (low, high) = np.arange(len(codes)), (least, _SHARPNESS[1])
    found = 0.5 * (low + high)
    # Newton's steps, where they stay between the bounds: the loss is convex in the factor.
    for _ in range(_MOST_STEPS):
        sharp = float(np.exp(found)) * scores
        sharp -= sharp.max(axis=1, keepdims=True)
        own, odds = sharp[place, codes], np.exp(sharp)
        totals = np.add.reduce(odds, axis=1, dtype=np.float64)
        odds *= sharp
        middle = np.add.reduce(odds, axis=1, dtype=np.float64) / totals
        odds *= sharp
        squares = np.add.reduce(odds, axis=1, dtype=np.float64) / totals
        loss = float(np.average(np.log(totals) - own, weights=weights))
        slope = float(np.average(middle - own, weights=weights))
        curvature = float(np.average(squares - middle * middle, weights=weights))
        low, high = (low, found) if slope > 0 else (found, high)
        before, share = found, slope / curvature if curvature > 0 else 1.0
        found = before + float(np.log1p(-share)) if share < 1 else low
        if not low < found < high:
            found = 0.5 * (low + high)
        if abs(found - before) < _SAME:
            break
    # Coarse on purpose: the last digits of the search are noise, and must not decide between classifiers.
    return float(np.exp(np.round(found, 2))), round(loss, 6)
