"""How often a run reads its rows, counted where they are read.

A read is a pass over all rows; what is read by row number to be held or matched adds up to reads as well, and
the rows that are looked up beside it, samples and picks, are counted apart.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Self


def source_of(rows: Any) -> Any:
    """Return what a view reads."""
    while hasattr(rows, "rows"):
        rows = rows.rows
    return rows


@dataclass(eq=False)
class ReadCounter:
    """What was read of one source: an array, a memory map or rows in files."""

    source: Any
    passes: int = 0
    """Passes over all rows."""
    matched: int = 0
    """Rows that were read by their numbers to be held in memory or matched, each once in a read of all."""
    gathered: int = 0
    """Rows that were looked up by their numbers beside that: samples and picks."""
    outer: Self | None = None

    @property
    def reads(self) -> int:
        """How often all rows were read."""
        return self.passes + -(-self.matched // len(self.source))

    @property
    def rows(self) -> int:
        """How many rows were read in all."""
        return self.passes * len(self.source) + self.matched + self.gathered


_counter: ContextVar[ReadCounter | None] = ContextVar("gmmatch_reads", default=None)


@contextmanager
def count_reads(rows: Any) -> Iterator[ReadCounter]:
    """Count what is read of these rows, or through views of them, inside the ``with`` block.

    Counters may be nested: one that is open for the same rows goes on counting.

    >>> import numpy as np
    >>> rows = np.zeros((10, 2))
    >>> with count_reads(rows) as counter:
    ...     count_pass(rows)
    ...     count_matched(rows, 8)
    ...     count_gathered(rows[:], 3)  # another array
    >>> counter.reads, counter.rows
    (2, 18)
    """
    counter = ReadCounter(source_of(rows), outer=_counter.get())
    token = _counter.set(counter)
    try:
        yield counter
    finally:
        _counter.reset(token)


def count_pass(rows: Any, times: int = 1) -> None:
    """Count passes over all rows."""
    for counter in _open_for(rows):
        counter.passes += times


def count_matched(rows: Any, number: int) -> None:
    """Count rows that are read by their numbers to be held in memory or matched."""
    for counter in _open_for(rows):
        counter.matched += number


def count_gathered(rows: Any, number: int) -> None:
    """Count rows that are looked up by their numbers."""
    for counter in _open_for(rows):
        counter.gathered += number


def _open_for(rows: Any) -> Iterator[ReadCounter]:
    counter, source = _counter.get(), source_of(rows)
    while counter is not None:
        if counter.source is source:
            yield counter
        counter = counter.outer
