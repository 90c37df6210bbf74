"""Picks that teach: among rows that match the centre of their class, those a linear learner learns most from.

The mean of the picks says nothing of what a learner makes of them. So the first picks of each class are
scored twice: by the residual of the class's mean, as every pick is, and by the exact change of the squared
loss, over all believed rows of all classes, of the ridge regression that is fitted to the picks so far. In
the letters of the literature, with Z the rows that the learner sees (with a constant), Y their classes, G =
Z'Z and B = Z'Y over the believed rows, A the inverse of the picks' Gram matrix plus the ridge, W the weights
fitted to the picks and D = G W - B the gradient of the loss: a pick z of class y changes W by u e', with u =
A z, s = 1 + z'u and e = (y - W'z) / s, and the loss by 2 u'D e + u'G u |e|^2. All of it is kept up to date
for every candidate, so that a pick takes O(candidates * (directions + classes)).

The mean of the picks still matches: once the accumulated error theta is longer than the longest centred row,
only rows whose product with theta is at least half of the largest may be picked, so that the error of the
mean falls as 1/k, as that of plain matching does.

Classes take turns in the order in which their picks are merged, which depends on the classes' weights alone:
a smaller budget ends this sequence earlier and changes nothing before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..arrays import FloatArray, IntArray, Vector
from ..compute.blocks import block_rows, tiles
from ..compute.keys import draw_usable
from ..compute.runner import gather
from ..facts import SURELY_RIGHT
from ..location.centers import find_centers
from ..trust import TRUSTED, Verdict
from ..trust.inputs import leading_directions
from .budgets import sequence, share
from .groups import Group, Shares, group_codes

SAMPLE_ROWS, _SAMPLE_ROWS_PER_CLASS = 1 << 13, 16
"""Believed rows that the lesson is added up on: the first by their hashes where there are more."""

_POOL_ROWS = 512  # of a class that compete for its teaching picks

MOST_DIRECTIONS = 256
"""That the learner sees: more take longer, and gained nothing."""

MOST_CLASSES = 1024
"""Beyond, students are not asked: every row would need more numbers than it has."""

TAUGHT_CLASSES = 256
"""Beyond, most classes would get a single teaching pick or none, which gains nothing."""

_PICKS_PER_DIRECTION = 2  # more, up to all, gained nothing on nine scenarios
_RIDGE = 0.3  # beside rows of mean square one; of 0.03 to 3, tried on 18 scenarios
_MEAN_WEIGHT = 0.5  # of the residual of the class's mean, beside the loss
_TIE = 1e-9  # of the spread of the scores: nearer ones are a matter of rounding, and the first is picked


@dataclass(frozen=True, eq=False)
class LinearView:
    """Rows as the linear learner sees them: leading directions, length at most one, and a constant.

    The length is in units of the typical one. A row that is longer would count for more than others, and the
    longest rows are the likeliest to be wrong.
    """

    origin: Vector
    turn: FloatArray | None  # orthonormal columns; None: all directions
    scale: float

    @classmethod
    def of(cls, rows: FloatArray, seed: int) -> tuple[LinearView, Vector]:
        """Return the view for believed rows, in an order that follows from their values; and what it sees."""
        origin, turn = np.add.reduce(rows, axis=0, dtype=np.float64) / len(rows), None
        if rows.shape[1] > MOST_DIRECTIONS:
            offsets = np.empty(rows.shape, np.float32)
            for some in tiles(*rows.shape):  # in double precision: few rows at a time
                offsets[some] = rows[some] - origin
            turn = leading_directions(offsets, MOST_DIRECTIONS, seed)
        seen = cls(origin, turn, 1.0)._turned(rows)
        scale = float(np.sqrt(np.einsum("ij,ij->", seen, seen) / len(seen)))
        view = cls(origin, turn, scale if scale > 0 else 1.0)
        return view, view._shortened(seen)

    @property
    def width(self) -> int:
        """How many numbers the learner sees of a row."""
        return (len(self.origin) if self.turn is None else self.turn.shape[1]) + 1

    def __call__(self, rows: FloatArray) -> Vector:
        """Return rows as the learner sees them."""
        return self._shortened(self._turned(rows))

    def _turned(self, rows: FloatArray) -> Vector:
        if self.turn is None:
            return rows - self.origin
        return np.concatenate([(rows[some] - self.origin) @ self.turn for some in tiles(*rows.shape)])

    def _shortened(self, turned: Vector) -> Vector:
        found = np.ones((len(turned), self.width))
        np.divide(turned, self.scale, out=found[:, :-1])
        lengths = np.sqrt(np.einsum("ij,ij->i", found[:, :-1], found[:, :-1]))
        found[:, :-1] /= np.maximum(lengths, 1.0)[:, None]
        return found


@dataclass(frozen=True, eq=False)
class Lesson:
    """What there is to learn: the sums over believed rows that the loss of a linear learner follows from."""

    view: LinearView
    gram: Vector  # G
    products: Vector  # B, of classes without their mean
    mean: Vector  # what each class counts, as a share
    inputs: Vector  # how the learner sees these rows

    @classmethod
    def of(
        cls,
        rows: FloatArray,
        codes: IntArray,
        n_classes: int,
        seed: int,
        seen: tuple[LinearView, Vector] | None = None,
    ) -> Lesson:
        """Add up believed rows, which are in an order that follows from their values.

        Classes count alike, whatever their sizes: else nobody would learn the rare ones. `seen`: the view for
        these rows and how it sees them, where these are known.
        """
        view, inputs = seen or LinearView.of(rows, seed)
        gram, products = np.zeros((view.width, view.width)), np.zeros((view.width, n_classes))
        counts = np.bincount(codes, minlength=n_classes)
        weights = len(codes) / (np.count_nonzero(counts) * np.maximum(counts, 1.0))
        step = block_rows(view.width)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            known = np.zeros((len(codes[part]), n_classes))
            known[np.arange(len(known)), codes[part]] = 1.0
            counted = inputs[part] * weights[codes[part], None]
            gram += counted.T @ inputs[part]
            products += counted.T @ known
        mean = counts * weights / len(codes)
        return cls(view, gram, products - np.outer(gram[:, -1], mean), mean, inputs)


class Pool:
    """The rows of a class that compete for its teaching picks.

    `inputs`: Z, the rows as the learner sees them. `offsets`: the features that are matched, minus their
    centre. `theta`: the accumulated error before the first pick.
    """

    def __init__(self, inputs: Vector, offsets: Vector, theta: Vector) -> None:
        self.inputs, self.offsets, self.theta = inputs, offsets, theta
        self.picks: list[int] = []
        self.squares: Vector = np.einsum("ij,ij->i", offsets, offsets)
        self.products: Vector = offsets @ theta
        self.free = np.ones(len(offsets), dtype=bool)

    def residuals(self) -> Vector:
        """Return the squared length that theta would have after each row, but for a constant."""
        return self.squares - 2.0 * self.products

    def admissible(self) -> npt.NDArray[np.bool_]:
        """Return True for rows that keep the mean of the picks on its way to the centre."""
        if float(self.theta @ self.theta) <= self.squares.max():
            return self.free
        top = float(self.products[self.free].max())
        enough: npt.NDArray[np.bool_] = self.free & (self.products >= min(top, 0.5 * top))
        return enough

    def take(self, place: int) -> None:
        """Record a pick."""
        self.theta = self.theta - self.offsets[place]
        self.products -= self.offsets @ self.offsets[place]
        self.free[place] = False
        self.picks.append(place)


class _Learner:
    """The learner as the sum of what each pick changed; the names are those of the module's docstring."""

    def __init__(self, lesson: Lesson, most: int) -> None:
        width, n_classes = lesson.products.shape
        self.lesson, self.known = lesson, np.eye(n_classes) - lesson.mean
        self.made = 0
        self.u, self.v = np.empty((2, most, width))  # A z and A G u
        self.e, self.h = np.empty((2, most, n_classes))  # e and u'D
        self.s, self.g = np.empty((2, most))  # s and u'G u

    def learn(self, code: int, z: Vector) -> None:
        """Learn a row of a class.

        A is what it was at first less u u'/s of each pick; W is the sum of u e', D that of G u e' less B.
        """
        at, lesson = self.made, self.lesson
        before, e, s = self.u[:at], self.e[:at], self.s[:at]
        of_z = before @ z
        u = z / _RIDGE - (of_z / s) @ before
        push = lesson.gram @ u
        of_push = before @ push
        self.u[at], self.v[at] = u, push / _RIDGE - (of_push / s) @ before
        self.s[at], self.g[at] = 1.0 + float(z @ u), float(u @ push)
        self.e[at] = (self.known[code] - of_z @ e) / self.s[at]
        self.h[at] = of_push @ e - u @ lesson.products
        self.made += 1


