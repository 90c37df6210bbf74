"""What a method is handed and what it hands back: groups of rows, picks of them, and shares of the budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, IntArray, Keys, Mask, Vector
from ..compute.blocks import by_group
from ..compute.keys import hold_rows
from ..errors import InvalidInput
from ..facts import Evidence
from ..matching.budgets import Weights, sequence, share, split
from ..trust import TRUSTED
from ..validation import CheckedRows

Center = tuple[Vector, float | None]

_NAMED = 3  # classes in a sentence
_BUNDLE_VALUES = 1 << 22  # of the small groups that are read together


class Checkpoint(Protocol):
    """Where a long selection leaves what it needs to go on after a kill."""

    def load(self) -> Mapping[str, npt.NDArray[Any]] | None:
        """Return what was saved last, or None."""

    def save(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Save plain arrays, in place of what was saved before."""


@dataclass(frozen=True, eq=False)
class Outline:
    """What is known of a selection before any row is read."""

    sizes: IntArray  # rows of each group
    n_features: int
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

    def joined(self, target: Vector, rows: int) -> Vector:
        """Return the mean of these believed rows and of others."""
        both: Vector = (self.rows * self.target + rows * target) / max(1, self.rows + rows)
        return both


class Part(str):
    """The name of a part that is no class, such as a stratum of one."""

    __slots__ = ()


@dataclass(frozen=True, eq=False)
class Parts:
    """A division of the rows by something else than their classes."""

    codes: IntArray  # part of each row, -1: none
    names: list[Part]
    weights: Vector | None = None  # what the parts' shares go by; None: their sizes, as `budgets` says
    centers: Vector | None = None  # the point that the picks of each part match; None: that of its rows
    # How many picks of each part come before all others, and how many it may have; None: no bounds.
    bounds: tuple[IntArray, IntArray] | None = None


@dataclass(frozen=True, eq=False)
class Wanted:
    """What is wanted of the picks, whatever the method."""

    allowed: Mask | None = None  # rows that may be picked; None: all
    # Rows that are in already, in their order: they come first.
    first: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    parts: Parts | None = None  # what shares the budget in place of the classes
    before: Mapping[Any, Before] = field(default_factory=dict)  # what was picked of each class elsewhere

    @property
    def every(self) -> bool:
        """Whether all rows of a class compete, and share the budget by class."""
        return self.allowed is None and self.parts is None

    @property
    def plain(self) -> bool:
        """Whether nothing is wanted."""
        return self.every and not self.before and not len(self.first)

    def divide(self, groups: list[Group]) -> list[Group]:
        """Return the groups that share the budget, of rows that may be picked; empty ones are left out."""
        if self.parts is not None:
            groups = self._parts(groups)
        if self.allowed is not None:
            allowed = self.allowed
            groups = [
                replace(group, members=group.members[allowed[group.members]], mean=None) for group in groups
            ]
        if self.before:
            groups = [replace(group, before=self.before.get(group.label)) for group in groups]
        found = [group for group in groups if len(group.members)]
        if not found:
            raise InvalidInput(
                "no row may be picked: exclude, holdout, duplicates, quality and match_to leave none"
            )
        return found

    def _parts(self, groups: list[Group]) -> list[Group]:
        """Return the parts as groups; rows that took no part before take none."""
        parts, seed = self.parts, groups[0].seed[0]
        assert parts is not None
        usable = np.zeros(len(parts.codes), bool)
        for group in groups:
            usable[group.members] = True
        codes = np.where(usable, parts.codes, -1)
        members = split(codes + 1, len(parts.names) + 1)[1:]
        return [
            Group(
                groups[0].source,
                own,
                parts.names[code],
                (seed, code),
                len(parts.names),
                center=None if parts.centers is None else (parts.centers[code], None),
                weight=None if parts.weights is None else float(parts.weights[code]),
                bounds=None
                if parts.bounds is None
                else (int(parts.bounds[0][code]), int(parts.bounds[1][code])),
            )
            for code, own in enumerate(members)
        ]


