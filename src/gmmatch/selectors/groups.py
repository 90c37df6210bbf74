"""What a method is handed and what it hands back: groups of rows, picks of them, and shares of the budget."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..compute.blocks import by_group
from ..compute.keys import Keys
from ..facts import Evidence
from ..matching.budgets import Weights, sequence, share, split
from ..records import FloatArray, IntArray
from ..trust import TRUSTED
from ..validation import CheckedRows

Vector = npt.NDArray[np.float64]
Center = tuple[Vector, float | None]

_BUNDLE_VALUES = 1 << 22  # of the small groups that are read together


class Checkpoint(Protocol):
    """Where a long selection leaves what it needs to go on after a kill."""

    def load(self) -> Mapping[str, npt.NDArray[Any]] | None:
        """Return what was saved last, or None."""

    def save(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Save plain arrays, in place of what was saved before."""


@dataclass(frozen=True, eq=False)
class Group:
    """The rows that compete for one budget: a class, or all rows."""

    source: FloatArray  # the embeddings of all rows of the input
    members: IntArray  # which of them are the group's, by row number, ascending
    label: Any  # the class; None where there are no classes
    seed: tuple[int, ...]  # entropy for `numpy.random.default_rng`, of this group alone
    n_classes: int  # how many groups there are
    mean: Vector | None = None  # mean of the group's rows, where it is known already

    @property
    def rows(self) -> FloatArray:
        """The group's rows in the order of their row numbers: a copy at every call, unless it has all."""
        return self.source if len(self.members) == len(self.source) else self.source[self.members]


@dataclass(frozen=True, eq=False)
class Picks:
    """What a method picked from one group."""

    order: IntArray  # positions in the group, unique, in pick order
    # One number per pick each.
    scores: Vector
    distances: Vector
    center: Vector  # the point that the method compared with
    objective: float  # distance between the mean of the picks and `center`
    epsilon: float | None = None  # certified accuracy of `center`; 0 for a mean; None where there is none
    target: str | None = None  # what was matched, by name; None where nothing was
    # How often the group's rows were read, and in how many batches and chains of them they were matched; no
    # batches: all at once.
    reads: int = 1
    batches: int = 0
    chains: int = 0


@dataclass(frozen=True, eq=False)
class Shares:
    """Which rows of each group compete, for how many picks, and which rows follow after all of them."""

    weights: Weights  # what the groups' shares go by
    # The competing rows of each group, ascending: the trusted ones, where rows were judged.
    members: list[IntArray]
    budgets: IntArray  # how many of them to pick
    # The rows that follow, least suspicious first, and the group of each.
    rest: IntArray
    rest_groups: IntArray

    def places(self, picked: list[IntArray]) -> IntArray:
        """Return the final order of all picks, as places in the groups' picks one after the other.

        `picked`: the rows picked from each group: those that competed, in pick order, then those that follow.
        """
        lengths = np.array([len(rows) for rows in picked])
        first = lengths - np.bincount(self.rest_groups, minlength=len(picked))
        group, turn = sequence(self.weights, first[None])
        rest_turn = turns(self.rest_groups) + first[self.rest_groups]
        start = np.cumsum(lengths) - lengths
        return np.concatenate([start[group] + turn, start[self.rest_groups] + rest_turn])

    def merge(self, picked: list[IntArray]) -> IntArray:
        """Return all picked rows in their final order."""
        return np.concatenate(picked)[self.places(picked)]


def share_out(
    groups: list[Group],
    weights: Weights,
    most: IntArray,
    k: int,
    evidence: Evidence | None,
    keys: Keys | None = None,
) -> Shares:
    """Share `k` picks among groups: trusted rows first, then rows by suspicion, least first.

    `groups`, `weights`, `most`: the groups, what their shares go by, and how many rows each may give. `k`:
    how many rows to pick in all. `evidence`: what speaks against each row, where rows were judged. A class of
    which no row is trusted competes with its least suspicious row, so that no class is left out. `keys`:
    hashes of the rows, by which those of the same suspicion come, so that their order does not matter.
    """
    nothing = np.empty(0, np.int64)
    if evidence is None:
        members = [group.members for group in groups]
        return Shares(weights, members, share(weights, most[None], k), nothing, nothing)
    tiers, suspicion = evidence.tiers, evidence.suspicion
    members = [group.members[tiers[group.members] == TRUSTED] for group in groups]
    for code, group in enumerate(groups):
        if not len(members[code]) and group.label is not None:
            members[code] = _least_first(group.members, suspicion, keys)[:1]
    first = np.minimum([len(rows) for rows in members], most)
    budgets = share(weights, first[None], min(k, int(first.sum())))
    left = k - int(budgets.sum())
    if left == 0:
        return Shares(weights, members, budgets, nothing, nothing)
    waiting = [np.setdiff1d(group.members, own) for group, own in zip(groups, members, strict=True)]
    numbers = np.empty(len(tiers), np.int32)
    for code, own in enumerate(waiting):
        numbers[own] = code
    rows = _least_first(np.concatenate(waiting), suspicion, keys)
    codes = numbers[rows].astype(np.int64)
    allowed = turns(codes) < (most - budgets)[codes]
    return Shares(weights, members, budgets, rows[allowed][:left], codes[allowed][:left])


def _least_first(rows: IntArray, suspicion: FloatArray, keys: Keys | None) -> IntArray:
    """Order rows by their suspicion; where that is the same by their values, copies by their number."""
    values = () if keys is None else (keys[rows],)
    return rows[np.lexsort((rows, *values, suspicion[rows]))]


def turns(codes: IntArray) -> IntArray:
    """Return for each entry how many entries of its group come before it.

    >>> turns(np.array([1, 0, 1, 1]))
    array([0, 0, 1, 2])
    """
    order = by_group(codes)
    sizes = np.bincount(codes)
    found = np.empty(len(codes), np.int64)
    found[order] = np.arange(len(codes)) - (np.cumsum(sizes) - sizes)[codes[order]]
    return found


def divide_rows(checked: CheckedRows, by_class: bool, seed: int) -> list[Group]:
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


class Bundle:
    """Groups that are matched one after the other: how many rows to pick of each, and known centres."""

    def __init__(self, groups: list[Group], budgets: IntArray, centers: list[Center] | None) -> None:
        self.members = [group.members for group in groups]
        self.facts = [(group.label, group.seed, group.n_classes) for group in groups]
        self.budgets, self.centers = budgets.tolist(), centers
        self.rows = self.members[0] if len(groups) == 1 else np.sort(np.concatenate(self.members))

    def __len__(self) -> int:
        return len(self.rows)


def bundles(groups: list[Group], budgets: IntArray, centers: list[Center] | None) -> Iterator[Bundle]:
    """Put small groups together, so that they are read, and their centres found, in a few calls."""
    sizes = np.array([len(group.members) for group in groups]) * groups[0].source.shape[1]
    start = 0
    for stop in range(1, len(groups) + 1):
        if stop == len(groups) or sizes[start : stop + 1].sum() > _BUNDLE_VALUES:
            part = slice(start, stop)
            yield Bundle(groups[part], budgets[part], None if centers is None else centers[part])
            start = stop


def known_means(target: Any, groups: list[Group]) -> list[Center] | None:
    """Return the centres of all groups where they are means, and known already."""
    found: list[Center] = [(group.mean, 0.0) for group in groups if group.mean is not None]
    return found if isinstance(target, str) and target == "mean" and len(found) == len(groups) else None