class _Scores:
    """The running products of the candidates of one class; the names are those of the module's docstring."""

    def __init__(self, inputs: Vector, lesson: Lesson) -> None:
        self.inputs = inputs
        self.leverage = np.einsum("ij,ij->i", inputs, inputs) / _RIDGE  # z'A z
        self.curve = np.einsum("ij,ij->i", inputs @ lesson.gram, inputs) / _RIDGE**2  # z'A G A z
        self.fitted = np.zeros((len(inputs), len(lesson.mean)))  # z'W
        self.slope = inputs @ lesson.products / -_RIDGE  # z'A D
        self.seen = 0  # changes that are in these numbers

    def catch_up(self, learner: _Learner) -> None:
        """Bring the products up to date with the picks of all classes since the last turn."""
        new, self.seen = slice(self.seen, learner.made), learner.made
        if new.start == new.stop:
            return
        a, b = np.split(self.inputs @ np.concatenate([learner.u[new], learner.v[new]]).T, 2, axis=1)
        e, s, g = learner.e[new], learner.s[new], learner.g[new]
        self.leverage -= (a * a) @ (1.0 / s)
        self.curve += (a * a) @ (g / s**2) - (a * b) @ (2.0 / s)
        self.fitted += a @ e
        self.slope += (b - a * (g / s)) @ e - (a / s) @ learner.h[new]

    def losses(self, known: Vector) -> Vector:
        """Return the exact change of the loss that each candidate would make."""
        e = (known - self.fitted) / (1.0 + self.leverage)[:, None]
        linear: Vector = np.einsum("ij,ij->i", self.slope, e)
        square: Vector = np.einsum("ij,ij->i", e, e)
        change: Vector = 2.0 * linear + self.curve * square
        return change


