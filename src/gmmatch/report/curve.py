"""The objective of every budget, beside random subsets and the line of 1/k."""

import numpy as np
import numpy.typing as npt

from ..records import IntArray
from .measure import Measures, group_objectives, objective_of_prefixes
from .records import Curve
from .setting import Setting

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
