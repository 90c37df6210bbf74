"""The contract of a selector: `fit` validates and shares out the budget, `_select` is the method."""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, InvalidParameter
from ..facts import Evidence, Facts
from ..location.centers import CENTERS
from ..matching.budgets import Weights, check_budgets, check_share, sequence, share, split, weigh
from ..matching.features import LabelAwareRows
from ..matching.objectives import running_objectives
from ..records import FloatArray, IntArray, Selection
from ..trust import TIERS, Verdict, judge
from ..validation import CheckedRows, as_seed, check_choice, check_input, resolve_keep
from ..version import __version__
from .estimator import Estimator

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
    target
        What was matched, by name; None where nothing was.
    reads, batches, chains
        How often the group's rows were read, and in how many batches and chains of them they were
        matched; no batches: all at once.
    """

    order: IntArray
    scores: Vector
    distances: Vector
    center: Vector
    objective: float
    epsilon: float | None = None
    target: str | None = None
    reads: int = 1
    batches: int = 0
    chains: int = 0


class Selector(Estimator, ABC):
    """Base of all methods: a scikit-learn estimator that keeps some of the rows.

    A method is a subclass with a class attribute `name`, its own parameters as annotated class attributes
    with a default (one of these here may get another default), and `_select`.

    Parameters
    ----------
    keep
        Fraction in (0, 1] or count of rows to keep.
    center
        What distances and the objective refer to, and what the method compares with if it compares with a
        centre: `mean`, `geometric-median`, `coordinate-median`, `huber`, `concentrated`, a point, or a
        mapping from class to point.
    by_class
        Whether labels, where given, divide the rows and the budget.
    budgets
        How classes share the budget: `proportional` (to their sizes), `sqrt` (to the square roots of their
        sizes), `equal`, or a mapping from every class to a number: counts, which add up to the budget, if
        all are whole numbers, else weights. Every class has at least one pick, and none more than its rows.
    guard
        `auto` judges the rows and picks trusted ones first; `off` believes them all.
    random_state
        Seed of all that is random; the same seed gives the same rows.
    """

    name: ClassVar[str]
    scores_are_objectives: ClassVar[bool] = False
    """Whether the scores of picks are the distances between the mean of the picks so far and the centre."""
    centers: ClassVar[Collection[str]] = CENTERS
    """The centres that can be named."""

    keep: float | int = field(default=0.1, kw_only=False)
    center: Any = "mean"
    by_class: bool = True
    budgets: str | Mapping[Any, float] = "proportional"
    guard: str = "off"
    random_state: Any = 0

    @abstractmethod
    def _select(self, group: Group, k: int) -> Picks:
        """Pick `k` rows of a group."""

    def _select_all(self, groups: list[Group], budgets: IntArray) -> list[Picks]:
        """Pick the budget of each group; each is handled on its own."""
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
                    part = self._select_all([some], np.array([take]))[0]
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
        """Refuse values of the method's own parameters that are wrong whatever the data."""

    def check_shared(self) -> None:
        """Refuse values of the parameters of all methods that are wrong whatever the data."""
        check_choice(self.guard, GUARDS, "guard")
        check_budgets(self.budgets)
        if not isinstance(self.by_class, (bool, np.bool_)):
            raise InvalidParameter(f"by_class must be True or False; got {self.by_class!r}")
        if isinstance(self.center, str):
            check_choice(self.center, self.centers, "center")

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        usable: npt.NDArray[np.bool_] | None = None,
        verdict: Verdict | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Self:
        """Choose rows of `X`, by class where labels `y` are given.

        Parameters
        ----------
        X
            Rows, array-like of shape (rows, features); or rows and labels that were checked already.
        y
            Optional labels, one per row; they may be wrong.
        usable
            Which rows may be picked, for rows that were checked already; None: all, after a check.
        verdict
            What `gmmatch.trust.judge` found for these rows and classes, where that is known already.
        checkpoint
            Where a method that can be resumed saves its state.

        Returns
        -------
        self
            With `selection_`, `sample_indices_`, `scores_`, `distances_`, `objective_`, `classes_`,
            `centers_`, `tiers_` and `n_features_in_`.
        """
        self.check_shared()
        self._check()
        checked = X if isinstance(X, CheckedRows) else check_input(X, y, usable, label_name="y")
        k = resolve_keep(self.keep, checked.n_usable)
        self._checkpoint = checkpoint
        seed = as_seed(self.random_state)
        groups = _groups(checked, self.by_class, seed)
        weights, most = self._weigh(groups, k)
        if self.guard == "off":
            verdict = None
        elif verdict is None:
            labelled = groups[0].label is not None
            verdict = judge(checked.rows, group_codes(groups), len(groups), seed, labelled=labelled)
        self.tiers_ = None if verdict is None else verdict.tiers
        tiers = _tier_sizes([group.members for group in groups], self.tiers_, most)
        budgets = share(weights, tiers, k)
        if verdict is None:
            picks = self._select_all(groups, budgets)
        else:
            picks = self._select_trusted(groups, budgets, verdict)
        self.classes_ = checked.classes
        self.n_features_in_ = checked.rows.shape[1]
        self.centers_ = np.stack([pick.center for pick in picks])
        self.selection_ = self._merge(groups, picks, weights, checked, verdict)
        self.sample_indices_ = self.selection_.indices
        self.scores_ = self.selection_.scores
        self.distances_ = self.selection_.distances
        self.objective_ = self.selection_.objective
        return self

    def fit_resample(self, X: Any, y: Any = None) -> tuple[Any, Any]:
        """Fit, and return the kept rows and their labels in pick order."""
        from sklearn.utils import _safe_indexing

        self.fit(X, y)
        kept = _safe_indexing(X, self.sample_indices_)
        return kept, None if y is None else _safe_indexing(y, self.sample_indices_)

    def _weigh(self, groups: list[Group], k: int) -> tuple[Weights, IntArray]:
        """Return what each group's share goes by, and how many rows it may give."""
        sizes = np.array([len(group.members) for group in groups])
        if groups[0].label is not None:
            check_share(len(groups), k)
            return weigh(self.budgets, [group.label for group in groups], sizes, k)
        if isinstance(self.budgets, Mapping):
            raise InvalidInput("budgets names classes, and rows are not divided by class; pass labels")
        return Weights(sizes), sizes

    def _select_trusted(self, groups: list[Group], budgets: IntArray, verdict: Verdict) -> list[Picks]:
        """Pick the budget of each group, trusted rows first.

        Whatever the rows are compared by, the results are told in the rows' own coordinates
        (of unit length, where that is asked for).
        """
        source = groups[0].source
        view = LabelAwareRows(source, verdict) if self._compares_by_labels(verdict) else None
        if view is not None:
            groups = [replace(group, source=cast(FloatArray, view)) for group in groups]
        chosen = self._select_in_tiers(groups, budgets, verdict.tiers)
        centers = [found.center if view is None else view.to_rows(found.center) for found in chosen]
        orders = [group.members[found.order] for group, found in zip(groups, chosen, strict=True)]
        picks = []
        for found, center, (objectives, distances) in zip(
            chosen, centers, running_objectives(self._as_matched(source), orders, centers), strict=True
        ):
            scores = objectives if self.scores_are_objectives else found.scores
            told = replace(found, scores=scores, distances=distances, center=center)
            picks.append(replace(told, objective=float(objectives[-1])))
        return picks

    def _compares_by_labels(self, verdict: Verdict) -> bool:
        return verdict.head is not None and self._wants_features()

    def _merge(
        self,
        groups: list[Group],
        picks: list[Picks],
        weights: Weights,
        checked: CheckedRows,
        verdict: Verdict | None,
    ) -> Selection:
        """Join the groups' picks in one order and record how they came about."""
        picked = [group.members[pick.order] for group, pick in zip(groups, picks, strict=True)]
        lengths = np.array([len(rows) for rows in picked])
        group, turn = sequence(weights, _tier_sizes(picked, self.tiers_, lengths))
        place = (np.cumsum(lengths) - lengths)[group] + turn
        indices = np.concatenate(picked)[place]
        params = self.get_params(deep=False)
        random_state = params.pop("random_state", None)
        labels = None
        if checked.classes is not None and checked.codes is not None:
            labels = checked.classes[checked.codes[indices]]
        facts = self._facts(picks, indices, labels, checked, verdict)
        return Selection(
            indices=indices,
            scores=np.concatenate([pick.scores for pick in picks])[place],
            distances=np.concatenate([pick.distances for pick in picks])[place],
            objective=facts.objective,
            method=self.name,
            params=params,
            n_rows=len(checked.rows),
            facts=facts,
            random_state=random_state if isinstance(random_state, int) else None,
            labels=labels,
            epsilon=facts.epsilon,
            tiers=self.tiers_,
            centers=self.centers_,
            evidence=None if verdict is None else evidence_of(verdict, checked, self.by_class),
        )

    def _facts(
        self,
        picks: list[Picks],
        indices: IntArray,
        labels: npt.NDArray[Any] | None,
        checked: CheckedRows,
        verdict: Verdict | None,
    ) -> Facts:
        """Say what was done."""
        certified = [pick.epsilon for pick in picks if pick.epsilon is not None]
        batches = sum(pick.batches for pick in picks) or None
        guard: dict[str, Any] = {"mode": "off"}
        if verdict is not None:
            picked = np.bincount(verdict.tiers[indices], minlength=len(TIERS)).tolist()
            features = "label-aware" if self._compares_by_labels(verdict) else "as given"
            guard = verdict.summary() | {
                "features": features,
                "picked": dict(zip(TIERS, picked, strict=True)),
            }
        return Facts(
            rows=len(checked.rows),
            kept=len(indices),
            classes=None if labels is None else len(np.unique(labels)),
            method=self.name,
            objective=float(np.average([p.objective for p in picks], weights=[len(p.order) for p in picks])),
            epsilon=max(certified, default=None),
            center=picks[0].target,
            reads=max(pick.reads for pick in picks) + (0 if verdict is None else verdict.reads),
            batches=batches,
            chains=max(pick.chains for pick in picks) if batches else None,
            tiers=guard.get("tiers"),
            guard=guard,
            versions={"gmmatch": __version__, "numpy": np.__version__, "python": platform.python_version()},
            fingerprint=checked.fingerprint,
        )


