"""Which labels to believe: small classes, long tails, estimates, what is known of the rows; beside rivals.

``python -m benchmarks.believe --part small --sets choose`` measures the cells of one part; without `--part`
all of them. Every draw of a cell is kept in a file of its own, by a digest of what was asked for, so that a
run that was stopped goes on where it stopped; figures of rivals are measured once, those of this package
again whenever the digest of its picks changes. `--quick` makes a fifth of the draws. The page holds all that
was measured.

Needs GMMATCH_DATA (see `_features`), the tables of `_tables`, cleanlab, and for `--sets report`
Fashion-MNIST (see `_sets`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gmmatch
from tools.check_figures import digest

from . import _believe_page
from ._believe_page import Found
from ._believe_parts import PARTS, Cell, Values
from ._believe_rivals import VERSION
from ._page import RESULTS, Page

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
    """Finished measurements in a folder, one file for each."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def _file(self, cell: Cell, draw: int, who: str) -> Path:
        code = VERSION if who == "rivals" else f"{VERSION} {digest(labelled=True)}"
        key = json.dumps([cell.part, cell.sets, cell.name, draw, who, code])
        return self.folder / f"{cell.part}-{hashlib.sha256(key.encode()).hexdigest()[:20]}.json"

    def get(self, cell: Cell, draw: int, who: str) -> Values | None:
        """Return what was measured before, if it was."""
        file = self._file(cell, draw, who)
        return json.loads(file.read_text(encoding="utf-8"))["values"] if file.exists() else None

    def measure(self, cell: Cell, draw: int, who: str, function: Callable[[], Values]) -> Values:
        """Return what was measured before, or measure it and keep it."""
        values = self.get(cell, draw, who)
        if values is not None:
            return values
        start = time.perf_counter()
        values = function()
        record = {
            "set": cell.sets,
            "cell": cell.name,
            "draw": draw,
            "who": who,
            "version": gmmatch.__version__,
        }
        record |= {"seconds": round(time.perf_counter() - start, 2), "values": values}
        with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".partial", delete=False) as partial:
            json.dump(record, partial)
        os.replace(partial.name, self._file(cell, draw, who))
        return values

    def found(self, cell: Cell) -> Found:
        """Return the cell with its finished draws, the first ones without a gap."""
        draws: list[Values] = []
        for draw in range(cell.draws):
            ours = self.get(cell, draw, "ours")
            rivals = {} if cell.rivals is None else self.get(cell, draw, "rivals")
            if ours is None or rivals is None:
                break
            # What both call the same is ours, but for the probabilities of the network, which nobody shows.
            draws.append(rivals | ours)
        return Found(cell.part, cell.sets, cell.name, draws)


def measure(cell: Cell, draw: int, store: Store, rivals_only: bool) -> None:
    """Measure one draw of a cell, unless it is finished."""
    rivals: Values = {}
    if cell.rivals is not None:
        run = cell.rivals
        rivals = store.measure(cell, draw, "rivals", lambda: run(draw))
    if not rivals_only:
        given = (rivals,) if cell.after_rivals else ()
        store.measure(cell, draw, "ours", lambda: cell.ours(draw, *given))


def _before() -> dict[str, list[float]]:
    found: dict[str, list[float]] = json.loads(BEFORE.read_text(encoding="utf-8"))
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--sets", nargs="+", choices=list(_TITLES), default=["choose"])
    parser.add_argument("--only", nargs="+", help="names of sets; others are left out")
    parser.add_argument("--quick", action="store_true", help="a fifth of the draws")
    parser.add_argument("--rivals-only", action="store_true", help="measure what does not depend on gmmatch")
    parser.add_argument("--show", action="store_true", help="measure nothing; print what there is")
    parser.add_argument("--out", type=Path, default=Path("out/believe"), help="folder of the measurements")
    parser.add_argument("--page", type=Path, default=RESULTS / "believe.md", help="file of the page")
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
    ).write(asked.page)


if __name__ == "__main__":
    main()
