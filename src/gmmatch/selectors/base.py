"""The contract of a selector: `fit` validates and shares out the budget, `_select` is the method."""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing

from ..location.blocks import block_rows
from ..records import FloatArray, IntArray, Selection
from ..validation import as_labels, as_rows, as_seed, check_choice, fingerprint, resolve_keep
from ..version import __version__
from .by_class import class_budgets, interleave, split

Vector = npt.NDArray[np.float64]

GUARDS = ("auto", "off")


@dataclass(frozen=True, eq=False)
class Group:
    """The rows that compete for one budget: a class, or all rows.

    Attributes
    ----------
    source
        The embeddings of all rows of the input.
    members
        Which of them are the group's, by row number, ascending.
    label
        The class; None where there are no classes.
    seed
        Entropy for `numpy.random.default_rng`, of this group alone.
    n_classes
        How many groups there are.
    turns
        Place of each row in the logical order of all rows; None unless the method asks for it.
    """

    source: FloatArray
    members: IntArray
    label: Any
    seed: tuple[int, ...]
    n_classes: int
    turns: IntArray | None = None

    @property
    def rows(self) -> FloatArray:
        """The group's rows in the order of their row numbers: a copy at every call, unless it has all."""
        return self.source if len(self.members) == len(self.source) else self.source[self.members]


@dataclass(frozen=True, eq=False)
class Picks:
    """What a method picked from one group.

    Attributes
    ----------
    order
        Positions in the group, unique, in pick order.
    scores, distances
        One number per pick each.
    center
        The point that the method compared with.
    objective
        Distance between the mean of the picks and `center`.
    epsilon
        Certified accuracy of `center`, where it is a geometric median.
    """

    order: IntArray
    scores: Vector
    distances: Vector
    center: Vector
    objective: float
    epsilon: float | None = None


class Selector(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all methods: a scikit-learn estimator that keeps some of the rows.

    A method is a subclass with a constructor that only stores its parameters (among them `keep`,
    `by_class`, `guard` and `random_state`), a class attribute `name`, and `_select`.
    """

    name: ClassVar[str]

    keep: float | int
    by_class: bool
    guard: str
    random_state: Any

    @abstractmethod
    def _select(self, group: Group, k: int) -> Picks:
        """Pick `k` rows of a group."""

    def _select_all(self, groups: list[Group], k: int) -> list[Picks]:
        """Pick `k` rows in all: the groups share them by size, and each is handled on its own."""
        budgets = class_budgets([len(group.members) for group in groups], k)
        return [self._select(group, int(budget)) for group, budget in zip(groups, budgets, strict=True)]

    def _check(self) -> None:
        """Refuse parameters that are wrong whatever the data."""

    def _logical_turns(self, n_rows: int, n_features: int, seed: int) -> IntArray | None:
        """Return the place of each row in a seeded order over all rows, if the method wants one."""
        return None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose rows of `X`, by class where labels `y` are given.

        Parameters
        ----------
        X
            Rows, array-like of shape (rows, features).
        y
            Optional labels, one per row; they may be wrong.

        Returns
        -------
        self
            With `selection_`, `sample_indices_`, `scores_`, `distances_`, `objective_`, `classes_`,
            `centers_` and `n_features_in_`.
        """
        check_choice(self.guard, GUARDS, "guard")
        self._check()
        rows = as_rows(X)
        k = resolve_keep(self.keep, len(rows))
        seed = as_seed(self.random_state)
        classes, codes = (None, None) if y is None else as_labels(y, len(rows), "y")
        groups = self._groups(rows, classes if self.by_class else None, codes, seed)
        picks = self._select_all(groups, k)
        self.classes_ = classes
        self.n_features_in_ = rows.shape[1]
        self.centers_ = np.stack([pick.center for pick in picks])
        self.selection_ = self._merge(groups, picks, classes, codes, rows)
        self.sample_indices_ = self.selection_.indices
        self.scores_ = self.selection_.scores
        self.distances_ = self.selection_.distances
        self.objective_ = self.selection_.objective
        return self

    def fit_resample(self, X: Any, y: Any = None) -> tuple[Any, Any]:
        """Fit, and return the kept rows and their labels in pick order."""
        self.fit(X, y)
        kept = _safe_indexing(X, self.sample_indices_)
        return kept, None if y is None else _safe_indexing(y, self.sample_indices_)

    def _groups(
        self, rows: FloatArray, classes: npt.NDArray[Any] | None, codes: IntArray | None, seed: int
    ) -> list[Group]:
        turns = self._logical_turns(len(rows), rows.shape[1], seed)
        if classes is None or codes is None:
            return [Group(rows, np.arange(len(rows)), None, (seed, 0), 1, turns)]
        return [
            Group(
                rows,
                members,
                classes[code].item(),
                (seed, code),
                len(classes),
                None if turns is None else turns[members],
            )
            for code, members in enumerate(split(codes, len(classes)))
        ]

    def _merge(
        self,
        groups: list[Group],
        picks: list[Picks],
        classes: npt.NDArray[Any] | None,
        codes: IntArray | None,
        rows: FloatArray,
    ) -> Selection:
        """Join the groups' picks in one order and record how they came about."""
        lengths = np.array([len(pick.order) for pick in picks])
        group, turn = interleave(lengths)
        place = (np.cumsum(lengths) - lengths)[group] + turn
        indices = np.concatenate([g.members[p.order] for g, p in zip(groups, picks, strict=True)])[place]
        certified = [pick.epsilon for pick in picks if pick.epsilon is not None]
        params = self.get_params(deep=False)
        random_state = params.pop("random_state", None)
        return Selection(
            indices=indices,
            scores=np.concatenate([pick.scores for pick in picks])[place],
            distances=np.concatenate([pick.distances for pick in picks])[place],
            objective=float(np.average([pick.objective for pick in picks], weights=lengths)),
            method=self.name,
            params=params,
            n_rows=len(rows),
            random_state=random_state if isinstance(random_state, int) else None,
            labels=None if classes is None or codes is None else classes[codes[indices]],
            epsilon=max(certified, default=None),
            versions={"gmmatch": __version__, "numpy": np.__version__, "python": platform.python_version()},
            fingerprint=fingerprint(rows, codes),
        )


def running_objective(rows: FloatArray, order: IntArray, center: Vector) -> tuple[Vector, Vector]:
    """Return, after each pick, the distance of the picks' mean to the centre; and each pick's distance.

    Time: O(picks * features). Memory: O(block).

    Examples
    --------
    >>> rows = np.array([[0.0], [2.0], [4.0]])
    >>> running_objective(rows, np.array([0, 2]), np.array([2.0]))
    (array([2., 0.]), array([2., 2.]))
    """
    objectives, distances = np.empty(len(order)), np.empty(len(order))
    total = np.zeros(rows.shape[1])
    step = block_rows(rows.shape[1])
    for start in range(0, len(order), step):
        part = slice(start, min(start + step, len(order)))
        offsets = rows[order[part]] - center
        distances[part] = np.sqrt(np.add.reduce(offsets * offsets, axis=1))
        sums = np.cumsum(np.concatenate([total[None], offsets]), axis=0)[1:]
        total = sums[-1]
        objectives[part] = np.sqrt(np.add.reduce(sums * sums, axis=1)) / np.arange(
            part.start + 1, part.stop + 1
        )
    return objectives, distances
