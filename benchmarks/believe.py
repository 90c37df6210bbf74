"""Which labels to believe: small classes, long tails, estimates, what is known of the rows; beside rivals.

``python -m benchmarks.believe --part small --sets choose`` measures the cells of one part; without `--part`
all of them. Finished draws are kept (see `_cells`): figures of rivals are measured once, those of this
package again whenever the digest of its picks changes. `--quick` makes a fifth of the draws. The page holds
all that was measured.

Needs GMMATCH_DATA (see `_features`), the tables of `_tables`, cleanlab, and for `--sets report`
Fashion-MNIST (see `_sets`).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

from . import _believe_page
from ._believe_page import Found
from ._believe_parts import PARTS, Cell, Values
from ._believe_rivals import VERSION
from ._cells import Cells, Line, study_parser
from ._page import Page

BEFORE = Path(__file__).with_name("believe-0.2.0.json")  # the order of version 0.2.0, as its page has it
_COMMAND = """`python -m benchmarks.believe --sets choose report`. All cells are shown. Draws are paired:
every tool sees the same rows and the same wrong labels. *Behind* means by more than two paired standard
errors; a single draw has none. Where nothing else is said, a wrong label is any other class, all equally
likely.
The regression is logistic, in five folds, its C and the scale of few columns chosen by out-of-fold loss;
boosting is scikit-learn's histogram gradient boosting in five folds; both order rows by the probability of
the given label. The network has one hidden layer; a weak model sees a few principal components. *Calibration*
is the mean gap between the stated probability that a label is wrong and the share that is, in bins of a
tenth. Rows are *believed* if their tier in `gmmatch.select` is 0.
CIFAR-10 is the first 15,000 training images as features of EfficientNet-Lite0 (images recompressed), CLINC150
is embedded by WordLlama, tables are from KEEL."""
_TITLES = {"choose": "Sets that settings were chosen on", "report": "Sets to report on"}


class Store:
    """Finished measurements: lines of a file of cells, one for each draw and who was measured."""

    def __init__(self, file: Path) -> None:
        self.cells = Cells(file)
        self.found_values = {self._key(line): line["values"] for line in self.cells.current()}

    @staticmethod
    def _key(line: Line) -> tuple[str, int, str]:
        return line["scenario"], line["seed"], line["method"]

    def _line(self, cell: Cell, draw: int, who: str) -> Line:
        name = f"{cell.part}: {cell.sets}, {cell.name}"
        own = None if who == "rivals" else self.cells.digest(name)
        return {"scenario": name, "seed": draw, "method": f"{who} {VERSION}", "keep": 0, "digest": own}

    def get(self, cell: Cell, draw: int, who: str) -> Values | None:
        """Return what was measured before, if it was."""
        return self.found_values.get(self._key(self._line(cell, draw, who)))

    def keep(self, cell: Cell, draw: int, who: str, values: Values) -> None:
        """Keep what was measured, but for the probabilities of a network: they are as many as the rows."""
        line = self._line(cell, draw, who)
        values = {
            name: _short(value) for name, value in values.items() if (who, name) != ("rivals", "network")
        }
        self.cells.add(line | {"values": values})
        self.found_values[self._key(line)] = values

    def found(self, cell: Cell) -> Found:
        """Return the cell with its finished draws, the first ones without a gap."""
        draws: list[Values] = []
        for draw in range(cell.draws):
            ours = self.get(cell, draw, "ours")
            rivals = {} if cell.rivals is None else self.get(cell, draw, "rivals")
            if ours is None or rivals is None:
                break
            draws.append(rivals | ours)  # what both call the same is ours
        return Found(cell.part, cell.sets, cell.name, draws)


def _short(value: Any) -> Any:
    """Return a value with five decimals."""
    if isinstance(value, dict):
        return {name: _short(other) for name, other in value.items()}
    if isinstance(value, list | tuple):
        return [_short(other) for other in value]
    return round(value, 5) if isinstance(value, float) else value


def measure(cell: Cell, draw: int, store: Store, rivals_only: bool) -> None:
    """Measure what is missing of one draw of a cell."""
    missing = store.get(cell, draw, "ours") is None and not rivals_only
    rivals: Values = {}
    if cell.rivals is not None and (
        store.get(cell, draw, "rivals") is None or (missing and cell.after_rivals)
    ):
        rivals = cell.rivals(draw)
        if store.get(cell, draw, "rivals") is None:
            store.keep(cell, draw, "rivals", rivals)
    if missing:
        store.keep(cell, draw, "ours", cell.ours(draw, *((rivals,) if cell.after_rivals else ())))


def _before() -> dict[str, list[float]]:
    found: dict[str, list[float]] = json.loads(BEFORE.read_text(encoding="utf-8"))
    return found


def _parser() -> argparse.ArgumentParser:
    parser = study_parser(__doc__, "believe")
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--sets", nargs="+", choices=list(_TITLES), default=["choose"])
    parser.add_argument("--only", nargs="+", help="names of sets; others are left out")
    parser.add_argument("--quick", action="store_true", help="a fifth of the draws")
    parser.add_argument("--rivals-only", action="store_true", help="measure what does not depend on gmmatch")
    return parser


def main() -> None:
    asked: Any = _parser().parse_args()
    store = Store(asked.out)
    for sets in asked.sets:
        for part in asked.part:
            for cell in [] if asked.show else PARTS[part](sets == "report"):
                if asked.only is not None and cell.sets not in asked.only:
                    continue
                start = time.perf_counter()
                for draw in range(math.ceil(cell.draws / 5) if asked.quick else cell.draws):
                    measure(cell, draw, store, asked.rivals_only)
                seconds = time.perf_counter() - start
                print(f"{part}: {cell.sets}, {cell.name}: {seconds:.0f} s", flush=True)
    store.cells.prune()
    found, counts = {}, []
    for sets, title in _TITLES.items():
        cells = [store.found(cell) for part in PARTS.values() for cell in part(sets == "report")]
        counts.append(f"{title}: {_believe_page.counted(cells)}")
        found[title] = _believe_page.sections(cells, _before(), list(PARTS))
        if sets in asked.sets:
            for part in asked.part:
                bars, table = found[title][part]
                print(f"\n{title}: {part}\n{table}\n" + "\n".join(bar.line() for bar in bars), flush=True)
    answer, parts = _believe_page.page(found)
    Page(
        "Which labels to believe, measured",
        "Which labels does `gmmatch` believe, and is that right: on small classes, tables, long tails and"
        " balanced data, with and without what a user knows of the rows?",
        answer,
        f"{_COMMAND} Cells measured, with draws. {' '.join(counts)}",
        "labels that are wrong as the rows look, data of more than 12,000 rows, or encoders that were trained"
        " on the rows.",
        parts,
    ).write(asked.pages / "believe.md")


if __name__ == "__main__":
    main()
