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

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ..location.blocks import row_norms, tiles
from ..progress import Advance, task
from ..records import FloatArray, IntArray

Step = Literal["residual", "projection"]
Vector = npt.NDArray[np.float64]

GRAM_BYTES = 1 << 30
"""Largest Gram matrix to hold; larger groups use one matrix-vector product per pick."""

_GRAM_PAYS_FROM = 1 / 40  # share of the rows to pick from which a Gram matrix is the faster way
_TILE_ROWS = 1024
_SAFETY = 4.0  # times the typical rounding error of an inner product, sqrt(d) units in the last place
_LARGEST_FLOAT32_NORM = 1e15  # squares of larger ones come near the end of float32


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

    def follow(self, rows: FloatArray, picks: IntArray) -> Vector:
        """Account for further picks, one after the other; return the objective after each.

        The additions are those of a loop over the picks, in the same order, whatever the cuts between
        calls: the same bits always.
        """
        objectives = np.empty(len(picks))
        for part in tiles(len(picks), rows.shape[1]):
            thetas = rows[picks[part]] - self.center
            for theta in thetas:  # several times as fast as a cumulative sum along this axis
                self.theta = np.subtract(self.theta, theta, out=theta)
            errors = np.subtract(self.start, thetas)
            objectives[part] = row_norms(errors)
        self.theta = self.theta.copy()
        objectives /= np.arange(self.count + 1, self.count + len(picks) + 1)
        self.count += len(picks)
        return objectives


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rows made ready for picking: all that does not depend on theta, so that it can be done ahead.

    Attributes
    ----------
    rows
        The rows, in the order of their row numbers.
    offsets
        The rows minus the centre, in the rows' precision.
    norms
        Their lengths, float64.
    gram
        Their inner products, or None where a product per pick is the better way.
    """

    rows: FloatArray
    offsets: FloatArray
    norms: Vector
    gram: FloatArray | None


def prepare(rows: FloatArray, center: Vector, quota: int, gram_bytes: int = GRAM_BYTES) -> Candidates:
    """Make rows ready for `quota` picks.

    Time: O(n^2 d) in one BLAS call where a Gram matrix pays and fits `gram_bytes`, else O(n d).
    """
    rows = np.asarray(rows)  # a piece of a memory map is slower to work with than an array
    offsets, squares = centered(rows, center)
    fits = len(rows) ** 2 * offsets.itemsize <= gram_bytes
    gram = gram_matrix(offsets) if fits and quota > len(rows) * _GRAM_PAYS_FROM else None
    return Candidates(rows, offsets, np.sqrt(squares), gram)


def gram_matrix(rows: FloatArray) -> FloatArray:
    """Return the inner products of all rows; tile by tile, which is faster than one large product.

    Examples
    --------
    >>> gram_matrix(np.array([[1.0, 0.0], [1.0, 2.0]]))
    array([[1., 1.],
           [1., 5.]])
    """
    gram = np.empty((len(rows), len(rows)), rows.dtype)
    for start in range(0, len(rows), _TILE_ROWS):
        stop = min(start + _TILE_ROWS, len(rows))
        tile = rows[start:stop]
        np.matmul(tile, tile.T, out=gram[start:stop, start:stop])
        if stop < len(rows):
            np.matmul(tile, rows[stop:].T, out=gram[start:stop, stop:])
            gram[stop:, start:stop] = gram[start:stop, stop:].T
    return gram


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
    rows, norms = candidates.rows, candidates.norms
    penalty = norms**2 / 2 if step == "residual" else np.zeros(len(rows))
    scorer = (_ProductScorer if candidates.gram is None else _GramScorer)(candidates, penalty, state.theta)
    picks = np.empty(quota, dtype=np.int64)
    objectives = np.empty(quota)
    largest = 2.0 * float(norms.max(initial=0.0))
    followed = 0

    def catch_up(turn: int) -> int:
        """Let theta follow the picks made so far, which it need not do at every pick."""
        objectives[followed:turn] = state.follow(rows, picks[followed:turn])
        return turn

    for turn in range(quota):
        scores = scorer.scores
        best = int(scores.argmax())
        top = scores[best]
        scores[best] = -np.inf
        # First a bound that fits every row, then, where it leaves rivals, each row's own.
        if scores[scores.argmax()] >= top - largest * scorer.slack:
            scores[best] = top
            reach = norms * scorer.slack
            rivals = np.flatnonzero(scores + reach >= top - reach[best])
            if len(rivals) > 1:
                followed = catch_up(turn)
                best = _decide(rows, rivals, state, step)
            scores[best] = -np.inf
        picks[turn] = best
        if scorer.needs_theta:
            followed = catch_up(turn + 1)
        scorer.remove(best, state.theta)
        advance(1)
    catch_up(quota)
    return picks, objectives, norms[picks]


def match(
    rows: FloatArray, quota: int, state: Matching, step: Step, gram_bytes: int = GRAM_BYTES
) -> tuple[IntArray, Vector, Vector]:
    """Prepare rows and pick `quota` of them; see `prepare` and `pick`.

    Memory: the centred rows, and n^2 values where a Gram matrix is used.
    """
    with task("picking rows", quota) as advance:
        return pick(prepare(rows, state.center, quota, gram_bytes), quota, state, step, advance)


def centered(rows: FloatArray, center: Vector) -> tuple[FloatArray, Vector]:
    """Return the rows minus the centre, in the rows' precision, and their squared norms in float64."""
    squares = np.empty(len(rows))
    offsets = np.empty(rows.shape, rows.dtype)
    for tile in tiles(*rows.shape):
        exact = rows[tile] - center
        offsets[tile] = exact
        np.einsum("ij,ij->i", exact, exact, out=squares[tile])
    if offsets.dtype == np.float32 and squares.max() > _LARGEST_FLOAT32_NORM**2:
        offsets = rows - center
    return offsets, squares


