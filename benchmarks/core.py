"""GM Matching against a tight BLAS loop: one matrix-vector product per pick.

50,000 x 1280 rows in 10 classes at keep 30 %, both given the same centres, in the same run. Run with
``python -m benchmarks.core``; ``--rows 5000`` makes a quick one.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

import gmmatch
from gmmatch.location.geometric_median import group_medians
from gmmatch.matching.budgets import split

from ._data import features


def tight_loop(rows, center, k):
    """The residual step with nothing but one product per pick."""
    offsets = (rows - center).astype(rows.dtype)
    penalty = np.einsum("ij,ij->i", offsets, offsets) / 2
    theta = np.zeros(rows.shape[1])
    picks = np.empty(k, dtype=np.int64)
    for turn in range(k):
        scores = offsets @ theta.astype(rows.dtype) - penalty
        pick = scores.argmax()
        picks[turn] = pick
        penalty[pick] = np.inf
        theta -= rows[pick] - center
    return picks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=1280)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    rows, labels = features(arguments.rows, arguments.features, 10)
    started = time.perf_counter()
    medians = group_medians(rows, labels, 10)
    median_seconds = time.perf_counter() - started
    centers = {code: median.point for code, median in enumerate(medians)}
    ours, tight = [], []
    for _ in range(arguments.repeats):
        started = time.perf_counter()
        selection = gmmatch.select(rows, 0.3, labels, center=centers, guard="off")
        ours.append(time.perf_counter() - started)
        started = time.perf_counter()
        by_hand = [
            members[tight_loop(rows[members], centers[code], int((labels[selection.indices] == code).sum()))]
            for code, members in enumerate(split(labels, 10))
        ]
        tight.append(time.perf_counter() - started)
    same = all(
        (selection.indices[labels[selection.indices] == code] == picks).all()
        for code, picks in enumerate(by_hand)
    )
    print(
        json.dumps(
            {
                "rows": arguments.rows,
                "features": arguments.features,
                "kept": len(selection),
                "median_seconds": round(median_seconds, 3),
                "gmmatch_seconds": round(min(ours), 3),
                "tight_loop_seconds": round(min(tight), 3),
                "speedup": round(min(tight) / min(ours), 2),
                "same_picks": bool(same),
            }
        )
    )


if __name__ == "__main__":
    main()
