"""Who runs reads: the threads of this machine, or workers that open the rows for themselves.

The rows of a run know their runner. A read is handed blocks, which stand in spans: runs of blocks whose
length follows from the data's shape alone. Sums are taken within spans, in the order of the blocks, and then
over spans, in their order. So a span can be read anywhere, by a thread or on another machine, and the bits
of the result are the same. The runner shows the progress, gives BLAS one thread, and counts what is read.
"""

import heapq
import mmap
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from ..arrays import AnyArray, FloatArray, IntArray, Rows
from ..data import ForwardRows, View, ViewOf, machine_memory
from ..progress import task
from .blocks import block_rows, core_count, map_in_order
from .reads import Part, Read, Result

Item = TypeVar("Item")
State = TypeVar("State")
Found = TypeVar("Found")

_SPAN_BLOCKS = 2
_MOST_SPANS = 1024
_ROWS_PER_GROUP = 64  # in a span: its sums, two numbers of 8 bytes per value, stay small beside its rows
_MANY_VALUES = 1 << 24  # that several cores read faster than one
_AHEAD_ROWS = 256
_DENSE = 1 / 4  # share of so many rows from which it pays to read all of them
_MEMORY_SHARE = 1 / 8  # of the machine, for rows that are held until they are requested


NO_ROWS = np.empty((0, 1))
"""Those of a run whose functions open what they read by themselves."""