def _decide(rows: FloatArray, rivals: IntArray, state: Matching, step: Step) -> int:
    """Return the best of some rows that are too close to tell, from their float64 scores."""
    exact = rows[rivals] - state.center
    scores = np.add.reduce(exact * state.theta, axis=1)
    if step == "residual":
        scores -= np.add.reduce(exact * exact, axis=1) / 2
    return int(rivals[scores.argmax()])


def product_error(rows: FloatArray) -> float:
    """Return the rounding error of an inner product of two rows, as a share of the product of their norms."""
    return _SAFETY * float(np.finfo(rows.dtype).eps) / 2 * float(np.sqrt(rows.shape[1]))


class _Scorer(ABC):
    """Scores of all rows, kept up to date as rows are picked, with a bound on their error.

    The error of the score of a row is at most `slack` times the row's norm.
    """

    needs_theta: ClassVar[bool]

    def __init__(self, candidates: Candidates, penalty: Vector, theta: Vector) -> None:
        self.offsets = candidates.offsets
        self.norms = candidates.norms
        self.penalty = penalty
        precision = float(np.finfo(self.offsets.dtype).eps) / 2
        self.unit = _SAFETY * precision * float(np.sqrt(self.offsets.shape[1]))
        self.scores = self._fresh(theta)
        self.slack = self.unit * float(np.linalg.norm(theta))

    def _fresh(self, theta: Vector) -> Vector:
        if not theta.any():
            return -self.penalty
        product = self.offsets @ theta.astype(self.offsets.dtype)
        scores: Vector = product.astype(np.float64)
        scores -= self.penalty
        return scores

    @abstractmethod
    def remove(self, pick: int, theta: Vector) -> None:
        """Take a row out, whose score is minus infinity by now, and follow theta."""


class _ProductScorer(_Scorer):
    """One matrix-vector product per pick."""

    needs_theta = True

    def remove(self, pick: int, theta: Vector) -> None:
        self.penalty[pick] = np.inf
        self.scores = self._fresh(theta)
        self.slack = self.unit * float(np.linalg.norm(theta))


class _GramScorer(_Scorer):
    """One Gram matrix for all picks; errors of the entries add up like a random walk."""

    needs_theta = False

    def __init__(self, candidates: Candidates, penalty: Vector, theta: Vector) -> None:
        super().__init__(candidates, penalty, theta)
        assert candidates.gram is not None
        self.gram = candidates.gram
        self.squares = (candidates.norms**2).tolist()
        self.variance = float(theta @ theta)

    def remove(self, pick: int, theta: Vector) -> None:
        self.scores -= self.gram[pick]
        self.variance += self.squares[pick]
        self.slack = self.unit * math.sqrt(self.variance)
