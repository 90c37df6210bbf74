"""Matching in one pass: batches in a logical order, the accumulated error carried from one to the next.

Rows are read through `rows[sorted_row_numbers]` alone, so that they may be a memory map larger than
memory. What is carried is small (one vector per class and chain), can be saved at the end of a window,
and is all that is needed to go on. Chains of a class are independent of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..location.blocks import map_in_order
from ..progress import task
from ..records import FloatArray, IntArray
from ._batches import BLOCK_ROWS, Batch, Router, chain_sizes, windows
from ._matching import Candidates, Matching, Step, pick, prepare
from .by_class import interleave, proportional

Vector = npt.NDArray[np.float64]
State = Mapping[str, npt.NDArray[Any]]
Save = Callable[[dict[str, npt.NDArray[Any]]], None]


class MappedRows:
    """Rows that go through a function when they are read.

    Parameters
    ----------
    rows
        What to read.
    function
        Function of a block of rows that gives as many rows.
    """

    reads_like_rows = True

    def __init__(self, rows: FloatArray, function: Callable[[FloatArray], FloatArray]) -> None:
        self.rows, self.function = rows, function
        self.shape, self.dtype, self.itemsize = rows.shape, rows.dtype, rows.dtype.itemsize

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: Any) -> FloatArray:
        return self.function(self.rows[key])


@dataclass(eq=False)
class Chain:
    """One sequence of carried batches.

    Attributes
    ----------
    matching
        The accumulated error.
    n_rows, budget
        Rows it will see and picks it must make of them.
    seen, made
        Rows seen and picks made.
    rows, scores, distances
        The picks so far, batch by batch.
    """

    matching: Matching
    n_rows: int
    budget: int
    seen: int = 0
    made: int = 0
    rows: list[IntArray] = field(default_factory=list)
    scores: list[Vector] = field(default_factory=list)
    distances: list[Vector] = field(default_factory=list)

    def quota(self, before: int, size: int) -> int:
        """Return how many picks fall due in a batch of `size` rows that begins after `before` rows."""
        return (before + size) * self.budget // self.n_rows - before * self.budget // self.n_rows


@dataclass(frozen=True, eq=False)
class Stream:
    """A one-pass selection: what to match, in which batches.

    Attributes
    ----------
    rows, codes
        The rows, and the class of each; a negative one takes no part.
    centers, starts
        Centre of each class and theta before its first pick.
    budgets
        Picks of each class.
    step, batch_size, streams, seed
        As the parameters of `GMMatching`.
    """

    rows: FloatArray
    codes: IntArray
    centers: Vector
    starts: Vector
    budgets: IntArray
    step: Step
    batch_size: int
    streams: int
    seed: int

    def run(
        self, save: Save | None = None, state: State | None = None
    ) -> list[tuple[IntArray, Vector, Vector, float]]:
        """Pick, and return for each class the rows, scores, distances and the final objective.

        Parameters
        ----------
        save
            Called at the end of each window with what is needed to go on from there.
        state
            What `save` was given: go on from there.

        Notes
        -----
        Time: one pass over the rows and O(rows * features * batch_size) in BLAS. Memory: a few batches,
        and one vector per class and chain.
        """
        chains, router = self._begin()
        first = 0
        if state is not None:
            first = _restore(state, chains, router)
        with task("picking rows", len(self.codes)) as advance, threadpool_limits(1):
            if first:
                advance(sum(chain.seen for chain in chains))
            # Batches are read and multiplied ahead on all cores; picks follow each other in order.
            for item in map_in_order(self._ready, self._plan(chains, router, first)):
                if isinstance(item, dict):
                    if save is not None:
                        save(item | _carried(chains))
                    continue
                batch, quota, candidates = item
                chain = chains[self._chain_of(batch)]
                picks, scores, distances = pick(candidates, quota, chain.matching, self.step)
                chain.rows.append(batch.rows[picks])
                chain.scores.append(scores)
                chain.distances.append(distances)
                chain.seen += len(batch.rows)
                chain.made += quota
                advance(len(batch.rows))
        return [self._merge(chains, code) for code in range(len(self.budgets))]

    def _begin(self) -> tuple[list[Chain], Router]:
        chains = []
        sizes = np.bincount(self.codes[self.codes >= 0], minlength=len(self.budgets))
        for code, (size, budget) in enumerate(zip(sizes, self.budgets, strict=True)):
            parts = chain_sizes(int(size), self.batch_size, self.streams)
            for part, share in zip(parts, proportional(parts, int(budget)), strict=True):
                matching = Matching.begin(self.centers[code], self.starts[code])
                chains.append(Chain(matching, int(part), int(share)))
        return chains, Router(self.codes, len(self.budgets), self.batch_size)

    def _chain_of(self, batch: Batch) -> int:
        return batch.code * self.streams + batch.number % self.streams

    def _plan(
        self, chains: list[Chain], router: Router, first: int
    ) -> Iterator[tuple[Batch, int] | dict[str, npt.NDArray[Any]]]:
        """Yield batches with their quotas, and after each window what the router knows."""
        before = [chain.seen for chain in chains]

        def due(batch: Batch) -> tuple[Batch, int]:
            number = self._chain_of(batch)
            quota = chains[number].quota(before[number], len(batch.rows))
            before[number] += len(batch.rows)
            return batch, quota

        shape = (len(self.codes), self.rows.shape[1])
        for number, (blocks, visits) in enumerate(windows(*shape, self.seed, first), start=first):
            _read_ahead(self.rows, blocks)
            yield from map(due, router.feed(visits))
            yield {
                "window": np.array(number + 1),
                "waiting": np.concatenate(router.waiting),
                "waiting_sizes": np.array([len(queue) for queue in router.waiting]),
                "numbers": router.numbers.copy(),
            }
        yield from map(due, router.flush())

    def _ready(
        self, item: tuple[Batch, int] | dict[str, npt.NDArray[Any]]
    ) -> tuple[Batch, int, Candidates] | dict[str, npt.NDArray[Any]]:
        if isinstance(item, dict):
            return item
        batch, quota = item
        return batch, quota, prepare(self.rows[batch.rows], self.centers[batch.code], quota)

    def _merge(self, chains: list[Chain], code: int) -> tuple[IntArray, Vector, Vector, float]:
        """Join the chains of a class in one order."""
        own = chains[code * self.streams : (code + 1) * self.streams]
        lengths = [chain.made for chain in own]
        chain, turn = interleave(lengths)
        place = (np.cumsum(lengths) - lengths)[chain] + turn
        rows, scores, distances = (
            np.concatenate([part for chain in own for part in getattr(chain, name)])[place]
            for name in ("rows", "scores", "distances")
        )
        error = sum((chain.matching.start - chain.matching.theta for chain in own), np.zeros(1))
        return rows, scores, distances, float(np.sqrt(error @ error)) / len(rows)


def _carried(chains: list[Chain]) -> dict[str, npt.NDArray[Any]]:
    """Return what the chains know as plain arrays."""
    return {
        "theta": np.stack([chain.matching.theta for chain in chains]),
        "seen": np.array([chain.seen for chain in chains]),
        "made": np.array([chain.made for chain in chains]),
        **{
            name: np.concatenate([part for chain in chains for part in getattr(chain, name)] or [np.empty(0)])
            for name in ("rows", "scores", "distances")
        },
    }


def _restore(state: State, chains: list[Chain], router: Router) -> int:
    """Put saved arrays back; return the window to go on with."""
    ends = np.cumsum(state["made"])
    for number, chain in enumerate(chains):
        chain.matching.theta = state["theta"][number].copy()
        chain.matching.count = chain.made = int(state["made"][number])
        chain.seen = int(state["seen"][number])
        own = slice(ends[number] - chain.made, ends[number])
        chain.rows = [state["rows"][own].astype(np.int64)]
        chain.scores, chain.distances = [state["scores"][own]], [state["distances"][own]]
    router.waiting = np.split(state["waiting"].astype(np.int64), np.cumsum(state["waiting_sizes"])[:-1])
    router.numbers = state["numbers"].copy()
    return int(state["window"])


def _read_ahead(rows: FloatArray, blocks: IntArray) -> None:
    """Ask the system to read the blocks of a window in large pieces, if they are mapped from a file."""
    advise = getattr(getattr(rows, "base", None), "madvise", None)
    if advise is None:
        return
    import mmap

    width = rows.shape[1] * rows.itemsize
    header = rows.offset % mmap.ALLOCATIONGRANULARITY  # type: ignore[attr-defined]
    for block in blocks:
        start = header + int(block) * BLOCK_ROWS * width
        page = start // mmap.PAGESIZE * mmap.PAGESIZE
        advise(mmap.MADV_WILLNEED, page, start - page + BLOCK_ROWS * width)
