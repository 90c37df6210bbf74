"""How rows are divided into groups, and how the groups share the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import FloatArray, IntArray, Keys, Mask, Vector
from ..compute.blocks import turns
from ..errors import InvalidInput
from ..facts import Evidence
from ..location.centers import find_centers
from ..matching.budgets import Weights, share, split
from ..matching.features import MatchedRows
from ..matching.groups import Before, Group, Shares, group_codes, tier_lines
from ..records import Carried
from ..trust import TRUSTED
from ..trust.inputs import FourierFeatures
from ..validation import CheckedRows

_NAMED = 3  # classes in a sentence


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

    def as_groups(self, groups: list[Group]) -> list[Group]:
        """Return the parts as groups; rows that are in none of the given groups take no part."""
        usable = np.zeros(len(self.codes), bool)
        for group in groups:
            usable[group.members] = True
        members = split(np.where(usable, self.codes, -1) + 1, len(self.names) + 1)[1:]
        source, seed, n_parts = groups[0].source, groups[0].seed[0], len(self.names)
        found = []
        for code, own in enumerate(members):
            center = None if self.centers is None else (self.centers[code], None)
            weight = None if self.weights is None else float(self.weights[code])
            bounds = None if self.bounds is None else (int(self.bounds[0][code]), int(self.bounds[1][code]))
            group = Group(source, own, self.names[code], (seed, code), n_parts, center=center)
            found.append(replace(group, weight=weight, bounds=bounds))
        return found


@dataclass(frozen=True, eq=False)
class Wanted:
    """What is wanted of the picks, whatever the method."""

    allowed: Mask | None = None  # rows that may be picked; None: all
    # Rows that are in already, in their order: they come first.
    first: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    parts: Parts | None = None  # what shares the budget in place of the classes
    carried: Carried | None = None  # what is needed to go on from picks of other data

    @cached_property
    def before(self) -> dict[Any, Before]:
        """What was picked of each class from other data, by its label."""
        if (carried := self.carried) is None:
            return {}
        columns = carried.counts.tolist(), carried.totals, carried.targets, carried.rows.tolist()
        return {label: Before(*entry) for label, *entry in zip(carried.labels, *columns, strict=True)}

    @property
    def fourier(self) -> FourierFeatures | None:
        """The Fourier features that picks of other data were matched by."""
        known = None if self.carried is None else self.carried.fourier
        return None if known is None else FourierFeatures(*known)

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
            groups = self.parts.as_groups(groups)
        if self.allowed is not None:
            allowed = self.allowed
            groups = [
                replace(group, members=group.members[allowed[group.members]], mean=None) for group in groups
            ]
        found = [
            replace(group, before=self.before.get(group.label)) for group in groups if len(group.members)
        ]
        if not found:
            raise InvalidInput(
                "no row may be picked: exclude, holdout, duplicates, quality and match_to leave none"
            )
        return found


def join_earlier(groups: list[Group], view: MatchedRows | None) -> list[Group]:
    """Return competing groups whose target is the mean of all data, earlier data among it.

    Reads all rows once where the means of the groups are not known. Where Fourier features (of `view`) of
    earlier data are not known, they are taken to be as those here.
    """
    if all(group.before is None for group in groups):
        return groups
    if any(group.mean is None for group in groups):
        labels = [group.label for group in groups]
        found = find_centers("mean", groups[0].source, group_codes(groups), labels)
        groups = [replace(group, mean=mean) for group, (mean, _) in zip(groups, found, strict=True)]
    joined = []
    for group in groups:
        before, mean = group.before, group.mean
        if before is not None and mean is not None:
            middle, target = before.total / max(1, before.count), before.target
            if view is None:
                middle, target = middle[: len(mean)], target[: len(mean)]
            else:
                middle, target = view.of_known(middle, mean), view.of_known(target, mean)
            before = replace(before, total=before.count * middle, target=target)
            rows = len(group.members)
            mean = (before.rows * before.target + rows * mean) / max(1, before.rows + rows)
            group = replace(group, before=before, mean=mean, center=(mean, 0.0))
        joined.append(group)
    return joined


def to_known(point: Vector, view: MatchedRows | None) -> Vector:
    """Return a point that competing rows match in the coordinates that selections keep."""
    return point if view is None else view.to_known(point)


def offset_before(group: Group, point: Vector, view: MatchedRows | None) -> Vector:
    """Return the sum of the offsets of a group's picks from other data from the point that is matched."""
    if (before := group.before) is None:
        return np.zeros(len(point))
    offset: Vector = before.count * (to_known(before.total / max(1, before.count), view) - point)
    return offset


