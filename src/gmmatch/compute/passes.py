"""Passes over all rows, written once for threads and for machines.

A pass is a function of a block of rows. Blocks stand in spans, runs of blocks whose length follows from
the data's shape alone; sums are taken within spans, in the order of the blocks, and then over spans, in
their order. So a span can be summed anywhere, by a thread or on another machine, and the bits of the
result are the same.

Nothing here knows of machines: whoever has some installs an :class:`Engine` with :func:`use_engine`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any, Generic, Protocol, TypeVar

from ..progress import task
from .blocks import block_rows, core_count, map_in_order
from .counting import count_pass, source_of

Part = TypeVar("Part")
Total = TypeVar("Total")
Item = TypeVar("Item")
State = TypeVar("State")
Result = TypeVar("Result")

_SPAN_BLOCKS = 2
_MOST_SPANS = 1024
_MOST_BYTES = 1 << 30
_STRETCH_ROWS = 1 << 15  # or as many as are decoded together
_ROWS_PER_GROUP = 64  # in a span: its sums, two numbers of 8 bytes per value, stay small beside its rows


class PerRow:
    """An array with one entry per row, of which an engine sends only what a call looks at.

    `values`: the array, or what stands in for it elsewhere.
    """

    def __init__(self, values: Any) -> None:
        self.values = values

    def __getitem__(self, key: Any) -> Any:
        return self.values[key]


class Engine(Protocol):
    """Runs functions where the rows can be read.

    The functions may hold the rows, views of them and arrays with one entry per row, each a
    :class:`PerRow`. They are pure, so that a call whose result was lost can be made again.
    """

    workers: int
    """How many calls it can run side by side."""

    def holds(self, rows: Any) -> bool:
        """Tell whether these are the rows that it can read, or a view of them."""

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield `function(item)` for each item, in order.

        An item is a slice of the rows, or an object with the length of its work whose attribute `rows` has
        the numbers, ascending, of the rows that the function looks at.
        """

    def follow(
        self,
        function: Callable[[State, Item], tuple[State, Result]],
        sequences: Sequence[Sequence[Item]],
        states: Sequence[State],
    ) -> Iterator[tuple[int, State, Result]]:
        """Run sequences of calls, each with the state that the one before it left.

        Yields the number of the sequence, its state and the result after each call; calls of a sequence
        come in order, sequences in any.
        """


_engine: ContextVar[Engine | None] = ContextVar("gmmatch_engine", default=None)


@contextmanager
def use_engine(engine: Engine | None) -> Iterator[None]:
    """Let `engine` run the passes over its rows inside the ``with`` block; None: this machine's threads."""
    token = _engine.set(engine)
    try:
        yield
    finally:
        _engine.reset(token)


def engine_for(rows: Any) -> Engine | None:
    """Return the engine that can read these rows, if there is one."""
    engine = _engine.get()
    return engine if engine is not None and engine.holds(rows) else None


def cut(span: slice, step: int) -> list[slice]:
    """Cut a slice into slices of `step` rows."""
    return [slice(start, min(start + step, span.stop)) for start in range(span.start, span.stop, step)]


def spans(n_rows: int, step: int, n_groups: int = 1) -> list[slice]:
    """Cut rows into spans: whole blocks of `step` rows, some thousand spans at most."""
    size = step * _SPAN_BLOCKS
    while size * _MOST_SPANS < n_rows or size < _ROWS_PER_GROUP * n_groups:
        size *= 2
    return cut(slice(0, n_rows), size)


def map_blocks(
    part: Callable[[slice], Part], rows: Any, what: str, step: int | None = None, counted: bool = True
) -> Iterator[Part]:
    """Yield `part(block)` for every block of the rows, in order.

    `part`: function of a slice of the rows. `rows`: what it reads. `what`: name of the pass, for whoever
    watches its progress. `step`: rows in a block; those of `block_rows` by default. `counted`: whether it
    counts as a read; if not, the caller counts what it looks up.
    """
    step = step or block_rows(rows.shape[1])
    parts = spans(len(rows), step)
    engine = engine_for(rows)
    if counted:
        count_pass(rows)
    with _announced(what, len(rows), parts) as advance:
        if engine is None:
            for result in _side_by_side(part, cut(slice(0, len(rows)), step), rows):
                yield result
                advance(step)
            return
        for span, results in zip(parts, engine.map(_Each(part, step), parts), strict=True):
            yield from results
            advance(span.stop - span.start)


