"""Compare methods by what a network learns from the photos of their picks.

``python -m benchmarks.networks [--seeds 0 1 2] [--keeps 0.02 0.05 0.1 0.2 0.3] [--show]`` writes
docs/results/networks.md. Finished cells are kept (see `_cells`). Needs torch and what `_scenes` needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from ._cells import METHODS, Cells, Line, measure, study_parser
from ._page import Page, table
from .teach import accuracies, by_cell, error, gaps

SCENARIOS = (
    "cifar10_train/human", "fashion_mnist/symmetric-20", "cifar10_train/none", "fashion_mnist/none",
)  # fmt: skip
WAYS = ("default", "random", "cleanlab+random", "herding+guard", "small-loss", "cleanlab+matching")
KEEPS = (0.05, 0.1, 0.3, 0.02, 0.2)
LEARNERS = ("logistic", "resnet8")


def _agreement(lines: Sequence[Line]) -> tuple[int, int]:
    """Return how many pairs of methods both learners put in one order, and how many pairs there are.

    Pairs of one scenario, budget and seed that differ by a point or more for both.
    """
    cells, agree, total = by_cell(lines, LEARNERS), 0, 0
    for scenario in SCENARIOS:
        for keep in sorted({line["keep"] for line in lines}):
            for first, second in combinations(WAYS, 2):
                for lead in gaps(cells, first, second, scenario, keep):
                    if (np.abs(lead) >= 1.0).all():
                        total += 1
                        agree += int(lead[0] * lead[1] > 0)
    return agree, total


def page(lines: Sequence[Line]) -> Page:
    """Return the page of all that was measured."""
    cells, keeps = by_cell(lines, LEARNERS), sorted({line["keep"] for line in lines})
    names = [name for name in SCENARIOS if any(key[1] == name for key in cells)]
    rows, leads, lost = [], {}, []
    for other in WAYS[1:]:
        row, every = [other], []
        for keep in keeps:
            found = {name: gaps(cells, "default", other, name, keep) for name in names}
            means = np.array([values.mean(axis=0) for values in found.values() if len(values)])
            row.append(" / ".join(f"{lead:+.1f}" for lead in means.mean(axis=0)) if len(means) else "-")
            every += list(means)
            lost += [
                f"{other} on {name} at {keep:.0%} ({values[:, 1].mean():+.1f})"
                for name, values in found.items()
                if len(values)
                and values[:, 1].mean() < -1.0
                and not values[:, 1].mean() > -2 * error(values[:, 1])
            ]
        if every:
            leads[other] = np.mean(every, axis=0)
            rows.append([*row, " / ".join(f"{lead:+.1f}" for lead in leads[other])])
    agree, total = _agreement(lines)
    behind = [f"{name} ({lead[1]:+.1f})" for name, lead in leads.items() if lead[1] <= 0]
    answer = (
        (f"For the network the default is behind {', '.join(behind)} on average. " if behind
         else "For the network the default is behind no other way on average. ")
        + (f"It loses more than a point in {len(lost)} cells: {', '.join(lost[:6])}"
           f"{f' and {len(lost) - 6} more' if len(lost) > 6 else ''}. " if lost
           else "It loses more than a point in no cell. ")
        + f"Of {total} pairs of methods that differ by a point or more for both learners, the network puts"
        f" {agree} ({agree / max(total, 1):.0%}) in the order of the regression."
    )  # fmt: skip
    parts = [
        "## Lead of the default, in points",
        "Logistic regression on the embeddings / ResNet-8 on the photos, averaged over scenarios.",
        table(["against", *(f"{keep:.0%}" for keep in keeps), "mean"], rows),
    ]
    for name in names:
        parts += [f"### {name}", accuracies(cells, WAYS, name, keeps)]
    seeds = {name: len({line["seed"] for line in lines if line["scenario"] == name}) for name in names}
    return Page(
        "Networks that learn the photos",
        "Methods are compared by what a regression on embeddings makes of their picks. Does their order hold"
        " for a network that learns the kept photos from scratch?",
        answer,
        "`python -m benchmarks.networks`. Pools of 6,000 photos, 4,000 clean ones to test on; picks are made"
        " on EfficientNet-Lite0 features (CIFAR-10, images recompressed) or on pixels (Fashion-MNIST)."
        " ResNet-8 (78,000 weights) from scratch, 400 steps of at most 64 photos, crops and mirrored photos,"
        " one cycle of the learning rate, the same for all methods and budgets."
        f" Seeds: {', '.join(f'{name} {count}' for name, count in seeds.items())}. CIFAR-10 with people's"
        " worst labels was chosen on, Fashion-MNIST was not.",
        "larger networks, longer training, or larger photos: 400 steps from scratch leave a ResNet-8 far"
        " below what it can learn from all photos.",
        parts,
    )


def main() -> None:
    parser = study_parser(__doc__, "networks")
    parser.add_argument("--keeps", type=float, nargs="+", default=KEEPS)
    parser.add_argument("--scenarios", nargs="+", default=SCENARIOS)
    parser.add_argument("--methods", nargs="+", default=WAYS)
    asked = parser.parse_args()
    cells = Cells(asked.out)
    for seed in [] if asked.show else asked.seeds:
        for keep in asked.keeps:
            for scenario in asked.scenarios:
                ways = {name: METHODS[name] for name in asked.methods}
                measure(cells, scenario, seed, ways, [keep], learners=LEARNERS)
                print(f"seed {seed}, {keep:.0%}, {scenario}", flush=True)
    cells.prune()
    page(cells.all).write(asked.pages / "networks.md")


if __name__ == "__main__":
    main()
