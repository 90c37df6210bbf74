"""Which strategy of matching serves the data at hand: asked of students, before any row is picked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..compute.blocks import map_in_order
from ..compute.keys import draw_usable
from ..compute.runner import gather
from ..trust import TRUSTED, Verdict
from .budgets import Weights
from .features import AUTO_FOURIER_FEATURES, FEW_DIRECTIONS, MatchedRows, choose_fourier_features, spread_of
from .groups import Group, group_codes
from .students import (
    ROWS_PER_CLASS,
    SAMPLE_ROWS,
    Learned,
    Sample,
    Students,
    best_of,
    budgets_of,
    curve_budgets,
    enough_picks,
    list_picks,
)
from .teaching import TAUGHT_CLASSES

_LENIENT = "+lenient"
STRATEGIES = (
    "teaching",
    "rows",
    "teaching+fourier",
    "fourier",
    f"teaching{_LENIENT}",
    f"teaching+fourier{_LENIENT}",
)
"""Teaching picks first, or matching alone; of the rows, or of the rows beside their Fourier features. Rows
that are hardly doubted compete for teaching picks; with `lenient` all believed rows do."""

_FEWEST_ASKED = 32
_MANY_DIRECTIONS = 64.0  # from which Fourier features served no set, and cost time


@dataclass(frozen=True)
class Advice:
    """The strategy to pick by, and what students learned by it."""

    strategy: str
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def teaches(self) -> bool:
        """Whether the first picks are teaching ones."""
        return self.strategy.startswith("teaching")

    @property
    def share(self) -> float:
        """Share of the believed rows that teaches nearly all there is to learn; all where it is not known."""
        return float(self.report.get("curve", {}).get("share", 1.0))

    @property
    def fourier(self) -> bool:
        """Whether Fourier features are matched beside the rows."""
        return "fourier" in self.strategy

    @property
    def strict(self) -> bool:
        """Whether only rows that are hardly doubted compete for teaching picks."""
        return not self.strategy.endswith(_LENIENT)


def ask_students(
    groups: list[Group],
    weights: Weights,
    verdict: Verdict,
    teaches: bool,
    fourier_features: str | int,
    learner: str,
    strategy: str = "auto",
    curve: bool = False,
) -> Advice:
    """Return the strategy that teaches students best; see `matching.students`.

    `teaches`, `fourier_features`: whether picks may be teaching ones, and Fourier features matched, by the
    parameters of the method. Candidates without Fourier features come first, but where classes spread in few
    directions. The first candidate is chosen unless another is better beyond chance. `strategy`: the only
    candidate, but for `auto`. `curve`: whether to measure what students know after more and more picks.

    Time: some tenths of a second, whatever the number of rows. Reads a sample that is held where rows are
    many.
    """
    codes, source, seed = group_codes(groups), groups[0].source, groups[0].seed[0]
    assert codes is not None
    candidates = [strategy]
    if strategy == "auto":
        spread = spread_of(source, codes, verdict) if fourier_features == "auto" else 0.0
        candidates = _candidates(teaches and len(groups) <= TAUGHT_CLASSES, fourier_features, spread)
    if strategy == "auto" and len(candidates) == 1 and not curve:
        return Advice(candidates[0], {"strategy": candidates[0], "reason": "nothing to compare"})
    # Rows outside their class teach nobody and are asked of nobody: their features may be noise.
    inside = (codes >= 0) & ~(verdict.far | verdict.clumped)
    drawn = draw_usable(verdict.keys, inside, max(SAMPLE_ROWS, ROWS_PER_CLASS * len(groups)))
    wrong = np.zeros(len(drawn)) if verdict.labels is None else verdict.labels.wrong[drawn]
    with threadpool_limits(1):
        rows = gather(MatchedRows(source, verdict), drawn)
        sample = Sample(rows, codes[drawn], verdict.tiers[drawn] == TRUSTED, wrong, len(groups), weights)
        budgets = budgets_of(sample)
        if np.count_nonzero(sample.asked) < _FEWEST_ASKED or len(sample.open) < 2 * len(groups):
            return Advice(candidates[0], {"strategy": candidates[0], "reason": "too few rows to compare"})
        students, features = Students(sample, seed), {False: rows}
        if any(Advice(name).fourier for name in candidates):
            wanted = AUTO_FOURIER_FEATURES if isinstance(fourier_features, str) else fourier_features
            fourier = choose_fourier_features(source, codes, verdict, wanted, seed)
            features[True] = gather(MatchedRows(source, verdict, fourier), drawn)
        taught = features if Advice(candidates[0]).teaches else {}
        lessons = {way: students.lesson(values, seed, way) for way, values in taught.items()}

        def learned(name: str, at: list[int] = budgets) -> Learned:
            way, lesson = (one := Advice(name)).fourier, lessons[one.fourier] if one.teaches else None
            return students.learn(name, list_picks(sample, features[way], lesson, one.strict, at[-1]), at)

        lists = list(map_in_order(learned, candidates))
        chosen = best_of(lists, learner)
        # How strict to be is decided for the best of them alone.
        if strategy == "auto" and Advice(chosen.name).teaches:
            lists.append(learned(chosen.name + _LENIENT))
            chosen = best_of([chosen, lists[-1]], learner)
        # Rows in the order of the sample, believed or not, as random picks would be.
        random = students.learn("random", np.flatnonzero(~sample.asked), budgets)
        whole = learned(chosen.name, curve_budgets(sample)) if curve else None
    accuracy = {student.name: student.accuracies() for student in (*lists, random)}
    sentence = _sentence(accuracy, chosen.name, budgets)
    about: dict[str, Any] = {"strategy": chosen.name, "picks": budgets, "asked": len(students.asked),
                             "accuracy": accuracy, "sentence": sentence}  # fmt: skip
    if whole is not None:
        sizes, known = curve_budgets(sample), whole.curve(learner)
        # A share and not a number: from more rows than the sample has there is more to learn.
        share = round(enough_picks(sizes, known) / sizes[-1], 6)
        about["curve"] = {"picks": sizes, "accuracy": known, "share": share}
        about["sentence"] += f"; {share:.1%} of the believed rows teach 99 % of what all do"
    return Advice(chosen.name, about)


def _candidates(teaches: bool, fourier_features: str | int, spread: float) -> list[str]:
    """Return the strategies to compare, the one that is likeliest the best first.

    >>> _candidates(True, "auto", 100.0), _candidates(False, "auto", 5.0), _candidates(True, 64, 0.0)
    (['teaching', 'rows'], ['fourier', 'rows'], ['teaching+fourier', 'fourier'])
    """
    fourier = [False] if fourier_features == "off" else [True]
    if fourier_features == "auto":
        fourier = [True, False] if spread < FEW_DIRECTIONS else [False, True]
        fourier = fourier if spread < _MANY_DIRECTIONS else [False]
    names = {(True, True): "teaching+fourier", (True, False): "teaching", (False, True): "fourier"}
    steps = [True, False] if teaches else [False]
    return [names.get((step, more), "rows") for more in fourier for step in steps]


def _sentence(accuracies: dict[str, dict[str, list[float]]], chosen: str, budgets: list[int]) -> str:
    """Return what students learn from the picks and from random ones, at the largest number of picks."""
    ours, random = (
        np.mean([curve[-1] for curve in accuracies[name].values()]) for name in (chosen, "random")
    )
    return (
        f"trained on {budgets[-1]:,} such picks of a sample, a linear and a neighbour model get"
        f" {100 * ours:.1f} % of the given labels right; trained on as many random rows, {100 * random:.1f} %"
    )
