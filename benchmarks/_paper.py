"""Pages of `gmmatch reproduce`: ``python -m benchmarks._paper NAME [--scale cpu] [--workers 2]``.

A line of docs/results/NAME.csv names the digest of its method's frozen picks and the day it was measured.
Methods whose picks changed since are measured again; the lines of the others are carried over.
"""

from __future__ import annotations

import argparse
import csv
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch.lab.experiments.reproduce import reproduce, write_results
from gmmatch.lab.experiments.specs import load_spec
from gmmatch.lab.experiments.standings import duels, standings
from tools.check_figures import RESULTS, digest, digest_of_row

from ._page import Page

OUT = Path("out/reproduce")  # one folder inside for each digest: finished cells do not know their picks
QUESTIONS = {
    "cifar10": (
        "How well does a linear probe learn what each method keeps of CIFAR-10, with right and wrong labels"
        " and far rows, beside the guard alone and what people use today?",
        "networks that train the encoder, or all 50,000 images: 10,000, recompressed as JPEG, by an"
        " EfficientNet-Lite0 that was trained on ImageNet.",
    ),
    "cifar10-converged": (
        "And if the probe is trained to the end, so that it learns wrong labels by heart?",
        "networks that train the encoder, or all 50,000 images; data and picks are those of"
        " [the probe that stops early](cifar10.md).",
    ),
    "cifar10-neighbours": (
        "And if the five nearest kept rows decide?",
        "other budgets than 2, 10 and 30 %, or all 50,000 images; data and picks are those of"
        " [the probe](cifar10.md).",
    ),
    "linear-probe": (
        "What does the paper's linear probe learn from small budgets of clean data?",
        "wrong labels: see [the tables with damage](cifar10.md).",
    ),
    "fashion-mnist": (
        "Do methods keep their order for a small network on Fashion-MNIST: clean, damaged images, wrong"
        " labels, attacks?",
        "what this network can reach: a ResNet-8 learns 300 and 1,800 of 6,000 images in 160 steps. With"
        " attacks, seeds of one method differ by up to 16 points.",
    ),
    "network-transfer": (
        "Does what one network's features select serve other networks?",
        "images larger than 8 x 8 pixels: VGG-16, SENet-18 and ResNet-18 learn 270 digits in 120 steps,"
        " picked by the features of a ResNet-8.",
    ),
    "domain-transfer": (
        "Does a network that learns photos from scratch gain from what an encoder of another domain selects?",
        "what this network can reach: a ResNet-8 learns 600 or 1,800 photos in 160 steps and gets a third"
        " of the test photos right; seeds differ by one to four points.",
    ),
    "toy": (
        "Which points of a cloud does each method keep, if up to 45 % of them are an adversary's?",
        "more than two dimensions, or an adversary among the rows.",
    ),
    "convergence": (
        "Does the distance between the picks' mean and its target fall like 1/k?",
        "the default's teaching step on labelled rows: without labels the residual step is the whole method.",
    ),
    "bounds": (
        "Do the paper's bounds hold for what is picked?",
        "a tight bound: what is measured is far inside of it. The guard is off here.",
    ),
}


