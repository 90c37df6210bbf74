"""What the lift does to one Gaussian class: how diverse the picks are, and how fast their mean converges.

``python -m benchmarks.lift`` prints one Markdown table. 1,000 rows of a standard normal distribution with
one label; for 100 picks the share of the rows' variance that they have, and the distance of their mean to the
rows' mean in units of the rows' root mean square distance to it (of random picks: 0.095); and the slopes of
the logarithm of the distance between the picks' mean and its target, in the space where rows are matched,
against the logarithm of the number of picks. Means over five seeds. A slope of -1 is O(1/k); random picks
have -1/2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import gmmatch
from gmmatch.lab.experiments.markdown import table
from gmmatch.matching.features import MatchedRows, choose_fourier_features
from gmmatch.trust import TRUSTED, judge

ROWS, KEEP, MOST = 1000, 100, 300
SPANS = ((10, 100), (100, 300))
SEEDS = 5
DIMENSIONS = (2, 8, 32, 128)
LIFTS: dict[str, str | int] = {"lift off": "off", "lift of 512": 512}

Rows = npt.NDArray[np.float64]


def as_matched(rows: Rows, lift: str | int, seed: int) -> tuple[Rows, Rows]:
    """Return the rows as `gm-matching` matches them, and its target.

    That is the mean of the trusted rows where they are lifted, else their geometric median.
    """
    codes = np.zeros(len(rows), np.int64)
    verdict = judge(rows, codes, 1, seed)
    found = choose_fourier_features(rows, codes, verdict, lift, seed)
    trusted = verdict.tiers == TRUSTED
    if found is None:
        return rows, gmmatch.geometric_median(rows[trusted]).point
    matched = MatchedRows(rows, verdict, found)[:].astype(np.float64)
    return matched, matched[trusted].mean(axis=0)


def measure(dimensions: int, lift: str | int, seed: int) -> list[float]:
    """Return the share of the variance, the distance of the means, and the slopes."""
    rows = np.random.default_rng(seed).normal(size=(ROWS, dimensions))
    labels = np.zeros(ROWS, np.int64)
    given = {"labels": labels, "fourier_features": lift, "random_state": seed}
    kept = gmmatch.select(rows, keep=MOST, **given).indices
    some = rows[kept[:KEEP]]
    share = some.var(axis=0).sum() / rows.var(axis=0).sum()
    distance = np.linalg.norm(some.mean(axis=0) - rows.mean(axis=0)) / np.sqrt(rows.var(axis=0).sum())
    matched, target = as_matched(rows, lift, seed)
    counts = np.arange(1, MOST + 1)
    means = np.cumsum(matched[kept], axis=0) / counts[:, None]
    gaps = np.linalg.norm(means - target, axis=1)
    slopes = [
        np.polyfit(np.log(counts[first - 1 : last]), np.log(gaps[first - 1 : last]), 1)[0]
        for first, last in SPANS
    ]
    return [float(share), float(distance), *map(float, slopes)]


def main() -> None:
    lines: list[list[str]] = []
    for dimensions in DIMENSIONS:
        cells = [str(dimensions)]
        for lift in LIFTS.values():
            means = np.mean([measure(dimensions, lift, seed) for seed in range(SEEDS)], axis=0)
            cells += [f"{means[0]:.2f}", f"{means[1]:.3f}", *(f"{slope:.2f}" for slope in means[2:])]
        lines.append(cells)
    measured = ["variance", "distance", *(f"slope, k = {first} to {last}" for first, last in SPANS)]
    names = [f"{name}: {what}" for name in LIFTS for what in measured]
    print(table(["dimensions", *names], lines))


if __name__ == "__main__":
    main()
