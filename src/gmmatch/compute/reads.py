"""Reads: what is done with every block of the rows, and what comes of it.

A run is a list of reads. A read is an object that a runner (`runner.py`) hands all blocks of the rows, in
threads or on other machines; what it returns for each is added here, in the order of the rows. `Look` is the
first read of every run.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import numpy as np

from ..arrays import AnyArray, FloatArray, IntArray, Keys, Mask
from ..validation import key_factors
from .kernels import check_and_hash, mix

Part = TypeVar("Part")
Result = TypeVar("Result")
Total = TypeVar("Total")

SPARE = 1.15
"""How many more rows are drawn, where some may be unusable."""


class Read(ABC, Generic[Part, Result]):
    """One pass over all rows."""

    name: str
    """What whoever watches its progress is shown."""
    step: int | None = None
    """Rows in a block; None: as many as follow from the width of the rows."""
    n_groups = 1
    """How many groups sums are over: what a span has to say grows with it, and spans with that."""
    products = False
    """Whether blocks are multiplied: one thread of BLAS each gives the same bits on any number of cores."""
    n_rows = 0
    """How many rows there are, which the runner tells."""

    @abstractmethod
    def block(self, at: slice, values: FloatArray) -> Part:
        """Return what is found in a block: a pure function, which may be called elsewhere, and again.

        `at`: which rows these are. `values`: the rows.
        """

    @abstractmethod
    def add(self, part: Part) -> None:
        """Take what was found in the next block, or span."""

    @abstractmethod
    def result(self) -> Result:
        """Return what was found in all."""

    def fold(self, parts: Iterable[Part]) -> Iterable[Part]:
        """Return what is to be added of the parts of a span: all of them, unless there is less to send."""
        return parts


class EachRow(Read[tuple[AnyArray, ...], tuple[AnyArray, ...]]):
    """A read that finds some numbers for every row.

    `function`: from the place of a block and its rows to the columns of the block.
    """

    def __init__(
        self,
        name: str,
        function: Callable[[slice, FloatArray], tuple[AnyArray, ...]],
        step: int | None = None,
        products: bool = False,
    ) -> None:
        self.name, self.step, self.products = name, step, products
        self._function = function
        self._columns: list[AnyArray] = []  # made when they are needed, and so not sent to other machines
        self._done = 0

    def block(self, at: slice, values: FloatArray) -> tuple[AnyArray, ...]:
        """Return the columns of a block."""
        return self._function(at, values)

    def add(self, part: tuple[AnyArray, ...]) -> None:
        """Take the columns of the next block: joined in the end, all would be held twice."""
        self._columns = self._columns or [np.empty((self.n_rows, *own.shape[1:]), own.dtype) for own in part]
        place = slice(self._done, self._done + len(part[0]))
        for column, own in zip(self._columns, part, strict=True):
            column[place] = own
        self._done = place.stop

    def result(self) -> tuple[AnyArray, ...]:
        """Return the columns of all rows."""
        return tuple(self._columns)


class Sums(Read[Any, Total]):
    """A read that adds up: block by block, or within spans and then over spans.

    `function`: from the place of a block and its rows to its sums. `zero`, `add_to`: makes an empty total;
    adds sums, or another total, to a total in place. `n_groups`: how many groups sums are over that are taken
    within spans; None: block by block, where a total may be something else than a sum.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        zero: Callable[[], Total],
        add_to: Callable[[Total, Any], None],
        n_groups: int | None = None,
        step: int | None = None,
        products: bool = False,
    ) -> None:
        self.name, self.step, self.products = name, step, products
        self.n_groups, self._by_span = n_groups or 1, n_groups is not None
        self._function, self._zero, self._add_to = function, zero, add_to
        self._total: list[Total] = []

    def block(self, at: slice, values: FloatArray, *good: Mask) -> Any:
        """Return the sums of a block; `good`: which of its rows are, where they are looked at beside."""
        return self._function(at, values, *good)

    def fold(self, parts: Iterable[Any]) -> Iterable[Any]:
        """Return the sums of a span."""
        if not self._by_span:
            return parts
        total = self._zero()
        for part in parts:
            self._add_to(total, part)
        return [total]

    def add(self, part: Any) -> None:
        """Take the next sums."""
        self._total = self._total or [self._zero()]
        self._add_to(self._total[0], part)

    def result(self) -> Total:
        """Return the sums of all rows."""
        return self._total[0] if self._total else self._zero()


class Look(Read[tuple[Any, ...], tuple[Mask, Keys, str]]):
    """Read 1: which rows hold finite numbers of ordinary size, a seeded hash of each, and a digest of all.

    `shape`: that of the rows. `also`: what adds up in the same read, within spans, which of the rows are good
    beside the rows. `sample`: how many rows to keep, of
    those that samples are drawn from first. The digest is that of `digest_rows`, whatever the seed.
    """

    name = "checking rows"

    def __init__(
        self, shape: tuple[int, ...], seed: int = 0, also: Sums[Any] | None = None, sample: int = 0
    ) -> None:
        self._factors, self._fixed, self._also = key_factors(shape[1], seed), key_factors(shape[1]), also
        self.n_groups = 1 if also is None else also.n_groups
        self._below = np.uint64(min(sample * SPARE / shape[0], 1.0) * (2**64 - 2**11))
        self._found: list[tuple[Mask, Keys]] = []
        self._drawn: list[tuple[IntArray, FloatArray]] = []
        self._room = int(sample * SPARE**2)  # duplicates of a row are drawn together, if at all
        self._digest: Any = None

    def block(self, at: slice, values: FloatArray) -> tuple[Any, ...]:
        """Look at each value of a block once."""
        good, keys, marks = check_and_hash(values, self._factors, self._fixed)
        drawn = np.flatnonzero(mix(keys) < self._below)
        also = None if self._also is None else self._also.block(at, values, good)
        return good, keys, marks, drawn + at.start, values[drawn], also

    def fold(self, parts: Iterable[tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
        """Return what was found in the blocks of a span; with the last what else was added up in all."""
        if self._also is None:
            return parts
        found = list(parts)
        (sums,) = self._also.fold(part[-1] for part in found)
        also = [*[None] * (len(found) - 1), sums]
        return [(*part[:-1], own) for part, own in zip(found, also, strict=True)]

    def add(self, part: tuple[Any, ...]) -> None:
        """Take what was found in the next block."""
        good, keys, marks, numbers, values, also = part
        self._digest = self._digest or hashlib.blake2b(digest_size=16)
        self._digest.update(marks.tobytes())
        self._found.append((good, keys))
        self._drawn.append((numbers[: self._room], values[: self._room]))
        self._room -= len(self._drawn[-1][0])
        if self._also is not None and also is not None:
            self._also.add(also)

    def result(self) -> tuple[Mask, Keys, str]:
        """Return which rows are good, their hashes, and the digest."""
        good, keys = map(np.concatenate, zip(*self._found, strict=True))
        return good, keys, self._digest.hexdigest()

    def sample(self) -> tuple[IntArray, FloatArray]:
        """Return the rows that were kept: their numbers, ascending, and their values."""
        numbers, values = map(np.concatenate, zip(*self._drawn, strict=True))
        return numbers, values
