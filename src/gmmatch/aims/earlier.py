"""Picks of other data that a selection goes on from: what they add to its targets, and what is carried on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..arrays import IntArray, Vector
from ..location.centers import find_centers
from ..matching.features import MatchedRows
from ..matching.groups import Before, Group, Shares, group_codes
from ..records import Carried


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
