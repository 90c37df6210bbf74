"""Matching several groups of rows in one go, wherever the rows can be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Protocol

import numpy as np

from ..arrays import FloatArray, IntArray, Vector
from ..compute.blocks import limit_threads
from ..compute.keys import read_rows, take_rows
from ..location.centers import find_centers
from .greedy import Step, match_groups
from .groups import Center, Group, Picks

_BUNDLE_VALUES = 1 << 22  # of the small groups that are read together


class Matcher(Protocol):
    """What matches groups; see `GMMatching`."""

    normalize: str

    @property
    def greedy_step(self) -> Step:
        """The step of the greedy loop."""

    def _match(self, group: Group, k: int, target: Any, found: Center | None, gram_bytes: int) -> Picks: ...

    def _as_matched(self, source: FloatArray) -> FloatArray: ...

    def _parts(self, group: Group) -> list[IntArray]: ...

    def _theta(self, center: Vector, group: Group) -> Vector: ...


class MatchBundle:
    """The function that matches the groups of a bundle."""

    def __init__(self, matcher: Matcher, source: FloatArray, target: Any, gram_bytes: int) -> None:
        self.matcher, self.source, self.target, self.gram_bytes = matcher, source, target, gram_bytes

    def __call__(self, work: Bundle) -> list[Picks]:
        """Return the picks of each group; whoever hands out the work counts what is read for it."""
        if len(work.members) == 1:
            rows = read_rows(self.source, work.members[0])
            group = Group(rows, np.arange(len(rows)), *work.info[0])
            center = None if work.centers is None else work.centers[0]
            return [self.matcher._match(group, work.budgets[0], self.target, center, self.gram_bytes)]
        lengths = [len(rows) for rows in work.members]
        place = np.searchsorted(work.rows, np.concatenate(work.members))
        values = np.take(take_rows(self.source, work.rows), place, axis=0)
        parts = np.split(values, np.cumsum(lengths)[:-1])
        groups = [
            Group(rows, np.arange(len(rows)), *facts) for rows, facts in zip(parts, work.info, strict=True)
        ]
        centers = work.centers
        if centers is None:
            codes, labels = np.repeat(np.arange(len(groups)), lengths), [group.label for group in groups]
            with limit_threads(1):  # there is a thread for each bundle
                centers = find_centers(self.target, self.matcher._as_matched(values), codes, labels)
        return self._match(groups, work.budgets, centers)

    def _match(self, groups: list[Group], budgets: list[int], centers: list[Center]) -> list[Picks]:
        """Match groups whose rows were read and whose centres were found, all small ones at once."""
        matcher, target = self.matcher, self.target
        plain = matcher.normalize == "none"
        together = [at for at, group in enumerate(groups) if plain and len(matcher._parts(group)) < 2]
        found: dict[int, Picks] = {}
        if together:
            own = [groups[at] for at in together]
            known = [median_of_two(groups[at].rows, target) or centers[at] for at in together]
            picked = match_groups(
                np.concatenate([group.rows for group in own]),
                np.array([len(group.members) for group in own]),
                np.array([budgets[at] for at in together]),
                np.stack([center for center, _ in known]),
                np.stack([matcher._theta(pair[0], group) for pair, group in zip(known, own, strict=True)]),
                matcher.greedy_step,
                self.gram_bytes,
            )
            for at, (center, epsilon), (order, scores, distances) in zip(
                together, known, picked, strict=True
            ):
                objective = float(scores[-1])
                found[at] = Picks(order, scores, distances, center, objective, epsilon, name_of(target))
        for at, group in enumerate(groups):
            if at not in found:
                found[at] = matcher._match(group, budgets[at], target, centers[at], self.gram_bytes)
        return [found[at] for at in range(len(groups))]


def median_of_two(rows: FloatArray, target: Any) -> Center | None:
    """Return the geometric median that two rows match; None of other rows, or where the target is another.

    Every point between two rows is a geometric median of them. One that is a row, chosen by the values,
    leaves no tie for the order of the rows to decide.
    """
    if len(rows) != 2 or not (isinstance(target, str) and target == "geometric-median"):
        return None
    return np.array(min(rows[:].tolist())), 0.0


def name_of(target: Any) -> str:
    """Return what the target of a matching is called."""
    return target if isinstance(target, str) else "given"


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
