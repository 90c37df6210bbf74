"""Results averaged over seeds, as plain data."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Mean:
    """A figure of a table: mean and spread (sample standard deviation) of the accuracy over seeds."""

    # Which figure.
    dataset: str
    scenario: str
    target: str
    method: str
    keep: float
    # In percent; the spread of a single seed is 0.
    accuracy: float
    spread: float
    # Mean share of damaged rows among the picks; None where nothing was damaged.
    corrupted_picks: float | None
    seeds: int  # how many results it is the mean of


def summarise(records: Sequence[dict[str, Any]]) -> list[Mean]:
    """Average over seeds, in the order in which the figures first come up.

    Examples
    --------
    >>> base = {"dataset": "d", "scenario": "clean", "target": "t", "method": "random", "keep": 0.1}
    >>> found = summarise([base | {"accuracy": value, "corrupted_picks": None} for value in (70.0, 72.0)])
    >>> found[0].accuracy, round(found[0].spread, 2), found[0].seeds
    (71.0, 1.41, 2)
    """
    gathered: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        key = tuple(record[name] for name in ("dataset", "scenario", "target", "method", "keep"))
        gathered[key].append(record)
    return [_mean(key, found) for key, found in gathered.items()]


def _mean(key: tuple[Any, ...], records: Sequence[dict[str, Any]]) -> Mean:
    accuracies = [record["accuracy"] for record in records]
    picks = [record["corrupted_picks"] for record in records if record["corrupted_picks"] is not None]
    dataset, scenario, target, method, keep = key
    return Mean(
        dataset,
        scenario,
        target,
        method,
        keep,
        accuracy=float(np.mean(accuracies)),
        spread=float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else 0.0,
        corrupted_picks=float(np.mean(picks)) if picks else None,
        seeds=len(records),
    )
