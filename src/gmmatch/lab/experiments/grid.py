"""Records of cells, gathered into the blocks of a table: methods as rows, keep ratios as columns.

A record is a dictionary that describes one run: `table`, `scale`, `dataset`, `scenario`, `proxy`, `target`,
`method`, `keep`, `seed`, `accuracy` (percent), `corrupted_picks` and `corrupted_rows` (shares or None), and
what is needed to repeat it.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...errors import InvalidInput
from .paper import PaperFigure, figures_of, find_figure, paper_name, regime_of

Record = dict[str, Any]
Setting = tuple[str, str, str]
"""Dataset, proxy, target."""

OURS = "gm-matching"
_MOST_COLUMNS = 6  # beyond which settings become blocks, as in the paper, instead of groups of columns
_ORDER = (
    "random", "easy", "hard", "herding", "forgetting", "grand", "el2n", "optimization", "self-supervised",
    "moderate", "k-center", "facility-location", "stratified", "small-loss", "cleanlab+random",
    "cleanlab+facility-location", "cleanlab+gm-matching", "random+guard", "herding+guard",
)  # fmt: skip
_LAST = ("gm-matching-authors", "gm-matching-paper", "gm-matching-unguarded", OURS)
_LABELS = (
    (r"clean", "No corruption"),
    (r"as given", "As given"),
    (r"images-(\d+)", r"\1 % of the images corrupted"),
    (r"labels-(\d+)", r"\1 % of the labels wrong"),
    (r"gross-(\d+)", r"\1 % gross contamination"),
    (r"human-(.+)", r"Human labels, \1"),
    (r"pgd", "PGD attack"),
    (r"fgsm|gs", "GS attack"),
)


@dataclass(frozen=True)
class Value:
    """One cell: a mean, its spread over seeds (None for a single one), and the paper's figure beside it."""

    mean: float
    spread: float | None = None
    seeds: int = 1
    paper: PaperFigure | None = None


@dataclass(frozen=True)
class Column:
    """A keep ratio of a setting."""

    setting: Setting
    keep: float


@dataclass(frozen=True)
class Block:
    """Part of a table: one scenario, all methods."""

    title: str  # the scenario in words, with the setting where a table has several
    # What the block is about; no setting where its columns are of several.
    scenario: str
    setting: Setting | None
    columns: tuple[Column, ...]  # settings and keep ratios, from left to right
    rows: dict[str, list[Value | None]]  # the values of each method, None where a cell is missing
    better: Literal["higher", "lower"] = "higher"  # which values are the better ones
    digits: int = 2  # decimals to show, and to compare by

    def mean(self, method: str) -> float | None:
        """Return a method's mean over the columns that drop rows; None where one is missing."""
        values = [
            value for value, column in zip(self.rows[method], self.columns, strict=True) if column.keep < 1
        ]
        found = [value.mean for value in values if value is not None]
        return float(np.mean(found)) if found and len(found) == len(values) else None

    def best(self) -> dict[str, set[int]]:
        """Return for each method the columns in which it is the best, the mean's column last.

        Values that look the same share the honour; a column that tells no method from another has none.
        """
        columns = [[self.rows[name][at] for name in self.rows] for at in range(len(self.columns))]
        shown: list[list[float | None]] = [
            [None if value is None else round(value.mean, self.digits) for value in column]
            for column in columns
        ]
        means = [self.mean(name) for name in self.rows]
        shown.append([None if mean is None else round(mean, self.digits) for mean in means])
        winners: dict[str, set[int]] = {name: set() for name in self.rows}
        for at, column in enumerate(shown):
            known = {value for value in column if value is not None}
            if len(known) < 2:
                continue
            top = max(known) if self.better == "higher" else min(known)
            for name, value in zip(self.rows, column, strict=True):
                if value == top:
                    winners[name].add(at)
        return winners

    def shown(self, show: Callable[[Value | None, int, bool], str]) -> Iterator[tuple[str, list[str]]]:
        """Yield each method and its cells, the mean last; `show` takes a value, digits, and if it is best."""
        best = self.best()
        for method, values in self.rows.items():
            mean = self.mean(method)
            cells = [*values, None if mean is None else Value(mean)]
            yield method, [show(value, self.digits, at in best[method]) for at, value in enumerate(cells)]


