"""Chains of carried batches: the work of one, cut into pieces that can be done anywhere.

A chain is a sequence of batches that pass the accumulated error on. Chains do not know each other, so
that they can run side by side; a piece of a chain is a pure function of the error that it starts with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import IntArray, Rows, Vector
from ..compute.blocks import core_count
from ..compute.runner import announce
from .greedy import Matching, Step, match_batches

SEGMENT_ROWS = 1 << 16
"""Rows of a piece of work: some hundred megabytes, a second or so."""

_TOGETHER_VALUES = 1 << 22  # of rows that are read in one go: 16 MB of float32
_AHEAD = 2  # such goes per thread


@dataclass(frozen=True, eq=False)
class Turn:
    """A batch that its chain's next picks come from."""

    chain: int  # number of the chain
    rows: IntArray  # row numbers, ascending
    quota: int  # how many of them to pick


Picked = tuple[IntArray, Vector, Vector]
"""The rows picked in a turn, the objective after each, and its distance to the centre."""


def match_turns(
    rows: Rows, turns: Iterable[Turn], matchings: Mapping[int, Matching], step: Step
) -> Iterator[tuple[list[Turn], list[Picked], Matching]]:
    """Yield turns of a chain that follow each other, their picks, and what the chain then carries.

    Chains run side by side on all cores; a chain reads ahead while it waits for its own last picks.
    """

    def go(together: list[Turn], before: Future[Any] | None) -> tuple[list[Turn], list[Picked], Matching]:
        numbers = [turn.rows for turn in together]
        read = np.asarray(rows[np.concatenate(numbers)])
        matching: Matching = replace(matchings[together[0].chain] if before is None else before.result()[2])
        sizes, quotas = np.array([len(own) for own in numbers]), np.array([turn.quota for turn in together])
        found = match_batches(read, sizes, quotas, matching, step)
        pairs = zip(numbers, found, strict=True)
        picks = [(own[places], scores, distances) for own, (places, scores, distances) in pairs]
        return together, picks, matching

    threads = core_count()
    last: dict[int, Future[Any]] = {}
    pending: deque[Future[Any]] = deque()
    # Work is begun in the order in which it is handed in, so that nobody waits for what is not begun.
    with ThreadPoolExecutor(threads) as pool:
        for together in _together(turns, rows.shape[1]):
            chain = together[0].chain
            last[chain] = pool.submit(go, together, last.get(chain))
            pending.append(last[chain])
            if len(pending) >= threads * _AHEAD:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _together(turns: Iterable[Turn], n_features: int) -> Iterator[list[Turn]]:
    """Put turns of a chain together that follow each other."""
    together: list[Turn] = []
    size = 0
    for turn in turns:
        size += len(turn.rows) * n_features
        if together and (turn.chain != together[0].chain or size > _TOGETHER_VALUES):
            yield together
            together, size = [], len(turn.rows) * n_features
        together.append(turn)
    if together:
        yield together


@dataclass(frozen=True, eq=False)
class Segment:
    """Turns that follow each other, to be done in one go, wherever that is."""

    turns: list[Turn]

    def __len__(self) -> int:
        return sum(len(turn.rows) for turn in self.turns)

    @cached_property
    def rows(self) -> IntArray:
        """All row numbers, ascending."""
        return np.sort(np.concatenate([turn.rows for turn in self.turns])).astype(np.int64)


def segments(turns: Iterable[Turn], n_rows: int) -> Iterator[Segment]:
    """Cut turns over `n_rows` rows in all into segments, their row numbers in as few bytes as these need."""
    waiting: list[Turn] = []
    size = 0
    for turn in turns:
        waiting.append(replace(turn, rows=turn.rows.astype(np.uint32 if n_rows <= 1 << 32 else np.int64)))
        size += len(turn.rows)
        if size >= SEGMENT_ROWS:
            yield Segment(waiting)
            waiting, size = [], 0
    if waiting:
        yield Segment(waiting)


Carried = list[tuple[int, Vector, int]]
"""What some chains carry from one segment to the next: which chain, its accumulated error, its picks."""


@dataclass(frozen=True, eq=False)
class MatchSegment:
    """Match one segment: take the state of its chains, return the new state and the picks."""

    rows: Rows  # the rows, or a view of them
    codes: IntArray  # class of each chain
    # Of each class.
    centers: Vector
    starts: Vector
    step: Step  # as the parameter of `GMMatching`

    def __call__(self, carried: Carried, segment: Segment) -> tuple[Carried, list[Picked]]:
        """Match the batches of a segment, going on from what is carried; return what was picked in each."""
        announce(self.rows, segment.rows)
        matchings = {}
        for chain, theta, count in carried:
            code = self.codes[chain]
            matchings[chain] = Matching(self.centers[code], self.starts[code], theta, count)
        found: list[Picked] = []
        turns = [replace(turn, rows=turn.rows.astype(np.int64)) for turn in segment.turns]
        for together, picked, matching in match_turns(self.rows, turns, matchings, self.step):
            found += picked
            matchings[together[0].chain] = matching
        return [(chain, own.theta, own.count) for chain, own in matchings.items()], found
