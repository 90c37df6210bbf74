"""What learners make of the picks: the default against version 0.2.0 and other ways.

``python -m benchmarks.teach [--study labelled|report|unlabelled ...] [--old SOURCES] [--seeds 0 1 2]
[--scenarios NAME ...] [--methods NAME ...] [--keeps 0.02 0.05 0.1 0.3] [--show]``

`labelled` are the scenarios that settings were chosen on, `report` those that were not; both go to the page
docs/results/teach.md, `unlabelled` goes to docs/results/unlabelled.md. SOURCES is the `src` folder of version
0.2.0: its default is measured as `old`, in a process of its own. Finished cells are kept (see `_cells`);
`--show` measures nothing. Needs what `_scenes` needs, and cleanlab.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._cells import METHODS, Cells, Line, measure, study_parser
from ._learners import LEARNERS
from ._page import Page, table

SCENARIOS = {
    "labelled": (
        "letters/none", "letters/symmetric-20", "digits/symmetric-20", "digits/symmetric-40",
        "digits4/symmetric-20", "breast_cancer/none", "breast_cancer/symmetric-20", "clinc_train/none",
        "clinc_train/symmetric-20", "clinc_train/open-set", "cifar10_train/none",
        "cifar10_train/symmetric-40", "cifar10_train/pair-30", "cifar10_train/human",
        "cifar10_train/near-duplicates", "cifar10_train/outliers", "cifar10_train/tail", "letters/tail",
    ),
    "report": (
        "fashion_mnist/none", "fashion_mnist/symmetric-20", "fashion_mnist/pair-30", "fashion_mnist/tail",
        "clinc_test/symmetric-20", "mushroom/symmetric-20", "chess/symmetric-20",
        "mammographic/symmetric-20", "led7digit/symmetric-20",
    ),
    "unlabelled": (
        "clinc_minilm/unlabelled", "clinc_train/unlabelled", "letters/unlabelled",
        "cifar10_train/unlabelled", "splice/unlabelled", "wisconsin/unlabelled", "pima/unlabelled",
    ),
}  # fmt: skip
_WITH_LABELS = (
    "old", "default", "random", "herding+guard", "small-loss", "cleanlab+matching",
    "cleanlab+facility-location", "cleanlab+random",
)  # fmt: skip
WAYS = {
    "labelled": _WITH_LABELS,
    "report": _WITH_LABELS,
    "unlabelled": ("old", "default", "random", "facility-location", "k-means"),
}
KEEPS = (0.02, 0.05, 0.1, 0.3)
SMALL = (0.02, 0.05, 0.1)  # budgets that averages speak of

Key = tuple[str, str, float]  # method, scenario, budget
Paired = dict[int, Any]  # what each seed gave: the accuracy of each learner


def by_cell(lines: Sequence[Line], learners: Sequence[str] = LEARNERS) -> dict[Key, Paired]:
    """Return the accuracies of each cell by seed."""
    found: dict[Key, Paired] = {}
    for line in lines:
        values = np.array([line[learner] for learner in learners])
        found.setdefault((line["method"], line["scenario"], line["keep"]), {})[line["seed"]] = values
    return found


def gaps(cells: dict[Key, Paired], ours: str, other: str, scenario: str, keep: float) -> Any:
    """Return how far ahead a method is: one line for each seed that both have, one column per learner."""
    first, second = cells.get((ours, scenario, keep), {}), cells.get((other, scenario, keep), {})
    return np.array([first[seed] - second[seed] for seed in first if seed in second])


def error(values: Any) -> float:
    """Return the standard error of a mean; NaN for a single value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def leads(
    cells: dict[Key, Paired], others: Sequence[str], names: Sequence[str], keeps: Sequence[float]
) -> tuple[str, list[tuple[float, float, str, str, float]]]:
    """Return the table of the default's leads, and every cell: lead, error, rival, scenario, budget."""
    rows, every = [], []
    for other in others:
        row = [other]
        for keep in keeps:
            found = {name: gaps(cells, "default", other, name, keep) for name in names}
            found = {name: values for name, values in found.items() if len(values)}
            if not found:
                row.append("-")
                continue
            every += [
                (float(values.mean()), error(values.mean(axis=1)), other, name, keep)
                for name, values in found.items()
            ]
            means = np.array([values.mean(axis=0) for values in found.values()])
            won, lost = (int((sign * means.mean(axis=1) > 0).sum()) for sign in (1, -1))
            each = " / ".join(f"{gap:+.1f}" for gap in means.mean(axis=0))
            row.append(f"{each} ({won} won, {lost} lost)")
        rows.append(row)
    return table(["against", *(f"{keep:.0%}" for keep in keeps)], rows), every


