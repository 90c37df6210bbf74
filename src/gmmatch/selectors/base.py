"""The contract of a selector: `fit` validates and shares out the budget, `_select` is the method."""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt

from ..compute.keys import Keys, look_at_rows
from ..errors import InvalidInput, InvalidParameter
from ..facts import Evidence, Facts
from ..location.centers import CENTERS
from ..matching.budgets import Weights, advise, check_budgets, check_share, weigh
from ..matching.cells import ordinary_size
from ..matching.features import MatchedRows, choose_lift
from ..matching.objectives import running_objective, running_objectives
from ..matching.targets import stream_centers
from ..records import FloatArray, IntArray, Selection
from ..trust import TIERS, TRUSTED, Verdict, judge
from ..trust.guard import Recall, make_now
from ..validation import CheckedRows, as_seed, check_choice, check_input, resolve_keep
from ..version import __version__
from .estimator import Estimator
from .groups import Checkpoint, Group, Picks, Shares, divide_rows, group_codes, share_out

Vector = npt.NDArray[np.float64]

GUARDS = ("auto", "off")


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
        sizes), `equal`, or a mapping from every class to a number: whole numbers that add up to the budget
        are counts, others are weights. Every class has at least one pick, and none more than its rows.
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

    def _wants_features(self) -> bool:
        """Tell whether the method may compare rows by label-aware features."""
        return True

    def _lift(self) -> str | int:
        """Return whether rows are lifted before they are compared; see `GMMatching`."""
        return "off"

    def reads_verdict(self) -> bool:
        """Tell whether the method selects by what was judged, also where the guard is off."""
        return False

    def judge(self, checked: CheckedRows, recall: Recall = make_now) -> Verdict:
        """Judge which rows to believe."""
        seed = as_seed(self.random_state)
        groups = divide_rows(checked, self.by_class, seed)
        self._weigh(groups, resolve_keep(self.keep, checked.n_usable))  # refused now, not when all is judged
        return self._judge(groups, seed, checked.keys(seed), recall)

    def _judge(self, groups: list[Group], seed: int, keys: Keys | None, recall: Recall = make_now) -> Verdict:
        labelled, codes = groups[0].label is not None, group_codes(groups)
        return judge(groups[0].source, codes, len(groups), seed, labelled=labelled, keys=keys, recall=recall)

    def _divide(self, groups: list[Group], k: int, verdict: Verdict) -> tuple[list[Group], Verdict]:
        """Divide rows without labels into cells, with a verdict on them; by default nothing is divided."""
        return groups, verdict

    def _as_matched(self, source: FloatArray) -> FloatArray:
        """Return the rows in the form that centres and distances refer to: as they are given, by default."""
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
        memory: int | None = None,
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
        memory
            Bytes that may be used where a method can do with less by taking longer; the picks are the same.

        Returns
        -------
        self
            With `selection_`, `sample_indices_`, `scores_`, `distances_`, `objective_`, `classes_`,
            `centers_`, `tiers_` and `n_features_in_`.
        """
        self.check_shared()
        self._check()
        checked = X if isinstance(X, CheckedRows) else check_input(X, y, usable, label_name="y")
        if checked.digest is None:
            checked = replace(checked, digest=look_at_rows(checked.rows)[2])
        k = resolve_keep(self.keep, checked.n_usable)
        self._checkpoint, self._memory = checkpoint, memory
        seed = as_seed(self.random_state)
        groups = divide_rows(checked, self.by_class, seed)
        guarded = self.guard != "off"
        if verdict is None and (guarded or self.reads_verdict()):
            judged = groups if guarded else divide_rows(checked, True, seed)
            verdict = self._judge(judged, seed, checked.keys(seed))
        self._judged = verdict
        if verdict is not None and guarded:
            groups, verdict = self._divide(groups, k, verdict)
        else:
            verdict = None
        evidence = None if verdict is None else evidence_of(verdict, checked, self.by_class)
        self.tiers_ = None if evidence is None else evidence.tiers
        weights, most = self._weigh(groups, k)
        keys = None if verdict is None else verdict.keys
        shares = share_out(groups, weights, most, k, evidence, keys)
        picked, picks = self._pick(groups, shares, verdict)
        self.classes_ = checked.classes
        self.n_features_in_ = checked.rows.shape[1]
        self.centers_ = np.stack([pick.center for pick in picks])
        self.selection_ = self._merge(picked, picks, shares, checked, verdict, evidence)
        self.sample_indices_ = self.selection_.indices
        self.scores_ = self.selection_.scores
        self.distances_ = self.selection_.distances
        self.objective_ = self.selection_.objective
        return self

    @property
    def details_(self) -> Mapping[str, Any]:
        """The former name of `selection_.facts`, as a dictionary."""
        return self.selection_.details  # which warns

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
        # No cell weighs more than four ordinary ones: one that does is full of near-copies.
        return Weights(np.minimum(sizes, 4 * ordinary_size(sizes))), sizes

    def _pick(
        self, groups: list[Group], shares: Shares, verdict: Verdict | None
    ) -> tuple[list[IntArray], list[Picks]]:
        """Return the rows picked from each group, and what is told of those that give any.

        Whatever the rows are compared by, the results are told in the rows' own coordinates
        (of unit length, where that is asked for).
        """
        source = groups[0].source
        view = None if verdict is None else self._view(groups, shares, verdict)
        compared = source if view is None else cast(FloatArray, view)
        competing = [
            replace(group, source=compared, members=members)
            for group, members in zip(groups, shares.members, strict=True)
        ]
        if view is not None and view.means is not None:
            competing = [
                replace(group, mean=mean) if np.isfinite(mean).all() else group
                for group, mean in zip(competing, view.means, strict=True)
            ]
        # Methods that are handed all rows may share the budget among classes by themselves.
        active = np.arange(len(groups)) if verdict is None else np.flatnonzero(shares.budgets)
        found = self._select_all([competing[code] for code in active], shares.budgets[active])
        picked = [shares.rest[shares.rest_groups == code] for code in range(len(groups))]
        for code, picks in zip(active, found, strict=True):
            picked[code] = np.concatenate([competing[code].members[picks.order], picked[code]])
        if verdict is None:
            return picked, found
        if groups[0].label is None and len(groups) > 1:
            return [shares.merge(picked)], [self._tell_as_one(groups, shares.merge(picked), found, verdict)]
        centers = [picks.center if view is None else view.to_rows(picks.center) for picks in found]
        told = running_objectives(self._as_matched(source), picked, centers)
        return picked, [
            self._tell(picks, center, *measured)
            for picks, center, measured in zip(found, centers, told, strict=True)
        ]

    def _tell_as_one(
        self, groups: list[Group], rows: IntArray, found: list[Picks], verdict: Verdict
    ) -> Picks:
        """Return the picks of all cells as those of one group, whose centre is that of all trusted rows."""
        source = self._as_matched(groups[0].source)
        together = np.where(verdict.tiers == TRUSTED, 0, -1)
        middle = stream_centers("geometric-median", source, together, [None], groups[0].seed[0])
        center, epsilon = middle.points[0], middle.epsilons[0]
        objectives, distances = running_objective(source, rows, center)
        return Picks(
            np.arange(len(rows)),
            objectives,
            distances,
            center,
            float(objectives[-1]),
            epsilon,
            found[0].target,
            reads=max(picks.reads for picks in found),
            batches=sum(picks.batches for picks in found),
            chains=max(picks.chains for picks in found),
        )

    def _tell(self, picks: Picks, center: Vector, objectives: Vector, distances: Vector) -> Picks:
        """Return picks with scores, distances and centre in the rows' own coordinates."""
        scores = objectives.copy()
        if not self.scores_are_objectives:
            scores[: len(picks.scores)] = picks.scores
            scores[len(picks.scores) :] = np.nan
        return replace(
            picks, scores=scores, distances=distances, center=center, objective=float(objectives[-1])
        )

    def _view(self, groups: list[Group], shares: Shares, verdict: Verdict) -> MatchedRows | None:
        """Return the features that rows are compared by; None: the rows as they are given."""
        if not self._wants_features():
            return None
        lift = self._lift()
        # One pick of a cell is the row nearest to its middle, lifted or not. In a class it is the first pick
        # of larger budgets as well.
        if lift == "auto" and groups[0].label is None and shares.budgets.max() <= 1:
            lift = "off"
        source = groups[0].source
        found = choose_lift(source, verdict, lift, groups[0].seed[0])
        if verdict.head is None and found is None:
            return None
        codes = None if verdict.head is None or verdict.head.nearest is None else group_codes(groups)
        return MatchedRows(source, verdict, found, codes=codes)

    def _merge(
        self,
        picked: list[IntArray],
        picks: list[Picks],
        shares: Shares,
        checked: CheckedRows,
        verdict: Verdict | None,
        evidence: Evidence | None,
    ) -> Selection:
        """Join the groups' picks in one order and record how they came about."""
        # Cells are told as one group, which is in order.
        place = shares.places(picked) if len(picked) == len(shares.members) else np.arange(len(picked[0]))
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
            evidence=evidence,
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
            labelled = verdict.head is not None and self._wants_features()
            guard = verdict.summary() | {
                "features": "label-aware" if labelled else "as given",
                "picked": dict(zip(TIERS, picked, strict=True)),
            }
        return Facts(
            rows=len(checked.rows),
            kept=len(indices),
            classes=None if labels is None else len(np.unique(labels)),
            method=self.name,
            objective=float(np.average([p.objective for p in picks], weights=[len(p.scores) for p in picks])),
            epsilon=max(certified, default=None),
            center=" and ".join(dict.fromkeys(own.target for own in picks if own.target)) or None,
            reads=max(pick.reads for pick in picks) + (0 if verdict is None else verdict.reads),
            batches=batches,
            chains=max(pick.chains for pick in picks) if batches else None,
            tiers=guard.get("tiers"),
            guard=guard,
            versions={"gmmatch": __version__, "numpy": np.__version__, "python": platform.python_version()},
            fingerprint=checked.fingerprint,
            hint=self._hint(checked),
        )

    def _hint(self, checked: CheckedRows) -> str | None:
        """Say what else the user may want to ask for."""
        if checked.classes is None or checked.codes is None or not self.by_class:
            return None
        usable = slice(None) if checked.usable is None else checked.usable
        sizes = np.bincount(checked.codes[usable], minlength=len(checked.classes))
        return advise(self.budgets, checked.classes, sizes, resolve_keep(self.keep, checked.n_usable))


def evidence_of(verdict: Verdict, checked: CheckedRows, by_class: bool) -> Evidence:
    """Return the evidence of a verdict, with the suggested classes among all classes of the input."""
    codes, present = checked.judged(by_class)
    n_classes = None if checked.classes is None else len(checked.classes)
    return verdict.evidence(codes, doubt=False).among(present, n_classes)
