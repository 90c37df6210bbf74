"""Averages, leads and gaps of the trust benchmark, from its records."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

OURS = "gm-matching"
OTHERS = ("random", "random+guard", "moderate", "herding", "herding+guard", "gm-matching-paper")
PROBES = ("converged", "early")

Clusters = dict[tuple[str, str, float], dict[str, float]]


def average(records: list[dict[str, Any]]) -> Clusters:
    """Return the mean over seeds of every (scenario, method, keep)."""
    gathered: dict[tuple[str, str, float], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        gathered[record["scenario"], record["method"], record["keep"]].append(record)
    names = (*PROBES, "coverage", "good_picks", "seconds")
    return {
        key: {name: float(np.mean([record[name] for record in found])) for name in names}
        | {"seeds": len(found)}
        for key, found in gathered.items()
    }


def summarise(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return averages over the corrupted scenarios, the lead over the best other method, and gaps."""
    cells = average(records)
    scenarios = list(dict.fromkeys(record["scenario"] for record in records))
    methods = [name for name in dict.fromkeys(record["method"] for record in records) if name != "all rows"]
    compared = {key[0] for key in cells if all((key[0], name, key[2]) in cells for name in (OURS, *OTHERS))}
    corrupted = [name for name in scenarios if name != "clean" and name in compared]
    result: dict[str, Any] = {"corrupted scenarios with all methods": corrupted}
    for probe in PROBES:
        for keep in sorted({key[2] for key in cells if key[1] != "all rows"}):
            means = {
                method: float(np.mean([cells[name, method, keep][probe] for name in corrupted]))
                for method in methods
                if all((name, method, keep) in cells for name in corrupted)
            }
            gaps = {
                name: max(cells[name, other, keep][probe] for other in OTHERS if (name, other, keep) in cells)
                - cells[name, OURS, keep][probe]
                for name in scenarios
                if (name, OURS, keep) in cells and any((name, other, keep) in cells for other in OTHERS)
            }
            known = [means[other] for other in OTHERS if other in means]
            worst = max(gaps, key=lambda name: gaps[name], default=None)
            result[f"{probe} {keep:g}"] = {
                "average over corrupted scenarios": {name: round(value, 2) for name, value in means.items()},
                "lead over the best other method": round(means[OURS] - max(known), 2)
                if OURS in means and known
                else None,
                "largest gap to the best other method of a scenario": round(gaps[worst], 2)
                if worst
                else None,
                "where": worst,
            }
    return result


def tables(records: list[dict[str, Any]]) -> str:
    """Return Markdown tables: accuracy of each probe and share of good picks at 5 / 10 / 30 %."""
    cells = average(records)
    scenarios = list(dict.fromkeys(record["scenario"] for record in records))
    methods = list(dict.fromkeys(record["method"] for record in records))
    parts = []
    for name, title, factor, digits in (
        ("converged", "Test accuracy, probe trained to convergence", 1, 1),
        ("early", "Test accuracy, probe stopped early", 1, 1),
        ("good_picks", "Share of picks that are good, %", 100, 0),
        ("coverage", "Mean distance of test rows to the nearest pick (share of the radius)", 1, 3),
        ("seconds", "Seconds to select 30 %", 1, 0),
    ):
        lines = [
            f"### {title}",
            "",
            "| scenario | " + " | ".join(methods) + " |",
            "|---" * (len(methods) + 1) + "|",
        ]
        for scenario in scenarios:
            row = []
            for method in methods:
                keeps = sorted(key[2] for key in cells if key[:2] == (scenario, method))
                if name == "seconds":
                    keeps = keeps[-1:]
                values = [f"{cells[scenario, method, keep][name] * factor:.{digits}f}" for keep in keeps]
                row.append(" / ".join(values) or "-")
            lines.append(f"| {scenario} | " + " | ".join(row) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
