"""GM Matching: rows whose mean matches a robust centre of their class."""

import warnings
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Literal

import numpy as np

from ..arrays import IntArray, Rows
from ..data import MappedRows
from ..errors import InvalidInput, InvalidParameter
from ..location.centers import CENTERS
from ..matching.advice import STRATEGIES, Advice, ask_students
from ..matching.budgets import Weights
from ..matching.clusters import divide_into_clusters, find_clusters, ordinary_size
from ..matching.features import (
    AUTO_FOURIER_FEATURES,
    MOST_FEATURES,
    MatchedRows,
    choose_fourier_features,
    unit_rows,
)
from ..matching.greedy import Step
from ..matching.groups import Group, Outline, Picks, Shares, group_codes
from ..matching.pick import Settings, name_of, pick
from ..matching.students import LEARNERS
from ..matching.teaching import MOST_CLASSES, teach_groups
from ..records import Selection
from ..trust import TRUSTED, Verdict
from ..trust.judge import Divide
from ..validation import CheckedRows, check_choice, check_keep, check_positive_int
from .base import Costs, Selector

_WORDS_ONLY: dict[str, tuple[str, ...]] = {
    "step": ("teaching", "residual", "projection"), "normalize": ("none", "unit"),
    "strategy": ("auto", *STRATEGIES), "learner": LEARNERS,
}  # fmt: skip
# What else can be a number or a vector.
_WORDS = _WORDS_ONLY | {
    "start": ("center", "zero", "random"), "batch_size": ("auto",), "streams": ("auto",),
    "fourier_features": ("auto", "off"), "clusters": ("auto", "off"),
}  # fmt: skip