def surely_right(wrong: FloatArray) -> npt.NDArray[np.bool_]:
    """Return True for the believed rows of a class that are hardly doubted, at least half of them.

    The first picks count most, and a row that a learner would learn much from may be one that is wrong.

    >>> surely_right(np.array([0.0, 0.02, 0.3, 0.05])), surely_right(np.array([0.2, 0.3, 0.4]))
    (array([ True,  True, False,  True]), array([ True,  True, False]))
    """
    if not len(wrong):
        return np.zeros(0, dtype=bool)
    sure: npt.NDArray[np.bool_] = wrong <= max(SURELY_RIGHT, float(np.median(wrong)))
    return sure


def teaching_picks(lesson: Lesson) -> int:
    """Return how many teaching picks there are in all: beyond, the learner gains nothing by them."""
    return _PICKS_PER_DIRECTION * (lesson.view.width - 1)


def teach(
    lesson: Lesson,
    pools: Sequence[Pool | None],
    turns: IntArray,
    included: tuple[IntArray, Vector] | None = None,
) -> None:
    """Make teaching picks, each of the class whose turn it is; a class without free rows loses its turn.

    The pools hold the picks and their accumulated errors afterwards. `included`: rows that the learner knows
    before the first pick, in their order: the class of each, and how the learner sees them.
    """
    codes, inputs = included or ((), ())
    learner = _Learner(lesson, len(codes) + len(turns))
    scores: dict[int, _Scores] = {}
    for code, z in zip(codes, inputs, strict=True):
        learner.learn(int(code), z)
    for code in turns.tolist():
        pool = pools[code]
        if pool is None or not pool.free.any():
            continue
        score = scores.get(code) or scores.setdefault(code, _Scores(pool.inputs, lesson))
        score.catch_up(learner)
        rows = np.flatnonzero(pool.admissible())
        total = _standard(score.losses(learner.known[code])[rows]) + _MEAN_WEIGHT * _standard(
            pool.residuals()[rows]
        )
        place = int(rows[np.flatnonzero(total <= total.min() + _TIE)[0]])
        learner.learn(code, pool.inputs[place])
        pool.take(place)


