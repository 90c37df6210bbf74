"""What the guard is worth: CIFAR-10 features under fourteen kinds of damage, against other methods.

``python -m benchmarks.trust [--out FILE] [--seeds 0 1 2] [--scenarios NAME ...] [--methods NAME ...]
[--keeps 0.05 0.1 0.3]``

Appends one JSON line per cell to FILE and skips cells that are there already, so that it can be stopped
and started again; then prints a summary as JSON and tables. Needs GMMATCH_DATA; see `_features`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

import gmmatch
from gmmatch import corrupt

from . import _features
from ._probe import Probe
from ._trust_table import summarise, tables

Rows = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Damaged = tuple[Rows, Labels, Mask]

KEEPS = (0.05, 0.1, 0.3)
METHODS: dict[str, dict[str, Any]] = {
    "random": {"method": "random"},
    "random+guard": {"method": "random", "guard": "auto"},
    "moderate": {"method": "moderate"},
    "herding": {"method": "herding"},
    "herding+guard": {"method": "herding", "guard": "auto"},
    "gm-matching-paper": {"method": "gm-matching-paper"},
    "gm-matching, no guard": {"method": "gm-matching", "guard": "off"},
    "gm-matching": {"method": "gm-matching"},
}
MORE: dict[str, dict[str, Any]] = {  # measured where they are asked for
    "easy": {"method": "easy"},
    "hard": {"method": "hard"},
    "gm-matching, geometric median": {"method": "gm-matching", "center": "geometric-median"},
    "gm-matching, huber": {"method": "gm-matching", "center": "huber"},
}
# Variants that no parameter offers: the share of unlikely labels from which heads are fitted again.
JUDGING = importlib.import_module("gmmatch.trust.judge")  # the name in the package is the function
FITS = {"gm-matching, classifier fitted once": 1.0, "gm-matching, classifier fitted twice": 0.0}
SEEDED = (
    "random", "random+guard", "herding+guard", "gm-matching", "gm-matching, geometric median",
    "gm-matching, huber", *FITS,
)  # fmt: skip


class Data:
    """The training features and all that can be done to them."""

    def __init__(self) -> None:
        archive = _features.archive()
        self.rows = _features.load("train")
        self.truth: Labels = archive["train_labels"].astype(np.int64)
        self.human = {
            name: archive[f"human_{name}"].astype(np.int64) for name in ("aggregate", "random1", "worst")
        }
        self.test = _features.load("test")
        self.test_labels: Labels = archive["test_labels"].astype(np.int64)

    @cached_property
    def damaged(self) -> Rows:
        """Return the features of damaged images, which two scenarios alone need."""
        return _features.load("damaged")

    def given(self, name: str) -> Damaged:
        """Return the rows under labels as people gave them."""
        labels = self.truth if name == "clean" else self.human[name]
        return self.rows, labels, labels == self.truth

    def symmetric(self, share: float, seed: int) -> Damaged:
        """Give a share of the rows another label at random."""
        labels, wrong = corrupt.corrupt_labels(self.truth, share=share, kind="symmetric", rng=seed)
        return self.rows, labels.astype(np.int64), ~wrong

    def images(self, share: float, seed: int) -> Damaged:
        """Put features of damaged images in place of a share of the rows."""
        chosen = np.random.default_rng(seed).permutation(len(self.rows)) < round(share * len(self.rows))
        return np.where(chosen[:, None], self.damaged, self.rows), self.truth, ~chosen

    def gross(self, share: float, seed: int, kind: str, **params: float) -> Damaged:
        """Replace a share of the rows by gross errors."""
        rows, wrong = corrupt.contaminate(self.rows, share=share, kind=kind, rng=seed, **params)
        return rows.astype(np.float32), self.truth, ~wrong

    def both(self, share: float, seed: int) -> Damaged:
        """Do two things at once: wrong labels and outliers."""
        rows, _, near = self.gross(share, seed, "outliers")
        _, labels, right = self.symmetric(share, seed)
        return rows, labels, near & right


SCENARIOS: dict[str, Callable[[Data, int], Damaged]] = {
    "clean": lambda data, seed: data.given("clean"),
    "human aggregate": lambda data, seed: data.given("aggregate"),
    "human random1": lambda data, seed: data.given("random1"),
    "human worst": lambda data, seed: data.given("worst"),
    "symmetric 20 %": lambda data, seed: data.symmetric(0.2, seed),
    "symmetric 35 %": lambda data, seed: data.symmetric(0.35, seed),
    "images 20 %": lambda data, seed: data.images(0.2, seed),
    "images 40 %": lambda data, seed: data.images(0.4, seed),
    "far cluster 20 %": lambda data, seed: data.gross(0.2, seed, "far-cluster"),
    "far cluster 45 %": lambda data, seed: data.gross(0.45, seed, "far-cluster"),
    "outliers 20 %": lambda data, seed: data.gross(0.2, seed, "outliers"),
    "outliers 45 %": lambda data, seed: data.gross(0.45, seed, "outliers"),
    "near clump 40 %": lambda data, seed: data.gross(0.4, seed, "far-cluster", distance=1.0, spread=0.05),
    "labels and outliers 20 %": lambda data, seed: data.both(0.2, seed),
}
UNSEEDED = ("clean", "human aggregate", "human random1", "human worst")


class Scene:
    """A scenario under one seed, made when it is first asked for."""

    def __init__(self, data: Data, probe: Probe, scenario: str, seed: int) -> None:
        self.data, self.probe, self.scenario, self.seed = data, probe, scenario, seed

    @cached_property
    def damaged(self) -> Damaged:
        """Return rows, labels, and which are good."""
        return SCENARIOS[self.scenario](self.data, self.seed)

    @cached_property
    def viewed(self) -> Any:
        """Return what the probes read."""
        return self.probe.view(self.damaged[0])


def cells(scene: Scene, method: str, budgets: tuple[float, ...]) -> Iterator[dict[str, Any]]:
    """Yield one record per budget; budgets of a method are prefixes of one order."""
    (rows, labels, good), viewed = scene.damaged, scene.viewed
    scenario, seed, probe = scene.scenario, scene.seed, scene.probe
    if method == "all rows":
        order, seconds, keeps = np.arange(len(rows)), 0.0, (1.0,)
    else:
        started = time.perf_counter()
        how = (METHODS | MORE).get(method, {"method": "gm-matching"})
        with mock.patch.object(JUDGING, "_MANY_WRONG", FITS.get(method, JUDGING._MANY_WRONG)):
            selection = gmmatch.select(rows, keep=max(budgets), labels=labels, random_state=seed, **how)
        order, seconds, keeps = selection.indices, time.perf_counter() - started, budgets
    for keep in keeps:
        picks = np.sort(order[: round(keep * len(rows))])  # a probe must not learn from the order
        score = probe.score(viewed[picks], labels[picks], seed)
        yield {
            "scenario": scenario,
            "method": method,
            "seed": seed,
            "keep": keep,
            "converged": round(score.converged, 2),
            "early": round(score.early, 2),
            "coverage": round(score.coverage, 4),
            "good_picks": round(float(good[picks].mean()), 4),
            "good_rows": round(float(good.mean()), 4),
            "seconds": round(seconds, 2),
        }


def run(
    out: Path, seeds: list[int], scenarios: list[str], methods: list[str], budgets: tuple[float, ...]
) -> None:
    """Measure the cells that are not in `out` yet; several processes may share it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    data = Data()
    probe = Probe(data.rows, data.test, data.test_labels)
    for seed in seeds:
        for scenario in scenarios:
            scene = Scene(data, probe, scenario, seed)
            for method in methods:
                found = read(out)
                done = {(record["scenario"], record["method"], record["seed"]) for record in found}
                once = {(record["scenario"], record["method"]) for record in found}
                same = scenario in UNSEEDED and method not in SEEDED
                if (scenario, method, seed) in done or (same and (scenario, method) in once):
                    continue
                measured = cells(scene, method, budgets)
                lines = [json.dumps(record) + "\n" for record in measured]
                with out.open("a") as file:
                    file.write("".join(lines))


def read(out: Path) -> list[dict[str, Any]]:
    """Return the records in `out`, one per cell."""
    lines = out.read_text().splitlines() if out.exists() else []
    records = [json.loads(line) for line in lines]
    key = ("scenario", "method", "seed", "keep")
    return list({tuple(record[name] for name in key): record for record in records}.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/trust.jsonl"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--scenarios", nargs="+", default=list(SCENARIOS), choices=list(SCENARIOS))
    usual = [*METHODS, "all rows"]
    parser.add_argument("--methods", nargs="+", default=usual, choices=[*usual, *MORE, *FITS])
    parser.add_argument("--keeps", type=float, nargs="+", default=list(KEEPS))
    parser.add_argument("--summary-only", action="store_true", help="read FILE, measure nothing")
    arguments = parser.parse_args()
    if not arguments.summary_only:
        run(arguments.out, arguments.seeds, arguments.scenarios, arguments.methods, tuple(arguments.keeps))
    records = read(arguments.out)
    print(json.dumps(summarise(records)))
    print(tables(records))


if __name__ == "__main__":
    main()