class GMMatching(Selector):
    """Keep rows whose mean matches a robust centre of the data, class by class.

    The centre is the geometric median of a class. Where the guard has judged rows and labels, or has divided
    rows without labels into clusters, wrong rows are out already, and the mean of the trusted rows is the
    better target: the geometric median would leave out the rarer kinds of rows.

    Parameters
    ----------
    step
        `residual` picks the row that leaves the smallest accumulated error; `projection` is the
        paper's text: the row with the largest inner product with it. `teaching` is the residual step, and
        where labels were judged the first picks of each class are those that a linear learner learns most
        from, too: the mean of the picks still matches; see `gmmatch.matching.teaching`.
    center
        `geometric-median`, `mean`, `huber`, `concentrated`, `coordinate-median`, a point, or a mapping
        from class to point. `auto` is the mean of the trusted rows of a class where its labels were judged,
        or Fourier features are matched, and the class has the 8 rows that the gate needs; the mean of a
        cluster; elsewhere it is the geometric median.
    start
        theta before the first pick: `center`, `zero`, `random` (a vector of length one, its direction drawn
        with the seed) or a vector. None means `zero` for the residual step, which works relative to the
        centre, and `center` for the projection step, which works in the given coordinates.
    normalize
        `unit` scales every row to length one first; `none` takes rows as they are.
    batch_size
        None: all rows of a class compete for every pick. A number: seeded random batches of that many
        rows, the accumulated error carried from one to the next: one pass, rows may be larger than
        memory. `auto`: batches of 256 for classes of more than 8,192 rows, all rows at once for others.
    streams
        With batches: into how many independent chains of batches each class is split, so that they can
        run side by side on several machines. `auto` is one, and one more for each further 1,048,576 rows
        of the class. The result depends on it, never on the machine.
    fourier_features
        With the guard: how many random Fourier features of the rows are appended to what is matched, so
        that picks are diverse also where rows spread in few directions; or `off`. `auto`: 512 where the
        trusted rows of a class spread in fewer than 16 directions.
    clusters
        With the guard and without labels: into how many groups the rows are divided, each to be matched as
        a class would be; `off`: all rows are one cloud. `auto`: as many as picks, at most a third as many
        as rows and 2,048. A small group that is apart is a cluster of its own before a large one is divided
        further; rows far from their neighbours come last. They are matched one after the other, and what
        their errors have in common is carried on.
    sample
        Fraction or count of the rows of each class that its geometric median is found on, where that is the
        target, in memory and in batches alike; one more read certifies it on all rows. None: all rows.
    refine
        Ignored, with a warning; it goes with version 0.4.
    strategy
        Where labels were judged: `teaching`, `rows` (matching alone), or either beside Fourier features,
        `teaching+fourier` and `fourier`, whatever `step` and `fourier_features` say. Rows that are hardly
        doubted compete for teaching picks; behind `+lenient` all believed rows do. `auto`: the one of those
        that `step` and `fourier_features` allow from whose picks, on a sample, two small learners learn most.
    learner
        Whose learning decides: `linear`, `neighbours`, or `any` of both.

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
    scores_are_objectives = True
    goes_on = True
    former = MappingProxyType({"lift": "fourier_features", "cells": "clusters"})
    centers = ("auto", *CENTERS)

    step: str = "teaching"
    center: object = "auto"
    start: object = None
    normalize: str = "none"
    batch_size: int | Literal["auto"] | None = "auto"
    streams: int | Literal["auto"] = "auto"
    fourier_features: int | Literal["auto", "off"] = "auto"
    clusters: int | Literal["auto", "off"] = "auto"
    sample: float | int | None = None
    refine: int | None = None
    strategy: str = "auto"
    learner: str = "any"
    guard: str = "auto"

    def _check(self) -> None:
        for name, words in _WORDS.items():
            value = getattr(self, name)
            if isinstance(value, str) or name in _WORDS_ONLY:
                check_choice(value, words, name)
            elif name != "start" and (value is not None or name != "batch_size"):
                check_positive_int(value, name)
        count = self.fourier_features
        if not isinstance(count, str) and count > MOST_FEATURES:  # than the memory of a machine holds
            raise InvalidParameter(f"fourier_features must be at most {MOST_FEATURES:,}; got {count:,}")
        if self.sample is not None:
            check_keep(self.sample, "sample")
        if self.refine is not None:
            warnings.warn(
                "refine is ignored: swaps did not pay; leave it out", DeprecationWarning, stacklevel=2
            )

    def _settings(self, memory: int | None = None) -> Settings:
        """Return what picking goes by, once it is known who competes; `memory`: bytes that it may use."""
        step: Step = "projection" if self.step == "projection" else "residual"
        batches = self.batch_size, self.streams
        return Settings(step, self.center, self.start, *batches, self.sample, memory)

    def _select_all(self, groups: list[Group], budgets: IntArray) -> list[Picks]:
        return pick(groups, budgets, self._settings(self._memory), self._checkpoint)

    def _fit(self, checked: CheckedRows, seed: int, verdict: Verdict | None) -> Selection:
        selection = super()._fit(checked, seed, verdict)
        strategy = None if self._advice is None else self._advice.report
        return replace(selection, info=replace(selection.info, strategy=strategy))

    def _budget(self, groups: list[Group], n_rows: int, verdict: Verdict | None) -> int:
        """Return how many rows to keep; with `auto` as many as teach students nearly all that there is."""
        keeps_enough = self.keep == "auto"
        k = n_rows if keeps_enough else super()._budget(groups, n_rows, verdict)
        self._advice = None if verdict is None else self._ask(groups, k, verdict)
        if not keeps_enough:
            return k
        if verdict is None or self._advice is None:
            raise InvalidInput(
                'keep="auto" needs labels of two classes or more that the guard judges; pass a share or a'
                " count, such as 10%"
            )
        members = np.concatenate([group.members for group in groups])
        believed = np.count_nonzero(verdict.tiers[members] == TRUSTED)
        return max(len(groups), int(np.ceil(self._advice.share * believed)))

    def _ask(self, groups: list[Group], k: int, verdict: Verdict) -> Advice | None:
        """Return the strategy to pick by; None where labels were not judged."""
        judged = verdict.labels is not None and groups[0].label is not None and self._wanted.parts is None
        if not (judged and self._wants_features() and 1 < len(groups) <= MOST_CLASSES):
            return None
        curve = self.keep == "auto"
        if self.strategy != "auto" and not curve:
            return Advice(self.strategy, {"strategy": self.strategy, "reason": "asked for"})
        teaches = self.step == "teaching" and self.center in ("auto", "mean")
        weights = self._weigh(groups, k)[0]
        fourier = self.fourier_features
        if self._wanted.before and fourier == "auto":  # one sequence goes on with the features it began with
            known = self._wanted.fourier
            fourier = "off" if known is None else known.n_features
        allowed = teaches, fourier, self.learner, self.strategy, curve
        return ask_students(groups, weights, verdict, *allowed)

    def _finds_clusters(self, labelled: bool) -> Divide | None:
        if labelled or self.clusters == "off" or not self._wants_features():
            return None
        return partial(find_clusters, wanted=self.clusters)

    def _divide(self, groups: list[Group], k: int, verdict: Verdict) -> tuple[list[Group], Verdict]:
        if verdict.clusters is None:
            return groups, verdict
        return divide_into_clusters(groups[0], self.clusters, k, verdict)

    def _weigh(self, groups: list[Group], k: int) -> tuple[Weights, IntArray]:
        weights, most = super()._weigh(groups, k)
        if groups[0].label is None and len(groups) > 1:
            # No cluster weighs more than four ordinary ones: one that does is full of near-duplicates.
            weights = Weights(np.minimum(most, 4 * ordinary_size(most)))
        return weights, most

    def _wants_features(self) -> bool:
        # A centre or a start that is a vector is one in the rows' own coordinates, and so is unit length.
        given = not isinstance(self.center, str) or not (self.start is None or isinstance(self.start, str))
        return not given and self.normalize == "none"

    def _as_compared(self, rows: Rows) -> Rows:
        return MappedRows(rows, unit_rows) if self.normalize == "unit" else rows

    def _features(self, groups: list[Group], shares: Shares, verdict: Verdict) -> MatchedRows | None:
        """Return the rows scaled, beside their Fourier features where the strategy or the rows say so."""
        if not self._wants_features():
            return None
        wanted = self.fourier_features
        if self._advice is not None and not self._advice.fourier:
            wanted = "off"
        elif self._advice is not None and isinstance(wanted, str):
            wanted = AUTO_FOURIER_FEATURES
        # A given point has no Fourier features. One pick of a cluster is the row nearest to its middle, with
        # or without them. In a class it is the first pick of larger budgets as well.
        single = wanted == "auto" and groups[0].label is None and shares.budgets.max() <= 1
        if single or any(group.center is not None for group in groups):
            wanted = "off"
        codes = None if groups[0].label is None else group_codes(groups)
        if wanted != "off" and self._wanted.fourier is not None:  # those that picks elsewhere were matched by
            return MatchedRows(groups[0].source, verdict, self._wanted.fourier)
        fourier = choose_fourier_features(groups[0].source, codes, verdict, wanted, groups[0].seed[0])
        if verdict.labels is None and fourier is None:
            return None
        return MatchedRows(groups[0].source, verdict, fourier)

    def _competing(
        self, groups: list[Group], shares: Shares, verdict: Verdict | None, view: MatchedRows | None
    ) -> list[Group]:
        """Make the teaching picks first, where labels were judged and classes are matched by their means."""
        competing = super()._competing(groups, shares, verdict, view)
        advice, settings = self._advice, self._settings()
        if verdict is None or advice is None or not advice.teaches:
            return competing
        taught = [name_of(settings.target(group)) == "mean" for group in competing]
        # Batches of a size that was asked for have one target for all classes.
        enough = any if self.batch_size in (None, "auto") else all
        if not enough(taught):
            return competing
        return teach_groups(competing, shares, verdict, taught, advice.strict, settings.theta)

    def _picking_reads(self, outline: Outline) -> int:
        judged = outline.guarded and self._wants_features()
        clusters = outline.guarded and self._finds_clusters(outline.labelled) is not None
        means_known = outline.means_known and self.fourier_features in ("auto", "off")
        return self._settings().reads(outline, judged, clusters, means_known)

    def _picking_costs(self, outline: Outline) -> Costs:
        settings = self._settings()
        whole = bool(settings.whole(outline.sizes).all())
        return Costs(*settings.costs(outline), None if whole else self.batch_size)
