"""One model of wrong labels: how likely each given label is wrong, and which class is likelier.

A row has a true class, one of the known classes or none of them (open set). What a classifier that did not
learn from the row scores for each class gives the probability of each true class; a transition matrix gives
the probability of the given label. Both are fitted to the given labels by expectation maximisation, and
Bayes' rule gives the rest.

- Rare confusions: every class starts from the noise rate of all classes, as if it had been seen on
  `PRIOR_ROWS` rows, so that a class of few rows is believed until there is evidence. Which class is given in
  its place starts alike for all, as if seen on `PRIOR_WRONG` wrong labels. A confusion counts from its second
  row on: otherwise every hard row would be its own evidence of a confusion.
- Class weights start from the frequency of the labels, as if it had been seen on `PRIOR_WEIGHT` rows.
- Open set: a row that no class scores for fits a true class whose score is constant, and which is given any
  label as often as that label occurs. Models with and without one are compared.
- Sharpness: wrong labels flatten a classifier. How much sharper its scores should be, the likelihood of the
  labels tells; several values are averaged by it. Few rows leave all of them possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, IntArray, Vector
from ..compute import kernels
from ..compute.blocks import map_in_order

SHARPNESS = (0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6)
"""Factors of the scores that are tried; neighbours differ by what the likelihood of labels hardly tells."""

PRIOR_ROWS, PRIOR_WRONG, PRIOR_WEIGHT = 100.0, 50.0, 2.0
"""What the pooled noise rate, even confusions and the class weights count, in rows, in every class."""

STRAY = 0.9
"""Probability that a row far outside every class belongs to none, before its label is seen."""

MANY_CLASSES = 256
"""With more classes, which pairs of them are confused is not learned: rows per pair are too few."""

_POOLED = 1e6  # what the priors then count, times as much
_STEPS = 16
_FIRST_STEP = 2  # of the sharpness
_HOPELESS = 20.0  # logarithm of the odds against a sharpness beyond which no further one is tried
_FIT_VALUES, _FEWEST_FITTED, _MOST_FITTED = 1 << 19, 2048, 16384
_OPEN_ROWS = 0.05  # share of the rows that fit no class better than the open set, to begin with
_OPEN_PENALTY = 6.0  # logarithm of the odds against an open set before any label is seen
_STRAY_ROWS = 10.0  # what that counts beside the rows that there are
_FIRST_RATE, _LEAST_RATE, _MOST_RATE = 0.1, 0.002, 0.6
_LONGEST_STEP = 1.0  # of the logarithm of a class weight
_NEGLIGIBLE = 1e-3  # weight below which a sharpness is left out
_DECIMALS = 6
_NORMAL_90 = 1.645


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """How labels come about, for each sharpness that the labels leave possible."""

    sharpness: Vector  # factor of the scores
    weights: Vector  # probability of each sharpness; they add up to 1
    # (sharpness, classes + 1): logarithm of the weight of each true class; the last is the open set.
    bias: Vector
    # (sharpness, classes + 1, classes): probability of the given label by true class. With more than
    # MANY_CLASSES classes (sharpness, 1, 1): the noise rate, shared alike by all other classes.
    transition: Vector
    frequency: Vector  # how often each label occurs
    spread: Vector  # (classes + 1, 2): how far the share of wrong labels may be below and above; last: of all

    @cached_property
    def tables(self) -> dict[np.dtype[Any], tuple[FloatArray, ...]]:
        """The model by precision as `kernels.judge_labels` reads it, the classifier before its parts."""
        return {np.dtype(kind): self._tables(kind) for kind in (np.float32, np.float64)}

    def _tables(self, precision: npt.DTypeLike) -> tuple[FloatArray, ...]:
        bias = np.full((len(self.weights) + 1, _width(len(self.frequency))), -np.inf)
        bias[0, : len(self.frequency)] = 0.0
        bias[1:, : len(self.frequency) + 1] = self.bias
        lines = zip(*(_lines(part, self.frequency) for part in self.transition), strict=True)
        given = (np.stack(part).astype(precision) for part in lines)
        return np.r_[1.0, self.sharpness].astype(precision), bias.astype(precision), self.weights, *given

    def judge(self, scores: FloatArray, codes: IntArray) -> LabelVerdict:
        """Return what the model concludes from the scores of rows and their given classes.

        Time: O(rows * classes) for each sharpness, in the precision of the scores. Values are rounded to six
        decimals, so that the order of additions inside BLAS does not decide.
        """
        wrong, suggested, *found, probability = kernels.judge_labels(
            scores, codes, *self.tables[scores.dtype]
        )
        likely, outside, evidence = (part.round(_DECIMALS) for part in found)
        return LabelVerdict(
            wrong.round(_DECIMALS), suggested, likely, outside, probability.round(9), evidence
        )


@dataclass(frozen=True, eq=False)
class LabelVerdict:
    """What the model concludes of the label of each row."""

    wrong: FloatArray  # probability that the given label is wrong
    suggested: npt.NDArray[np.signedinteger[Any]]  # the likeliest other class
    likely: FloatArray  # its probability
    outside: FloatArray  # probability that the row belongs to no class
    probability: FloatArray  # of the given label, by the classifier alone
    evidence: FloatArray  # the same by the model

    def with_rows(self, rows: IntArray, other: LabelVerdict) -> LabelVerdict:
        """Put in place, and return, what is concluded of some rows."""
        for name, values in vars(other).items():
            getattr(self, name)[rows] = values
        return self


def stray_share(evidence: FloatArray, frequency: Vector) -> float:
    """Return which share of rows far outside every class belongs to none, by how their labels fit the model.

    `evidence`, `frequency`: probability of each row's label by the model, and how often that label occurs.
    """
    share = STRAY
    for _ in range(_STEPS):
        odds = outside_of_all(share, evidence, frequency)
        share = (float(odds.sum()) + _STRAY_ROWS * STRAY) / (len(odds) + _STRAY_ROWS)
    return round(share, _DECIMALS)


def outside_of_all(share: float, evidence: FloatArray, frequency: Vector) -> Vector:
    """Return the probability that rows belong to no class; a share of them does whatever their labels."""
    strays = share * frequency
    found: Vector = strays / np.maximum(strays + (1.0 - share) * evidence, 1e-300)
    return found


def fitted_rows(n_classes: int) -> int:
    """Return how many rows the model is fitted to, where there are more."""
    return max(_FEWEST_FITTED, min(_MOST_FITTED, _FIT_VALUES // (n_classes + 1)))


def noise_bytes(n_classes: int) -> int:
    """Return what fitting a sharpness takes: scores, likelihoods and what rows count in each class."""
    return 5 * 8 * fitted_rows(n_classes) * (n_classes + 1)


def fit_noise(scores: FloatArray, codes: IntArray, pooled: bool = False) -> NoiseModel:
    """Fit the model to rows by the scores of classifiers that did not learn from them.

    `scores`: (rows, classes), up to a constant per row the logarithm of the likelihood of each class,
    class sizes divided out. `codes`: the given class of each row. `pooled`: whether classes are as frequent
    as their labels, and all have one noise rate: so it is where rows known to be right have taught the
    classifiers, whose scores then need no shift.

    From a middle sharpness on, larger and smaller ones are tried until the labels are all but impossible.

    Time: some 130 steps of O(rows * classes). Memory: O(rows * classes); see `noise_bytes`.
    """
    rows, best = _Fitted(scores, codes, _POOLED if pooled else 1.0), _FIRST_STEP
    found: dict[tuple[bool, int], _Fit] = {}
    for open_set in (False, True):
        for steps in (range(best, len(SHARPNESS)), range(best - 1, -1, -1)):
            fits = map_in_order(partial(rows.fit, open_set), [SHARPNESS[step] for step in steps], ahead=1)
            for step, fit in zip(steps, fits, strict=True):
                found[open_set, step] = fit
                if fit.evidence < max(other.evidence for other in found.values()) - _HOPELESS:
                    break
        best = max(found, key=lambda key: found[key].evidence)[1]
    return _averaged(dict(sorted(found.items())), rows.sizes, rows.frequency)


@dataclass(frozen=True, eq=False)
class _Fit:
    """The model of one sharpness, with an open set or without."""

    evidence: float  # logarithm of the likelihood of the labels, and of the prior
    bias: Vector
    transition: Vector
    wrong: Vector  # expected number of wrong labels by given class


class _Fitted:
    """Rows that a model is fitted to."""

    def __init__(self, scores: FloatArray, codes: IntArray, firm: float) -> None:
        # `firm`: factor of what the priors count.
        self.scores, self.codes, self.firm = np.asarray(scores, np.float64), codes, firm
        n_rows, n_classes = scores.shape
        self.sizes = np.bincount(codes, minlength=n_classes)
        self.frequency = self.sizes / max(1, n_rows)
        self.first = np.log((self.sizes + 0.5) / (n_rows + 0.5 * n_classes) * n_classes)

    def fit(self, open_set: bool, sharpness: float) -> _Fit:
        """Fit class weights and transitions by expectation maximisation."""
        n_rows, n_classes = self.scores.shape
        logits = np.full((n_rows, _width(n_classes)), -np.inf)
        np.multiply(self.scores, sharpness, out=logits[:, :n_classes])
        first, firm, opening = self.first, np.full(n_classes, PRIOR_WEIGHT * self.firm), -np.inf
        if open_set:
            closed = logits[:, :n_classes] + first
            top = closed.max(axis=1)
            closed = np.sort(np.log(np.add.reduce(np.exp(closed - top[:, None]), axis=1)) + top)
            opening = logits[:, n_classes] = closed[int(_OPEN_ROWS * (n_rows - 1))]
            first, firm = np.append(first, 0.0), np.append(firm, 0.0)
        logits -= logits.max(axis=1, keepdims=True)
        likelihood = np.exp(logits, out=logits)
        bias, transition = first, _transition(None, _FIRST_RATE, self.frequency)
        odds, some = np.zeros(logits.shape[1]), slice(0, len(first))
        for _ in range(_STEPS):
            odds[some] = np.exp(bias)
            told = likelihood, self.codes, odds, *_lines(transition, self.frequency)
            expected, squares, truth, own, counts, total = kernels.noise_step(*told)
            # Half a Newton step, each class on its own, towards weights under which the true classes are as
            # frequent as they seem.
            slope = truth[some] - expected[some] - firm * (bias - first)
            curvature = expected[some] - squares[some] + firm + 1e-9
            bias = bias + np.clip(0.5 * slope / curvature, -_LONGEST_STEP, _LONGEST_STEP)
            wrong = float(truth[:n_classes].sum() - own.sum())
            rate = float(np.clip(wrong / max(1, n_rows), _LEAST_RATE, _MOST_RATE))
            transition = _transition(None if counts is None else counts.T, rate, self.frequency, self.firm)
        evidence = float(np.log(total).sum()) - 0.5 * float(firm @ (bias - first) ** 2)
        weights = np.append(bias[:n_classes], bias[n_classes:].sum() + opening)
        return _Fit(evidence - _OPEN_PENALTY * open_set, weights, transition, self.sizes - own)


def _averaged(fits: dict[tuple[bool, int], _Fit], sizes: IntArray, frequency: Vector) -> NoiseModel:
    """Weigh the fits by the likelihood of the labels, and tell how far shares may be off.

    `fits`: by whether there is an open set, and by the place of the sharpness among those that are tried.
    """
    found = list(fits.values())
    evidence = np.array([fit.evidence for fit in found])
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    chosen = np.flatnonzero(weights > _NEGLIGIBLE)
    counts = np.append(sizes, sizes.sum())
    shares = np.stack([np.append(fit.wrong, fit.wrong.sum()) for fit in found]) / np.maximum(counts, 1)
    middle = weights @ shares
    # The labels hardly tell neighbouring values of the sharpness apart where classes are not what the
    # classifier can draw: the interval reaches one step beyond those that they leave possible.
    kind, steps = np.array(list(fits)).T
    likely = weights > 0.05
    near = np.zeros(len(found), bool)
    for at in np.flatnonzero(likely):
        near |= (kind == kind[at]) & (np.abs(steps - steps[at]) <= 1)
    low, high = shares[near].min(axis=0), shares[near].max(axis=0)
    error = _NORMAL_90 * np.sqrt(middle * (1 - middle) * counts + 1.0) / (counts + 2.0)
    spread = np.stack([np.maximum(middle - low, 0.0) + error, np.maximum(high - middle, 0.0) + error], axis=1)
    return NoiseModel(
        np.array(SHARPNESS)[steps[chosen]],
        weights[chosen] / weights[chosen].sum(),
        np.stack([found[at].bias for at in chosen]),
        np.stack([found[at].transition for at in chosen]),
        frequency,
        spread,
    )


def _width(n_classes: int) -> int:
    """Return the length of a line with a number for each class and for the open set."""
    return -(-(n_classes + 1) // kernels.LINE) * kernels.LINE


def _lines(transition: Vector, frequency: Vector) -> tuple[Vector, Vector, Vector]:
    """Return the probability of each given class by true class, from the class itself, and from none.

    Where classes are many there is one line for all, of classes other than the given one.
    """
    n_classes = len(frequency)
    many = transition.size == 1
    given = np.zeros((1 if many else n_classes, _width(n_classes)))
    if many:
        rate = float(transition[0, 0])
        given[:, :n_classes] = rate / max(1, n_classes - 1)
        return given, np.full(n_classes, 1.0 - rate), frequency
    given[:, : n_classes + 1] = transition.T
    return given, transition.diagonal(), transition[n_classes]


def _transition(counts: Vector | None, rate: float, frequency: Vector, firm: float = 1.0) -> Vector:
    """Return the probability of each given class by true class, from counts and the pooled noise rate."""
    n_classes = len(frequency)
    if n_classes > MANY_CLASSES:
        return np.full((1, 1), rate)
    transition = np.full((n_classes + 1, n_classes), rate / max(1, n_classes - 1))
    np.fill_diagonal(transition, 1.0 - rate)
    transition[n_classes] = frequency
    if counts is None:
        return transition
    own = np.diag_indices(n_classes)
    masses, right = counts[:n_classes].sum(axis=1), counts.diagonal()
    prior = PRIOR_ROWS * firm
    wrong = (masses - right + prior * rate) / (masses + prior)
    seen = np.maximum(counts[:n_classes] - 1.0, 0.0) + PRIOR_WRONG / max(1, n_classes - 1)
    seen[own] = 0.0
    transition[:n_classes] = seen * (wrong / np.maximum(np.add.reduce(seen, axis=1), 1e-12))[:, None]
    transition[own] = 1.0 - wrong
    return transition
