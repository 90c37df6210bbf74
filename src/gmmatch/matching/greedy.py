"""The one greedy loop: picks whose mean matches a centre.

With m = x - center, theta the accumulated error (theta_t+1 = theta_t - m of the pick) and, in the
paper's letters, mu the centre:

- the *projection* step (the paper's text) picks argmax <theta, x>, which is argmax <theta, m> because
  <theta, mu> is the same for every row;
- the *residual* step picks argmin |theta - m|, which is argmax <theta, m> - |m|^2 / 2.

Scores are computed fast, in the precision of the rows, with a bound on their rounding error. Where two
rows are closer than that bound, their scores are computed again in float64 from the rows, in a fixed
order of additions, and decided there; the smallest row number wins exact ties. So the picks are a
property of the data: a Gram matrix, a product per pick, one BLAS thread or many all give the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ..compute.blocks import row_norms, tiles
from ..progress import Advance, task
from ..records import FloatArray, IntArray
from .candidates import GRAM_BYTES, Candidates, prepare, product_error

Step = Literal["residual", "projection"]
Vector = npt.NDArray[np.float64]


_MOST_AHEAD = 64  # picks that are drafted before they are looked over
_BOARD_VALUES = 1 << 18  # two megabytes of scores


@dataclass(eq=False)
class Matching:
    """What is carried from pick to pick, and from batch to batch.

    Attributes
    ----------
    center
        The point to match, float64.
    start
        theta before the first pick.
    theta
        Accumulated error.
    count
        Picks so far.
    """

    center: Vector
    start: Vector
    theta: Vector
    count: int = 0

    @classmethod
    def begin(cls, center: Vector, start: Vector) -> Matching:
        """Return the state before the first pick."""
        return cls(center=center, start=start, theta=start.copy())

    def follow(self, rows: FloatArray, picks: IntArray) -> tuple[Vector, Vector]:
        """Account for further picks, one after the other.

        The additions are those of a loop over the picks, in the same order, whatever the cuts between
        calls: the same bits always.

        Returns
        -------
        objectives, distances
            The objective after each pick, and each pick's distance to the centre.
        """
        objectives, distances = np.empty(len(picks)), np.empty(len(picks))
        for part in tiles(len(picks), rows.shape[1]):
            thetas = rows[picks[part]] - self.center
            distances[part] = row_norms(thetas)
            for theta in thetas:  # several times as fast as a cumulative sum along this axis
                self.theta = np.subtract(self.theta, theta, out=theta)
            objectives[part] = row_norms(self.start - thetas if self.start.any() else thetas)
        self.theta = self.theta.copy()
        objectives /= np.arange(self.count + 1, self.count + len(picks) + 1)
        self.count += len(picks)
        return objectives, distances


def pick(
    candidates: Candidates, quota: int, state: Matching, step: Step, advance: Advance = lambda done: None
) -> tuple[IntArray, Vector, Vector]:
    """Pick `quota` rows greedily, carrying `state` on (it is changed in place).

    Returns
    -------
    picks, objectives, distances
        Positions among the candidates in pick order, the objective after each pick, and each pick's
        distance to the centre.

    Notes
    -----
    Time: O(n + d) per pick with a Gram matrix, O(n d) without.
    """
    rows = candidates.rows
    scorer: _Scorer
    if candidates.gram is None:
        scorer = _ProductScorer(candidates, step, state.theta)
    else:
        scorer = _GramScorer(candidates, step, state.theta, most_ahead=quota)
    picks = np.empty(quota, dtype=np.int64)
    objectives, distances = np.empty(quota), np.empty(quota)
    followed = made = 0
    ahead = scorer.most_ahead

    def catch_up(turn: int) -> int:
        """Let theta follow the picks made so far, which it need not do at every pick."""
        part = slice(followed, turn)
        objectives[part], distances[part] = state.follow(rows, picks[part])
        return turn

    while made < quota:
        drafted = scorer.draft(min(ahead, quota - made))
        accepted = len(drafted)
        picks[made : made + accepted] = drafted
        for place in scorer.doubts():
            rivals = scorer.rivals(place)
            if len(rivals) == 1:
                continue
            followed = catch_up(made + place)
            best = _decide(rows, rivals, state, step)
            if best != drafted[place]:
                picks[made + place] = best
                accepted = place + 1
                break
        made += accepted
        if scorer.needs_theta:
            followed = catch_up(made)
        scorer.accept(accepted, int(picks[made - 1]), state.theta)
        # What was drafted after a wrong pick is lost, so that drafts are short where rows are alike.
        ahead = min(2 * accepted, scorer.most_ahead)
        advance(accepted)
    catch_up(quota)
    return picks, objectives, distances


def match(
    rows: FloatArray, quota: int, state: Matching, step: Step, gram_bytes: int = GRAM_BYTES
) -> tuple[IntArray, Vector, Vector]:
    """Prepare rows and pick `quota` of them; see `prepare` and `pick`.

    Memory: the centred rows, and n^2 values where a Gram matrix is used.
    """
    with task("picking rows", quota) as advance:
        return pick(prepare(rows, state.center, quota, gram_bytes), quota, state, step, advance)


def _decide(rows: FloatArray, rivals: IntArray, state: Matching, step: Step) -> int:
    """Return the best of some rows that are too close to tell, from their float64 scores."""
    exact = rows[rivals] - state.center
    scores = np.add.reduce(exact * state.theta, axis=1)
    if step == "residual":
        scores -= np.add.reduce(exact * exact, axis=1) / 2
    return int(rivals[scores.argmax()])


class _Scorer(ABC):
    """Scores of all rows, kept up to date as rows are picked, with a bound on their error.

    Picks are drafted by the computed scores, several at a time, and then looked over all at once: one is
    doubtful where another row comes so close that rounding may have decided. The error of a row's score
    is at most `slack` times its norm, plus `unit` times its penalty.

    Attributes
    ----------
    board
        Scores before each drafted pick; minus infinity for that pick and all earlier ones.
    """

    needs_theta: ClassVar[bool]

    def __init__(self, candidates: Candidates, step: Step, theta: Vector, most_ahead: int) -> None:
        self.offsets, self.squares = candidates.offsets, candidates.squares
        self.norms = np.sqrt(self.squares)
        self.penalty = self.squares / 2 if step == "residual" else np.zeros(len(self.squares))
        self.unit = product_error(self.offsets)
        self.largest = float(self.norms.max(initial=0.0)), self.unit * float(self.penalty.max(initial=0.0))
        self.most_ahead = most_ahead
        self.board = np.empty((most_ahead, len(self.squares)))
        self.tops = np.empty(most_ahead)
        self.drafted: list[int] = []
        self._fresh(theta)

    @abstractmethod
    def draft(self, size: int) -> list[int]:
        """Draft the next picks, each the best by its computed score."""

    def _draft(self, place: int) -> int:
        """Draft the best by the scores at a place of the board."""
        scores = self.board[place]
        best = int(scores.argmax())
        self.tops[place] = scores[best]
        scores[best] = -np.inf
        return best

    def doubts(self) -> list[int]:
        """Return which drafts have a rival, by a bound that fits every row."""
        size = len(self.drafted)
        self.slacks = self._slacks()
        margins = 2.0 * (self.largest[0] * self.slacks + self.largest[1])
        seconds = self.board[:size].max(axis=1)
        doubtful: list[int] = np.flatnonzero(seconds >= self.tops[:size] - margins).tolist()
        return doubtful

    def rivals(self, place: int) -> IntArray:
        """Return the rows that may be the best in place of a draft, itself included, by their own bounds."""
        best, top = self.drafted[place], self.tops[place]
        errors = self.norms * self.slacks[place] + self.unit * self.penalty
        close = self.board[place] + errors >= top - errors[best]
        close[best] = True
        return np.flatnonzero(close)

    def _fresh(self, theta: Vector) -> None:
        """Compute the scores before the next pick from scratch."""
        self.board[0] = -self.penalty
        if theta.any():
            self.board[0] += self.offsets @ theta.astype(self.offsets.dtype)

    @abstractmethod
    def _slacks(self) -> Vector:
        """Return the slack of the scores at each place of the board."""

    @abstractmethod
    def accept(self, size: int, last: int, theta: Vector) -> None:
        """Pick the first `size` drafts, but row `last` in place of the last one."""


class _ProductScorer(_Scorer):
    """One matrix-vector product per pick."""

    needs_theta = True

    def __init__(self, candidates: Candidates, step: Step, theta: Vector) -> None:
        super().__init__(candidates, step, theta, most_ahead=1)
        self.slack = self.unit * float(np.linalg.norm(theta))
        self.taken = np.zeros(len(self.squares), dtype=bool)

    def draft(self, size: int) -> list[int]:
        self.drafted = [self._draft(0)]
        return self.drafted

    def _slacks(self) -> Vector:
        return np.array([self.slack])

    def accept(self, size: int, last: int, theta: Vector) -> None:
        self.taken[last] = True
        self._fresh(theta)
        self.board[0, self.taken] = -np.inf
        self.slack = self.unit * float(np.linalg.norm(theta))


class _GramScorer(_Scorer):
    """One Gram matrix for all picks; errors of the entries add up like a random walk."""

    needs_theta = False

    def __init__(self, candidates: Candidates, step: Step, theta: Vector, most_ahead: int) -> None:
        assert candidates.gram is not None
        self.gram = candidates.gram
        self.variance = float(theta @ theta)
        fitting = min(_MOST_AHEAD, _BOARD_VALUES // len(self.gram))
        super().__init__(candidates, step, theta, max(1, min(most_ahead, fitting)))

    def draft(self, size: int) -> list[int]:
        self.drafted = [self._draft(0)]
        for place in range(1, size):
            np.subtract(self.board[place - 1], self.gram[self.drafted[-1]], out=self.board[place])
            self.drafted.append(self._draft(place))
        return self.drafted

    def _slacks(self) -> Vector:
        steps = np.cumsum(self.squares[self.drafted])
        slacks: Vector = self.unit * np.sqrt(self.variance + steps - self.squares[self.drafted])
        return slacks

    def accept(self, size: int, last: int, theta: Vector) -> None:
        scores, drafted = self.board[size - 1], self.drafted[size - 1]
        scores[drafted] = self.tops[size - 1]
        scores[last] = -np.inf
        np.subtract(scores, self.gram[last], out=self.board[0])
        self.variance += float(self.squares[[*self.drafted[: size - 1], last]].sum())