def accuracies(
    cells: dict[Key, Paired], methods: Sequence[str], scenario: str, keeps: Sequence[float]
) -> str:
    """Return the accuracies of a scenario, with the spread over seeds of their mean."""
    rows = []
    for method in methods:
        row = [method]
        for keep in keeps:
            found = np.array(list(cells.get((method, scenario, keep), {}).values()))
            each = " / ".join(f"{value:.1f}" for value in found.mean(axis=0)) if len(found) else "-"
            row.append(each if len(found) < 2 else f"{each} ± {found.mean(axis=1).std(ddof=1):.1f}")
        if set(row[1:]) != {"-"}:
            rows.append(row)
    return table(["", *(f"{keep:.0%}" for keep in keeps)], rows)


def _average(every: Sequence[Any], other: str, keeps: Sequence[float]) -> float:
    found = [lead for lead, _, rival, _, keep in every if rival == other and keep in keeps]
    return float(np.mean(found)) if found else float("nan")


def told_losses(every: Sequence[Any], other: str) -> str:
    """Return the cells in which the default is behind by more than half a point and two standard errors."""
    lost = sorted(
        (lead, f"{name} at {keep:.0%} ({lead:+.1f})")
        for lead, spread, rival, name, keep in every
        if rival == other and lead < -0.5 and not lead > -2 * spread
    )
    total = sum(rival == other for *_, rival, _, _ in every)
    words = ", ".join(text for _, text in lost[:6]) + (f" and {len(lost) - 6} more" if len(lost) > 6 else "")
    return f"in {len(lost)} of {total} cells" + (f": {words}" if lost else "")


def _answer(every: Sequence[Any], others: Sequence[str]) -> str:
    """Return three sentences: losses first, then the leads."""
    known = [other for other in others if any(cell[2] == other for cell in every)]
    means = {other: _average(every, other, SMALL) for other in known if other != "old"}
    ahead = [f"{other} ({mean:+.1f})" for other, mean in means.items() if mean <= 0]
    worst = "It is behind no other way on average at 2 to 10 %" if not ahead else (
        "On average at 2 to 10 % it is behind " + ", ".join(ahead))  # fmt: skip
    rest = ", ".join(f"{other} {mean:+.1f}" for other, mean in means.items() if mean > 0)
    before = ""
    if "old" in known:
        before = (
            f"The default loses more than half a point to version 0.2.0 {told_losses(every, 'old')}. Its"
            f" average lead on 0.2.0 is {_average(every, 'old', SMALL):+.1f} points at 2 to 10 % and"
            f" {_average(every, 'old', [0.3]):+.1f} at 30 %. "
        )
    return before + worst + (f"; its leads are: {rest}." if rest else ".")


def _outliers(lines: Sequence[Line], methods: Sequence[str], names: Sequence[str]) -> str:
    rows = []
    for name in names:
        row = [name]
        for method in methods:
            found = [li["outliers"] for li in lines if (li["method"], li["scenario"]) == (method, name)]
            row.append(f"{np.mean(found):.1f}" if found else "-")
        rows.append(row)
    return table(["rows", *methods], rows)


_KEPT = (
    " All cells are in benchmarks/cells/teach.csv; what no picks of this package move is measured once, and"
    " cells with one decimal are those of the page of 18 November."
)
_EACH = "Logistic regression / neighbours / network"
_SHOWS_NOT = {
    "labelled": "other encoders, learners that train the encoder, or pools of more than 6,000 rows.",
    "unlabelled": "what labels would have added, learners that train the encoder, or pools of more rows.",
}


def _seeds(lines: Sequence[Line], methods: Sequence[str]) -> str:
    found = {name: len({line["seed"] for line in lines if line["method"] == name}) for name in methods}
    return ", ".join(f"{name} {count}" for name, count in found.items() if count)