@dataclass(frozen=True, eq=False)
class Group:
    """The rows that compete for one budget: a class, or all rows."""

    source: FloatArray  # the embeddings of all rows of the input
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
    def n_before(self) -> int:
        """How many rows of the class were picked from other data."""
        return 0 if self.before is None else self.before.count

    @property
    def n_believed(self) -> int:
        """How many believed rows of the class the other data has."""
        return 0 if self.before is None else self.before.rows

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

    def included_of(self, code: int) -> IntArray:
        """Return the rows of a group that are in already, in their order."""
        found: IntArray = self.included[self.included_groups == code]
        return found

    def places(self, picked: list[IntArray]) -> IntArray:
        """Return the final order of all picks, as places in the groups' picks one after the other.

        `picked`: the rows picked from each group: those that competed, in pick order, then those that follow.
        """
        lengths = np.array([len(rows) for rows in picked])
        first = lengths - np.bincount(self.rest_groups, minlength=len(picked))
        group, turn = sequence(self.weights, _lines(self.least, first + self.before), self.begun)
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


def share_out(
    groups: list[Group],
    weights: Weights,
    most: IntArray,
    k: int,
    evidence: Evidence | None,
    keys: Keys | None = None,
    included: IntArray | None = None,
) -> Shares:
    """Share `k` picks among groups: trusted rows first, then the least doubtful.

    `groups`, `weights`, `most`: the groups, what their shares go by, and how many rows each may give. `k`:
    how many rows to pick in all. `evidence`: what speaks against each row, where rows were judged. A class
    has its share as long as it has rows that may be right: trusted ones, then as many of its least doubtful
    others as are expected to be right among them, at least one row. All other rows follow by doubt. `keys`:
    hashes of the rows, by which those of the same doubt come, so that their order does not matter.
    `included`: rows that are in already, whatever is believed of them; they count.
    """
    nothing = np.empty(0, np.int64)
    none = [nothing] * len(groups)
    in_already = nothing if included is None else included
    before = np.array([group.n_before for group in groups])
    codes = nothing
    if len(in_already):
        every = group_codes(groups)
        codes = np.zeros(len(in_already), np.int64) if every is None else every[in_already]
    begun = before + np.bincount(codes, minlength=len(groups))
    most = np.maximum(most, begun - before)
    least = np.array([0 if group.bounds is None else group.bounds[0] for group in groups])
    already = in_already, codes, before, least
    elsewhere = int(before.sum())
    if evidence is None:
        members = [group.members for group in groups]
        budgets = share(weights, _lines(least, most + before), k + elsewhere, begun) - before
        return Shares(weights, members, budgets, most, none, nothing, nothing, *already)
    tiers, doubt = evidence.tiers, evidence.doubt
    members = [group.members[tiers[group.members] == TRUSTED] for group in groups]
    for code in np.unique(codes).tolist():
        members[code] = np.union1d(members[code], in_already[codes == code])
    for code, group in enumerate(groups):
        if not len(members[code]) and group.label is not None:
            members[code] = _least_first(group.members, doubt, keys)[:1]
    waiting = [np.setdiff1d(group.members, own) for group, own in zip(groups, members, strict=True)]
    trusted = np.minimum([len(rows) for rows in members], most)
    right = [
        _expected_right(evidence, rows) if group.label is not None else 0
        for group, rows in zip(groups, waiting, strict=True)
    ]
    first = np.minimum(trusted + right, most)
    there = min(k, int(first.sum())) + elsewhere
    shared = share(weights, _lines(least, first + before), there, begun) - before
    budgets = np.minimum(shared, trusted)
    followers = [
        _least_first(rows, doubt, keys)[:count] if count else nothing
        for rows, count in zip(waiting, (shared - budgets).tolist(), strict=True)
    ]
    left = k - int(shared.sum())
    found = Shares(weights, members, budgets, trusted, followers, nothing, nothing, *already)
    asked = share(weights, _lines(least, most + before), k + elsewhere, begun) - before
    if left == 0:
        return replace(found, notes=_notes(found, groups, asked, evidence))
    waiting = [np.setdiff1d(rows, own) for rows, own in zip(waiting, followers, strict=True)]
    numbers = np.empty(len(tiers), np.int32)
    for code, own in enumerate(waiting):
        numbers[own] = code
    rows = _least_first(np.concatenate(waiting), doubt, keys)
    own_codes = numbers[rows].astype(np.int64)
    allowed = turns(own_codes) < (most - shared)[own_codes]
    found = replace(found, rest=rows[allowed][:left], rest_groups=own_codes[allowed][:left])
    return replace(found, notes=_notes(found, groups, asked, evidence))