def scenario_label(scenario: str) -> str:
    """Return a scenario in words.

    >>> scenario_label("labels-35"), scenario_label("human-worst"), scenario_label("my own")
    ('35 % of the labels wrong', 'Human labels, worst', 'my own')
    """
    for pattern, label in _LABELS:
        found = re.fullmatch(pattern, scenario)
        if found:
            return found.expand(label)
    return scenario


def setting_label(setting: Setting) -> str:
    """Return a setting in words."""
    dataset, proxy, target = setting
    return f"{dataset}, {proxy} → {target}" if proxy else f"{dataset}, {target}"


def order_methods(names: Iterable[str]) -> list[str]:
    """Return methods in the paper's order, further ones after them, ours last.

    >>> order_methods(["gm-matching", "mine", "moderate", "random"])
    ['random', 'moderate', 'mine', 'gm-matching']
    """
    found = list(dict.fromkeys(names))
    known = [name for name in _ORDER if name in found]
    last = [name for name in _LAST if name in found]
    return known + [name for name in found if name not in (*_ORDER, *_LAST)] + last


def accuracy_blocks(records: Sequence[Record]) -> list[Block]:
    """Return the blocks of the accuracy table: mean and sample standard deviation over seeds.

    Raises InvalidInput where two records are of the same cell and seed.
    """
    return _blocks(records, "accuracy", 1.0, "higher", 2)


def picks_blocks(records: Sequence[Record]) -> list[Block]:
    """Return the blocks of the corrupted share of the picks in percent, where some rows but not all are."""
    return _blocks(
        [
            record
            for record in records
            if record["corrupted_picks"] is not None
            and 0 < (record["corrupted_rows"] or 0) < 1
            and record["keep"] < 1
        ],
        "corrupted_picks",
        100.0,
        "lower",
        1,
    )


def paper_blocks(records: Sequence[Record]) -> list[Block]:
    """Return the paper's figures for the scenarios and methods of the records, on the paper's own data.

    Network transfer is shown beside transfer, one network beside one network; nothing is shown where the
    records have the paper's own settings, whose figures stand beside ours.
    """
    methods = order_methods(record["method"] for record in records)
    if any(_paper_figure(record) for record in records):
        return []
    regimes = {regime_of(record["proxy"], record["target"]) for record in records}
    blocks: list[Block] = []
    for scenario in dict.fromkeys(record["scenario"] for record in records):
        figures = [figure for figure in figures_of(scenario, methods) if figure.regime in regimes]
        cells = {
            ((figure.dataset, figure.proxy, figure.target), figure.keep, figure.method): Value(
                figure.accuracy, figure.spread, 5
            )
            for figure in figures
        }
        # The paper has one GM Matching: its row goes by the name of ours.
        names = {paper_name(name): name for name in methods if paper_name(name)}
        renamed = {(setting, keep, names[name]): value for (setting, keep, name), value in cells.items()}
        blocks += _arrange(scenario, renamed, "higher", 2, alone=False)
    return blocks


def gather(records: Sequence[Record], key: str) -> dict[tuple[str, Setting, float, str], list[float]]:
    """Return the values of each scenario, setting, keep ratio and method, one per seed."""
    seen: set[tuple[Any, ...]] = set()
    gathered: dict[tuple[str, Setting, float, str], list[float]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record["seed"]):
        setting = (record["dataset"], record["proxy"], record["target"])
        cell = (record["scenario"], setting, float(record["keep"]), record["method"])
        if (*cell, record["seed"]) in seen:
            raise InvalidInput(
                f"a cell must have one record per seed; got several of {record['scenario']}, "
                f"{setting_label(setting)}, {record['method']}, "
                f"keep {record['keep']:g}, seed {record['seed']}"
            )
        seen.add((*cell, record["seed"]))
        gathered[cell].append(float(record[key]))
    return gathered


