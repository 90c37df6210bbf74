"""Robust and diverse: what subsets teach, on real data with few and many columns, with and without labels.

``python -m benchmarks.diversity [--part labelled|unlabelled|held-out|tails|large|trust ...]
[--sets NAME ...]
[--scenarios NAME ...] [--keeps K ...] [--methods NAME[:PARAMETER=VALUE,...] ...]
[--seeds 3] [--first-seed 0]
[--ours METHOD] [--first-version FOLDER] [--out FOLDER] [--minutes M] [--report-only] [--quiet]``

Each finished cell is a JSON line in FOLDER (out/diversity), under the version of the code that decides on
it, and a rerun does only what is missing. Every cell is printed, also the lost ones, and at the end each
promise: met or missed, with the figure. ``--first-version`` names a checkout of the first version; without
it, its column is left out. Needs GMMATCH_DATA and Fashion-MNIST, see `_sets`.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import _diversity_bars as bars
from . import _learners, _rivals
from ._diversity_bars import with_params
from ._sets import NO_CLASS, REPEATS, SCENARIOS, SETS, SMALL, scene

OURS = "gm-matching"
log = logging.getLogger("diversity")


@dataclass(frozen=True)
class Part:
    """Which cells a part of the benchmark has.

    Attributes
    ----------
    keeps
        By set, the shares or counts of rows to keep.
    scenarios, methods, learners
        What is done to the pool, who picks, and who learns from the picks.
    """

    keeps: dict[str, tuple[float, ...]]
    scenarios: tuple[str, ...]
    methods: tuple[str, ...]
    learners: tuple[str, ...] = _learners.LEARNERS


_CLEANLAB = ("cleanlab+random", "cleanlab+facility-location", "cleanlab+gm-matching", "small-loss")
_SOFT = ("logistic", "neighbours")
PARTS = {
    "labelled": Part(
        dict.fromkeys(("letters", "digits", "digits4", "breast-cancer", "fashion-mnist"), (0.03, 0.1, 0.3)),
        ("clean", "symmetric-20", "symmetric-30", "asymmetric-20", "open-set"),
        ("random", "random:guard=auto", "first", "facility-location", *_CLEANLAB, OURS),
    ),
    "unlabelled": Part(
        {"clinc150": (330, 660), "cifar10": (150, 500), "letters": (300, 1200)},
        ("unlabelled", "unlabelled-copies"),
        ("random", "facility-location", "first", OURS),
        _SOFT,
    ),
    # Sets on which nothing was chosen; with --first-seed, also other draws of the sets above.
    "held-out": Part(
        {"fashion-mnist": (150, 600), "digits": (50, 150), "clinc150": (330, 660), "cifar10": (150, 500)}
        | {"letters": (300, 1200)},
        ("unlabelled", "unlabelled-copies"),
        ("random", "facility-location", OURS),
        _SOFT,
    ),
    "tails": Part(
        dict.fromkeys(("letters", "clinc150", "cifar10"), (0.05, 0.1)),
        ("long-tail",),
        (
            "random",
            "first",
            f"{OURS}:budgets=proportional",
            f"{OURS}:budgets=sqrt",
            f"{OURS}:budgets=equal",
        ),
        _SOFT,
    ),
    "large": Part(
        dict.fromkeys(("letters", "digits", "fashion-mnist", "clinc150", "cifar10"), (0.5, 0.7, 0.8, 0.9)),
        ("symmetric-20", "symmetric-30", "asymmetric-20", "asymmetric-30"),
        ("random", "suspects", "first", "cleanlab+random", "small-loss", OURS),
        _SOFT,
    ),
}


def methods_of(plan: Part, ours: str) -> list[str]:
    """Return the methods of a part, with another one in the place of the default."""
    return [
        with_params(ours, **_rivals.parse(name)[1]) if name.startswith(f"{OURS}:") else name
        for name in (ours if name == OURS else name for name in plan.methods)
    ]


def cell(
    name: str,
    scenario: str,
    keep: float,
    method: str | _rivals.Picker,
    seed: int,
    *,
    learners: Iterable[str] = _learners.LEARNERS,
    first: Path | None = None,
) -> dict[str, Any]:
    """Return what learners make of the rows that a method keeps.

    Parameters
    ----------
    name, scenario, seed
        The pool: see `_sets.scene`. Small sets are split several times per seed, and means are returned.
    keep
        Share (up to 1) or count of rows to keep.
    method
        A method's name with parameters, as in ``gm-matching:lift=512``, or a function of (scene, keep, seed).
    learners
        Who learns from the kept rows.
    first
        A checkout of the first version, for the method ``first``.

    Returns
    -------
    dict
        By learner the accuracy, the balanced accuracy and the accuracy under the class shares of the pool, in
        percent; the shares of picks with a right label, of open-set rows and of copies; how many classes
        the picks have, and the seconds that picking took.
    """
    repeats = REPEATS if name in SMALL else 1
    # Chance is drawn several times per split too, so that a method is not compared with luck.
    draws = REPEATS if name in SMALL and method == "random" else 1
    found = [
        _once(name, scenario, keep, method, seed * repeats + repeat, draw, tuple(learners), first)
        for repeat in range(repeats)
        for draw in range(draws)
    ]
    return {key: round(float(np.mean([one[key] for one in found])), 3) for key in found[0]}


def _once(
    name: str,
    scenario: str,
    keep: float,
    method: str | _rivals.Picker,
    seed: int,
    draw: int,
    learners: tuple[str, ...],
    first: Path | None,
) -> dict[str, float]:
    pool = scene(name, scenario, seed)
    started = time.perf_counter()
    order = _rivals.pick(method, pool, keep, seed + 1000 * draw, first)
    seconds = time.perf_counter() - started
    picks = np.sort(order)  # what is learned must not depend on the order of picks
    usable = picks[pool.taught[picks] != NO_CLASS]
    rows, test = _learners.reduce(pool)
    found = _learners.recalls(rows[usable], pool.taught[usable], test, pool.test_truth, learners)
    n_classes = int(pool.test_truth.max()) + 1
    shares = {
        "accuracy": np.bincount(pool.test_truth, minlength=n_classes),
        "balanced": np.ones(n_classes),
        "prior": np.bincount(pool.truth[pool.truth != NO_CLASS], minlength=n_classes),
    }
    record = {
        f"{kind} {learner}": 100 * float(np.average(by_class, weights=weights))
        for learner, by_class in found.items()
        for kind, weights in shares.items()
    }
    return record | {
        "right": 100 * float(np.mean(pool.taught[picks] == pool.truth[picks])),
        "open": 100 * float(np.mean(pool.truth[picks] == NO_CLASS)),
        "copies": 100 * float(np.mean(pool.copied[picks])),
        "classes": len(np.unique(pool.truth[usable])),
        "seconds": seconds,
    }


@dataclass(frozen=True)
class Job:
    """One cell to measure."""

    part: str
    name: str
    scenario: str
    keep: float
    method: str
    seed: int

    def key(self, first: Path | None) -> dict[str, Any]:
        """Return what determines the cell."""
        code = f"{_rivals.version(self.method, first)} learners {_learners.VERSION}"
        return {
            "part": self.part,
            "set": self.name,
            "scenario": self.scenario,
            "keep": self.keep,
            "method": self.method,
            "seed": self.seed,
            "version": code,
        }


def jobs(options: argparse.Namespace) -> Iterator[Job]:
    """Yield the cells that are asked for; those of one pool follow each other."""
    for part in options.part:
        plan = PARTS.get(part)
        if plan is None:
            continue
        for name in options.sets or plan.keeps:
            for scenario in options.scenarios or plan.scenarios:
                if name not in plan.keeps or scenario not in plan.scenarios:
                    continue
                if (name, scenario) == ("breast-cancer", "open-set"):  # two classes: none can leave
                    continue
                for seed in range(options.first_seed, options.first_seed + options.seeds):
                    for method in options.methods or methods_of(plan, options.ours):
                        if _rivals.parse(method)[0] == "first" and options.first_version is None:
                            continue
                        for keep in options.keeps or plan.keeps[name]:
                            yield Job(part, name, scenario, keep, method, seed)


def read(folder: Path) -> list[dict[str, Any]]:
    """Return the records in a folder; the last one of a cell counts."""
    records: dict[str, dict[str, Any]] = {}
    for file in (folder / f"{part}.jsonl" for part in PARTS):
        for line in file.read_text().splitlines() if file.exists() else []:
            record = json.loads(line)
            records[json.dumps(record["key"])] = record
    return list(records.values())


def missing(options: argparse.Namespace) -> list[tuple[Job, dict[str, Any]]]:
    """Return the cells that are asked for and not measured yet, with their keys."""
    done = {json.dumps(record["key"]) for record in read(options.out)}
    wanted = [(job, job.key(options.first_version)) for job in jobs(options)]
    log.info("%d cells are asked for", len(wanted))
    return [(job, key) for job, key in wanted if json.dumps(key) not in done]


def run(options: argparse.Namespace) -> None:
    """Measure what is missing, as long as there is time."""
    end = time.monotonic() + 60 * options.minutes
    for job, key in missing(options):
        if time.monotonic() > end:
            log.info("time is over")
            return
        try:
            values = cell(
                job.name,
                job.scenario,
                job.keep,
                job.method,
                job.seed,
                learners=PARTS[job.part].learners,
                first=options.first_version,
            )
        except (TypeError, ValueError) as error:
            log.warning("%s: not measured: %s", json.dumps(key), error)
            continue
        line = json.dumps({"key": key, "values": values}) + "\n"
        with (options.out / f"{job.part}.jsonl").open("a") as file:
            file.write(line)
        log.info("%s", line.strip())


def run_trust(options: argparse.Namespace) -> None:
    """Measure the scenarios of `benchmarks.trust` with the default method; it too does what is missing."""
    from . import trust

    trust.run(trust_file(options), list(range(options.seeds)), list(trust.SCENARIOS), [OURS], trust.KEEPS)


def trust_file(options: argparse.Namespace) -> Path:
    """Return where the cells of `benchmarks.trust` are kept, by version of the code."""
    return options.out / f"trust-{_rivals.version(OURS)}.jsonl"


def report(options: argparse.Namespace) -> str:
    """Return all cells of the parts that were asked for, and what became of each promise."""
    wanted = {json.dumps(job.key(options.first_version)) for job in jobs(options)}
    cells = bars.Clusters(record for record in read(options.out) if json.dumps(record["key"]) in wanted)
    found = [bar for part in options.part if part in _BARS for bar in _BARS[part](cells, options.ours)]
    if "trust" in options.part:
        found += bars.trust(*trust_records(options))
    lines = [bars.tables(cells, options.part), "", "### promises", ""]
    if options.first_version is None:
        lines.append("The first version is left out: --first-version names no checkout of it.")
    return "\n".join([*lines, *(line for bar in found for line in bar.lines())])


def trust_records(options: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the cells of `benchmarks.trust` now, and those that the first version recorded."""
    file = trust_file(options)
    now = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    if options.first_version is None:
        return now, []
    with (options.first_version / "docs" / "results" / "trust.csv").open(newline="") as table:
        return now, list(csv.DictReader(table))


_BARS = {
    "labelled": bars.labelled,
    "unlabelled": bars.unlabelled,
    "held-out": bars.held_out,
    "tails": bars.tails,
    "large": bars.large,
}


def arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--part", nargs="+", default=[*PARTS, "trust"], choices=[*PARTS, "trust"])
    parser.add_argument("--sets", nargs="+", choices=list(SETS))
    parser.add_argument("--scenarios", nargs="+", choices=list(SCENARIOS))
    parser.add_argument("--keeps", nargs="+", type=lambda text: float(text) if "." in text else int(text))
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--ours", default=OURS, help="the method that the promises are about")
    parser.add_argument("--first-version", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/diversity"))
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--quiet", action="store_true", help="print no tables")
    parser.add_argument("--report-only", action="store_true", help="measure nothing")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", filename=options.out / "diversity.log"
    )
    if not options.report_only:
        run(options)
    left = len(missing(options))
    if not left and "trust" in options.part and not options.report_only:
        run_trust(options)
    if not options.quiet:
        print(report(options))
    print(f"{left} cells are not measured" if left else "all cells are measured")


if __name__ == "__main__":
    main()
