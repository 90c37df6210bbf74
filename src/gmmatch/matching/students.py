"""Students: two small learners that are taught candidate picks of a sample, and asked for rows that none saw.

Which way of picking serves depends on the data, and the data can say so. A sample of the rows, drawn by their
hashes, is divided: three quarters may be picked, by each strategy in turn, and a quarter is asked for. A
ridge regression and five nearest neighbours learn from the first picks of each list, at fixed numbers of
picks per class, and are asked for all rows of that quarter with their given labels, believed or not: labels
that are wrong independently of the picks do not change which of two lists teaches better. Accuracies are
averaged over classes.

Nothing of it depends on the budget, so that the first k picks of a larger budget stay the picks of a budget
of k. Labels that are wrong in the same way everywhere, as one confused annotator gives them, look right to
students as they do to any learner. So the default stays unless another strategy is better beyond chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import FloatArray, IntArray, Mask, Vector
from ..compute.blocks import turns
from .budgets import Weights, sequence
from .greedy import Matching, match
from .teaching import Lesson, LinearView, Pool, surely_right, teach, teaching_picks

LEARNERS = ("any", "linear", "neighbours")
SAMPLE_ROWS = 1 << 12
"""Rows of the sample, or as many as give a class some rows."""

ROWS_PER_CLASS = 24
_ASKED = 4  # one row in so many is asked for
_MOST_ASKED = 1 << 11  # two standard errors of an accuracy are two points
_PICKS_PER_CLASS = (2, 5, 20)
_RIDGE = 0.1  # beside rows of mean square one
_NEIGHBOURS = 5
_ENOUGH = 0.99  # of what students learn from all believed rows
_CURVE_STEP = 2**0.5  # from one number of picks of a curve to the next


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows that students learn from and are asked for."""

    rows: FloatArray  # as the students see them, in an order that follows from their values
    codes: IntArray  # given classes
    believed: Mask
    wrong: FloatArray  # probability that the given class is wrong
    n_classes: int
    weights: Weights  # what the classes' shares of the picks go by

    @property
    def asked(self) -> Mask:
        """Which rows are asked for, and never picked."""
        found: Mask = np.arange(len(self.rows)) % _ASKED == _ASKED - 1
        return found

    @property
    def open(self) -> IntArray:
        """The rows that may be picked."""
        return np.flatnonzero(self.believed & ~self.asked)


def list_picks(
    sample: Sample, features: FloatArray, lesson: Lesson | None, strict: bool, most: int
) -> IntArray:
    """Return the first `most` picks of the sample by one strategy, as places in it.

    `features`: what is matched, of all rows of the sample. `lesson`: what the first picks are to teach; None:
    they are not teaching ones. `strict`: whether only rows that are hardly doubted compete for those.
    """
    open_rows = sample.open
    own = sample.codes[open_rows]
    # Whose turn each pick is.
    picked = sequence(sample.weights, np.bincount(own, minlength=sample.n_classes)[None])[0][:most]
    parts = [open_rows[own == code] for code in range(sample.n_classes)]
    values = [features[part] for part in parts]
    means = [np.add.reduce(part, axis=0, dtype=np.float64) / max(1, len(part)) for part in values]
    first: list[list[int]] = [[] for _ in parts]
    if lesson is not None:
        start = np.zeros(features.shape[1])
        places = [
            np.flatnonzero(surely_right(sample.wrong[part])) if strict else np.arange(len(part))
            for part in parts
        ]
        seen = [lesson.inputs[own == code] for code in range(sample.n_classes)]
        pools = [
            Pool(inputs[place], part[place] - mean, start) if len(part) else None
            for inputs, part, place, mean in zip(seen, values, places, means, strict=True)
        ]
        teach(lesson, pools, picked[: teaching_picks(lesson)])
        first = [
            [] if pool is None else place[pool.picks].tolist()
            for pool, place in zip(pools, places, strict=True)
        ]
    orders = []
    for code, needed in enumerate(np.bincount(picked, minlength=len(parts)).tolist()):
        begun, rest = first[code], np.delete(np.arange(len(parts[code])), first[code])
        order = np.array(begun, np.int64)
        if needed > len(begun):
            theta = np.add.reduce(means[code] - values[code][begun], axis=0, dtype=np.float64)
            state = Matching.begin(means[code], theta)
            more = match(values[code][rest], needed - len(begun), state, "residual")[0]
            order = np.concatenate([order, rest[more]])
        orders.append(parts[code][order])
    starts = np.cumsum([0, *map(len, orders)])
    return np.concatenate(orders)[starts[picked] + turns(picked)]


def budgets_of(sample: Sample) -> list[int]:
    """Return at how many picks students compare lists."""
    most, present = len(sample.open) // 2, len(np.unique(sample.codes[sample.open]))
    return [present * size for size in _PICKS_PER_CLASS if present * size <= most] or [max(1, most)]


def curve_budgets(sample: Sample) -> list[int]:
    """Return at how many picks a learning curve is measured, the last being all that there are."""
    most, count = len(sample.open), float(len(np.unique(sample.codes[sample.open])))
    budgets = []
    while count < most:
        budgets.append(round(count))
        count *= _CURVE_STEP
    return [*budgets, most]


