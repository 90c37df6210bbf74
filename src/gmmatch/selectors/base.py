"""The contract of a selector: `fit` validates and shares out the budget, `_select` is the method."""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing

from ..matching.budgets import class_budgets, interleave, split
from ..matching.features import LabelAwareRows
from ..matching.objectives import running_objectives
from ..records import FloatArray, IntArray, Selection
from ..trust import TIERS, Trust, judge
from ..validation import as_labels, as_rows, as_seed, check_choice, fingerprint, resolve_keep
from ..version import __version__

Vector = npt.NDArray[np.float64]

Tiers = npt.NDArray[np.int8]

GUARDS = ("auto", "off")


class Checkpoint(Protocol):
    """Where a long selection leaves what it needs to go on after a kill."""

    def load(self) -> Mapping[str, npt.NDArray[Any]] | None:
        """Return what was saved last, or None."""

    def save(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Save plain arrays, in place of what was saved before."""


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
    """

    source: FloatArray
    members: IntArray
    label: Any
    seed: tuple[int, ...]
    n_classes: int

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
        Certified accuracy of `center`; 0 for a mean; None where there is none.
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
    scores_are_objectives: ClassVar[bool] = False
    """Whether the scores of picks are the distances between the mean of the picks so far and the centre."""

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

    def _select_in_tiers(self, groups: list[Group], budgets: IntArray, tiers: Tiers) -> list[Picks]:
        """Pick the budget of each group, from its first tier while it lasts, then from the next.

        `tiers` has one entry per row of the input. The centre of a group is that of its first tier.
        """
        found = []
        for group, budget in zip(groups, budgets, strict=True):
            parts: list[Picks] = []
            for inside in divide(tiers[group.members]):
                take = min(int(budget) - sum(len(part.order) for part in parts), len(inside))
                if take > 0:
                    some = replace(group, members=group.members[inside])
                    part = self._select_all([some], take)[0]
                    parts.append(replace(part, order=inside[part.order]))
            found.append(join(parts))
        return found

    def _wants_features(self) -> bool:
        """Tell whether rows may be compared by label-aware features instead of as they are."""
        return True

    def _as_matched(self, source: FloatArray) -> FloatArray:
        """Return the rows as centres and distances are told: as they are, by default."""
        return source

    def _check(self) -> None:
        """Refuse parameters that are wrong whatever the data."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        usable: npt.NDArray[np.bool_] | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Self:
        """Choose rows of `X`, by class where labels `y` are given.

        Parameters
        ----------
        X
            Rows, array-like of shape (rows, features).
        y
            Optional labels, one per row; they may be wrong.
        usable
            Which rows may be picked, for rows that were checked already; None: all, after a check.
        checkpoint
            Where a method that can be resumed saves its state.

        Returns
        -------
        self
            With `selection_`, `sample_indices_`, `scores_`, `distances_`, `objective_`, `classes_`,
            `centers_`, `tiers_` and `n_features_in_`.
        """
        check_choice(self.guard, GUARDS, "guard")
        self._check()
        rows = as_rows(X, finite=usable is None)
        k = resolve_keep(self.keep, len(rows) if usable is None else int(usable.sum()))
        self.details_: dict[str, Any] = {}
        self._checkpoint = checkpoint
        seed = as_seed(self.random_state)
        classes, codes = (None, None) if y is None else as_labels(y, len(rows), "y")
        groups = _groups(rows, classes if self.by_class else None, codes, usable, seed)
        self.tiers_: npt.NDArray[np.int8] | None = None
        if self.guard == "off":
            self.details_["guard"] = {"mode": "off"}
            picks = self._select_all(groups, k)
        else:
            picks = self._select_trusted(groups, k, seed)
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

    def _select_trusted(self, groups: list[Group], k: int, seed: int) -> list[Picks]:
        """Judge the rows, and pick `k` in all, trusted rows first; the groups share them by size.

        Whatever the rows are compared by, the results are told in the rows' own coordinates
        (of unit length, where that is asked for).
        """
        source = groups[0].source
        labelled = groups[0].label is not None
        trust = judge(source, group_codes(groups), len(groups), seed, labelled=labelled)
        view = None
        if trust.head is not None and self._wants_features():
            view = LabelAwareRows(source, trust)
            groups = [replace(group, source=cast(FloatArray, view)) for group in groups]
        budgets = class_budgets([len(group.members) for group in groups], k)
        chosen = self._select_in_tiers(groups, budgets, trust.tiers)
        centers = [found.center if view is None else view.to_rows(found.center) for found in chosen]
        orders = [group.members[found.order] for group, found in zip(groups, chosen, strict=True)]
        picks = []
        for found, center, (objectives, distances) in zip(
            chosen, centers, running_objectives(self._as_matched(source), orders, centers), strict=True
        ):
            scores = objectives if self.scores_are_objectives else found.scores
            picks.append(Picks(found.order, scores, distances, center, float(objectives[-1]), found.epsilon))
        self.tiers_ = trust.tiers
        self._record(trust, groups, picks, "as given" if view is None else "label-aware")
        return picks

    def _record(self, trust: Trust, groups: list[Group], picks: list[Picks], features: str) -> None:
        """Note what the guard did."""
        kept = np.concatenate([group.members[pick.order] for group, pick in zip(groups, picks, strict=True)])
        picked = np.bincount(trust.tiers[kept], minlength=len(TIERS)).tolist()
        facts = trust.summary() | {"features": features, "picked": dict(zip(TIERS, picked, strict=True))}
        self.details_["guard"] = facts
        if "passes" in self.details_:
            self.details_["passes"] += facts["passes"]

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
            tiers=self.tiers_,
            centers=self.centers_,
            details=self.details_,
            versions={"gmmatch": __version__, "numpy": np.__version__, "python": platform.python_version()},
            fingerprint=fingerprint(rows, codes),
        )


def divide(tiers: Tiers) -> list[IntArray]:
    """Return the positions of each tier that is present, the most trusted first.

    Examples
    --------
    >>> divide(np.array([2, 0, 2], dtype=np.int8))
    [array([1]), array([0, 2])]
    """
    return [np.flatnonzero(tiers == tier) for tier in np.unique(tiers)]


def join(parts: list[Picks]) -> Picks:
    """Join the picks of a group's tiers; the centre and its accuracy are those of the first."""
    order, scores, distances = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("order", "scores", "distances")
    )
    return replace(parts[0], order=order, scores=scores, distances=distances, objective=parts[-1].objective)


def _groups(
    rows: FloatArray,
    classes: npt.NDArray[Any] | None,
    codes: IntArray | None,
    usable: npt.NDArray[np.bool_] | None,
    seed: int,
) -> list[Group]:
    """Divide the usable rows by class; classes without a usable row are left out."""
    if classes is None or codes is None:
        members = np.arange(len(rows)) if usable is None else np.flatnonzero(usable)
        return [Group(rows, members, None, (seed, 0), 1)]
    parts = split(codes, len(classes))
    if usable is not None:
        parts = [members[usable[members]] for members in parts]
    return [
        Group(rows, members, classes[code].item(), (seed, code), len(classes))
        for code, members in enumerate(parts)
        if len(members)
    ]


def group_codes(groups: list[Group]) -> IntArray | None:
    """Return the group of each row of the input, -1 for rows of none; None: all rows are of one group."""
    n_rows = len(groups[0].source)
    if len(groups[0].members) == n_rows:
        return None
    codes = np.full(n_rows, -1)
    for code, group in enumerate(groups):
        codes[group.members] = code
    return codes
