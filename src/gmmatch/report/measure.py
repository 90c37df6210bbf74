"""One pass over the rows: distances to the centres, and what random subsets would do."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from ..compute.blocks import blocks, map_in_order, row_norms
from ..matching.objectives import running_objective
from ..progress import task
from ..records import FloatArray, IntArray
from ..validation import bad_rows

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measures:
    """What a pass over the rows tells."""

    usable: npt.NDArray[np.bool_]  # rows without NaN, infinite or absurd values, that belong to a group
    distances: Vector  # distance of each row to the centre of its group; NaN where it is not usable
    sizes: IntArray  # usable rows of each group
    bias: Vector  # squared distance of each group's mean to its centre
    variance: Vector  # mean squared distance of each group's rows to their mean

    def random_objective(self, picks: IntArray) -> Vector:
        """Return the root mean square objective of random subsets with these picks of each group.

        With m of n rows drawn without replacement, the mean square is
        ``bias + variance / m * (n - m) / (n - 1)``; the groups' roots are averaged by their picks.

        `picks`: picks of each group, shape (budgets, groups); every budget has at least one.
        """
        drawn = np.maximum(picks, 1)
        left = (self.sizes - drawn) / np.maximum(self.sizes - 1, 1)
        roots = np.sqrt(self.bias + self.variance / drawn * np.maximum(left, 0.0))
        total: Vector = np.add.reduce(roots * picks, axis=1) / np.add.reduce(picks, axis=1)
        return total


def measure(rows: FloatArray, groups: IntArray, centers: Vector) -> Measures:
    """Measure all rows against the centres of their groups.

    `rows`: slices are read, and values may be NaN. `groups`: group of each row; a negative one takes no
    part. `centers`: one per group.

    Time: one pass. Memory beyond the input: O(groups * features), O(block) and 9 bytes per row.
    """

    def part(block: slice) -> tuple[npt.NDArray[np.bool_], Vector, IntArray, Vector]:
        values, group = rows[block], groups[block]
        good = group >= 0
        good[bad_rows(values)] = False
        offsets = np.subtract(values[good], centers[group[good]], dtype=np.float64)
        distances = np.full(len(group), np.nan)
        distances[good] = row_norms(offsets)
        present, member = np.unique(group[good], return_inverse=True)
        ones, place = np.ones(len(member)), np.arange(len(member))
        sums = csr_array((ones, (member, place)), shape=(len(present), len(member))) @ offsets
        return good, distances, present, sums

    usable, distances = np.empty(len(rows), bool), np.empty(len(rows))
    totals = np.zeros_like(centers, dtype=np.float64)
    cuts = list(blocks(rows))
    with task("measuring rows", len(rows)) as advance:
        for cut, (good, lengths, present, sums) in zip(cuts, map_in_order(part, cuts), strict=True):
            usable[cut], distances[cut] = good, lengths
            totals[present] += sums
            advance(cut.stop - cut.start)
    sizes = np.bincount(groups[usable], minlength=len(centers))
    counted = np.maximum(sizes, 1)
    squares = np.bincount(groups[usable], distances[usable] ** 2, len(centers)) / counted
    bias = np.add.reduce((totals / counted[:, None]) ** 2, axis=1)
    return Measures(usable, distances, sizes, bias, np.maximum(squares - bias, 0.0))


def turns(groups: IntArray) -> IntArray:
    """Return for each entry how many entries before it are of its group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    place = np.arange(len(groups))
    first = np.r_[True, ordered[1:] != ordered[:-1]]
    result = np.empty(len(groups), np.int64)
    result[order] = place - np.maximum.accumulate(np.where(first, place, 0))
    return result


def objective_of_prefixes(groups: IntArray, scores: Vector) -> Vector:
    """Return the objective after every pick, from the objectives of the picks' own groups.

    `groups`: group of each pick, in pick order. `scores`: after each pick, the distance of the mean of its
    group's picks so far to the group's centre.

    Returns the mean of the groups' latest scores, weighted by their picks so far.
    """
    weighted = (turns(groups) + 1) * scores
    order = np.argsort(groups, kind="stable")
    gained = np.empty_like(weighted)
    gained[order] = np.diff(weighted[order], prepend=0.0)
    starts = order[np.r_[True, groups[order][1:] != groups[order][:-1]]]
    gained[starts] = weighted[starts]
    result: Vector = np.maximum(np.cumsum(gained), 0.0) / np.arange(1, len(groups) + 1)
    return result


def group_objectives(rows: FloatArray, picked: IntArray, groups: IntArray, centers: Vector) -> Vector:
    """Return after each pick the distance of its group's picks' mean to the centre, from the rows.

    Time: O(picks * features), each kept row read once. Memory: O(block).
    """
    scores = np.empty(len(picked))
    with task("following the picks", len(picked)) as advance:
        for group in np.unique(groups):
            own = np.flatnonzero(groups == group)
            scores[own] = running_objective(rows, picked[own], centers[group])[0]
            advance(len(own))
    return scores