def evidence_of(verdict: Verdict, checked: CheckedRows, by_class: bool) -> Evidence:
    """Return the evidence of a verdict, with the suggested classes among all classes of the input."""
    codes, present = checked.judged(by_class)
    evidence = verdict.evidence(codes)
    return replace(evidence, suggested=present[evidence.suggested])


def _tier_sizes(groups: list[IntArray], tiers: Tiers | None, most: IntArray) -> IntArray:
    """Return how many rows each group has in each tier, the first of them up to its most."""
    if tiers is None:
        return most[None]
    sizes = np.stack([np.bincount(tiers[rows], minlength=len(TIERS)) for rows in groups], axis=1)
    return np.diff(np.minimum(np.cumsum(sizes, axis=0), most), axis=0, prepend=0)


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
    return replace(
        parts[0],
        order=order,
        scores=scores,
        distances=distances,
        objective=parts[-1].objective,
        reads=sum(part.reads for part in parts),
        batches=sum(part.batches for part in parts),
    )


def _groups(checked: CheckedRows, by_class: bool, seed: int) -> list[Group]:
    """Divide the usable rows by class; classes without a usable row are left out."""
    rows, classes, codes, usable = checked.rows, checked.classes, checked.codes, checked.usable
    if classes is None or codes is None or not by_class:
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
