"""GM Matching: rows whose mean matches the geometric median of their class."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, InvalidInputType
from ..location.blocks import blocks
from ..location.centers import CENTERS, find_center
from ..progress import task
from ..records import FloatArray, IntArray
from ..validation import check_choice, check_positive_int
from ._batches import batch_quotas, logical_order
from ._matching import Matching, Step, match
from .base import Group, Picks, Selector

STEPS = ("residual", "projection")
STARTS = ("center", "zero")
NORMALIZE = ("none", "unit")


class GMMatching(Selector):
    """Keep rows whose mean matches the geometric median of the data, class by class.

    Parameters
    ----------
    keep
        Fraction in (0, 1] or count of rows to keep.
    step
        `residual` picks the row that leaves the smallest accumulated error; `projection` is the
        paper's text: the row with the largest inner product with it.
    center
        `geometric-median`, `mean`, `coordinate-median`, a point, or a mapping from class to point.
    start
        theta before the first pick: `center`, `zero` or a vector. None means `zero` for the residual
        step, which works relative to the centre, and `center` for the projection step, which works in
        the given coordinates.
    normalize
        `unit` scales every row to length one first; `none` takes rows as they are.
    batch_size
        None: all rows of a class compete for every pick. A number: seeded random batches of that many
        rows, the accumulated error carried from one to the next.
    by_class
        Whether labels, where given, divide the rows and the budget.
    guard
        `auto` or `off`.
    random_state
        Seed of the batches.

    Attributes
    ----------
    sample_indices_, scores_, distances_, objective_, selection_
        The picks in order; see `gmmatch.Selection`.
    centers_, classes_
        One centre per class, in the order of the classes.

    Notes
    -----
    Time: O(n^2 d) per class of n rows in BLAS, O(n d * batch_size) with batches. Memory: the rows of
    one class and at most 1 GB for a Gram matrix; larger classes take O(n d) per pick.

    References
    ----------
    Acharya, Dhillon, Sanghavi: Geometric Median (GM) Matching for Robust Data Pruning, 2024.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> rows = np.random.default_rng(0).normal(size=(200, 8))
    >>> rows[:40] += 1000.0
    >>> estimator = gmmatch.GMMatching(keep=20).fit(rows)
    >>> bool((estimator.sample_indices_ >= 40).all())
    True
    """

    name = "gm-matching"

    def __init__(
        self,
        keep: float | int = 0.1,
        step: Step = "residual",
        center: Any = "geometric-median",
        start: Any = None,
        normalize: str = "none",
        batch_size: int | None = None,
        by_class: bool = True,
        guard: str = "auto",
        random_state: Any = 0,
    ) -> None:
        self.keep = keep
        self.step = step
        self.center = center
        self.start = start
        self.normalize = normalize
        self.batch_size = batch_size
        self.by_class = by_class
        self.guard = guard
        self.random_state = random_state

    def _check(self) -> None:
        check_choice(self.step, STEPS, "step")
        check_choice(self.normalize, NORMALIZE, "normalize")
        if isinstance(self.center, str):
            check_choice(self.center, CENTERS, "center")
        if isinstance(self.start, str):
            check_choice(self.start, STARTS, "start")
        if self.batch_size is not None:
            check_positive_int(self.batch_size, "batch_size")

    def _logical_turns(self, n_rows: int, n_features: int, seed: int) -> IntArray | None:
        if self.batch_size is None:
            return None
        turns = np.empty(n_rows, dtype=np.int64)
        turns[logical_order(n_rows, n_features, seed)] = np.arange(n_rows)
        return turns

    def _select(self, group: Group, k: int) -> Picks:
        rows = unit_rows(group.rows) if self.normalize == "unit" else group.rows
        center, epsilon = find_center(self.center, rows, group.label)
        state = Matching.begin(center, self._theta(center))
        if group.turns is None:
            order, scores, distances = match(rows, k, state, self.step)
        else:
            assert self.batch_size is not None
            order, scores, distances = _match_in_batches(
                rows, k, state, self.step, np.argsort(group.turns), self.batch_size
            )
        return Picks(order, scores, distances, center, float(scores[-1]), epsilon)

    def _theta(self, center: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return theta before the first pick."""
        start = self.start
        if start is None:
            start = "zero" if self.step == "residual" else "center"
        if isinstance(start, str):
            return center.copy() if start == "center" else np.zeros_like(center)
        try:
            theta = np.array(start, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInputType(
                f"start must be 'center', 'zero' or a vector; got {type(start).__name__}"
            ) from None
        if theta.shape != center.shape or not np.isfinite(theta).all():
            raise InvalidInput(f"start must be a finite vector of shape {center.shape}; got {theta.shape}")
        return theta


def _match_in_batches(
    rows: FloatArray, k: int, state: Matching, step: Step, visits: IntArray, batch_size: int
) -> tuple[IntArray, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Match batch by batch, carrying the accumulated error on."""
    found = []
    quotas = batch_quotas(len(rows), k, batch_size)
    with task("picking rows in batches", len(quotas)) as advance:
        for turn, quota in enumerate(quotas):
            # In the order of their row numbers, so that the smallest one wins exact ties.
            batch = np.sort(visits[turn * batch_size : (turn + 1) * batch_size])
            picks, scores, distances = match(rows[batch], int(quota), state, step)
            found.append((batch[picks], scores, distances))
            advance(1)
    order, scores, distances = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return order, scores, distances


def unit_rows(rows: FloatArray) -> FloatArray:
    """Return the rows scaled to length one; rows of zeros stay as they are.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    scaled = np.empty_like(rows, subok=False)
    for block in blocks(rows):
        exact = rows[block].astype(np.float64)
        lengths = np.sqrt(np.add.reduce(exact * exact, axis=1))
        lengths[lengths == 0] = 1.0
        scaled[block] = exact / lengths[:, None]
    return scaled
