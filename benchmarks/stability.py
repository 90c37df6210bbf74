"""How much of the picks and of the suspects survives another seed, 1 % other rows, another encoder.

``python -m benchmarks.stability [--seeds 0 1 2] [--show]`` writes docs/results/stability.md. Finished pairs
of runs are kept (see `_cells`). Needs what `_scenes` needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import gmmatch

from ._cells import Cells, Line, pick, study_parser
from ._page import Page, table
from ._scenes import Scene
from ._sets import Labels, Rows

SCENARIOS = (
    "clinc_train/symmetric-20", "letters/symmetric-20", "digits/symmetric-20", "cifar10_train/human",
    "splice/symmetric-20", "clinc_train/unlabelled", "letters/unlabelled",
)  # fmt: skip
CHANGES = ("another seed", "1 % other rows", "another encoder")
KEEPS = (0.02, 0.1, 0.3)
OTHER_ROWS = 0.01
_COMPONENTS = 64


def _other_encoder(scenario: str, seed: int, scene: Scene) -> tuple[Rows, str] | None:
    """Return the rows of a scene as another encoder has them; None where there is none."""
    name, damage = scenario.split("/")
    if name == "clinc_train":
        return Scene(f"clinc_minilm/{damage}", seed).rows, "MiniLM in place of WordLlama"
    if name == "cifar10_train":
        middle = scene.rows.mean(axis=0)
        turn = np.linalg.svd(scene.rows - middle, full_matrices=False)[2][:_COMPONENTS]
        return (
            scene.rows - middle
        ) @ turn.T, f"{_COMPONENTS} principal components in place of 1,280 features"
    return None


def _run(rows: Rows, labels: Labels | None, numbers: Labels, seed: int) -> dict[str, Any]:
    """Return picks and suspects of rows, by their numbers in the whole scene."""
    found: dict[str, Any] = {}
    fewest = 1 if labels is None else len(np.unique(labels))
    some = [keep for keep in KEEPS if round(keep * len(rows)) >= fewest]
    counts = [round(keep * len(rows)) for keep in some]
    for keep, picks in zip(some, pick(rows, labels, counts, seed, {"method": "gm-matching"}), strict=True):
        found[f"picks, {keep:.0%}"] = set(numbers[picks].tolist())
    if labels is not None:
        listed = gmmatch.suspects(rows, labels, random_state=seed)
        likely = np.asarray(listed.rows)[np.asarray(listed.suspicion) > 0.5]
        found["suspects"] = set(numbers[likely].tolist())
    return found


def _survive(first: dict[str, Any], second: dict[str, Any], numbers: set[int]) -> dict[str, float]:
    """Return the share of what one run has that another has as well, of rows that both saw, in percent."""
    shares = {}
    for name in first.keys() & second.keys():
        rows = first[name]
        seen = rows & numbers
        shares[name] = round(100 * len(seen & second[name]) / max(len(seen), 1), 1)
    return shares


def measure(cells: Cells, scenario: str, seed: int) -> None:
    """Measure the changes of a scenario that are not finished."""
    missing = [change for change in CHANGES if not cells.done(scenario, seed, change)]
    scene = Scene(scenario, seed)
    labels, numbers = scene.labels if scene.labelled else None, np.arange(len(scene.rows))
    first = _run(scene.rows, labels, numbers, seed) if missing else {}
    for change in missing:
        other, words = scene.rows, change
        kept, taken = numbers, seed
        if change == "another seed":
            taken = seed + 1_000
        elif change == "1 % other rows":
            order = np.random.default_rng([seed, 1]).permutation(len(numbers))
            kept = np.sort(order[round(OTHER_ROWS * len(numbers)) :])
        else:
            encoded = _other_encoder(scenario, seed, scene)
            if encoded is None:
                continue
            other, words = encoded
        second = _run(other[kept], None if labels is None else labels[kept], kept, taken)
        line: Line = {"scenario": scenario, "seed": seed, "method": change, "keep": 0.0, "words": words}
        cells.add(
            line | {"digest": cells.digest(scenario), "shares": _survive(first, second, set(kept.tolist()))}
        )


def page(lines: Sequence[Line]) -> Page:
    """Return the page of all that was measured."""
    columns = [*(f"picks, {keep:.0%}" for keep in KEEPS), "suspects"]
    rows, means = [], {}
    for change in CHANGES:
        for scenario in SCENARIOS:
            some = [li for li in lines if (li["method"], li["scenario"]) == (change, scenario)]
            if not some:
                continue
            row = [change if change != "another encoder" else some[0]["words"], scenario]
            for column in columns:
                values = [line["shares"][column] for line in some if column in line["shares"]]
                spread = f" ± {np.std(values, ddof=1):.0f}" if len(values) > 1 else ""
                row.append(f"{np.mean(values):.0f}{spread}" if values else "-")
                for value in values:
                    means.setdefault((change, column), []).append(value)
            rows.append(row)
    words = []
    for change in CHANGES:
        known = [(column, np.mean(means[change, column])) for column in columns if (change, column) in means]
        words.append(f"{change}: " + ", ".join(f"{column} {share:.0f} %" for column, share in known))
    least = min((np.mean(values), *key) for key, values in means.items())
    seeds = len({line["seed"] for line in lines})
    return Page(
        "What survives another run",
        "Which share of the picks and of the suspects stays the same with another seed, without 1 % of the"
        " rows, or with another encoder?",
        f"Least of all survives {least[1]}: {least[0]:.0f} % of {least[2]}. On average over the sets these"
        f" shares survive: {'; '.join(words)}. Two random draws of 2, 10 and 30 % share 2, 10 and 30 %.",
        f"`python -m benchmarks.stability`; {seeds} seed(s), {len({line['scenario'] for line in lines})} of"
        f" {len(SCENARIOS)} sets. Percent of the first run's rows that the second has too, of rows that both"
        " saw; ± is the spread over seeds. Without 1 % of the rows the seed is the same. Suspects are rows"
        " whose label is more likely wrong than right. With one seed, runs agree to the last byte.",
        "whether other picks teach less.",
        [table(["change", "rows", *columns], rows)],
    )


def main() -> None:
    asked = study_parser(__doc__, "stability").parse_args()
    cells = Cells(asked.out)
    for seed in [] if asked.show else asked.seeds:
        for scenario in SCENARIOS:
            measure(cells, scenario, seed)
            print(f"{scenario}, seed {seed}", flush=True)
    cells.prune()
    page(cells.all).write(asked.pages / "stability.md")


if __name__ == "__main__":
    main()