def labelled_page(lines: Sequence[Line]) -> Page:
    """Return the page of pools with labels."""
    cells, keeps = by_cell(lines), sorted({line["keep"] for line in lines})
    others = [name for name in WAYS["labelled"] if name != "default"]
    parts, answers = [], []
    for study, title in (("labelled", "Sets that settings were chosen on"), ("report", "Sets run once")):
        names = [name for name in SCENARIOS[study] if any(key[1] == name for key in cells)]
        if not names:
            continue
        averages, every = leads(cells, others, names, keeps)
        answers.append(f"{title} ({len(names)} scenarios): {_answer(every, others)}")
        parts += [f"## {title}", f"Lead of the default in points, averaged over scenarios. {_EACH}; wins and"
                  " losses count scenarios by the mean of the three.", averages]  # fmt: skip
        for name in names:
            parts += [f"### {name}", accuracies(cells, WAYS["labelled"], name, keeps)]
    return Page(
        "What learners make of the picks",
        "If models learn the kept rows alone, how well do they do on clean test rows: with the default, with"
        " version 0.2.0, and with the strongest other ways?",
        "\n\n".join(answers),
        "`python -m benchmarks.teach --study labelled report --old SOURCES`. Pools of at most 6,000 rows;"
        f" accuracy in percent, balanced for tails. {_EACH}; ± is the spread over seeds of their mean. Seeds:"
        f" {_seeds(lines, WAYS['labelled'])}. `old` is version 0.2.0 (commit `1e92aab`). `cleanlab+...` drops"
        " what cleanlab finds with a regression tuned out of fold, then picks among the rest; facility"
        " location and herding have no settings. A lost cell is behind by two paired standard errors, or has"
        f" one seed.{_KEPT}",
        _SHOWS_NOT["labelled"],
        parts,
    )


def unlabelled_page(lines: Sequence[Line]) -> Page:
    """Return the page of pools without labels."""
    cells, keeps = by_cell(lines), sorted({line["keep"] for line in lines})
    methods, names = WAYS["unlabelled"], list(SCENARIOS["unlabelled"])
    averages, every = leads(cells, [name for name in methods if name != "default"], names, keeps)
    sets = []
    for name in names:
        own = [cell for cell in every if cell[3] == name]
        if own:
            sets.append(f"{name.split('/')[0]} {_average(own, 'facility-location', keeps):+.1f}")
    answer = (
        f"The default loses more than half a point to facility location"
        f" {told_losses(every, 'facility-location')}. Its lead on facility location over all budgets is"
        f" {_average(every, 'facility-location', keeps):+.1f} points on average; by set: {', '.join(sets)}. "
        + _answer([cell for cell in every if cell[2] == "old"], ["old"]).split(" It is")[0]
    )
    parts = ["Lead of the default in points, averaged over sets. " + _EACH + ".", averages,
             "Outliers among the picks, in percent, mean over budgets. The pools of CLINC150 have 9.1 % texts"
             " of no intent; in the others 4.8 % are planted: rows with shuffled columns, and noise.",
             _outliers(lines, methods, names)]  # fmt: skip
    for name in names:
        if any(key[1] == name for key in cells):
            parts += [f"### {name}", accuracies(cells, methods, name, keeps)]
    return Page(
        "Picks without labels",
        "If nobody has labelled the rows yet, which should be labelled: do models learn more from the"
        " default's picks than from others?",
        answer,
        "`python -m benchmarks.teach --study unlabelled --old SOURCES`. Learners are told the true classes of"
        f" the picks, and nothing of outliers among them; accuracy in percent. {_EACH}; ± is the spread over"
        f" seeds. Seeds: {_seeds(lines, methods)}. CLINC150 by MiniLM and by WordLlama (`clinc_train`)."
        " `k-means` takes the rows nearest to the centres of mini-batch k-means. All are sets that settings"
        f" were chosen on; some eight ways to match clusters were tried on them.{_KEPT}"
        " Of those, outliers are means over budgets.",
        _SHOWS_NOT["unlabelled"],
        parts,
    )


def write_pages(lines: Sequence[Line], folder: Path) -> None:
    """Write the pages of all that was measured."""
    bare = [line for line in lines if line["scenario"] in SCENARIOS["unlabelled"]]
    rest = [line for line in lines if line["scenario"] not in SCENARIOS["unlabelled"]]
    for name, made, some in (("teach", labelled_page, rest), ("unlabelled", unlabelled_page, bare)):
        if any(line["method"] == "default" for line in some):
            made(some).write(folder / f"{name}.md")


def main() -> None:
    parser = study_parser(__doc__, "teach")
    parser.add_argument("--study", nargs="+", choices=list(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--old", help="the src folder of version 0.2.0")
    parser.add_argument("--scenarios", nargs="+")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS))
    parser.add_argument("--keeps", type=float, nargs="+", default=list(KEEPS))
    asked = parser.parse_args()
    cells = Cells(asked.out)
    for seed in [] if asked.show else asked.seeds:
        for study in asked.study:
            for scenario in SCENARIOS[study]:
                if asked.scenarios is None or scenario in asked.scenarios:
                    names = [name for name in WAYS[study] if asked.methods is None or name in asked.methods]
                    measure(cells, scenario, seed, {n: METHODS[n] for n in names}, asked.keeps, asked.old)
                    print(f"{scenario}, seed {seed}", flush=True)
    cells.prune()
    write_pages(cells.all, asked.pages)


if __name__ == "__main__":
    main()
