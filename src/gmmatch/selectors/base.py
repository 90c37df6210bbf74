"""The contract of a selector: `fit` validates and shares out the budget, `_select` is the method."""

from __future__ import annotations

import platform
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from ..arrays import IntArray, Mask, Rows, Vector
from ..compute.keys import look_at_rows
from ..compute.reads import Sums
from ..compute.runner import count_reads, gather, with_runner
from ..errors import InvalidInput, InvalidParameter, brief
from ..facts import Evidence, RunInfo
from ..location.centers import CENTERS
from ..location.mean import Totals, means_of
from ..matching.budgets import Weights, advise, check_budgets, check_share, weigh
from ..matching.features import MatchedRows
from ..matching.groups import Group, Outline, Picks, Shares, group_codes, with_first
from ..matching.objectives import running_objective, running_objectives
from ..matching.pick import Checkpoint, whole_costs
from ..records import Carried, Selection
from ..trust import TIERS, Known, Verdict, judge
from ..trust.classifiers import KERNEL_FEATURES, classifier_bytes
from ..trust.judge import Divide, Recall, make_now, sample_size
from ..trust.noise import MANY_CLASSES
from ..validation import CheckedRows, as_seed, check_choice, check_input, describe_bad_rows, resolve_keep
from ..version import __version__
from .estimator import Estimator
from .groups import Part, Wanted, carry_on, divide_rows, join_earlier, offset_before, share_out, to_known

GUARDS = ("auto", "off")
_JUDGED_ROW_BYTES = 140  # what is found of each row, as long as it is needed
# Multiply-adds of judging, by a few measured runs: for each row of the sample and pair of the classifier's
# features, and for each row, feature and class.
_LEARNED_WORK, _JUDGED_WORK = 5, 6


@dataclass(frozen=True)
class Costs:
    """Memory and work, beside Python, the libraries and reading."""

    least_bytes: int  # without which it cannot be done
    most_bytes: int  # that are used where there is enough
    work: float  # multiply-adds
    batch_size: int | str | None = None  # rows of a batch, or `auto`; None: all rows of a class at once


def judging_costs(outline: Outline) -> Costs:
    """Return what judging takes: the sample, what is found of each row, and classifiers of many classes.

    Set by what 50,000 to 2,000,000 rows of 10 to 1,000 classes took.
    """
    n_rows, width, n_classes = outline.n_rows, outline.n_features, len(outline.sizes)
    sample = sample_size(width, n_classes)
    needed = min(n_rows, sample) * width * outline.itemsize + _JUDGED_ROW_BYTES * n_rows
    if n_classes > MANY_CLASSES:
        needed += 3 * classifier_bytes(width, n_classes)
    widest = width + KERNEL_FEATURES
    learned = _LEARNED_WORK * float(min(n_rows, sample)) * widest**2
    return Costs(needed, needed, learned + _JUDGED_WORK * float(n_rows) * widest * n_classes)