def _lines(least: IntArray, most: IntArray) -> IntArray:
    """Return the tiers of budgets: the picks of each group that come before all others, and the rest."""
    if not least.any():
        return most[None]
    first = np.minimum(least, most)
    return np.stack([first, most - first])


def _notes(shares: Shares, groups: list[Group], asked: IntArray, evidence: Evidence) -> tuple[str, ...]:
    """Say where picks beyond the trusted rows are mostly wrong, and which classes got less than asked for.

    `asked`: how many picks each group would have if every row were trusted.
    """
    notes = []
    filler = np.concatenate([*shares.followers, shares.rest])
    outside = evidence.far[filler] | evidence.clumped[filler]
    wrong = round(float(np.where(outside, 1.0, evidence.wrong[filler]).sum()))
    if 2 * wrong > len(filler) and evidence.labels_judged:
        trusted = int(shares.budgets.sum())
        notes.append(
            f"{len(filler):,} picks come after the {trusted:,} that are believed, and some {wrong:,} of them"
            f" are probably wrong; keep {trusted:,} rows or fewer, correct labels with fix, or pass a"
            " reference"
        )
    got = shares.budgets + np.array([len(rows) for rows in shares.followers])
    got = got + np.bincount(shares.rest_groups, minlength=len(groups))
    poor = np.flatnonzero(got < asked)
    if len(poor) and groups[0].label is not None:
        poor = poor[np.argsort(got[poor] - asked[poor], kind="stable")]
        named = ", ".join(f"{groups[at].label} ({got[at]:,} of {asked[at]:,})" for at in poor[:_NAMED])
        more = f" and {len(poor) - _NAMED:,} more" if len(poor) > _NAMED else ""
        notes.append(f"fewer picks than asked for, because too few rows are believed: {named}{more}")
    return tuple(notes)


def _expected_right(evidence: Evidence, rows: IntArray) -> int:
    """Return how many of some rows that are not trusted have a right label, by what is known of them."""
    doubtful = rows[~(evidence.far[rows] | evidence.clumped[rows])]
    return int(np.floor(np.add.reduce(1.0 - evidence.wrong[doubtful].astype(np.float64)) + 1e-6))


def _least_first(rows: IntArray, doubt: FloatArray, keys: Keys | None) -> IntArray:
    """Order rows by their doubt; where that is the same by their values, copies by their number."""
    values = () if keys is None else (keys[rows],)
    return rows[np.lexsort((rows, *values, doubt[rows]))]


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
        mean = None if checked.means is None or len(checked.means) > 1 else checked.means[0]
        return [Group(rows, members, None, (seed, 0), 1, mean)]
    means = checked.means if checked.means is not None and len(checked.means) == len(classes) else None
    parts = split(codes, len(classes))
    if usable is not None:
        parts = [members[usable[members]] for members in parts]
    return [
        Group(
            rows,
            members,
            classes[code].item(),
            (seed, code),
            len(classes),
            None if means is None else means[code],
        )
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
        self.info = [
            tuple(getattr(group, entry.name) for entry in fields(Group)[2:])  # all but the rows
            for group in groups
        ]
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
    """Return the centres of all groups where they are given, or are means and known already."""
    given = [group.center for group in groups if group.center is not None]
    if len(given) == len(groups):
        return given
    found: list[Center] = [(group.mean, 0.0) for group in groups if group.mean is not None]
    return found if isinstance(target, str) and target == "mean" and len(found) == len(groups) else None