def carry_on(
    groups: list[Group],
    competing: list[Group],
    picked: list[IntArray],
    targets: Mapping[int, Vector],
    sums: list[Vector],
    view: MatchedRows | None,
) -> Carried:
    """Return what is needed to go on from the picks with other data.

    Points are in the coordinates of the rows, those of their Fourier features behind them.

    `groups`, `competing`: the groups as they are given and as they are compared (by `view`). `picked`: the
    rows picked from each. `targets`: the point that the picks of each group match, by its number. `sums`: of
    the offsets of all picks of these from their targets.
    """
    points, offsets = dict(targets), list(sums)
    # Classes that have enough from other data have new rows to be matched all the same.
    for code, group in enumerate(competing):
        if code not in points and group.before is not None and group.mean is not None:
            points[code] = to_known(group.mean, view)
            offsets.append(offset_before(group, points[code], view))
    own = [groups[code] for code in points]
    counts = np.array([group.n_before + len(picked[code]) for code, group in zip(points, own, strict=True)])
    believed = [0 if group.before is None else group.before.rows for group in own]
    rows = np.array(believed) + [len(competing[code].members) for code in points]
    fourier = None if view is None or view.fourier is None else (view.fourier.origin, view.fourier.directions)
    stacked = np.stack(list(points.values()))
    totals = np.stack(offsets) + counts[:, None] * stacked
    return Carried([group.label for group in own], counts, totals, stacked, rows, fourier)


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
    in_already, codes = nothing if included is None else included, nothing
    if len(in_already):
        every = group_codes(groups)
        codes = np.zeros(len(in_already), np.int64) if every is None else every[in_already]
    before = np.array([group.n_before for group in groups])
    begun = before + np.bincount(codes, minlength=len(groups))
    most = np.maximum(most, begun - before)
    least = np.array([0 if group.bounds is None else group.bounds[0] for group in groups])
    already = in_already, codes, before, least

    def shared(available: IntArray, total: int) -> IntArray:
        """Share picks among groups that have so many rows each."""
        picks = share(weights, tier_lines(least, available + before), total + int(before.sum()), begun)
        here: IntArray = picks - before
        return here

    asked = shared(most, k)
    if evidence is None:
        members, none = [group.members for group in groups], [nothing] * len(groups)
        return Shares(weights, members, asked, most, none, nothing, nothing, *already)
    tiers, doubt = evidence.tiers, evidence.doubt
    members = [group.members[tiers[group.members] == TRUSTED] for group in groups]
    for code in np.unique(codes).tolist():
        members[code] = np.union1d(members[code], in_already[codes == code])
    for code, group in enumerate(groups):
        if not len(members[code]) and group.label is not None:
            members[code] = _least_first(group.members, doubt, keys)[:1]
    waiting = [_others(group.members, own) for group, own in zip(groups, members, strict=True)]
    trusted = np.minimum([len(rows) for rows in members], most)
    right = [0 if groups[0].label is None else _expected_right(evidence, rows) for rows in waiting]
    first = np.minimum(trusted + right, most)
    got = shared(first, min(k, int(first.sum())))
    budgets = np.minimum(got, trusted)
    followers = [
        _least_first(rows, doubt, keys)[:count] if count else nothing
        for rows, count in zip(waiting, (got - budgets).tolist(), strict=True)
    ]
    rest, rest_groups = nothing, nothing
    if (left := k - int(got.sum())) > 0:
        waiting = [_others(rows, own) for rows, own in zip(waiting, followers, strict=True)]
        numbers = np.empty(len(tiers), np.int64)
        for code, own in enumerate(waiting):
            numbers[own] = code
        rest = _least_first(np.concatenate(waiting), doubt, keys)
        rest_groups = numbers[rest]
        allowed = turns(rest_groups) < (most - got)[rest_groups]
        rest, rest_groups = rest[allowed][:left], rest_groups[allowed][:left]
    found = Shares(weights, members, budgets, trusted, followers, rest, rest_groups, *already)
    return replace(found, notes=_notes(found, groups, asked, evidence))


def _notes(shares: Shares, groups: list[Group], asked: IntArray, evidence: Evidence) -> tuple[str, ...]:
    """Return where picks beyond the trusted rows are mostly wrong, and which classes got less than asked for.

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
        notes.append(
            f"too few rows are believed for these classes to have their share of picks: {named}{more}"
        )
    return tuple(notes)


def _expected_right(evidence: Evidence, rows: IntArray) -> int:
    """Return how many of some rows that are not trusted have a right label, by what is known of them."""
    doubtful = rows[~(evidence.far[rows] | evidence.clumped[rows])]
    return int(np.floor(np.add.reduce(1.0 - evidence.wrong[doubtful].astype(np.float64)) + 1e-6))


def _others(rows: IntArray, taken: IntArray) -> IntArray:
    """Return the rows that are not taken, in their order; no row is there twice."""
    return rows[np.isin(rows, taken, assume_unique=True, invert=True)]


def _least_first(rows: IntArray, doubt: FloatArray, keys: Keys | None) -> IntArray:
    """Order rows by their doubt; where that is the same by their values, copies by their number."""
    values = () if keys is None else (keys[rows],)
    return rows[np.lexsort((rows, *values, doubt[rows]))]


def divide_rows(checked: CheckedRows, by_class: bool, seed: int) -> list[Group]:
    """Divide the usable rows by class; classes without a usable row are left out."""
    rows, classes, codes = checked.rows, checked.classes, checked.codes
    if classes is None or codes is None or not by_class:
        members = np.flatnonzero(checked.usable)
        mean = None if checked.means is None or len(checked.means) > 1 else checked.means[0]
        return [Group(rows, members, None, (seed, 0), 1, mean)]
    means = checked.means if checked.means is not None and len(checked.means) == len(classes) else None
    parts = [members[checked.usable[members]] for members in split(codes, len(classes))]
    found = [
        Group(rows, members, classes[code].item(), (seed, code), len(classes))
        for code, members in enumerate(parts)
        if len(members)
    ]
    return found if means is None else [replace(group, mean=means[group.seed[1]]) for group in found]