def _lines(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def records_of(lines: Sequence[dict[str, str]]) -> Iterator[dict[str, Any]]:
    """Yield records with the mean, the spread and the number of seeds of each line; seeds are not kept."""
    for line in lines:
        seeds, spread = int(line["seeds"]), float(line["spread"] or 0)
        steps = np.linspace(-1, 1, seeds) if seeds > 1 else np.zeros(1)
        scale = spread / steps.std(ddof=1) if seeds > 1 else 0.0
        same = {
            key: line[key] for key in ("table", "scale", "dataset", "scenario", "proxy", "target", "method")
        }
        shares = {
            key: float(line[key]) if line[key] else None for key in ("corrupted_picks", "corrupted_rows")
        }
        for seed, step in enumerate(steps):
            accuracy = float(line["accuracy"]) + scale * float(step)
            yield same | shares | {"keep": float(line["keep"]), "seed": seed, "accuracy": accuracy}


def answer(records: Sequence[dict[str, Any]]) -> str:
    """Return three sentences: behind whom, ahead of whom, and where the lead is lowest."""
    rivals = duels(records)
    behind = [
        f"{one.method} ({one.mean:+.1f}; {one.lost} of {one.cells} cells)" for one in rivals if one.mean < 0
    ]
    ahead = [f"{one.method} {one.mean:+.1f} ({one.won} of {one.cells})" for one in rivals if one.mean >= 0]
    worst = min(rivals, key=lambda one: one.worst)
    found = [one for one in standings(records) if one.lead is not None and not one.name.startswith("Average")]
    least = min(found, key=lambda one: one.lead or 0.0)
    first = f"On average `gm-matching` is behind {', '.join(behind)}." if behind else (
        "On average `gm-matching` is behind no other method; its worst cell is"
        f" {worst.worst:+.1f} beside {worst.method}."
    )  # fmt: skip
    second = (
        f" It is ahead of {', '.join(ahead)}; in brackets the cells in which it is better." if ahead else ""
    )
    return (
        f"{first}{second} Its lead on the best other method is lowest with *{least.name}*: {least.lead:+.1f}"
        f" beside {least.best}."
    )


def answer_of_points(name: str, lines: Sequence[dict[str, str]]) -> str:
    """Return the answer of a figure of made-up points."""
    if name == "bounds":
        told = []
        for what in dict.fromkeys(line["what"] for line in lines):
            own = [line["inside"] == "True" for line in lines if line["what"] == what]
            told.append(f"{what} {sum(own)}")
        return f"Of {len(own)} cases these are inside the bound: {'; '.join(told)}."
    if name == "toy":
        return "With 20 and 45 % corrupted points, over all adversaries and seeds: " + "; ".join(
            f"{method} keeps {100 * _mean(own, 'corrupted_picks'):.1f} % corrupted ones, its spread is"
            f" {_mean(own, 'spread'):.2f} times that of the clean points"
            for method in ("gm-matching", "gm-matching-paper", "moderate", "easy")
            if (own := [line for line in lines if line["method"] == method and line["rate"] != "0.0"])
        ) + "."  # fmt: skip
    rates, told = list(dict.fromkeys(line["rate"] for line in lines)), []
    for method in dict.fromkeys(line["method"] for line in lines if "guard" not in line["method"]):
        slopes = []
        for rate in rates:
            own = [line for line in lines if (line["method"], line["rate"]) == (method, rate)]
            points = np.log([[float(line["picks"]), float(line["to_median"])] for line in own])
            slopes.append(f"{np.polyfit(*points.T, 1)[0]:.2f}")
        told.append(f"{method} {', '.join(slopes)}")
    shares = ", ".join(f"{100 * float(rate):.0f}" for rate in rates)
    return (
        f"Exponents of k in the distance to the geometric median, with {shares} % of the rows corrupted:"
        f" {'; '.join(told)}. Matching falls like 1/k (-1), random ones of clean rows like its root (-0.5);"
        " on corrupted rows random picks and herding level off."
    )


def _mean(lines: Sequence[dict[str, str]], key: str) -> float:
    return float(np.mean([float(line[key]) for line in lines]))


def make_points(name: str, scale: str, folder: Path = RESULTS) -> None:
    """Draw a figure of made-up points, unless it is there, and write its page."""
    made = OUT / digest() / f"{name}-{scale}"
    if not (made / f"{name}.csv").exists():
        reproduce(name, scale, OUT / digest())
    shutil.copy(made / f"{name}.csv", folder)
    shutil.copy(made / f"{name}.png", folder)
    lines = _lines(folder / f"{name}.csv")
    text = (made / f"{name}.md").read_text(encoding="utf-8")
    _write(folder, name, answer_of_points(name, lines), f"`gmmatch reproduce {name} --scale {scale}`.",
           text[text.index("![") :].strip())  # fmt: skip


def _write(folder: Path, name: str, said: str, command: str, rest: str) -> None:
    question, shows_not = QUESTIONS[name]
    command += " How runs differ from the paper's: [deviations](../deviations.md)."
    Page(load_spec(name).title, question, said, command, shows_not, [rest]).write(folder / f"{name}.md")


def make(
    name: str, scale: str, workers: int | None, only: Sequence[str] | None, folder: Path = RESULTS
) -> None:
    """Measure the rows of a table whose picks are not of today, and write its page and files.

    `only`: methods to measure; others whose picks changed are left out of the page.
    """
    kept, out = folder / f"{name}.csv", OUT / digest()
    lines = _lines(kept) if kept.exists() else []
    methods = list(dict.fromkeys(name for grid in load_spec(name).grids[scale] for name in grid.methods))
    carried = [line for line in lines if line.get("picks") == digest_of_row(line["method"])]
    days = {line["method"]: line["date"] for line in carried}
    stale = [method for method in methods if method not in days and (only is None or method in only)]
    days |= dict.fromkeys(stale, datetime.now(UTC).date().isoformat())
    records: list[dict[str, Any]] = []
    if stale:
        records = reproduce(name, scale, out, part={"methods": stale}, workers=workers, say=print).records
    records += records_of(carried)
    made = out / f"{name}-{scale}"
    write_results(records, made, load_spec(name).title)
    found = _lines(made / f"{name}.csv")
    with kept.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*found[0], "picks", "date"], lineterminator="\n")
        writer.writeheader()
        for line in found:
            method = line["method"]
            writer.writerow(line | {"picks": digest_of_row(method), "date": days[method]})
    shutil.copy(made / f"{name}-standings.csv", folder)
    shutil.copy(made / "curves.png", folder / f"{name}.png")
    text = (made / f"{name}.md").read_text(encoding="utf-8")
    measured = "; ".join(
        f"{day}: {', '.join(method for method in methods if days.get(method) == day)}"
        for day in sorted(set(days.values()))
    )
    _write(
        folder,
        name,
        answer(records),
        f"`gmmatch reproduce {name} --scale {scale}` measures all rows; `make results ONLY={name}` measures"
        f" those whose picks changed since their day and carries over the others. Measured on {measured}.",
        f"![Accuracy against the share kept]({name}.png)\n\n{text[text.index('## ') :].strip()}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=list(QUESTIONS))
    parser.add_argument("--scale", default="cpu")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--methods", nargs="+", help="measure these; others that changed are left out")
    asked = parser.parse_args()
    if load_spec(asked.name).kind == "grid":
        make(asked.name, asked.scale, asked.workers, asked.methods)
    else:
        make_points(asked.name, asked.scale)


if __name__ == "__main__":
    main()
