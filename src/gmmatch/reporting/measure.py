"""What one pass over the rows tells: distances to the centres, what random subsets would do, the curve."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, IntArray, Vector
from ..compute import kernels
from ..compute.blocks import blocks, group_order, map_in_order, present_groups, row_norms
from ..matching.groups import turns
from ..matching.objectives import running_objective
from ..progress import task
from ..validation import bad_rows
from .records import Curve
from .setting import Setting


@dataclass(frozen=True, eq=False)
class Measures:
    """What one pass over the rows measures."""

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
        if not good.all():
            values, group = values[good], group[good]
        offsets = np.subtract(values, centers[group], dtype=np.float64)
        distances = np.full(len(good), np.nan)
        distances[good] = row_norms(offsets)
        present, member = present_groups(group, len(centers))
        return good, distances, present, kernels.group_sums(offsets, member, len(present))[0]

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
        order, present, starts = group_order(groups)
        for group, own in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
            scores[own] = running_objective(rows, picked[own], centers[group])[0]
            advance(len(own))
    return scores


_MOST_STEPS = 120_000  # budgets times classes
_BUDGETS = 240
_FEWEST_BUDGETS = 40
_EVERY_BUDGET = 1_000


def make_curve(setting: Setting, measures: Measures) -> tuple[Curve, IntArray]:
    """Return the curve, and the budgets that it is drawn at.

    Where the picks' scores are not the objectives themselves, the kept rows are read once.
    """
    selection, groups = setting.selection, setting.picked_groups
    if setting.scores_are_objectives:
        scores = selection.scores
    else:
        scores = group_objectives(setting.rows, selection.indices, groups, setting.centers)
    budgets = choose_budgets(len(selection), max(len(setting.centers), len(setting.classes)))
    objective = objective_of_prefixes(groups, scores)[budgets - 1]
    picks = counts_at(groups, len(setting.centers), budgets)
    random = measures.random_objective(picks)
    # Before every class has a pick the objective is that of some classes alone.
    anchor = min(int(np.searchsorted(budgets, len(setting.centers))), len(budgets) - 1)
    inverse = objective[anchor] * budgets[anchor] / budgets
    curve = Curve(
        budgets=budgets.tolist(),
        objective=significant(objective),
        random=significant(random),
        inverse=significant(inverse),
    )
    return curve, budgets


def choose_budgets(kept: int, classes: int) -> IntArray:
    """Return the budgets to look at: all of them where they are few, else close together at the start."""
    if kept <= _EVERY_BUDGET and kept * classes <= _MOST_STEPS:
        return np.arange(1, kept + 1)
    count = int(np.clip(_MOST_STEPS // classes, _FEWEST_BUDGETS, _BUDGETS))
    spread = np.concatenate([np.geomspace(1, kept, count // 2), np.linspace(1, kept, count // 2)])
    return np.unique(np.rint(spread).astype(np.int64))


def counts_at(codes: IntArray, n_codes: int, budgets: IntArray) -> IntArray:
    """Return how many of the first k codes are of each kind, for every k in `budgets`."""
    starts = np.concatenate([[0], budgets[:-1]])
    gained = [
        np.bincount(codes[start:stop], minlength=n_codes) for start, stop in zip(starts, budgets, strict=True)
    ]
    return np.cumsum(np.stack(gained), axis=0)


def significant(values: npt.NDArray[np.float64], digits: int = 5) -> list[float]:
    """Return numbers with a few significant digits, which take less room.

    >>> significant(np.array([0.0012345678, 12345.678]))
    [0.0012346, 12346.0]
    """
    return [float(f"{value:.{digits}g}") for value in values.tolist()]