def fold_blocks(
    part: Callable[[slice], Part],
    zero: Callable[[], Total],
    add: Callable[[Total, Part | Total], None],
    rows: Any,
    what: str,
    n_groups: int = 1,
    step: int | None = None,
    total_bytes: int = 0,
) -> Total:
    """Add up `part(block)` over all blocks of the rows: within spans, then over spans.

    `part`: function of a slice of the rows. `zero`, `add`: makes an empty total; adds a part, or another
    total, to a total in place. `rows`: what `part` reads. `what`: name of the pass, for whoever watches its
    progress. `n_groups`: how many groups the sums are over: totals grow with it, and spans with them. `step`:
    rows in a block; those of `block_rows` by default. `total_bytes`: size of a total, where it is so large
    that blocks had better not have one each: spans are then added up side by side, as many as fit in a
    gigabyte, and the blocks of each one by one.
    """
    step = step or block_rows(rows.shape[1])
    parts = spans(len(rows), step, n_groups)
    fold = _Fold(part, zero, add, step)
    engine = engine_for(rows)
    count_pass(rows)
    total = zero()
    with _announced(what, len(rows), parts) as advance:
        if engine is not None:
            sums = engine.map(fold, parts)
        elif total_bytes:
            side_by_side = max(1, min(core_count(), _MOST_BYTES // (2 * total_bytes)))
            sums = map_in_order(fold, parts, side_by_side, ahead=1)
        else:
            sums = fold.all(parts, rows)
        for span, found in zip(parts, sums, strict=True):
            add(total, found)
            advance(span.stop - span.start)
    return total


def _side_by_side(part: Callable[[slice], Part], items: list[slice], rows: Any) -> Iterator[Part]:
    """Yield `part(block)` in order; stretches of rows that must be decoded are read side by side."""
    cuts = _stretches(items, getattr(source_of(rows), "begins", ()))
    lanes = core_count() if len(cuts) > 2 else 1
    stretches = [range(*pair) for pair in pairwise(cuts)]
    order = [
        place
        for first in range(0, len(stretches), lanes)
        for places in zip_longest(*stretches[first : first + lanes])
        for place in places
        if place is not None
    ]
    waiting: dict[int, Part] = {}
    due = 0
    for place, result in zip(order, map_in_order(part, [items[place] for place in order]), strict=True):
        waiting[place] = result
        while due in waiting:
            yield waiting.pop(due)
            due += 1


def _stretches(items: list[slice], begins: Sequence[int]) -> list[int]:
    """Return the places of the blocks that reading can begin at, some ten thousand rows apart."""
    cuts = [0]
    step = items[0].stop if items else 1
    for begin in begins:
        place = -(-begin // step)
        if (place - cuts[-1]) * step >= _STRETCH_ROWS and place < len(items):
            cuts.append(place)
    return [*cuts, len(items)]


@dataclass(frozen=True, eq=False)
class _Each(Generic[Part]):
    part: Callable[[slice], Part]
    step: int

    def __call__(self, span: slice) -> list[Part]:
        return [self.part(block) for block in cut(span, self.step)]


@dataclass(frozen=True, eq=False)
class _Fold(Generic[Part, Total]):
    part: Callable[[slice], Part]
    zero: Callable[[], Total]
    add: Callable[[Total, Part | Total], None]
    step: int

    def __call__(self, span: slice) -> Total:
        total = self.zero()
        for block in cut(span, self.step):
            self.add(total, self.part(block))
        return total

    def all(self, parts: list[slice], rows: Any) -> Iterator[Total]:
        """Yield the sums of the spans in order, the blocks of all of them side by side."""
        found = _side_by_side(self.part, [block for span in parts for block in cut(span, self.step)], rows)
        for span in parts:
            total = self.zero()
            for _ in cut(span, self.step):
                self.add(total, next(found))
            yield total


@contextmanager
def _announced(what: str, n_rows: int, parts: list[slice]) -> Iterator[Callable[[int], None]]:
    """Announce a pass, unless it is over in no time."""
    if len(parts) == 1:
        yield lambda done: None
    else:
        with task(what, n_rows) as advance:
            yield advance