def _standard(values: Vector) -> Vector:
    """Return values in units of their spread."""
    spread = float(values.std())
    return values / spread if spread > 0 else np.zeros_like(values)


def teach_groups(
    groups: list[Group],
    shares: Shares,
    verdict: Verdict,
    taught: list[bool],
    strict: bool,
    start: Callable[[Vector, Group], Vector],
) -> list[Group]:
    """Return the groups with the teaching picks that they begin with, and the means of their rows.

    `taught`: which groups get teaching picks. `strict`: whether only rows that are hardly doubted compete for
    them. `start`: theta before the first pick of a group, by its mean.

    The sums that a learner's loss follows from, and the rows that compete, are those of a sample of the
    believed rows, drawn by their hashes, which is held where rows are many: nothing is read for it but the
    means of Fourier features of more rows than the sample has. One thread, and one order of rows: the picks
    are the same whatever the memory, the workers and the engine.
    """
    codes, rows = group_codes(groups), groups[0].source
    if codes is None:
        codes = np.zeros(len(rows), np.int64)
    believed = (codes >= 0) & (verdict.tiers == TRUSTED)
    drawn = draw_usable(verdict.keys, believed, max(SAMPLE_ROWS, _SAMPLE_ROWS_PER_CLASS * len(groups)))
    features, own = gather(rows, drawn), codes[drawn]
    if any(group.mean is None for group in groups):
        complete = len(drawn) == np.count_nonzero(codes >= 0)
        of = features if complete else rows
        found = find_centers("mean", of, own if complete else codes, [group.label for group in groups])
        groups = [replace(group, mean=mean) for group, (mean, _) in zip(groups, found, strict=True)]
    with threadpool_limits(1):
        lesson = Lesson.of(features, own, len(groups), groups[0].seed[0])
        places: list[IntArray] = []
        pools: list[Pool | None] = []
        for code, group in enumerate(groups):
            place = np.flatnonzero(own == code) if taught[code] else np.empty(0, np.int64)
            if strict and verdict.labels is not None:
                place = place[surely_right(verdict.labels.wrong[drawn[place]])]
            places.append(place[:_POOL_ROWS])
            mean, chosen = group.mean, features[places[-1]]
            if mean is None or not len(chosen):
                pools.append(None)
            else:
                pool = Pool(lesson.inputs[places[-1]], chosen - mean, start(mean, group))
                pool.free[np.isin(drawn[places[-1]], group.first)] = False
                pools.append(pool)
        begun, before = shares.begun, shares.before
        most = min(teaching_picks(lesson), int((shares.budgets + before).sum()))
        shared = share(shares.weights, (shares.most + before)[None], max(most, int(begun.sum())), begun)
        turns = sequence(shares.weights, shared[None], begun)[0]
        included = lesson.view(gather(rows, shares.included)) if len(shares.included) else None
        teach(lesson, pools, turns, None if included is None else (shares.included_groups, included))
    begins = []
    for group, own_pool, place in zip(groups, pools, places, strict=True):
        if own_pool is not None and own_pool.picks:
            picks = place[own_pool.picks]
            total = np.add.reduce(features[picks], axis=0, dtype=np.float64)
            if group.total is not None:  # rows that are in already come first
                total = group.total + total
            group = replace(group, first=np.concatenate([group.first, drawn[picks]]), total=total)
        begins.append(group)
    return begins
