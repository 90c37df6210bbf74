"""What a method is handed and what it hands back: groups of rows, picks of them, and shares of the budget."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..arrays import FloatArray, IntArray, Rows, Vector
from ..compute.blocks import turns
from ..compute.runner import hold_rows
from .budgets import Weights, sequence

Center = tuple[Vector, float | None]
"""A point to match and its certified accuracy: 0 for a mean, None where there is none."""


@dataclass(frozen=True, eq=False)
class Outline:
    """What is known of a selection before any row is read."""

    n_rows: int
    sizes: IntArray  # rows of each group
    n_features: int
    itemsize: int  # bytes of a number
    labelled: bool  # whether the groups are classes
    guarded: bool  # whether rows are judged, and trusted ones picked first

    @property
    def means_known(self) -> bool:
        """Whether the means of trusted rows come with the verdict: where labels are judged."""
        return self.guarded and self.labelled and len(self.sizes) > 1


@dataclass(frozen=True, eq=False)
class Before:
    """What was picked of a class from other data: all that is needed to go on."""

    count: int  # rows picked
    total: Vector  # their sum
    target: Vector  # the mean of the believed rows that they were picked from
    rows: int  # how many these are


@dataclass(frozen=True, eq=False)
class Group:
    """The rows that compete for one budget: a class, or all rows."""

    source: Rows  # the embeddings of all rows of the input
    members: IntArray  # which of them are the group's, by row number, ascending
    label: Any  # the class; None where there are no classes
    seed: tuple[int, ...]  # entropy for `numpy.random.default_rng`, of this group alone
    n_classes: int  # how many groups there are
    mean: Vector | None = None  # mean of the group's rows, where it is known already
    # Members that are picked before all others, in pick order, and the sum of their rows.
    first: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    total: Vector | None = None
    center: Center | None = None  # the point to match, where it is not that of the rows that compete
    weight: float | None = None  # what the group's share goes by, where its size does not say it
    before: Before | None = None  # what was picked of the class from other data
    bounds: tuple[int, int] | None = None  # picks that come before those of others, and the most; None: none

    @property
    def rows(self) -> FloatArray:
        """The group's rows in memory, in the order of their row numbers: read at every call.

        Arrays of another order in memory are copied: sums over their rows would be rounded otherwise.
        """
        return np.ascontiguousarray(hold_rows(self.source, self.members))

    @property
    def is_cluster(self) -> bool:
        """Whether it is one of several groups that were found among rows without labels."""
        return self.label is None and self.n_classes > 1

    @property
    def n_before(self) -> int:
        """How many rows of the class were picked from other data."""
        return 0 if self.before is None else self.before.count

    def others(self) -> Group:
        """Return the group without the members that are picked first; their sum stays known."""
        return replace(self, members=np.delete(self.members, np.searchsorted(self.members, self.first)))


@dataclass(frozen=True, eq=False)
class Picks:
    """What a method picked from one group."""

    order: IntArray  # positions in the group, unique, in pick order
    # One number per pick each.
    scores: Vector
    distances: Vector
    center: Vector | None  # the point that the method compared with; None where it did with none
    objective: float  # distance between the mean of the picks and `center`; NaN where it is not known
    epsilon: float | None = None  # certified accuracy of `center`; 0 for a mean; None where there is none
    target: str | None = None  # what was matched, by name; None where nothing was
    # In how many batches and chains of them the group's rows were matched; no batches: all at once.
    batches: int = 0
    chains: int = 0


@dataclass(frozen=True, eq=False)
class Shares:
    """Which rows of each group compete, for how many picks, and which rows follow after all of them."""

    weights: Weights  # what the groups' shares go by
    # The competing rows of each group, ascending: the trusted ones, where rows were judged.
    members: list[IntArray]
    budgets: IntArray  # how many of them to pick
    most: IntArray  # how many of them a larger budget may pick
    followers: list[
        IntArray
    ]  # rows of each group that follow its picks within its share, least doubtful first
    # The rows that follow after all groups have their share, least doubtful first, and the group of each.
    rest: IntArray
    rest_groups: IntArray
    # Rows that are in already, in their order, and the group of each; and picks of each group elsewhere.
    included: IntArray
    included_groups: IntArray
    before: IntArray
    least: IntArray  # picks of each group that come before all others
    notes: tuple[str, ...] = ()  # what users should know of the rows beyond the trusted ones, a sentence each

    @property
    def begun(self) -> IntArray:
        """How many picks of each group there are already, here or elsewhere."""
        found: IntArray = self.before + np.bincount(self.included_groups, minlength=len(self.members))
        return found

    def places(self, picked: list[IntArray]) -> IntArray:
        """Return the final order of all picks, as places in the groups' picks one after the other.

        `picked`: the rows picked from each group: those that competed, in pick order, then those that follow.
        """
        lengths = np.array([len(rows) for rows in picked])
        first = lengths - np.bincount(self.rest_groups, minlength=len(picked))
        group, turn = sequence(self.weights, tier_lines(self.least, first + self.before), self.begun)
        turn = turn - self.before[group]
        rest_turn = turns(self.rest_groups) + first[self.rest_groups]
        start = np.cumsum(lengths) - lengths
        included = start[self.included_groups] + turns(self.included_groups)
        return np.concatenate([included, start[group] + turn, start[self.rest_groups] + rest_turn])

    def weights_of(self, picks: IntArray, n_rows: int) -> Vector:
        """Return how many competing rows of its group each pick stands for, scaled to mean one."""
        codes = np.empty(n_rows, np.int32)
        for code, rows in enumerate(zip(self.members, self.followers, strict=True)):
            codes[np.concatenate(rows)] = code
        codes[self.rest] = self.rest_groups
        own, sizes = codes[picks], np.array([max(1, len(members)) for members in self.members])
        stands_for = sizes[own] / np.bincount(own)[own]
        found: Vector = stands_for / stands_for.mean()
        return found

    def merge(self, picked: list[IntArray]) -> IntArray:
        """Return all picked rows in their final order."""
        return np.concatenate(picked)[self.places(picked)]


def tier_lines(least: IntArray, most: IntArray) -> IntArray:
    """Return the tiers of budgets: the picks of each group that come before all others, and the rest."""
    if not least.any():
        return most[None]
    first = np.minimum(least, most)
    return np.stack([first, most - first])


def group_codes(groups: list[Group]) -> IntArray | None:
    """Return the group of each row of the input, -1 for rows of none; None: all rows are of one group."""
    n_rows = len(groups[0].source)
    if len(groups[0].members) == n_rows:
        return None
    codes = np.full(n_rows, -1)
    for code, group in enumerate(groups):
        codes[group.members] = code
    return codes


def known_means(target: Any, groups: list[Group]) -> list[Center] | None:
    """Return the centres of all groups where they are given, or are means and known already."""
    given = [group.center for group in groups if group.center is not None]
    if len(given) == len(groups):
        return given
    found: list[Center] = [(group.mean, 0.0) for group in groups if group.mean is not None]
    return found if isinstance(target, str) and target == "mean" and len(found) == len(groups) else None


def with_first(group: Group, picks: Picks) -> Picks:
    """Return the picks from `group.others()` behind those that the group begins with.

    Scores and distances of the first are NaN: whoever judged the rows measures all picks.
    """
    if not len(group.first):
        return picks
    first, unknown = np.searchsorted(group.members, group.first), np.full(len(group.first), np.nan)
    others = np.searchsorted(group.members, group.others().members[picks.order])
    return replace(
        picks,
        order=np.concatenate([first, others]),
        scores=np.concatenate([unknown, picks.scores]),
        distances=np.concatenate([unknown, picks.distances]),
    )
