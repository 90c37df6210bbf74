"""Chains of carried batches: the work of one, cut into pieces that can be done anywhere.

A chain is a sequence of batches that pass the accumulated error on. Chains do not know each other, so
that they can run side by side; a piece of a chain is a pure function of the error that it starts with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compute.blocks import map_in_order
from ..compute.reading import read_ahead, settle
from ..records import FloatArray, IntArray
from .candidates import Candidates, Workspace, gram_pays, prepare, prepare_batches
from .greedy import Matching, Step, pick

Vector = npt.NDArray[np.float64]

SEGMENT_ROWS = 1 << 16
"""Rows of a piece of work: some hundred megabytes, a second or so."""

_TOGETHER_VALUES = 3 << 19  # of rows and Gram matrices that are made ready in one go: some megabytes
_AHEAD = 2  # such goes per thread


@dataclass(frozen=True, eq=False)
class Turn:
    """A batch that its chain's next picks come from."""

    chain: int  # number of the chain
    rows: IntArray  # row numbers, ascending
    quota: int  # how many of them to pick


def match_turns(
    rows: FloatArray,
    turns: Iterable[Turn],
    matchings: Mapping[int, Matching],
    step: Step,
    spaces: list[Workspace],
) -> Iterator[tuple[Turn, IntArray, Vector, Vector]]:
    """Yield turns with the rows picked, their scores and distances.

    Batches are read and multiplied ahead on all cores; picks follow each other in order. `matchings` are
    carried on in place; `spaces` is memory to use and to leave behind.
    """

    def ready(together: list[Turn]) -> tuple[Workspace, list[tuple[Turn, Candidates | None]]]:
        center = matchings[together[0].chain].center
        try:
            space = spaces.pop()
        except IndexError:
            space = Workspace()
        if not all(gram_pays(len(turn.rows), turn.quota, rows.dtype.itemsize) for turn in together):
            return space, [
                (turn, prepare(rows[turn.rows], center, turn.quota) if turn.quota else None)
                for turn in together
            ]
        read = space.take(rows, np.concatenate([turn.rows for turn in together]))
        return space, list(zip(together, prepare_batches(read, center, len(together), space), strict=True))

    for space, batches in map_in_order(ready, _alike(turns, rows.shape[1]), ahead=_AHEAD):
        for turn, candidates in batches:
            picked, scores, distances = np.empty(0, np.int64), np.empty(0), np.empty(0)
            if candidates is not None:
                places, scores, distances = pick(candidates, turn.quota, matchings[turn.chain], step)
                picked = turn.rows[places]
            settle(rows, turn.rows, picked)
            yield turn, picked, scores, distances
        spaces.append(space)


def _alike(turns: Iterable[Turn], n_features: int) -> Iterator[list[Turn]]:
    """Put turns together that follow each other, of one chain and one size."""
    together: list[Turn] = []
    for turn in turns:
        size = len(turn.rows)
        if together and (
            (turn.chain, size) != (together[0].chain, len(together[0].rows))
            or size * (len(together) + 1) * (n_features + size) > _TOGETHER_VALUES
        ):
            yield together
            together = []
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
    """The function that does a segment: from what is carried to what is carried on, and the picks."""

    rows: FloatArray  # the rows, or a view of them
    codes: IntArray  # class of each chain
    # Of each class.
    centers: Vector
    starts: Vector
    step: Step  # as the parameter of `GMMatching`
    spaces: list[Workspace] = field(default_factory=list)  # memory for the next segment

    def __call__(self, carried: Carried, segment: Segment) -> tuple[Carried, tuple[IntArray, Vector, Vector]]:
        """Match the batches of a segment, going on from what is carried."""
        read_ahead(self.rows, segment.numbers)
        matchings = {}
        for place, chain in enumerate(carried.chains.tolist()):
            code, count = self.codes[chain], int(carried.counts[place])
            matchings[chain] = Matching(self.centers[code], self.starts[code], carried.thetas[place], count)
        turns = match_turns(self.rows, segment.turns(), matchings, self.step, self.spaces)
        found = [picks[1:] for picks in turns]
        after = [matchings[chain] for chain in carried.chains.tolist()]
        thetas = np.stack([matching.theta for matching in after])
        counts = np.array([matching.count for matching in after])
        rows, scores, distances = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Carried(carried.chains, thetas, counts), (rows, scores, distances)
