"""What each part of the default is worth: the default with one part off, on five sets.

``python -m benchmarks.ablation [--seeds 0 1] [--keeps 0.02 0.05 0.1 0.3] [--show]`` writes
docs/results/ablation.md. Finished cells are kept (see `_cells`). Needs what `_scenes` needs.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import numpy as np

from gmmatch.trust.noise import NoiseModel

from ._cells import Cells, Line, Method, measure, study_parser
from ._page import Page, table
from .teach import KEEPS, by_cell, error, gaps

LABELLED = (
    "clinc_train/symmetric-20", "letters/symmetric-20", "digits/symmetric-20", "cifar10_train/human",
    "splice/symmetric-20",
)  # fmt: skip
UNLABELLED = ("clinc_train/unlabelled", "letters/unlabelled", "cifar10_train/unlabelled")
LEARNERS = ("logistic", "neighbours")
_RATE = 0.1


def _fixed_noise(scores: Any, codes: Any) -> NoiseModel:
    """Return a model that nothing was fitted to: a tenth of the labels is wrong, every other class alike."""
    n_classes = scores.shape[1]
    frequency = np.bincount(codes, minlength=n_classes) / len(codes)
    bias = np.append(np.log(np.maximum(frequency, 1e-12)), -50.0)[None]
    confused = np.full((n_classes, n_classes), _RATE / max(n_classes - 1, 1))
    np.fill_diagonal(confused, 1 - _RATE)
    transition = np.vstack([confused, frequency])[None]
    one = np.ones(1)
    return NoiseModel(one, one, bias, transition, frequency, np.full((n_classes + 1, 2), _RATE))


@contextmanager
def _without_noise_model() -> Iterator[None]:
    judging = importlib.import_module("gmmatch.trust.judge")  # the package's name is the function's
    fitted = vars(judging)["fit_noise"]
    setattr(judging, "fit_noise", _fixed_noise)  # noqa: B010
    try:
        yield
    finally:
        setattr(judging, "fit_noise", fitted)  # noqa: B010


def _off(**params: Any) -> Method:
    return Method({"method": "gm-matching", **params})


WITH_LABELS = {
    "default": _off(),
    "guard": _off(guard="off"),
    "noise model": Method({"method": "gm-matching"}, within=_without_noise_model),
    "teaching": _off(step="residual"),
    "students' choice": _off(strategy="teaching"),
    "Fourier features": _off(fourier_features="off"),
}
WITHOUT_LABELS = {"default": _off(), "guard": _off(guard="off"), "clusters": _off(clusters="off")}


def page(lines: Sequence[Line]) -> Page:
    """Return the page of all that was measured."""
    cells, keeps = by_cell(lines, LEARNERS), sorted({line["keep"] for line in lines})
    rows, worth, lowest = [], {}, (0.0, "")
    studies = (("labels", WITH_LABELS, LABELLED), ("no labels", WITHOUT_LABELS, UNLABELLED))
    for study, methods, names in studies:
        for part in [name for name in methods if name != "default"]:
            row, every = [study, part], []
            for keep in keeps:
                found = {name: gaps(cells, "default", part, name, keep) for name in names}
                for name, values in found.items():
                    if len(values):
                        lowest = min(lowest, (float(values.mean()), f"{part} on {name} at {keep:.0%}"))
                means = np.array([values.mean(axis=0) for values in found.values() if len(values)])
                every += list(means.mean(axis=1)) if len(means) else []
                each = " / ".join(f"{gap:+.1f}" for gap in means.mean(axis=0)) if len(means) else "-"
                row.append(each)
            worth[study, part] = np.array(every)
            rows.append([*row, f"{np.mean(every):+.1f}" if every else "-"])
    parts = [table(["rows have", "off", *(f"{keep:.0%}" for keep in keeps), "mean"], rows)]
    for _, methods, names in studies:
        for name in names:
            parts += [f"### {name}", _of_scenario(cells, [m for m in methods if m != "default"], name, keeps)]
    known = {key: values for key, values in worth.items() if len(values)}
    useless = [f"{part} ({study}) {values.mean():+.1f}" for (study, part), values in known.items()
               if values.mean() <= 0]  # fmt: skip
    order = sorted(known, key=lambda key: -float(known[key].mean()))
    ranked = ", ".join(f"{part} ({study}) {known[study, part].mean():+.1f}" for study, part in order)
    alike = [f"{first[1]} and {second[1]}" for first, second in combinations(known, 2)
             if first[0] == second[0] and np.allclose(known[first], known[second])]  # fmt: skip
    answer = (
        ("On average these parts cost more than they gain here: " + ", ".join(useless) if useless
         else "No part costs more than it gains on average")
        + f"; the worst single cell is {lowest[1]}, where the default is {lowest[0]:+.1f} points beside"
        " itself without that part. What each part is worth, in points over all budgets and both learners:"
        f" {ranked}."
        + (f" Switched off, the same rows are picked here by {', '.join(alike)}." if alike else "")
    )  # fmt: skip
    seeds = len({line["seed"] for line in lines})
    return Page(
        "What each part is worth",
        "If one part of the default is off, how much less do learners learn from the picks?",
        answer,
        f"`python -m benchmarks.ablation`; {seeds} seed(s), paired. Positive: the default is better than"
        " without the part. Logistic regression tuned / five neighbours by cosine, points on clean test rows."
        " `guard` off believes every row and so leaves out teaching, students and Fourier features as well;"
        " `noise model` off lets the classifiers decide with a fixed tenth of wrong labels; `teaching` off is"
        ' `step="residual"`; `students\' choice` off is `strategy="teaching"`. All five sets are sets that'
        " settings were chosen on.",
        "what parts are worth on sets that nobody chose settings on, with networks, or on long tails; how"
        " parts work together, as each is switched off alone.",
        parts,
    )


def _of_scenario(cells: Any, methods: Sequence[str], name: str, keeps: Sequence[float]) -> str:
    rows = []
    for method in methods:
        row = [method]
        for keep in keeps:
            found = gaps(cells, "default", method, name, keep)
            each = " / ".join(f"{gap:+.1f}" for gap in found.mean(axis=0)) if len(found) else "-"
            row.append(each if len(found) < 2 else f"{each} ± {error(found.mean(axis=1)):.1f}")
        rows.append(row)
    return table(["off", *(f"{keep:.0%}" for keep in keeps)], rows)


def main() -> None:
    parser = study_parser(__doc__, "ablation")
    parser.add_argument("--keeps", type=float, nargs="+", default=list(KEEPS))
    asked = parser.parse_args()
    cells = Cells(asked.out)
    for seed in [] if asked.show else asked.seeds:
        for names, methods in ((LABELLED, WITH_LABELS), (UNLABELLED, WITHOUT_LABELS)):
            for scenario in names:
                measure(cells, scenario, seed, methods, asked.keeps, learners=LEARNERS)
                print(f"{scenario}, seed {seed}", flush=True)
    cells.prune()
    page(cells.all).write(asked.pages / "ablation.md")


if __name__ == "__main__":
    main()