class Selector(Estimator):
    """Base of all methods: a scikit-learn estimator that keeps some of the rows.

    A method is a subclass with a class attribute `name`, its own parameters as annotated class attributes
    with a default (one of these here may get another default), and `_select`.

    Parameters
    ----------
    keep
        Fraction in (0, 1] or count of rows to keep. With gm-matching and labels `auto`: the smallest share of
        the believed rows from which two small learners learn 99 % of what they learn from all of them.
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
    goes_on: ClassVar[bool] = False
    """Whether the method takes rows that are in already into account; others pick as if there were none."""

    keep: float | int | str = field(default=0.1, kw_only=False)
    center: object = "mean"
    by_class: bool = True
    budgets: str | Mapping[Any, float] = "proportional"
    guard: str = "off"
    random_state: object = 0

    def _select(self, group: Group, k: int) -> Picks:
        """Pick `k` rows of a group; a method defines this, or `_select_all`."""
        raise NotImplementedError(f"{type(self).__name__} must define _select")

    def _select_all(self, groups: list[Group], budgets: IntArray) -> list[Picks]:
        """Pick the budget of each group; by default each is handled on its own."""
        return [self._select(group, int(budget)) for group, budget in zip(groups, budgets, strict=True)]

    def _wants_features(self) -> bool:
        """Return True if the method may compare rows by features other than the rows as they are given."""
        return True

    def reads_verdict(self) -> bool:
        """Return True if the method selects by what was judged, also where the guard is off."""
        return False

    def _picking_reads(self, outline: Outline) -> int:
        """Return how often picking reads all rows, beside looking at them and judging them."""
        return 1

    def expected_reads(self, checked: CheckedRows) -> int:
        """Return how often `fit` reads all rows, from what is known before any is read.

        Exact but for geometric medians, for Fourier features that the rows decide on, for clusters of more
        than 8,192 rows, and where teaching picks, which come from a sample, fill the whole budget: one less.
        """
        return 1 + self.judges + self._picking_reads(self._outline(checked))

    def costs(self, checked: CheckedRows) -> Costs:
        """Return what `fit` takes beside reading, from what is known before any row is read."""
        outline = self._outline(checked)
        picking = self._picking_costs(outline)
        if not outline.guarded:
            return picking
        judging = judging_costs(outline)
        least = max(judging.least_bytes, picking.least_bytes)
        most = max(picking.most_bytes, least)
        return replace(picking, least_bytes=least, most_bytes=most, work=picking.work + judging.work)

    def _picking_costs(self, outline: Outline) -> Costs:
        """Return what picking takes beside reading: all rows of a group are held, and compared in pairs."""
        return Costs(0, *whole_costs(outline))

    def _outline(self, checked: CheckedRows) -> Outline:
        """Return what is known of a selection before any row is read."""
        rows, codes = checked.rows, checked.codes if self.by_class else None
        sizes = np.array([len(rows)]) if codes is None else np.bincount(codes)
        shape = rows.shape[1], rows.dtype.itemsize
        return Outline(len(rows), sizes[sizes > 0], *shape, codes is not None, self.guard != "off")

    def running_means(self, checked: CheckedRows) -> Sums[Totals] | None:
        """Return what adds up means of the groups while the rows are looked at; None: none are wanted."""
        return None

    @property
    def judges(self) -> bool:
        """Whether rows are judged: for the guard, or because the method selects by what was judged."""
        return self.guard != "off" or self.reads_verdict()

    @property
    def judges_by_class(self) -> bool:
        """Whether the rows of a class are judged by themselves."""
        return self.by_class or self.guard == "off"

    def judge(
        self,
        checked: CheckedRows,
        seed: int,
        recall: Recall = make_now,
        known: Known | None = None,
        share: bool = False,
    ) -> Verdict:
        """Judge which rows to believe.

        `known`: what the user knows of the labels. `share`: whether classes are what shares the budget, so
        that one that leaves a class without a row is refused now, not when all is judged.
        """
        guarded = self.guard != "off"
        groups = divide_rows(checked, self.judges_by_class, seed)
        labelled = groups[0].label is not None
        if guarded and share:
            self._weigh(groups, resolve_keep(self.keep, checked.n_usable))
        return judge(
            groups[0].source,
            group_codes(groups),
            len(groups),
            seed,
            labelled=labelled,
            divide=self._finds_clusters(labelled) if guarded else None,
            keys=checked.keys(seed),
            recall=recall,
            known=known,
        )

    def _finds_clusters(self, labelled: bool) -> Divide | None:
        """Return what finds clusters in the rows of a group; None where they are one cloud."""
        return None

    def _budget(self, groups: list[Group], n_rows: int, verdict: Verdict | None) -> int:
        """Return how many of the usable rows to keep."""
        if self.keep == "auto":
            raise InvalidParameter(f'keep="auto" is of gm-matching; pass a share or a count to {self.name}')
        return resolve_keep(self.keep, n_rows)

    def _divide(self, groups: list[Group], k: int, verdict: Verdict) -> tuple[list[Group], Verdict]:
        """Divide rows without labels further, with a verdict on the parts; by default nothing is divided."""
        return groups, verdict

    def _as_compared(self, rows: Rows) -> Rows:
        """Return the rows as they are compared and measured: as they are given, by default."""
        return rows

    def _check(self) -> None:
        """Refuse values of the method's own parameters that are wrong whatever the data."""

    def check_shared(self) -> None:
        """Refuse values of the parameters of all methods that are wrong whatever the data."""
        check_choice(self.guard, GUARDS, "guard")
        check_budgets(self.budgets)
        if not isinstance(self.by_class, (bool, np.bool_)):
            raise InvalidParameter(f"by_class must be True or False; got {brief(self.by_class)}")
        if isinstance(self.center, str):
            check_choice(self.center, self.centers, "center")

    def fit(
        self,
        X: object,
        y: object = None,
        *,
        usable: Mask | None = None,
        verdict: Verdict | None = None,
        checkpoint: Checkpoint | None = None,
        memory: int | None = None,
        wanted: Wanted | None = None,
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
        wanted
            Which rows may be picked, which are in already, and what shares the budget in place of classes.

        Returns
        -------
        self
            With `selection_`, `sample_indices_`, `scores_`, `distances_`, `objective_`, `classes_`,
            `centers_` (None where rows were compared with none), `tiers_` and `n_features_in_`.
        """
        self.check_shared()
        self._check()
        self._checkpoint, self._memory, self._wanted = checkpoint, memory, wanted or Wanted()
        self._carried: Carried | None = None
        seed = as_seed(self.random_state)
        checked = X if isinstance(X, CheckedRows) else check_input(X, y, usable, label_name="y", finite=False)
        checked = checked.read_by(with_runner(checked.rows))
        with count_reads(checked.rows) as counter:
            if checked.digest is None:
                checked, good = look(checked, seed, self.running_means(checked))
                if len(bad := np.flatnonzero(checked.usable & ~good)):
                    raise InvalidInput(f"X has {describe_bad_rows(bad)}")
            selection = self._fit(checked, seed, verdict)
        self.selection_ = replace(selection, info=replace(selection.info, reads=counter.reads))
        self.sample_indices_ = self.selection_.indices
        self.scores_ = self.selection_.scores
        self.distances_ = self.selection_.distances
        self.objective_ = self.selection_.objective
        return self

    def _fit(self, checked: CheckedRows, seed: int, verdict: Verdict | None) -> Selection:
        """Divide the rows, share out the budget, pick, and put the picks in one order."""
        wanted = self._wanted
        groups = divide_rows(checked, self.by_class, seed)
        if verdict is None and self.judges:
            verdict = self.judge(checked, seed)
        self._judged = verdict
        groups = wanted.divide(groups)
        verdict = None if self.guard == "off" else verdict
        k = self._budget(groups, sum(len(group.members) for group in groups), verdict)
        if k < len(wanted.first):
            raise InvalidInput(
                f"keep gives {k:,} rows, and include has {len(wanted.first):,} already; keep more, or say how"
                f' many beyond these: keep="+{k}"'
            )
        if verdict is not None and wanted.parts is None:
            groups, verdict = self._divide(groups, k, verdict)
        evidence = None if verdict is None else evidence_of(verdict, checked, self.by_class)
        self.tiers_ = None if evidence is None else evidence.tiers
        weights, most = self._weigh(groups, k)
        keys = None if verdict is None else verdict.keys
        shares = share_out(groups, weights, most, k, evidence, keys, wanted.first)
        picked, picks = self._pick(groups, shares, verdict)
        self.classes_ = checked.classes
        self.n_features_in_ = checked.rows.shape[1]
        centers = [pick.center for pick in picks if pick.center is not None]
        self.centers_ = np.stack(centers) if len(centers) == len(picks) else None
        return self._merge(picked, picks, shares, checked, verdict, evidence)

    def fit_resample(self, X: object, y: object = None) -> tuple[Any, Any]:
        """Fit, and return the kept rows and their labels in pick order."""
        from sklearn.utils import _safe_indexing

        self.fit(X, y)
        kept = _safe_indexing(X, self.sample_indices_)
        return kept, None if y is None else _safe_indexing(y, self.sample_indices_)

    def _weigh(self, groups: list[Group], k: int) -> tuple[Weights, IntArray]:
        """Return what each group's share goes by, and how many rows it may give."""
        sizes = np.array([len(group.members) for group in groups])
        given = [group.weight for group in groups if group.weight is not None]
        if len(given) == len(groups):
            most = [len(own.members) if own.bounds is None else own.bounds[1] for own in groups]
            return Weights(np.array(given, np.float64)), np.minimum(sizes, most)
        if groups[0].label is not None:
            if not isinstance(groups[0].label, Part):
                check_share(sum(group.n_before == 0 for group in groups), k)
            return weigh(self.budgets, [group.label for group in groups], sizes, k)
        if isinstance(self.budgets, Mapping):
            raise InvalidInput("budgets names classes, and rows are not divided by class; pass labels")
        return Weights(sizes), sizes

    def _pick(
        self, groups: list[Group], shares: Shares, verdict: Verdict | None
    ) -> tuple[list[IntArray], list[Picks]]:
        """Return the rows picked from each group, and the picks of each group that gives any.

        Whatever the rows are compared by, scores, distances and centres refer to the rows' own coordinates
        (of unit length, where that is asked for).
        """
        wanted = self._wanted
        view = None if verdict is None else self._features(groups, shares, verdict)
        competing = self._competing(groups, shares, verdict, view)
        # Methods that are handed all rows may share the budget among classes by themselves.
        every = verdict is None and wanted.parts is None
        active = np.arange(len(groups)) if every else np.flatnonzero(shares.budgets)
        found = self._select_rest([competing[code] for code in active], shares.budgets[active])
        picked = [shares.rest[shares.rest_groups == code] for code in range(len(groups))]
        for code, picks in zip(active, found, strict=True):
            rows = competing[code].members[picks.order]
            picked[code] = np.concatenate([rows, shares.followers[code], picked[code]])
        if verdict is None and wanted.plain:
            return picked, found
        measured = self._as_compared(groups[0].source)
        if groups[0].label is None and len(groups) > 1:
            assert verdict is not None
            order = shares.merge(picked)
            return [order], [_as_one(measured, order, found, verdict.rules.limits.centers[0])]
        points = [picks.center for picks in found if picks.center is not None]
        if len(points) < len(found):
            # What follows such picks is not known to a method that compares with no centre.
            sizes = [len(picked[code]) for code in active]
            return picked, [
                replace(picks, scores=_padded(picks.scores, size), distances=_padded(picks.distances, size))
                for picks, size in zip(found, sizes, strict=True)
            ]
        centers = [to_known(point, view) for point in points]
        before = [
            (competing[code].n_before, offset_before(competing[code], center, view))
            for code, center in zip(active, centers, strict=True)
        ]
        orders, sums = [picked[code] for code in active], list[Vector]()
        fourier = None if view is None else view.fourier
        results = running_objectives(measured, orders, centers, before, sums, fourier)
        judged = verdict is not None and groups[0].label is not None and wanted.parts is None
        if judged:
            targets = dict(zip(active.tolist(), centers, strict=True))
            self._carried = carry_on(groups, competing, picked, targets, sums, view)
        in_rows = []
        for picks, center, (objectives, distances) in zip(found, centers, results, strict=True):
            objective = np.nan if np.isnan(picks.objective) else float(objectives[-1])
            scores = objectives if self.scores_are_objectives else _padded(picks.scores, len(objectives))
            center = center[: measured.shape[1]]
            picks = replace(picks, scores=scores, distances=distances, center=center, objective=objective)
            in_rows.append(picks)
        return picked, in_rows

    def _features(self, groups: list[Group], shares: Shares, verdict: Verdict) -> MatchedRows | None:
        """Return the features that judged rows are compared by; None: the rows as they are given."""
        if not self._wants_features() or verdict.labels is None:
            return None
        return MatchedRows(groups[0].source, verdict)

    def _competing(
        self, groups: list[Group], shares: Shares, verdict: Verdict | None, view: MatchedRows | None
    ) -> list[Group]:
        """Return the groups as they compete: the rows that may be picked, and those that are in already."""
        wanted = self._wanted
        source = self._as_compared(groups[0].source) if view is None else view
        means = [group.mean if verdict is None else None for group in groups]
        if view is not None and view.means is not None and wanted.every:
            means = [mean if np.isfinite(mean).all() else None for mean in view.means]
        competing = [
            replace(group, source=source, members=members, mean=mean)
            for group, members, mean in zip(groups, shares.members, means, strict=True)
        ]
        if wanted.plain:
            return competing
        resumed = []
        for code, group in enumerate(join_earlier(competing, view)):
            if len(included := shares.included[shares.included_groups == code]):
                total = np.add.reduce(gather(group.source, included), axis=0, dtype=np.float64)
                group = replace(group, first=included, total=total)
            if view is not None and group.center is not None and group.before is None:
                group = replace(group, center=(view.of_rows(group.center[0]), None))
            resumed.append(group)
        return resumed

    def _select_rest(self, groups: list[Group], budgets: IntArray) -> list[Picks]:
        """Pick the budget of each group behind the rows that are in already."""
        counts = np.array([len(group.first) for group in groups])
        if self.goes_on or not counts.any():
            return self._select_all(groups, budgets)
        left = np.flatnonzero(budgets > counts)
        others = [groups[place].others() for place in left]
        picks = self._select_all(others, (budgets - counts)[left]) if len(left) else []
        found = dict(zip(left.tolist(), picks, strict=True))
        nothing = Picks(np.empty(0, np.int64), np.empty(0), np.empty(0), None, np.nan)
        return [with_first(group, found.get(place, nothing)) for place, group in enumerate(groups)]

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
        # The parts of rows without labels are one group, which is in order.
        place = shares.places(picked) if len(picked) == len(shares.members) else np.arange(len(picked[0]))
        indices = np.concatenate(picked)[place]
        params = self.get_params(deep=False)
        random_state = params.pop("random_state", None)
        labels = hint = None
        if checked.classes is not None and checked.codes is not None:
            labels = checked.classes[checked.codes[indices]]
            if self.by_class:
                sizes = np.bincount(checked.codes[checked.usable], minlength=len(checked.classes))
                keep = resolve_keep(self.keep, checked.n_usable)
                hint = advise(self.budgets, checked.classes, sizes, keep)
        guard: dict[str, Any] = {"mode": "off"}
        if verdict is not None:
            counts = np.bincount(verdict.tiers[indices], minlength=len(TIERS)).tolist()
            guard = verdict.summary() | {"picked": dict(zip(TIERS, counts, strict=True))}
        objective = float(np.average([p.objective for p in picks], weights=[len(p.scores) for p in picks]))
        info = RunInfo(
            rows=len(checked.rows),
            kept=len(indices),
            classes=None if labels is None else len(np.unique(labels)),
            method=self.name,
            objective=None if np.isnan(objective) else objective,
            epsilon=max((pick.epsilon for pick in picks if pick.epsilon is not None), default=None),
            center=" and ".join(dict.fromkeys(own.target for own in picks if own.target)) or None,
            batches=sum(pick.batches for pick in picks) or None,
            chains=max(pick.chains for pick in picks) or None,
            tiers=guard.get("tiers"),
            guard=guard,
            versions={"gmmatch": __version__, "numpy": np.__version__, "python": platform.python_version()},
            fingerprint=checked.fingerprint,
            hint="\n".join(filter(None, [hint, *shares.notes])) or None,
        )
        return Selection(
            indices=indices,
            scores=np.concatenate([pick.scores for pick in picks])[place],
            distances=np.concatenate([pick.distances for pick in picks])[place],
            objective=np.nan if info.objective is None else info.objective,
            method=self.name,
            params=params,
            n_rows=len(checked.rows),
            info=info,
            random_state=random_state if isinstance(random_state, int) else None,
            labels=labels,
            epsilon=info.epsilon,
            tiers=self.tiers_,
            weights=shares.weights_of(indices, len(checked.rows)),
            centers=self.centers_,
            evidence=evidence,
            carried=self._carried,
        )


def look(checked: CheckedRows, seed: int, totals: Sums[Totals] | None = None) -> tuple[CheckedRows, Mask]:
    """Look at all rows in one read: return them with what was found, and which are ordinary numbers."""
    good, keys, digest = look_at_rows(checked.rows, seed, totals)
    keys[~(good & checked.usable)] = 0  # as if they were rows of zeros, so that their values change nothing
    means = None if totals is None else means_of(totals.result())
    return replace(checked, digest=digest, hashes=(seed, keys), means=means), good


def _padded(values: Vector, size: int) -> Vector:
    """Return values followed by NaN."""
    return np.concatenate([values, np.full(size - len(values), np.nan)])


def _as_one(rows: Rows, order: IntArray, found: list[Picks], center: Vector) -> Picks:
    """Return the picks of all parts of rows without labels as those of one group."""
    objectives, distances = running_objective(rows, order, center)
    return Picks(
        np.arange(len(order)),
        objectives,
        distances,
        center,
        float(objectives[-1]),
        max((picks.epsilon for picks in found if picks.epsilon is not None), default=None),
        found[0].target,
        batches=sum(picks.batches for picks in found),
        chains=max(picks.chains for picks in found),
    )


def evidence_of(verdict: Verdict, checked: CheckedRows, by_class: bool) -> Evidence:
    """Return the evidence of a verdict, with the suggested classes among all classes of the input."""
    codes, present = checked.judged(by_class)
    n_classes = None if checked.classes is None else len(checked.classes)
    return verdict.evidence(codes).among(present, n_classes)
