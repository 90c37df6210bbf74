"""How far the mean of the picks is from the centre, after each pick."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arrays import IntArray, Rows, Vector
from ..compute import kernels
from ..compute.blocks import block_rows
from ..compute.runner import cut, runner_of
from ..trust.inputs import FourierFeatures


@dataclass(frozen=True, eq=False)
class _Picks:
    """Picks of a group that follow each other."""

    group: int  # number of their group
    first: int  # how many picks of the group came before
    order: IntArray  # row numbers in pick order

    def __len__(self) -> int:
        return len(self.order)

    @cached_property
    def rows(self) -> IntArray:
        """The row numbers, ascending."""
        return np.sort(self.order)


def running_objective(rows: Rows, order: IntArray, center: Vector) -> tuple[Vector, Vector]:
    """Return, after each pick, the distance of the picks' mean to the centre; and each pick's distance.

    Time: O(picks * features). Memory: O(block).

    >>> rows = np.array([[0.0], [2.0], [4.0]])
    >>> running_objective(rows, np.array([0, 2]), np.array([2.0]))
    (array([2., 0.]), array([2., 2.]))
    """
    return running_objectives(rows, [order], [center])[0]


def running_objectives(
    rows: Rows,
    orders: Sequence[IntArray],
    centers: Sequence[Vector],
    before: Sequence[tuple[int, Vector]] | None = None,
    sums: list[Vector] | None = None,
    fourier: FourierFeatures | None = None,
) -> list[tuple[Vector, Vector]]:
    """Return for each group of picks what `running_objective` returns.

    `before`: of each group how many picks of other data there are, and the sum of their offsets from the
    centre. `sums`: filled with the sum of the offsets of all picks of each group. `fourier`: Fourier features
    whose offsets are added up as well; centres have theirs behind the coordinates of the rows.

    Blocks of picks are measured one after the other, each with the sum of the offsets before it.
    """
    step = block_rows(rows.shape[1])
    parts = [[_Picks(group, part.start, order[part]) for part in cut(slice(0, len(order)), step)]
             for group, order in enumerate(orders)]  # fmt: skip
    begun = before or [(0, np.zeros(len(center))) for center in centers]
    measure = _Measure(rows, centers, [count for count, _ in begun], fourier)
    runner = runner_of(rows)
    runner.count.gathered += sum(len(order) for order in orders)
    found = [(np.empty(len(order)), np.empty(len(order))) for order in orders]
    totals, done = [total for _, total in begun], [0] * len(orders)
    for group, total, (objectives, distances) in runner.follow(measure, parts, totals):
        part = slice(done[group], done[group] + len(objectives))
        found[group][0][part], found[group][1][part] = objectives, distances
        totals[group], done[group] = total, part.stop
    if sums is not None:
        sums += totals
    return found


@dataclass(frozen=True, eq=False)
class _Measure:
    """Measure picks that follow each other, given the sum of the offsets before them."""

    rows: Rows
    centers: Sequence[Vector]
    elsewhere: list[int]  # by group how many picks of other data came before all
    fourier: FourierFeatures | None

    def __call__(self, carried: Vector, picks: _Picks) -> tuple[Vector, tuple[Vector, Vector]]:
        total, rows = carried.copy(), np.asarray(self.rows[picks.order])
        count, center, width = (
            picks.first + self.elsewhere[picks.group],
            self.centers[picks.group],
            rows.shape[1],
        )
        if self.fourier is not None:  # in single precision, as they are matched
            features = self.fourier(rows).astype(np.float32)
            total[width:] += np.add.reduce(features, axis=0, dtype=np.float64) - len(rows) * center[width:]
        return total, kernels.running_means(rows, center[:width], count, total[:width])
