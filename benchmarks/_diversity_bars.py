"""Tables and promises of the diversity benchmark, from its records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._learners import LEARNERS

Place = tuple[str, str, str, float]  # part, set, scenario, keep
OPEN_SHARE = 100 * 600 / 6_600  # percent of the CLINC150 pool that is open-set
CLASSES = {"letters": 26, "clinc150": 150, "cifar10": 10}


def with_params(method: str, **params: Any) -> str:
    """Return the name of a method with further parameters."""
    text = ",".join(f"{key}={value}" for key, value in params.items())
    return f"{method},{text}" if ":" in method else f"{method}:{text}"


@dataclass(frozen=True)
class Bar:
    """One promise: what it says, and the margins by which each cell keeps it (negative: broken)."""

    says: str
    margins: dict[str, float]

    def lines(self) -> list[str]:
        """Return the verdict in words, with every cell that breaks the promise."""
        if not self.margins:
            return [f"not measured: {self.says}"]
        worst = min(self.margins, key=lambda name: self.margins[name])
        broken = {name: value for name, value in sorted(self.margins.items()) if value < 0}
        count = len(self.margins)
        verdict = f"missed in {len(broken)} of {count} cells" if broken else f"met in {count} cells"
        closest = f"{verdict}: {self.says}; closest: {worst}, margin {self.margins[worst]:+.2f}"
        return [closest, *(f"    lost: {name}, by {-value:.2f}" for name, value in broken.items())]


class Clusters:
    """Means over seeds of all cells."""

    def __init__(self, records: Iterable[dict[str, Any]]) -> None:
        gathered: dict[tuple[Place, str], list[dict[str, float]]] = defaultdict(list)
        for record in records:
            key = record["key"]
            place = (key["part"], key["set"], key["scenario"], key["keep"])
            gathered[place, key["method"]].append(record["values"])
        self.values = {
            at: {name: float(np.mean([one[name] for one in found])) for name in found[0]}
            for at, found in gathered.items()
        }
        self.seeds = {at: len(found) for at, found in gathered.items()}

    def places(self, part: str, method: str) -> list[Place]:
        """Return where a method was measured."""
        return [place for place, name in self.values if name == method and place[0] == part]

    def leads(self, ours: str, other: str, kind: str, places: Iterable[Place]) -> dict[str, float]:
        """Return the points by which one method leads another, by place and learner."""
        found = {}
        for place in places:
            mine, theirs = self.values.get((place, ours)), self.values.get((place, other))
            for learner in LEARNERS:
                name = f"{kind} {learner}"
                if mine and theirs and name in mine and name in theirs:
                    found[f"{_words(place)}, {learner}"] = mine[name] - theirs[name]
        return found


def _words(place: Place) -> str:
    _, name, scenario, keep = place
    return f"{name}, {scenario}, keep {f'{100 * keep:g} %' if keep <= 1 else f'{keep:g}'}"


def _at_least(found: dict[str, float], bound: float) -> dict[str, float]:
    return {name: value - bound for name, value in found.items()}


def labelled(cells: Clusters, ours: str) -> list[Bar]:
    """Return the promises about labelled data."""
    places = cells.places("labelled", ours)
    clean = [place for place in places if place[2] == "clean"]
    noisy = [place for place in places if place[2].startswith("symmetric")]
    first = "first"
    return [
        Bar(
            "no wrong labels: at most 0.5 behind random",
            _at_least(cells.leads(ours, "random", "accuracy", clean), -0.5),
        ),
        Bar(
            "letters, no wrong labels, keep 10 %: at least 2 ahead of random",
            _at_least(
                cells.leads(
                    ours, "random", "accuracy", [p for p in clean if (p[1], p[3]) == ("letters", 0.1)]
                ),
                2,
            ),
        ),
        Bar(
            "letters, 20 and 30 % wrong, keep 10 %: at least 5 over the first version",
            _at_least(
                cells.leads(ours, first, "accuracy", [p for p in noisy if (p[1], p[3]) == ("letters", 0.1)]),
                5,
            ),
        ),
        Bar(
            "other sets, 20 and 30 % wrong: at most 0.5 behind the first version",
            _at_least(
                cells.leads(ours, first, "accuracy", [p for p in noisy if p[1] != "letters"]),
                -0.5,
            ),
        ),
    ]


def held_out(cells: Clusters, ours: str) -> list[Bar]:
    """Return the promises about data without labels, on data that nothing was chosen on."""
    return unlabelled(cells, ours, "held-out")


def unlabelled(cells: Clusters, ours: str, part: str = "unlabelled") -> list[Bar]:
    """Return the promises about data without labels."""
    every = cells.places(part, ours)
    places = [place for place in every if place[2] == "unlabelled"]
    rival = cells.leads(ours, "facility-location", "accuracy", places)
    chance = cells.leads(ours, "random", "accuracy", places)
    texts = {name: value for name, value in chance.items() if name.startswith("clinc150")}
    strays = {
        _words(place): OPEN_SHARE / 3 - cells.values[place, ours]["open"]
        for place in places
        if place[1] == "clinc150"
    }
    copies = {
        _words(place): 2 - cells.values[place, ours]["copies"] for place in every if place not in places
    }
    mean = {"mean of all cells": float(np.mean(list(rival.values())))} if rival else {}
    return [
        Bar("no cell more than 1 behind facility location", _at_least(rival, -1)),
        Bar("on average at least 2 ahead of facility location", _at_least(mean, 2)),
        Bar("CLINC150: at least 10 over random", _at_least(texts, 10)),
        Bar("nowhere more than 1 behind random", _at_least(chance, -1)),
        Bar("open-set picks at most a third of the pool's share", strays),
        Bar("near-copies at most 2 % of the picks", copies),
    ]


def tails(cells: Clusters, ours: str) -> list[Bar]:
    """Return the promises about long tails."""
    roots, plain = with_params(ours, budgets="sqrt"), with_params(ours, budgets="proportional")
    places = cells.places("tails", roots)
    empty = {
        f"{_words(place)}, {method}": cells.values[place, method]["classes"] - CLASSES[place[1]]
        for method in (roots, plain, with_params(ours, budgets="equal"))
        for place in cells.places("tails", method)
    }
    return [
        Bar(
            "sqrt at least 7 balanced points over proportional",
            _at_least(cells.leads(roots, plain, "balanced", places), 7),
        ),
        Bar(
            "sqrt at most 1 behind under the training prior",
            _at_least(cells.leads(roots, plain, "prior", places), -1),
        ),
        Bar("no class without picks while the budget allows", empty),
    ]


def large(cells: Clusters, ours: str) -> list[Bar]:
    """Return the promises about large budgets."""
    places = cells.places("large", ours)
    return [
        Bar(
            "keep 80 %: at most 0.3 behind the order of its own suspects",
            _at_least(cells.leads(ours, "suspects", "accuracy", [p for p in places if p[3] == 0.8]), -0.3),
        ),
    ]


def trust(now: list[dict[str, Any]], before: list[dict[str, Any]]) -> list[Bar]:
    """Return the promises about the tables of `benchmarks.trust`, against those of the first version."""
    probes = ("converged", "early")

    def means(records: list[dict[str, Any]]) -> dict[tuple[str, float, str], float]:
        found: dict[tuple[str, float, str], list[float]] = defaultdict(list)
        for record in records:
            if record["method"] == "gm-matching":
                for probe in probes:
                    found[record["scenario"], float(record["keep"]), probe].append(float(record[probe]))
        return {key: float(np.mean(values)) for key, values in found.items()}

    mine, theirs = means(now), means(before)
    common = mine.keys() & theirs.keys()
    average = {}
    for keep, probe in sorted({key[1:] for key in common}):
        gains = [mine[key] - theirs[key] for key in common if key[1:] == (keep, probe)]
        average[f"mean of {len(gains)} scenarios, keep {100 * keep:g} %, {probe}"] = float(np.mean(gains))
    worst = {
        f"{probe}, {mine['human worst', 0.1, probe]:.2f}": mine["human worst", 0.1, probe] - bound
        for probe, bound in zip(probes, (71.5, 72.0), strict=True)
        if ("human worst", 0.1, probe) in mine
    }
    return [
        Bar("CIFAR-10 features, on average at most 0.2 behind the first version", _at_least(average, -0.2)),
        Bar("worst human labels, keep 10 %: at least 71.5 (converged) and 72.0 (early)", worst),
    ]


def tables(cells: Clusters, parts: Iterable[str]) -> str:
    """Return all cells as Markdown tables: accuracies by learner, and what a part is about beside them."""
    pages = []
    for part in parts:
        places = list(dict.fromkeys(place for place, _ in cells.values if place[0] == part))
        methods = list(dict.fromkeys(name for place, name in cells.values if place[0] == part))
        for title, kind, extras in _TABLES.get(part, ()):
            lines = [
                f"### {part}: {title}",
                "",
                f"| pool | {' | '.join(methods)} |",
                "|---" * (len(methods) + 1) + "|",
            ]
            for place in sorted(places):
                row = [_entry(cells, place, method, kind, extras) for method in methods]
                lines.append(f"| {_words(place)} | {' | '.join(row)} |")
            if places:
                pages.append("\n".join(lines))
    return "\n\n".join(pages)


_BY_LEARNER = "logistic regression / neighbours / SVM"
_TABLES: dict[str, tuple[tuple[str, str, tuple[str, ...]], ...]] = {
    "labelled": ((f"accuracy, {_BY_LEARNER}; right labels, %", "accuracy", ("right",)),),
    "unlabelled": (
        (
            "accuracy, logistic regression / neighbours; open-set picks, copies, %; classes",
            "accuracy",
            ("open", "copies", "classes"),
        ),
    ),
    "held-out": (
        (
            "accuracy, logistic regression / neighbours; open-set picks, copies, %; classes",
            "accuracy",
            ("open", "copies", "classes"),
        ),
    ),
    "tails": (
        ("balanced accuracy, logistic regression / neighbours; classes", "balanced", ("classes",)),
        ("accuracy under the training prior, logistic regression / neighbours", "prior", ()),
    ),
    "large": (("accuracy, logistic regression / neighbours; right labels, %", "accuracy", ("right",)),),
}


def _entry(cells: Clusters, place: Place, method: str, kind: str, extras: tuple[str, ...]) -> str:
    values = cells.values.get((place, method))
    if values is None:
        return "-"
    points = [f"{values[f'{kind} {name}']:.1f}" for name in LEARNERS if f"{kind} {name}" in values]
    beside = [f"{values[name]:.1f}" for name in extras]
    return " / ".join(points) + ("; " + ", ".join(beside) if beside else "")
