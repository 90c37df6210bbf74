"""What the guard costs beside the matching, in memory, and how often it reads the rows.

``python -m benchmarks.guard_cost [--rows 50000] [--features 1280] [--classes 10]`` prints one JSON
document. Processor seconds of all threads are given beside elapsed ones, because other work on the machine
does not change them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gmmatch
from gmmatch.trust import judge


class Counted:
    """Rows that count how often they are read."""

    def __init__(self, rows: Any) -> None:
        self.rows, self.read, self.most = rows, 0, 0
        self.shape, self.dtype = rows.shape, rows.dtype

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: Any) -> Any:
        found = self.rows[chosen]
        self.read += len(found)
        self.most = max(self.most, len(found))
        return found


def timed(function: Callable[[], Any]) -> dict[str, float]:
    """Return the seconds that a call takes, the best of two."""
    best = None
    for _ in range(2):
        elapsed, busy = time.perf_counter(), time.process_time()
        function()
        taken = {"elapsed": time.perf_counter() - elapsed, "processor": time.process_time() - busy}
        best = taken if best is None or taken["processor"] < best["processor"] else best
    assert best is not None
    return {name: round(value, 2) for name, value in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=1280)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--keep", type=float, default=0.1)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    labels = rng.integers(0, arguments.classes, arguments.rows)
    centers = rng.normal(size=(arguments.classes, arguments.features)).astype(np.float32) / 4
    rows = rng.standard_normal((arguments.rows, arguments.features), dtype=np.float32) + centers[labels]
    counted = Counted(rows)
    judge(counted, labels, arguments.classes, seed=0)
    matching = timed(lambda: gmmatch.select(rows, arguments.keep, labels, guard="off"))
    guarded = timed(lambda: gmmatch.select(rows, arguments.keep, labels))
    judged = timed(lambda: judge(rows, labels, arguments.classes, seed=0))
    print(
        json.dumps(
            vars(arguments)
            | {
                "matching without guard, seconds": matching,
                "matching with guard, seconds": guarded,
                "judging alone, seconds": judged,
                "judging / matching": round(judged["processor"] / matching["processor"], 2),
                "with / without": round(guarded["processor"] / matching["processor"], 2),
                "reads of the rows": round(counted.read / arguments.rows, 2),
                "most rows held at once": counted.most,
            }
        )
    )


if __name__ == "__main__":
    main()
