"""Where gm-matching stands against the other methods, scenario by scenario, and where it does not lead."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .grid import OURS, Record, Setting, gather, scenario_label, setting_label
from .paper import Regime, figures_of, paper_name, regime_of

Cells = dict[tuple[Setting, float], dict[str, float]]
_MOST_NAMED = 3
_LABEL_NOISE = ("labels-", "human-")


@dataclass(frozen=True)
class Standing:
    """How gm-matching compares in one scenario, or on the average of several.

    Means are over the settings and keep ratios below 1 at which gm-matching was measured; methods that
    lack one of them are not compared.
    """

    name: str  # the scenario, or what was averaged
    # Mean accuracy of gm-matching and of the best other method, and that method's name.
    ours: float
    other: float | None
    best: str | None
    random: float | None  # mean accuracy of random
    least: float | None  # the smallest lead over random in any cell
    # In how many of the cells no other method is better.
    won: int
    cells: int
    behind: tuple[str, ...]  # where another method is better, by how much
    # The same differences in the paper's tables, on its own data.
    paper_lead: float | None = None
    paper_over_random: float | None = None

    @property
    def lead(self) -> float | None:
        """Points ahead of the best other method."""
        return None if self.other is None else self.ours - self.other

    @property
    def over_random(self) -> float | None:
        """Points ahead of random."""
        return None if self.random is None else self.ours - self.random

    @property
    def remark(self) -> str:
        """Where gm-matching does not lead, in words."""
        if self.best is None:
            return "nothing to compare with"
        named = "; ".join(self.behind[:_MOST_NAMED])
        more = len(self.behind) - _MOST_NAMED
        if not named:
            return "leads everywhere" if self.won == self.cells else "leads on average"
        return named + (f"; and {more} more" if more > 0 else "")


def standings(records: Sequence[Record]) -> list[Standing]:
    """Return one standing per scenario with gm-matching, then the averages over scenarios with corruption."""
    regimes = {regime_of(record["proxy"], record["target"]) for record in records}
    cells: dict[str, Cells] = {}
    for (scenario, setting, keep, method), found in gather(records, "accuracy").items():
        if keep < 1:
            column = cells.setdefault(scenario, {}).setdefault((setting, keep), {})
            column[method] = float(np.mean(found))
    compared = {
        scenario: {at: column for at, column in sorted(columns.items()) if OURS in column}
        for scenario, columns in cells.items()
    }
    order = [name for name in dict.fromkeys(record["scenario"] for record in records) if compared.get(name)]
    result = [_standing(name, compared[name], _paper_leads(name, regimes)) for name in order]
    wrong = _corrupted(records)
    corrupted = [name for name in order if name in wrong]
    wrong_labels = [name for name in corrupted if name.startswith(_LABEL_NOISE)]
    for chosen, title in (
        (wrong_labels, "Average with wrong labels"),
        (corrupted, "Average with corruption"),
    ):
        if len(chosen) > 1:
            result.append(_average(title, [compared[name] for name in chosen]))
    return result


@dataclass(frozen=True)
class Duel:
    """How gm-matching compares with one other method, over all cells below keep 100 % that both have."""

    method: str
    # Cells in which the mean over seeds is higher, or lower, by a hundredth of a point or more.
    won: int
    lost: int
    cells: int
    mean: float  # points ahead
    worst: float  # points ahead in the worst cell


def duels(records: Sequence[Record]) -> list[Duel]:
    """Return gm-matching against every other method, the hardest first."""
    columns: dict[tuple[str, Setting, float], dict[str, float]] = {}
    for (scenario, setting, keep, method), found in gather(records, "accuracy").items():
        if keep < 1:
            columns.setdefault((scenario, setting, keep), {})[method] = float(np.mean(found))
    leads: dict[str, list[float]] = {}
    for column in columns.values():
        for method, value in column.items():
            if OURS in column and method != OURS:
                leads.setdefault(method, []).append(round(column[OURS] - value, 2))
    return sorted(
        (
            Duel(
                method,
                sum(lead > 0 for lead in found),
                sum(lead < 0 for lead in found),
                len(found),
                float(np.mean(found)),
                min(found),
            )
            for method, found in leads.items()
        ),
        key=lambda duel: duel.mean,
    )


def per_cell_lead(records: Sequence[Record]) -> float | None:
    """Return the mean lead over the best other method of every cell with corruption, a harder rival."""
    wrong = _corrupted(records)
    columns: dict[tuple[str, Setting, float], dict[str, float]] = {}
    for (scenario, setting, keep, method), found in gather(records, "accuracy").items():
        if scenario in wrong and keep < 1:
            columns.setdefault((scenario, setting, keep), {})[method] = float(np.mean(found))
    leads = [
        column[OURS] - max(value for name, value in column.items() if name != OURS)
        for column in columns.values()
        if OURS in column and len(column) > 1
    ]
    return float(np.mean(leads)) if leads else None


def _corrupted(records: Sequence[Record]) -> set[str]:
    """Return the scenarios in which rows are corrupted."""
    return {record["scenario"] for record in records if record["corrupted_rows"]}


def _means(columns: Cells) -> dict[str, float]:
    """Return the mean accuracy of the methods that have all cells of gm-matching."""
    names = set.intersection(*(set(column) for column in columns.values()))
    return {name: float(np.mean([column[name] for column in columns.values()])) for name in sorted(names)}


def _standing(scenario: str, columns: Cells, paper: tuple[float | None, float | None]) -> Standing:
    several = len({setting for setting, _ in columns}) > 1
    behind, won, leads = [], 0, []
    for (setting, keep), column in columns.items():
        others = {name: value for name, value in column.items() if name != OURS}
        best = max(others, key=lambda name: others[name], default=None)
        gap = round(others[best] - column[OURS], 2) if best is not None else 0.0
        won += gap <= 0
        if gap > 0:
            where = f", {setting_label(setting)}" if several else ""
            behind.append(f"{best} +{gap:.2f} at {100 * keep:g} %{where}")
        if "random" in column:
            leads.append(column[OURS] - column["random"])
    return _compare(scenario_label(scenario), _means(columns), leads, won, len(columns), behind, paper)


def _average(title: str, scenarios: Sequence[Cells]) -> Standing:
    """Average method by method over scenarios, each counting the same."""
    parts = [_means(columns) for columns in scenarios]
    names = set.intersection(*(set(part) for part in parts))
    means = {name: float(np.mean([part[name] for part in parts])) for name in sorted(names)}
    singles = [_standing("", columns, (None, None)) for columns in scenarios]
    leads = [single.least for single in singles if single.least is not None]
    won, total = sum(single.won for single in singles), sum(single.cells for single in singles)
    best = max((name for name in means if name != OURS), key=lambda name: means[name], default=None)
    behind = [f"{best} +{means[best] - means[OURS]:.2f}"] if best and means[best] > means[OURS] else []
    return _compare(title, means, leads, won, total, behind, (None, None))


def _compare(
    name: str,
    means: dict[str, float],
    leads: list[float],
    won: int,
    cells: int,
    behind: list[str],
    paper: tuple[float | None, float | None],
) -> Standing:
    best = max((other for other in means if other != OURS), key=lambda other: means[other], default=None)
    return Standing(
        name=name,
        ours=means[OURS],
        other=None if best is None else means[best],
        best=best,
        random=means.get("random"),
        least=min(leads, default=None),
        won=won,
        cells=cells,
        behind=tuple(behind),
        paper_lead=paper[0],
        paper_over_random=paper[1],
    )


def _paper_leads(scenario: str, regimes: set[Regime | None]) -> tuple[float | None, float | None]:
    """Return how far the paper's GM Matching leads the best other method, and Random, in its own tables."""
    ours = paper_name(OURS)
    columns: dict[tuple[str, str, float], dict[str, float]] = {}
    for figure in figures_of(scenario):
        if figure.regime in regimes and figure.keep < 1:
            columns.setdefault((figure.dataset, figure.target, figure.keep), {})[figure.method] = (
                figure.accuracy
            )
    if not columns or ours is None:
        return None, None
    names = next(iter(columns.values()))
    means = {name: float(np.mean([column[name] for column in columns.values()])) for name in names}
    others = [value for name, value in means.items() if name != ours]
    return means[ours] - max(others), means[ours] - means["Random"]
