"""What swaps after the greedy picks gain and cost.

``python -m benchmarks.refine [--sets digits letters] [--seeds 3]`` prints one Markdown table: for sets with
labels, clean and with 20
% of them wrong, keep 3 and 10 %, the objective (distance between the mean of the picks and the target, mean
over classes), the seconds of the selection and the test accuracy of two learners, without swaps and with 20
and 100 per class. Needs GMMATCH_DATA; see `_sets`.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np

import gmmatch
from gmmatch.experiments.markdown import table

from . import _learners
from ._sets import scene

SWAPS = (0, 20, 100)
CASES = [(scenario, keep) for scenario in ("clean", "symmetric-20") for keep in (0.03, 0.1)]


def measure(name: str, scenario: str, keep: float, swaps: int, seed: int) -> list[float]:
    """Return objective, seconds, and the accuracy of logistic regression and of neighbours."""
    given = scene(name, scenario, seed)
    started = time.perf_counter()
    kept = gmmatch.select(given.rows, keep, given.labels, refine=swaps, random_state=seed)
    seconds = time.perf_counter() - started
    rows, test = _learners.reduce(given)
    picks = kept.indices
    learners = ("logistic", "neighbours")
    found = _learners.recalls(rows[picks], given.labels[picks], test, given.test_truth, learners)
    return [kept.objective, seconds, *(100 * float(np.mean(found[learner])) for learner in learners)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", default=["digits", "letters"])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    lines = []
    for name, (scenario, keep) in itertools.product(given.sets, CASES):
        for swaps in SWAPS:
            runs = [measure(name, scenario, keep, swaps, seed) for seed in range(given.seeds)]
            objective, seconds, *right = np.mean(runs, axis=0)
            accuracies = [f"{value:.1f}" for value in right]
            case = f"{name}, {scenario}, {keep:.0%}"
            lines.append([case, str(swaps), f"{objective:.4f}", f"{seconds:.2f}", *accuracies])
            print(lines[-1], flush=True)
    header = ["set, labels, keep", "swaps", "objective", "seconds", "logistic regression", "3 neighbours"]
    print(table(header, lines))


if __name__ == "__main__":
    main()
