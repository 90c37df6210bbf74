"""Matching in one pass: batches in a logical order, the accumulated error carried from one to the next.

Rows are read through `rows[sorted_row_numbers]` alone, so that they may be a memory map larger than
memory. What is carried is small (one vector per class and chain), can be saved after any batch, and is all
that is needed to go on. Chains of a class are independent of each other, and may run on several machines.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..arrays import IntArray, Rows, Vector
from ..compute.runner import Runner, announce, bundles, runner_of
from ..progress import task
from .batches import Batch, Router, chain_of, chain_sizes, windows
from .budgets import Weights, sequence, share
from .chains import SEGMENT_ROWS, MatchSegment, Picked, Turn, match_turns, segments
from .greedy import Matching, Step

State = Mapping[str, npt.NDArray[Any]]
Save = Callable[[dict[str, npt.NDArray[Any]]], None]

_BUNDLES = 4  # per worker, so that none waits long for the last


@dataclass(eq=False)
class Chain:
    """One sequence of carried batches."""

    matching: Matching  # the accumulated error
    # Rows it will see and picks it must make of them.
    n_rows: int
    budget: int
    # Rows seen and picks made.
    seen: int = 0
    made: int = 0
    picks: list[Picked] = field(default_factory=list)  # batch by batch

    def quota(self, before: int, size: int) -> int:
        """Return how many picks fall due in a batch of `size` rows that begins after `before` rows.

        The k-th pick falls due when the k-th equal part of the rows has been seen.
        """
        return (before + size) * self.budget // self.n_rows - before * self.budget // self.n_rows

    def take(self, seen: int, picks: Picked) -> None:
        """Record the picks of a batch of `seen` rows."""
        self.seen += seen
        self.made += len(picks[0])
        self.picks.append(picks)


@dataclass(frozen=True, eq=False)
class Stream:
    """A one-pass selection: what to match, in which batches."""

    # The rows, and the class of each; a negative one takes no part.
    rows: Rows
    codes: IntArray
    # Centre of each class and theta before its first pick.
    centers: Vector
    starts: Vector
    # Picks and chains of each class.
    budgets: IntArray
    streams: IntArray
    # As the parameters of `GMMatching`.
    step: Step
    batch_size: int
    seed: int
    # Theta of the first chain of each class, where it goes on from picks that were made before.
    thetas: Vector | None = None

    def run(
        self, save: Save | None = None, state: State | None = None
    ) -> list[tuple[IntArray, Vector, Vector, float]]:
        """Pick, and return for each class the rows, scores, distances and the final objective.

        Parameters
        ----------
        save
            Called now and then with what is needed to go on from there.
        state
            What `save` was given: go on from there.

        Notes
        -----
        Time: one pass over the rows and O(rows * features * batch_size) in BLAS. Memory: a few batches,
        and one vector per class and chain.
        """
        chains = self._begin()
        if state is not None:
            _restore(state, chains)
        runner = runner_of(self.rows)
        # Where a run goes on, those seen before too.
        runner.count.matched += int((self.codes >= 0).sum())
        with task("picking rows", len(self.codes)) as advance, threadpool_limits(1):
            advance(sum(chain.seen for chain in chains))
            unsaved = 0
            for seen in self._there(chains, runner) if runner.workers else self._here(chains):
                advance(seen)
                unsaved += seen
                if save is not None and unsaved >= SEGMENT_ROWS:
                    save(_carried(chains))
                    unsaved = 0
        return [self._merge(chains, code) for code in range(len(self.budgets))]

    def _here(self, chains: list[Chain]) -> Iterator[int]:
        """Run all chains on this machine, in one pass over the rows; yield how many were seen."""
        matchings = {number: chain.matching for number, chain in enumerate(chains)}
        for turns, picked, matching in match_turns(self.rows, self._plan(chains), matchings, self.step):
            chain = chains[turns[0].chain]
            chain.matching = matching
            for turn, picks in zip(turns, picked, strict=True):
                chain.take(len(turn.rows), picks)
            yield sum(len(turn.rows) for turn in turns)

    def _there(self, chains: list[Chain], runner: Runner) -> Iterator[int]:
        """Run the chains on workers, side by side; yield how many rows were seen."""
        left = [number for number, chain in enumerate(chains) if chain.seen < chain.n_rows]
        sizes = [chains[number].n_rows - chains[number].seen for number in left]
        together = [[left[place] for place in own] for own in bundles(sizes, _BUNDLES * runner.workers)]
        home = {chain: number for number, bundle in enumerate(together) for chain in bundle}
        turns: list[list[Turn]] = [[] for _ in together]
        for turn in self._plan(chains, ahead=False):
            turns[home[turn.chain]].append(turn)
        sequences = [list(segments(own, len(self.codes))) for own in turns]
        states = [
            [(chain, chains[chain].matching.theta, chains[chain].matching.count) for chain in own]
            for own in together
        ]
        codes = np.repeat(np.arange(len(self.streams)), self.streams)  # the class of each chain
        function = MatchSegment(self.rows, codes, self.centers, self.starts, self.step)
        done = [0] * len(sequences)
        for number, carried, picked in runner.follow(function, sequences, states):
            segment = sequences[number][done[number]]
            done[number] += 1
            for turn, picks in zip(segment.turns, picked, strict=True):
                chains[turn.chain].take(len(turn.rows), picks)
            for chain, theta, count in carried:
                chains[chain].matching.theta, chains[chain].matching.count = theta, count
            yield len(segment)

    def _begin(self) -> list[Chain]:
        chains = []
        for code, (size, budget) in enumerate(zip(self._sizes(), self.budgets, strict=True)):
            parts = chain_sizes(int(size), self.batch_size, int(self.streams[code]))
            quotas = share(Weights(parts), parts[None], int(budget))
            for place, (part, quota) in enumerate(zip(parts, quotas, strict=True)):
                matching = Matching.begin(self.centers[code], self.starts[code])
                if place == 0 and self.thetas is not None:
                    matching.theta = self.thetas[code].copy()
                chains.append(Chain(matching, int(part), int(quota)))
        return chains

    def _sizes(self) -> IntArray:
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.budgets))

    def _plan(self, chains: list[Chain], ahead: bool = True) -> Iterator[Turn]:
        """Yield the turns of all chains in the logical order, but for those that are done already."""
        router = Router(self.codes, len(self.budgets), self.batch_size)
        first = np.cumsum(self.streams) - self.streams
        sizes = self._sizes()
        seen = [0] * len(chains)

        def due(batch: Batch) -> Iterator[Turn]:
            place = chain_of(
                batch.number, int(sizes[batch.code]), self.batch_size, int(self.streams[batch.code])
            )
            number = int(first[batch.code]) + place
            before, chain = seen[number], chains[number]
            seen[number] += len(batch.rows)
            if before >= done[number]:
                yield Turn(number, batch.rows, chain.quota(before, len(batch.rows)))

        done = [chain.seen for chain in chains]
        waiting: list[Turn] = []
        for visits in windows(len(self.codes), self.rows.shape[1], self.seed):
            turns = [turn for batch in router.feed(visits) for turn in due(batch)]
            if turns and ahead:
                announce(self.rows, visits[self.codes[visits] >= 0])
            yield from waiting  # while the next window is read
            waiting = turns
        yield from waiting
        yield from (turn for batch in router.flush() for turn in due(batch))

    def _merge(self, chains: list[Chain], code: int) -> tuple[IntArray, Vector, Vector, float]:
        """Join the chains of a class in one order."""
        first = int(self.streams[:code].sum())
        own = chains[first : first + int(self.streams[code])]
        lengths = np.array([chain.made for chain in own])
        chain, turn = sequence(Weights(lengths), lengths[None])
        place = (np.cumsum(lengths) - lengths)[chain] + turn
        rows, scores, distances = (values[place] for values in _joined(own))
        error = sum((chain.matching.start - chain.matching.theta for chain in own), np.zeros(1))
        return rows, scores, distances, float(np.sqrt(error @ error)) / len(rows)


def _carried(chains: list[Chain]) -> dict[str, npt.NDArray[Any]]:
    """Return what the chains know as plain arrays."""
    return {
        "theta": np.stack([chain.matching.theta for chain in chains]),
        "seen": np.array([chain.seen for chain in chains]),
        "made": np.array([chain.made for chain in chains]),
        **dict(zip(("rows", "scores", "distances"), _joined(chains), strict=True)),
    }


def _joined(chains: list[Chain]) -> Picked:
    """Return all picks of some chains, one chain after the other."""
    nothing = np.empty(0, np.int64), np.empty(0), np.empty(0)
    parts = [picks for chain in chains for picks in chain.picks] or [nothing]
    rows, scores, distances = map(np.concatenate, zip(*parts, strict=True))
    return rows, scores, distances


def _restore(state: State, chains: list[Chain]) -> None:
    """Restore the chains from saved arrays."""
    ends = np.cumsum(state["made"])
    for number, chain in enumerate(chains):
        chain.matching.theta = state["theta"][number].copy()
        chain.matching.count = chain.made = int(state["made"][number])
        chain.seen = int(state["seen"][number])
        own = slice(ends[number] - chain.made, ends[number])
        chain.picks = [(state["rows"][own].astype(np.int64), state["scores"][own], state["distances"][own])]
