"""Chains of carried batches: the work of one, cut into pieces that can be done anywhere.

A chain is a sequence of batches that pass the accumulated error on. Chains do not know each other, so
that they can run side by side; a piece of a chain is a pure function of the error that it starts with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

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


Picked = tuple[Turn, IntArray, Vector, Vector]
"""A turn, the rows picked, the objective after each, and its distance to the centre."""


def match_turns(
    rows: Rows, turns: Iterable[Turn], matchings: Mapping[int, Matching], step: Step
) -> Iterator[tuple[list[Picked], Matching]]:
    """Yield what was picked in turns of a chain that follow each other, and what the chain then carries.

    Chains run side by side on all cores; a chain reads ahead while it waits for its own last picks.
    """

    def go(together: list[Turn], before: Future[Any] | None) -> tuple[list[Picked], Matching]:
        numbers = [turn.rows for turn in together]
        read = np.asarray(rows[np.concatenate(numbers)])
        matching = matchings[together[0].chain] if before is None else before.result()[1]
        matching = replace(matching)
        sizes, quotas = np.array([len(own) for own in numbers]), np.array([turn.quota for turn in together])
        found = match_batches(read, sizes, quotas, matching, step)
        picks: list[Picked] = []
        for turn, (places, scores, distances) in zip(together, found, strict=True):
            picks.append((turn, turn.rows[places], scores, distances))
        return picks, matching

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
    """Turns that follow each other, as plain arrays."""

    # Chain, number of rows and quota of each turn.
    chains: IntArray
    sizes: IntArray
    quotas: IntArray
    numbers: npt.NDArray[Any]  # the row numbers of all turns, one after the other

    @classmethod
    def of(cls, turns: Sequence[Turn], n_rows: int) -> Segment:
        """Pack turns over `n_rows` rows in all."""
        chains, sizes, quotas = (
            np.array(values, np.int64)
            for values in zip(*((turn.chain, len(turn.rows), turn.quota) for turn in turns), strict=True)
        )
        smallest = np.uint32 if n_rows <= 1 << 32 else np.int64
        return cls(chains, sizes, quotas, np.concatenate([turn.rows for turn in turns]).astype(smallest))

    def __len__(self) -> int:
        return len(self.numbers)

    def turns(self) -> list[Turn]:
        """Unpack the turns."""
        parts = np.split(self.numbers.astype(np.int64), np.cumsum(self.sizes)[:-1])
        values = zip(self.chains.tolist(), parts, self.quotas.tolist(), strict=True)
        return [Turn(*value) for value in values]

    @cached_property
    def rows(self) -> IntArray:
        """All row numbers, ascending."""
        return np.sort(self.numbers).astype(np.int64)


def segments(turns: Iterable[Turn], n_rows: int) -> Iterator[Segment]:
    """Cut turns into segments."""
    waiting: list[Turn] = []
    size = 0
    for turn in turns:
        waiting.append(turn)
        size += len(turn.rows)
        if size >= SEGMENT_ROWS:
            yield Segment.of(waiting, n_rows)
            waiting, size = [], 0
    if waiting:
        yield Segment.of(waiting, n_rows)


@dataclass(frozen=True, eq=False)
class Carried:
    """What some chains carry from one segment to the next."""

    chains: IntArray  # which chains
    # Accumulated error and number of picks of each.
    thetas: Vector
    counts: IntArray


@dataclass(frozen=True, eq=False)
class MatchSegment:
    """Match one segment: take the state of its chains, return the new state and the picks."""

    rows: Rows  # the rows, or a view of them
    codes: IntArray  # class of each chain
    # Of each class.
    centers: Vector
    starts: Vector
    step: Step  # as the parameter of `GMMatching`

    def __call__(self, carried: Carried, segment: Segment) -> tuple[Carried, tuple[IntArray, Vector, Vector]]:
        """Match the batches of a segment, going on from what is carried."""
        announce(self.rows, segment.numbers)
        matchings = {}
        for place, chain in enumerate(carried.chains.tolist()):
            code, count = self.codes[chain], int(carried.counts[place])
            matchings[chain] = Matching(self.centers[code], self.starts[code], carried.thetas[place], count)
        found = []
        for picked, matching in match_turns(self.rows, segment.turns(), matchings, self.step):
            found += [picks[1:] for picks in picked]
            matchings[picked[0][0].chain] = matching
        after = [matchings[chain] for chain in carried.chains.tolist()]
        thetas = np.stack([matching.theta for matching in after])
        counts = np.array([matching.count for matching in after])
        rows, scores, distances = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Carried(carried.chains, thetas, counts), (rows, scores, distances)