@dataclass
class Count:
    """What was read of the rows of a run."""

    n_rows: int
    passes: int = 0
    """Passes over all rows."""
    matched: int = 0
    """Rows that were read by their numbers to be held in memory or matched, each once in a read of all."""
    gathered: int = 0
    """Rows that were looked up by their numbers beside that: samples and picks."""

    @property
    def reads(self) -> int:
        """How often all rows were read."""
        return self.passes + -(-self.matched // max(1, self.n_rows))

    @property
    def rows(self) -> int:
        """How many rows were read in all."""
        return self.passes * self.n_rows + self.matched + self.gathered


class RunRows(View):
    """The rows of a run, which know who runs reads of them."""

    def __init__(self, rows: Rows, runner: "Runner") -> None:
        super().__init__(rows.shape, rows.dtype)
        self.content, self.runner = rows, runner

    def __getitem__(self, key: Any, /) -> FloatArray:
        return take_rows(self.content, key) if isinstance(key, np.ndarray) else self.content[key]


class Runner(ABC):
    """Runs reads and other functions of the rows of a run; `rows`: where they are.

    The functions may hold `rows` of the runner, views of them and arrays with one entry per row, each a
    `PerRow`. They are pure, so that a call whose result was lost can be made again.
    """

    name = "other"
    workers = 0
    """How many calls it can run side by side elsewhere; 0: calls are made here."""

    def __init__(self, rows: Rows) -> None:
        self.content, self.count = rows, Count(len(rows))

    @cached_property
    def rows(self) -> RunRows:
        """The rows, as those of this run; made when asked for, so that arrays are let go of early."""
        return RunRows(self.content, self)

    @property
    def reads(self) -> int:
        """How often all rows were read."""
        return self.count.reads

    def run(self, rows: Rows, read: Read[Part, Result]) -> Result:
        """Hand all blocks of `rows`, those of the run or a view of them, to a read; return what it found."""
        read.n_rows = len(rows)
        do = ReadSpan(read, rows, read.step or block_rows(rows.shape[1]))
        parts = spans(len(rows), do.step, read.n_groups)
        self.count.passes += 1
        shown = task(read.name, len(rows)) if len(parts) > 1 else nullcontext(lambda done: None)
        with shown as advance, threadpool_limits(1) if read.products else nullcontext():
            for span, found in zip(parts, self._each(do, parts), strict=True):
                for part in found:
                    read.add(part)
                advance(span.stop - span.start)
        return read.result()

    def _each(self, do: "ReadSpan[Part]", parts: list[slice]) -> Iterator[Iterable[Part]]:
        """Yield what a read found in each span, in order."""
        return self.map(do, parts)

    @abstractmethod
    def map(
        self,
        function: Callable[[Item], Found],
        items: Sequence[Item],
        at_once: int | None = None,
        memory: int | None = None,
    ) -> Iterator[Found]:
        """Yield `function(item)` for each item, in order.

        An item is a slice of the rows, or an object with the length of its work whose attribute `rows` has
        the numbers, ascending, of the rows that the function looks at. `at_once`, `memory`: how many calls
        may be made side by side on this machine, and bytes that may be used for rows.
        """

    @abstractmethod
    def follow(
        self,
        function: Callable[[State, Item], tuple[State, Found]],
        sequences: Sequence[Sequence[Item]],
        states: Sequence[State],
    ) -> Iterator[tuple[int, State, Found]]:
        """Run sequences of calls, each with the state that the one before it left.

        Yields the number of the sequence, its state and the result after each call; calls of a sequence
        come in order, sequences in any.
        """


class Threads(Runner):
    """The threads of this machine."""

    name = "local"

    def _each(self, do: "ReadSpan[Part]", parts: list[slice]) -> Iterator[Iterable[Part]]:
        self._decode()
        blocks = [cut(span, do.step) for span in parts]
        found = map_in_order(do.block, [block for own in blocks for block in own])
        for own in blocks:
            yield do.read.fold(islice(found, len(own)))

    def _decode(self) -> None:
        """Decode rows that can only be read forward, before the first read of them, if there is room."""
        source = self.content
        if isinstance(source, ForwardRows) and (left := source.undecoded()):
            with task("decoding rows", len(source)) as advance:
                for done in map_in_order(source.decode, left):
                    advance(done)

    def map(
        self,
        function: Callable[[Item], Found],
        items: Sequence[Item],
        at_once: int | None = None,
        memory: int | None = None,
    ) -> Iterator[Found]:
        """Yield `function(item)` for each item, in order."""
        return map_in_order(function, announced(self.content, items, memory), at_once)

    def follow(
        self,
        function: Callable[[State, Item], tuple[State, Found]],
        sequences: Sequence[Sequence[Item]],
        states: Sequence[State],
    ) -> Iterator[tuple[int, State, Found]]:
        """Run sequences of calls, one after the other."""
        for number, (items, state) in enumerate(zip(sequences, states, strict=True)):
            for item in announced(self.content, items):
                state, result = function(state, item)
                yield number, state, result


class PerRow:
    """An array with one entry per row, of which a runner sends only what a call looks at.

    `values`: the array, or what stands in for it elsewhere; None: there is none, and no row has an entry.
    """

    def __init__(self, values: Any) -> None:
        self.values = values

    def __getitem__(self, key: Any) -> Any:
        return None if self.values is None else self.values[key]


@dataclass(frozen=True, eq=False)
class ReadSpan(Generic[Part]):
    """Read the blocks of a span, wherever the rows can be read."""

    read: Read[Part, Any]
    rows: Rows
    step: int

    def block(self, at: slice) -> Part:
        """Return what the read finds in a block."""
        return self.read.block(at, np.asarray(self.rows[at]))

    def __call__(self, span: slice) -> list[Part]:
        """Return what is to be added of a span."""
        return list(self.read.fold(map(self.block, cut(span, self.step))))


def cut(span: slice, step: int) -> list[slice]:
    """Cut a slice into slices of `step` rows."""
    return [slice(start, min(start + step, span.stop)) for start in range(span.start, span.stop, step)]


def spans(n_rows: int, step: int, n_groups: int = 1) -> list[slice]:
    """Cut rows into spans: whole blocks of `step` rows, some thousand spans at most."""
    size = step * _SPAN_BLOCKS
    while size * _MOST_SPANS < n_rows or size < _ROWS_PER_GROUP * n_groups:
        size *= 2
    return cut(slice(0, n_rows), size)


def runner_of(rows: Rows) -> Runner:
    """Return who runs reads of these rows: the runner of the run that they belong to, or else threads."""
    while isinstance(rows, ViewOf):
        rows = rows.rows
    return rows.runner if isinstance(rows, RunRows) else Threads(rows)


def with_runner(rows: Rows) -> Rows:
    """Return rows that belong to a run: as they are, or those of a run on this machine's threads."""
    runner = runner_of(rows)
    return rows if isinstance(rows, ViewOf) or rows is runner.rows else runner.rows


def run_read(rows: Rows, read: Read[Part, Result]) -> Result:
    """Hand all blocks of the rows to a read, on their runner; return what it found."""
    return runner_of(rows).run(rows, read)


@contextmanager
def count_reads(rows: Rows) -> Iterator[Count]:
    """Count what is read of the rows of a run inside the ``with`` block; known when it ends.

    >>> rows = Threads(np.zeros((10, 2))).rows
    >>> with count_reads(rows) as count:
    ...     held, some = hold_rows(rows, np.arange(8)), gather(rows, np.array([5, 1, 3]))
    >>> count.reads, count.rows
    (1, 11)
    """
    total = runner_of(rows).count
    before, found = replace(total), Count(total.n_rows)
    yield found
    _, *then = astuple(before)
    _, *now = astuple(total)
    found.passes, found.matched, found.gathered = np.subtract(now, then).tolist()


def gather(rows: Rows, chosen: IntArray) -> FloatArray:
    """Return the chosen rows in the order of `chosen`, read from `rows` in ascending order."""
    runner_of(rows).count.gathered += len(chosen)
    order = np.argsort(chosen, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return np.take(take_rows(rows, chosen[order]), place, axis=0)


def take_rows(rows: Rows, chosen: AnyArray) -> FloatArray:
    """Return rows by their numbers; of an array, which may be a file, many of them on all cores."""
    if not isinstance(rows, np.ndarray) or chosen.dtype == bool:
        return np.asarray(rows[chosen])
    if chosen.size * rows.shape[1] < _MANY_VALUES:
        return np.take(np.asarray(rows), chosen, axis=0)  # of files several times as fast as an index
    found = np.empty((len(chosen), rows.shape[1]), rows.dtype)
    step = -(-len(chosen) // core_count())

    def part(start: int) -> None:
        own = slice(start, start + step)
        np.take(rows, chosen[own], axis=0, out=found[own], mode="clip")  # other modes go through a copy

    deque(map_in_order(part, range(0, len(chosen), step)), maxlen=0)
    return found


def hold_rows(rows: Rows, chosen: IntArray | None = None) -> FloatArray:
    """Return all rows, or those of some numbers, ascending, in memory: whatever follows reads nothing.

    An array that is in memory is not copied.
    """
    runner_of(rows).count.matched += len(rows) if chosen is None else len(chosen)
    return read_rows(rows, chosen)


def read_rows(rows: Rows, chosen: IntArray | None = None) -> FloatArray:
    """Return what `hold_rows` returns, for callers that count by themselves what they read."""
    if chosen is not None and len(chosen) < len(rows):
        return take_rows(rows, chosen)
    every = rows[:]
    return np.array(every) if isinstance(every, np.memmap) else np.asarray(every)


def announce(rows: Rows, numbers: AnyArray) -> None:
    """Let rows that will be requested, each once, be read in large pieces."""
    source: Any = runner_of(rows).content
    if isinstance(source, ForwardRows):
        source.expect(numbers)
        source = None if source.mapped is None else source.mapped.base
    mapped: Any = source.base if isinstance(source, np.memmap) else None
    if not isinstance(mapped, mmap.mmap):
        return
    width = source.shape[1] * source.itemsize
    header = source.offset % mmap.ALLOCATIONGRANULARITY
    for block in np.flatnonzero(np.bincount(numbers // _AHEAD_ROWS) >= _DENSE * _AHEAD_ROWS):
        start = header + int(block) * _AHEAD_ROWS * width
        page = start // mmap.PAGESIZE * mmap.PAGESIZE
        mapped.madvise(mmap.MADV_WILLNEED, page, start - page + _AHEAD_ROWS * width)


def announced(rows: Rows, items: Iterable[Any], memory: int | None = None) -> Iterator[Any]:
    """Yield items; where rows are decoded at every read, the `rows` of as many as fit in memory at once.

    `memory`: bytes that may be used in all.
    """
    source = runner_of(rows).content
    if not isinstance(source, ForwardRows) or source.spills:
        yield from items
        return
    room = memory // 4 if memory else machine_memory() * _MEMORY_SHARE
    waiting: list[Any] = []
    for item in [*items, None]:
        numbers = [own.rows for own in waiting]
        size = sum(map(len, numbers)) + (0 if item is None else len(item.rows))
        if waiting and (item is None or size * source.shape[1] * source.itemsize > room):
            source.expect(np.unique(np.concatenate(numbers)))
            yield from waiting
            waiting = []
        waiting.append(item)


def bundles(sizes: Sequence[int], n_bundles: int) -> list[list[int]]:
    """Put chains of these sizes into bundles of nearly one size, none empty; the largest come first.

    >>> bundles([3, 0, 5, 0], 4)  # of which two are done already
    [[2], [0], [1, 3]]
    """
    heap = [(0, number) for number in range(min(n_bundles, len(sizes)))]
    found: list[list[int]] = [[] for _ in heap]
    for chain in sorted(range(len(sizes)), key=lambda chain: (-sizes[chain], chain)):
        load, number = heapq.heappop(heap)
        found[number].append(chain)
        heapq.heappush(heap, (load + sizes[chain], number))
    return [own for own in found if own]
