"""The teaching picks of all classes, made before each class is matched on its own."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from ..arrays import FloatArray, IntArray, Vector
from ..compute.keys import draw_usable, gather
from ..compute.reading import hold_picks
from ..location.centers import find_centers
from ..trust import TRUSTED, Verdict
from .budgets import sequence, share
from .groups import Group, Picks, Shares, group_codes
from .teaching import Lesson, Pool, surely_right, teach, teaching_picks

SAMPLE_ROWS, _SAMPLE_ROWS_PER_CLASS = 1 << 13, 16
"""Believed rows that the lesson is added up on: the first by their hashes where there are more."""

_POOL_ROWS = 512  # of a class that compete for its teaching picks


def teach_groups(
    groups: list[Group],
    shares: Shares,
    verdict: Verdict,
    taught: list[bool],
    strict: bool,
    start: Callable[[Vector, Group], Vector],
) -> list[Group]:
    """Return the groups with the teaching picks that they begin with, and the means of their rows.

    `taught`: which groups get teaching picks. `strict`: whether only rows that are hardly doubted compete for
    them. `start`: theta before the first pick of a group, by its mean.

    The sums that a learner's loss follows from, and the rows that compete, are those of a sample of the
    believed rows, drawn by their hashes, which is held where rows are many: nothing is read for it but the
    means of Fourier features of more rows than the sample has. One thread, and one order of rows: the picks
    are the same whatever the memory, the workers and the engine.
    """
    codes, rows = group_codes(groups), groups[0].source
    if codes is None:
        codes = np.zeros(len(rows), np.int64)
    believed = (codes >= 0) & (verdict.tiers == TRUSTED)
    drawn = draw_usable(verdict.keys, believed, max(SAMPLE_ROWS, _SAMPLE_ROWS_PER_CLASS * len(groups)))
    features, own = gather(rows, drawn), codes[drawn]
    if any(group.mean is None for group in groups):
        complete = len(drawn) == np.count_nonzero(codes >= 0)
        read = (features, own) if complete else (rows, codes)
        found = find_centers("mean", *read, [group.label for group in groups])
        groups = [replace(group, mean=mean) for group, (mean, _) in zip(groups, found, strict=True)]
    with threadpool_limits(1):
        lesson = Lesson.of(features, own, len(groups), groups[0].seed[0])
        places: list[IntArray] = []
        pools: list[Pool | None] = []
        for code, group in enumerate(groups):
            place = np.flatnonzero(own == code) if taught[code] else np.empty(0, np.int64)
            if strict and verdict.labels is not None:
                place = place[surely_right(verdict.labels.wrong[drawn[place]])]
            places.append(place[:_POOL_ROWS])
            mean, chosen = group.mean, features[places[-1]]
            if mean is None or not len(chosen):
                pools.append(None)
            else:
                pool = Pool.of(lesson, chosen, mean, start(mean, group))
                pool.free[np.isin(drawn[places[-1]], group.first)] = False
                pools.append(pool)
        begun, before = shares.begun, shares.before
        most = min(teaching_picks(lesson), int((shares.budgets + before).sum()))
        shared = share(shares.weights, (shares.most + before)[None], max(most, int(begun.sum())), begun)
        turns = sequence(shares.weights, shared[None], begun)[0]
        included = lesson.view(gather(rows, shares.included)) if len(shares.included) else None
        teach(lesson, pools, turns, None if included is None else (shares.included_groups, included))
    taken = [chosen[pool.picks] for pool, chosen in zip(pools, places, strict=True) if pool is not None]
    if taken:
        hold_picks(rows, drawn[np.concatenate(taken)])
    return [
        group if pool is None else _begun(group, features, drawn, chosen[pool.picks])
        for group, pool, chosen in zip(groups, pools, places, strict=True)
    ]


def _begun(group: Group, features: FloatArray, drawn: IntArray, picks: IntArray) -> Group:
    """Return a group that begins with some of the rows that were drawn."""
    if not len(picks):
        return group
    total = np.add.reduce(features[picks], axis=0, dtype=np.float64)
    if group.total is not None:  # rows that are in already come first
        return replace(group, first=np.concatenate([group.first, drawn[picks]]), total=group.total + total)
    return replace(group, first=drawn[picks], total=total)


def with_first(group: Group, picks: Picks | None) -> Picks:
    """Return the picks of a group behind those that it began with; None: there are no others.

    Scores and distances of the first are not known here; whoever judged the rows measures all picks.
    """
    if not len(group.first):
        assert picks is not None
        return picks
    center = group.mean if group.center is None else group.center[0]
    assert center is not None
    first, unknown = np.searchsorted(group.members, group.first), np.zeros(len(group.first))
    if picks is None:
        epsilon = 0.0 if group.center is None else group.center[1]
        return Picks(first, unknown, unknown, center, 0.0, epsilon, "mean")
    others = np.searchsorted(group.members, group.others().members[picks.order])
    return replace(
        picks,
        order=np.concatenate([first, others]),
        scores=np.concatenate([unknown, picks.scores]),
        distances=np.concatenate([unknown, picks.distances]),
    )
