"""How far the mean of the picks is from the centre, after each pick."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import FloatArray, IntArray, Vector
from ..compute import kernels
from ..compute.blocks import block_rows
from ..compute.counting import count_gathered
from ..compute.passes import Engine, cut, engine_for
from ..compute.reading import announced


@dataclass(frozen=True, eq=False)
class _Run:
    """Picks that follow each other."""

    group: int  # number of their group
    first: int  # how many picks of the group came before
    order: IntArray  # row numbers in pick order
    carried: Vector | None = None  # sum of the offsets of the picks before, where it is known
    elsewhere: int = 0  # how many picks of other data came before all

    def __len__(self) -> int:
        return len(self.order)

    @cached_property
    def rows(self) -> IntArray:
        """The row numbers, ascending."""
        return np.sort(self.order)


def running_objective(rows: FloatArray, order: IntArray, center: Vector) -> tuple[Vector, Vector]:
    """Return, after each pick, the distance of the picks' mean to the centre; and each pick's distance.

    Time: O(picks * features). Memory: O(block).

    >>> rows = np.array([[0.0], [2.0], [4.0]])
    >>> running_objective(rows, np.array([0, 2]), np.array([2.0]))
    (array([2., 0.]), array([2., 2.]))
    """
    return running_objectives(rows, [order], [center])[0]


def running_objectives(
    rows: FloatArray,
    orders: Sequence[IntArray],
    centers: Sequence[Vector],
    before: Sequence[tuple[int, Vector] | None] | None = None,
    sums: list[Vector] | None = None,
) -> list[tuple[Vector, Vector]]:
    """Return for each group of picks what `running_objective` returns.

    `before`: of each group how many picks of other data there are, and the sum of their offsets from the
    centre. `sums`: filled with the sum of the offsets of all picks of each group.

    Sums are taken within blocks of picks and carried from one to the next, so that an engine can measure
    the blocks side by side: once for their sums, once more with what came before.
    """
    step = block_rows(rows.shape[1])
    begun = [None] * len(orders) if before is None else list(before)
    runs: Any = [
        _Run(group, part.start, order[part], *_begun(begun[group], part.start))
        for group, order in enumerate(orders)
        for part in cut(slice(0, len(order)), step)
    ]
    totals = {group: own[1] for group, own in enumerate(begun) if own is not None}
    engine = engine_for(rows)
    count_gathered(rows, sum(len(order) for order in orders))
    found = [(np.empty(len(order)), np.empty(len(order))) for order in orders]
    if engine is not None:
        runs = _with_carried(rows, runs, centers, engine)
    measure = _Measure(rows, centers)
    if engine is None:
        measured = _each(measure, announced(rows, runs))
    else:
        measured = zip(runs, engine.map(measure, runs), strict=True)
    for run, (total, objectives, distances) in measured:
        totals[run.group] = total
        part = slice(run.first, run.first + len(run.order))
        found[run.group][0][part], found[run.group][1][part] = objectives, distances
    if sums is not None:
        sums += [totals.get(group, np.zeros(rows.shape[1])) for group in range(len(orders))]
    return found


def _begun(before: tuple[int, Vector] | None, start: int) -> tuple[Vector | None, int]:
    """Return what a run of picks begins with: the sum of offsets, where it is the first, and their count."""
    return (None, 0) if before is None else (None if start else before[1], before[0])


def _each(measure: "_Measure", runs: Iterable[_Run]) -> Iterator[tuple[_Run, tuple[Vector, Vector, Vector]]]:
    """Measure runs one after the other, each with the sum that the one before it left."""
    total = None
    for run in runs:
        found = measure(run, total if run.first else None)
        total = found[0]
        yield run, found


def _with_carried(
    rows: FloatArray, runs: list[_Run], centers: Sequence[Vector], engine: Engine
) -> list[_Run]:
    """Return the runs with the sums of the picks before them."""
    ready = []
    total = np.zeros(rows.shape[1])
    for run, own in zip(runs, engine.map(_Sum(rows, centers), runs), strict=True):
        carried = total if run.first else run.carried
        ready.append(_Run(run.group, run.first, run.order, carried, run.elsewhere))
        total = own if carried is None else carried + own
    return ready


@dataclass(frozen=True, eq=False)
class _Sum:
    """Add up the offsets of a run of picks."""

    rows: FloatArray
    centers: Sequence[Vector]

    def __call__(self, run: _Run) -> Vector:
        return _Measure(self.rows, self.centers)(replace(run, carried=None))[0]


@dataclass(frozen=True, eq=False)
class _Measure:
    """Measure a run of picks, given the sum of the offsets before it."""

    rows: FloatArray
    centers: Sequence[Vector]

    def __call__(self, run: _Run, carried: Vector | None = None) -> tuple[Vector, Vector, Vector]:
        carried = run.carried if carried is None else carried
        total = np.zeros(self.rows.shape[1]) if carried is None else carried.copy()
        rows = np.asarray(self.rows[run.order])
        return total, *kernels.running_means(rows, self.centers[run.group], run.first + run.elsewhere, total)
