"""How rows are divided into groups, and how the groups share the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..arrays import FloatArray, IntArray, Keys, Mask, Vector
from ..errors import InvalidInput
from ..facts import Evidence
from ..location.centers import find_centers
from ..matching.budgets import Weights, share, split
from ..matching.features import MatchedRows
from ..matching.groups import Before, Group, Picks, Shares, group_codes, tier_lines, turns
from ..records import Carried
from ..trust import TRUSTED
from ..validation import CheckedRows

__all__ = [
    "Group", "Part", "Parts", "Picks", "Wanted", "divide_rows", "share_out",
]  # fmt: skip

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


@dataclass(frozen=True, eq=False)
class Earlier:
    """What was picked of each class from other data."""

    before: Mapping[object, Before] = field(default_factory=dict)

    @classmethod
    def of(cls, carried: Carried | None) -> Earlier:
        """Return what an earlier selection carries on; None: there is none."""
        if carried is None:
            return cls()
        columns = carried.counts.tolist(), carried.totals, carried.targets, carried.rows.tolist()
        return cls({label: Before(*entry) for label, *entry in zip(carried.labels, *columns, strict=True)})

    def join(self, groups: list[Group], view: MatchedRows | None) -> list[Group]:
        """Return competing groups whose target is the mean of all data, earlier data among it.

        Reads all rows once where the means of the groups are not known.
        """
        if not self.before:
            return groups
        if any(group.mean is None for group in groups):
            labels = [group.label for group in groups]
            found = find_centers("mean", groups[0].source, group_codes(groups), labels)
            groups = [replace(group, mean=mean) for group, (mean, _) in zip(groups, found, strict=True)]
        return [_joined(group, view) for group in groups]

    def carry(
        self,
        groups: list[Group],
        competing: list[Group],
        shares: Shares,
        picked: list[IntArray],
        targets: Mapping[int, Vector],
        sums: list[Vector],
        view: MatchedRows | None,
    ) -> Carried:
        """Return what is needed to go on from the picks with other data.

        `groups`, `competing`: the groups as they are given and as they are compared (by `view`). `picked`:
        the rows picked from each. `targets`: the point that the picks of each group match, by its number.
        `sums`: of the offsets of all picks of these from their targets.
        """
        points, offsets = dict(targets), list(sums)
        # Classes that have enough from other data have new rows to be matched all the same.
        for code, (group, mean) in enumerate(zip(groups, (each.mean for each in competing), strict=True)):
            if code not in points and group.before is not None and mean is not None:
                points[code] = mean if view is None else view.to_rows(mean)
                offsets.append(group.before.total - group.before.count * points[code])
        counts = np.array([groups[code].n_before + len(picked[code]) for code in points])
        stacked = np.stack(list(points.values()))
        return Carried(
            [groups[code].label for code in points],
            counts,
            np.stack(offsets) + counts[:, None] * stacked,
            stacked,
            np.array([groups[code].n_believed + len(shares.members[code]) for code in points]),
        )


def _joined(group: Group, view: MatchedRows | None) -> Group:
    """Return a competing group whose target is the mean of its rows here and elsewhere."""
    before = group.before
    if before is None or group.mean is None:
        return group
    if view is not None:
        # Fourier features of what is elsewhere are not known: taken to be as those here.
        rest = group.mean[len(before.target) :]
        middle = np.concatenate([view.of_rows(before.total / max(1, before.count)), rest])
        target = np.concatenate([view.of_rows(before.target), rest])
        before = replace(before, total=before.count * middle, target=target)
    both = before.joined(group.mean, len(group.members))
    return replace(group, before=before, mean=both, center=(both, 0.0))


@dataclass(frozen=True, eq=False)
class Wanted:
    """What is wanted of the picks, whatever the method."""

    allowed: Mask | None = None  # rows that may be picked; None: all
    # Rows that are in already, in their order: they come first.
    first: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    parts: Parts | None = None  # what shares the budget in place of the classes
    earlier: Earlier | None = None  # what was picked from other data, and how to go on from there

    @property
    def before(self) -> Mapping[Any, Before]:
        """What was picked of each class from other data."""
        return {} if self.earlier is None else self.earlier.before

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
        budgets = share(weights, tier_lines(least, most + before), k + elsewhere, begun) - before
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
    shared = share(weights, tier_lines(least, first + before), there, begun) - before
    budgets = np.minimum(shared, trusted)
    followers = [
        _least_first(rows, doubt, keys)[:count] if count else nothing
        for rows, count in zip(waiting, (shared - budgets).tolist(), strict=True)
    ]
    left = k - int(shared.sum())
    found = Shares(weights, members, budgets, trusted, followers, nothing, nothing, *already)
    asked = share(weights, tier_lines(least, most + before), k + elsewhere, begun) - before
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