def enough_picks(budgets: Sequence[int], accuracy: Sequence[float]) -> int:
    """Return the smallest budget from which on students know 99 % of what they know from the last one.

    >>> enough_picks([10, 20, 40, 80], [0.5, 0.799, 0.795, 0.8]), enough_picks([10, 20], [0.8, 0.7])
    (20, 10)
    """
    short = np.flatnonzero(np.asarray(accuracy) < _ENOUGH * accuracy[-1])
    return budgets[int(short[-1]) + 1 if len(short) else 0]


@dataclass(frozen=True, eq=False)
class Learned:
    """What students know after picks of one strategy."""

    name: str
    # For each number of picks, whether each row that is asked for is known.
    linear: Vector
    neighbours: Vector
    share: Vector  # what each row counts

    def of(self, learner: str = "any") -> dict[str, Vector]:
        """Return what the students know that are asked, by name."""
        both = {"linear": self.linear, "neighbours": self.neighbours}
        return {learner: both[learner]} if learner in both else both

    def known(self, learner: str) -> Vector:
        """Return how often each row is known, times what it counts."""
        found: Vector = (
            np.mean([known.mean(axis=0) for known in self.of(learner).values()], axis=0) * self.share
        )
        return found

    def accuracies(self, learner: str = "any") -> dict[str, list[float]]:
        """Return the accuracy of each student after each number of picks, averaged over classes."""
        return {name: np.round(known @ self.share, 4).tolist() for name, known in self.of(learner).items()}

    def curve(self, learner: str) -> list[float]:
        """Return the accuracy after each number of picks, averaged over the students."""
        averages: list[float] = np.mean([*self.accuracies(learner).values()], axis=0).round(4).tolist()
        return averages


def best_of(lists: Sequence[Learned], learner: str) -> Learned:
    """Return the list that teaches best: the first, unless another is better by over a standard error."""
    first = lists[0].known(learner)
    gains = [known.known(learner) - first for known in lists]
    sure = [gain.sum() - np.sqrt(len(gain)) * gain.std() for gain in gains]
    totals = [gain.sum() if low >= 0 else -np.inf for gain, low in zip(gains, sure, strict=True)]
    return lists[int(np.argmax(totals))]


class Students:
    """The two learners, ready to be taught lists of picks of one sample."""

    def __init__(self, sample: Sample, seed: int) -> None:
        self.sample = sample
        self.open = LinearView.of(sample.rows[sample.open], seed)  # the view, and rows that may be picked
        self.seen = self.open[0](sample.rows)
        lengths = np.sqrt(np.einsum("ij,ij->i", self.seen[:, :-1], self.seen[:, :-1]))
        self.unit = self.seen[:, :-1] / np.maximum(lengths, 1e-12)[:, None]
        self.asked = np.flatnonzero(sample.asked)[:_MOST_ASKED]
        self.codes = sample.codes[self.asked]
        counts = np.bincount(self.codes, minlength=sample.n_classes)
        self.share = 1.0 / counts[self.codes] / np.count_nonzero(counts)  # so that classes count alike

    def lesson(self, features: FloatArray, seed: int, other: bool = False) -> Lesson:
        """Return what the rows that may be picked teach; `other`: by features that students do not see."""
        some, sample = self.sample.open, self.sample
        return Lesson.of(
            features[some], sample.codes[some], sample.n_classes, seed, None if other else self.open
        )

    def right(self, picks: IntArray) -> tuple[Mask, Mask]:
        """Return which of the rows that are asked for the linear and the neighbour student know."""
        sample = self.sample
        codes, asked = sample.codes[picks], self.asked
        known = np.zeros((len(picks), sample.n_classes))
        known[np.arange(len(picks)), codes] = 1.0
        counts = np.sqrt(np.bincount(codes)[codes])[:, None]
        own, target = self.seen[picks] / counts, known / counts
        if len(picks) < own.shape[1]:
            weights = own.T @ np.linalg.solve(own @ own.T + _RIDGE * np.eye(len(own)), target)
        else:
            weights = np.linalg.solve(own.T @ own + _RIDGE * np.eye(own.shape[1]), own.T @ target)
        linear = (self.seen[asked] @ weights).argmax(axis=1) == self.codes
        near = self.unit[asked] @ self.unit[picks].T
        k = min(_NEIGHBOURS, len(picks))
        chosen = np.argpartition(-near, k - 1, axis=1)[:, :k]
        votes = np.zeros((len(asked), sample.n_classes))
        each = np.arange(len(asked))[:, None]
        np.add.at(votes, (each, codes[chosen]), 1.0 + 1e-3 * near[each, chosen])
        return linear, votes.argmax(axis=1) == self.codes

    def learn(self, name: str, picks: IntArray, budgets: Sequence[int]) -> Learned:
        """Return what both know after each number of picks."""
        right = [self.right(picks[:budget]) for budget in budgets]
        linear, neighbours = (np.stack(known).astype(np.float64) for known in zip(*right, strict=True))
        return Learned(name, linear, neighbours, self.share)