def _blocks(
    records: Sequence[Record], key: str, factor: float, better: Literal["higher", "lower"], digits: int
) -> list[Block]:
    values = gather(records, key)
    alone = len({cell[1] for cell in values}) == 1
    papers = {cell: _paper_of(*cell) if key == "accuracy" else None for cell in values}
    blocks = []
    for scenario in dict.fromkeys(record["scenario"] for record in records):
        cells = {
            cell[1:]: Value(
                factor * float(np.mean(found)),
                factor * float(np.std(found, ddof=1)) if len(found) > 1 else None,
                len(found),
                papers[cell],
            )
            for cell, found in values.items()
            if cell[0] == scenario
        }
        blocks += _arrange(scenario, cells, better, digits, alone)
    return blocks


def _arrange(
    scenario: str,
    cells: dict[tuple[Setting, float, str], Value],
    better: Literal["higher", "lower"],
    digits: int,
    alone: bool,
) -> list[Block]:
    """Lay the cells of a scenario out in one block, or in one per setting where that would be too wide."""
    settings = sorted({setting for setting, _, _ in cells})
    methods = order_methods(method for _, _, method in cells)
    columns = sorted({(setting, keep) for setting, keep, _ in cells})
    together = len(columns) <= _MOST_COLUMNS
    groups = [settings] if together else [[setting] for setting in settings]
    blocks = []
    for group in groups if cells else []:
        chosen = tuple(Column(setting, keep) for setting, keep in columns if setting in group)
        rows = {
            name: [cells.get((column.setting, column.keep, name)) for column in chosen] for name in methods
        }
        rows = {name: row for name, row in rows.items() if any(row)}
        setting = group[0] if len(group) == 1 else None
        title = scenario_label(scenario)
        if setting and not alone:
            title = f"{title}: {setting_label(setting)}"
        blocks.append(Block(title, scenario, setting, chosen, rows, better, digits))
    return blocks


def _paper_of(scenario: str, setting: Setting, keep: float, method: str) -> PaperFigure | None:
    return find_figure(setting[0], scenario, setting[1], setting[2], method, keep)


def _paper_figure(record: Record) -> PaperFigure | None:
    setting = (record["dataset"], record["proxy"], record["target"])
    return _paper_of(record["scenario"], setting, record["keep"], record["method"])


@dataclass(frozen=True)
class Mean:
    """A figure of a table: mean and spread (sample standard deviation) of the accuracy over seeds."""

    # Which figure.
    dataset: str
    scenario: str
    target: str
    method: str
    keep: float
    # In percent; the spread of a single seed is 0.
    accuracy: float
    spread: float
    # Mean share of damaged rows among the picks; None where nothing was damaged.
    corrupted_picks: float | None
    seeds: int  # how many results it is the mean of


def summarise(records: Sequence[dict[str, Any]]) -> list[Mean]:
    """Average over seeds, in the order in which the figures first come up.

    Examples
    --------
    >>> base = {"dataset": "d", "scenario": "clean", "target": "t", "method": "random", "keep": 0.1}
    >>> found = summarise([base | {"accuracy": value, "corrupted_picks": None} for value in (70.0, 72.0)])
    >>> found[0].accuracy, round(found[0].spread, 2), found[0].seeds
    (71.0, 1.41, 2)
    """
    gathered: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        key = tuple(record[name] for name in ("dataset", "scenario", "target", "method", "keep"))
        gathered[key].append(record)
    return [_mean(key, found) for key, found in gathered.items()]


def _mean(key: tuple[Any, ...], records: Sequence[dict[str, Any]]) -> Mean:
    accuracies = [record["accuracy"] for record in records]
    picks = [record["corrupted_picks"] for record in records if record["corrupted_picks"] is not None]
    dataset, scenario, target, method, keep = key
    return Mean(
        dataset,
        scenario,
        target,
        method,
        keep,
        accuracy=float(np.mean(accuracies)),
        spread=float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else 0.0,
        corrupted_picks=float(np.mean(picks)) if picks else None,
        seeds=len(records),
    )
