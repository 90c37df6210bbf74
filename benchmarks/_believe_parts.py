"""The parts of `benchmarks.believe`: their cells, and what is measured in one draw of a cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _believe_ours, _believe_rivals, _believe_sets, _noisy_cells, _tables
from ._sets import Labels, Rows, Task, with_noise

SMALL_WRONG = 0.25
FEW_ROWS = 500  # cells of fewer rows are drawn more often
MANY_DRAWS, DRAWS = 20, 5
TAILS = {  # rows of the largest class, and how many times as large it is as the smallest
    "cifar10": (500, 50.0),
    "letters": (300, 50.0),
    "clinc150-train": (75, 25.0),
    "fashion-mnist": (500, 50.0),
    "clinc150-test": (38, 19.0),
}
TAIL_WRONG = (0.0, 0.15, 0.30)
KEEP = (0.05, 0.10, 0.20)
BUDGETS = {"sqrt": 0.5, "equal": 0.0}
ARMS = ("auto", "off", "oracle")
REFERENCE_SIZES, REFERENCE_WRONG = (20, 100), 0.2
TAUGHT_ROWS, NETWORK_ROWS = 12_000, 3_000  # that teach the network, and those of them that are judged

Values = dict[str, Any]
Measure = Callable[..., Values]


@dataclass(frozen=True)
class Cell:
    """One cell: what our package and what the rivals make of a draw of it.

    `ours` and `rivals` are functions of the draw; `rivals` is None where nothing else is measured. Where
    `after_rivals` is true, `ours` is given what the rivals found as well.
    """

    part: str
    sets: str
    name: str
    draws: int
    ours: Measure
    rivals: Measure | None = None
    after_rivals: bool = False


def _judged(task: Task, draw: int, believed: bool) -> Values:
    found = _believe_ours.judge(task.rows, task.labels, draw)
    values: Values = {
        "order": _believe_rivals.told(task.wrong, found.order),
        "calibration": _believe_ours.calibration(found.probability, task.wrong),
        "rows": len(task.rows),
        "wrong": float(task.wrong.mean()),
        "estimate": found.estimate,
        "interval": found.interval,
    }
    if believed:
        tiers = np.asarray(_believe_ours.select(task.rows, task.labels, 0.1, draw).tiers)
        values["believed"] = _believed(task, tiers == 0)
    return values


def _believed(task: Task, believed: npt.NDArray[np.bool_]) -> dict[str, float | None]:
    """Return the believed shares: of good rows, of those in the smallest third of classes, of wrong rows."""
    sizes = np.bincount(task.truth[task.truth >= 0])
    smallest = np.argsort(sizes, kind="stable")[: len(sizes) // 3]
    good, small = ~task.wrong, np.isin(task.truth, smallest)
    masks = {"good": good, "small": good & small, "wrong": task.wrong}
    return {name: float(believed[mask].mean()) if mask.any() else None for name, mask in masks.items()}


# small -----------------------------------------------------------------------------------------------------


def _small_task(name: str, n_classes: int, size: int, draw: int) -> Task:
    split = _believe_sets.some_classes(name, n_classes, size, draw)
    return with_noise(split, "symmetric", SMALL_WRONG, draw)


def _small_rivals(make: Callable[[int], Task], boosted: bool, draw: int) -> Values:
    task = make(draw)
    rows, labels, wrong = task.rows, task.labels, task.wrong
    tuned = _believe_rivals.tuned_regression(rows, labels, draw)
    given = np.arange(len(labels)), labels
    values: Values = {"regression": _believe_rivals.told(wrong, -tuned.probabilities[given])}
    if boosted:
        boosting = _believe_rivals.boosting(rows, labels, draw)
        values["boosting"] = _believe_rivals.told(wrong, -boosting[given])
    return values


def _draws(n_rows: int) -> int:
    return MANY_DRAWS if n_rows < FEW_ROWS else DRAWS


def small(report: bool) -> list[Cell]:
    """Two classes of 30, 100, 300 rows, ten classes of 10, and tables; a quarter of the labels is wrong."""
    shapes = {
        "cifar10": ((2, 30), (2, 100), (2, 300), (10, 10)),
        "letters": ((2, 30), (2, 100), (2, 300), (10, 10)),
        "digits": ((2, 30), (2, 100), (10, 10)),
        "breast-cancer": ((2, 30), (2, 100)),
        "clinc150-train": ((2, 30), (10, 10)),
    }
    if report:
        shapes = {
            "fashion-mnist": ((2, 30), (2, 100), (2, 300), (10, 10)),
            "clinc150-test": ((2, 30), (10, 10)),
        }
    cells = []
    for name, wanted in shapes.items():
        for count, size in wanted:
            make = partial(_small_task, name, count, size)
            draws = _draws(count * size)
            cells.append(_small_cell(name, f"{count} x {size}", draws, make, boosted=False))
    for name in _tables.REPORT if report else _tables.CHOOSE:
        make = partial(_believe_sets.table, name, share=SMALL_WRONG)
        draws = _draws(len(_tables.table(name)[0]))
        cells.append(_small_cell(name, "table", draws, make, boosted=True))
    return cells


def _small_cell(name: str, shape: str, draws: int, make: Callable[[int], Task], boosted: bool) -> Cell:
    return Cell(
        "small",
        name,
        shape,
        draws,
        lambda draw: _judged(make(draw), draw, believed=False),
        partial(_small_rivals, make, boosted),
    )


# tails and select ------------------------------------------------------------------------------------------


def _tail_task(name: str, kind: str, share: float, draw: int) -> Task:
    return with_noise(_believe_sets.long_tail(name, *TAILS[name], draw), kind, share, draw)


def _tail_sets(report: bool) -> tuple[str, ...]:
    return tuple(name for name in TAILS if (name in _believe_sets.REPORT) == report)


def tails(report: bool) -> list[Cell]:
    """Long tails: which rows are believed."""
    return [
        Cell(
            "tails",
            name,
            f"{100 * share:.0f} % wrong",
            DRAWS,
            lambda draw, name=name, share=share: _judged(
                _tail_task(name, "symmetric", share, draw), draw, believed=True
            ),
        )
        for name in _tail_sets(report)
        for share in TAIL_WRONG
    ]


def class_shares(labels: Labels, k: int, power: float) -> npt.NDArray[np.float64]:
    """Return how many of k picks each class should get; a class gives what it cannot fill to the others."""
    sizes = np.bincount(labels).astype(np.float64)
    shares, open_ = np.zeros(len(sizes)), sizes > 0
    weights = np.where(open_, np.maximum(sizes, 1) ** power, 0.0)
    while open_.any():
        left = k - shares[~open_].sum()
        shares[open_] = left * weights[open_] / weights[open_].sum()
        full = open_ & (shares > sizes)
        if not full.any():
            break
        shares[full], open_ = sizes[full], open_ & ~full
    return np.minimum(shares, sizes)


def _selected(name: str, wrong: float, budgets: str, draw: int) -> Values:
    task = _tail_task(name, "symmetric", wrong, draw)
    count = int(task.truth.max()) + 1
    values: Values = {}
    for keep in KEEP:
        k = round(keep * len(task.rows))
        if k < len(np.unique(task.labels)):
            continue  # a class would have no row
        shares = class_shares(task.labels, k, BUDGETS[budgets])
        for arm in ARMS:
            pool = np.flatnonzero(~task.wrong) if arm == "oracle" else np.arange(len(task.rows))
            guard = "auto" if arm == "auto" else "off"
            kept = _believe_ours.select(
                task.rows[pool], task.labels[pool], min(k, len(pool)), draw, budgets=budgets, guard=guard
            )
            picks = pool[np.asarray(kept.indices)]
            counts = np.bincount(task.labels[picks], minlength=count)
            values[f"{arm} {keep}"] = {
                "accuracy": _believe_rivals.accuracy(
                    task.rows[picks], task.labels[picks], task.test, task.test_truth, count
                ),
                "wrong": float(task.wrong[picks].mean()),
                "starved": int(((counts < shares / 2) & (shares >= 1)).sum()),
            }
    return values


def select(report: bool) -> list[Cell]:
    """Long tails: what a regression learns from the picks, beside guard off and an oracle."""
    return [
        Cell(
            "select",
            name,
            f"{100 * wrong:.0f} % wrong, {budgets}",
            DRAWS,
            partial(_selected, name, wrong, budgets),
        )
        for name in _tail_sets(report)
        for wrong in TAIL_WRONG
        for budgets in BUDGETS
    ]


# balanced --------------------------------------------------------------------------------------------------


def _balanced_rivals(name: str, noise: str, draw: int) -> Values:
    task = _noisy_cells.case(name, noise, draw)
    tuned = _believe_rivals.tuned_regression(task.rows, task.labels, draw)
    orders = _believe_rivals.cleanlab_orders(task.labels, tuned.probabilities)
    return {score: _believe_rivals.told(task.wrong, order) for score, order in orders.items()}


def balanced(report: bool) -> list[Cell]:
    """The cells of `benchmarks.suspects`, beside cleanlab on a regression tuned out of fold."""
    sets = {"fashion-mnist": _noisy_cells.NOISES} if report else dict(reversed(_noisy_cells.SETS.items()))
    return [
        Cell(
            "balanced",
            name,
            noise,
            len(_noisy_cells.SEEDS),
            lambda draw, name=name, noise=noise: _judged(
                _noisy_cells.case(name, noise, draw), draw, believed=True
            ),
            partial(_balanced_rivals, name, noise),
        )
        for name, noises in sets.items()
        for noise in noises
    ]


# estimate --------------------------------------------------------------------------------------------------

_ESTIMATED = {"letters": (26, 60), "digits": (10, 90), "cifar10": (10, 200), "clinc150-train": (150, 20)}
_ESTIMATED_REPORT = {"fashion-mnist": (10, 200), "clinc150-test": (150, 20)}
_KINDS = {
    "0 % wrong": ("symmetric", 0.0),
    "5 % wrong": ("symmetric", 0.05),
    "40 % wrong": ("symmetric", 0.40),
    "asymmetric 30 %": ("pair", 0.30),
    "open set": ("open-set", 0.2),
}
ANNOTATORS = ("aggregate", "random1", "worst")


def _estimated_task(name: str, shape: tuple[int, int], kind: str, share: float, draw: int) -> Task:
    return with_noise(_believe_sets.some_classes(name, *shape, draw), kind, share, draw)


def _judge_cell(part: str, name: str, cell: str, make: Callable[[int], Task]) -> Cell:
    return Cell(part, name, cell, DRAWS, lambda draw: _judged(make(draw), draw, believed=True))


def estimate(report: bool) -> list[Cell]:
    """More cells for the estimate: none wrong, few, many, asymmetric, open set, tails, people's labels."""
    cells = []
    for name, shape in (_ESTIMATED_REPORT if report else _ESTIMATED).items():
        for words, (kind, share) in _KINDS.items():
            make = partial(_estimated_task, name, shape, kind, share)
            cells.append(_judge_cell("estimate", name, words, make))
    for name in _tail_sets(report):
        cells.append(
            _judge_cell("estimate", name, "tail, open set", partial(_tail_task, name, "open-set", 0.2))
        )
    if not report:
        for people in ANNOTATORS:
            make = partial(_believe_sets.human, people, 2_000)
            cells.append(_judge_cell("estimate", "cifar10", f"human {people}", make))
    return cells


# reference -------------------------------------------------------------------------------------------------

_WEAKLY = {"2 x 150": (2, 150), "2 x 400": (2, 400), "10 x 50": (10, 50), "10 x 100": (10, 100)}


def _weak_task(name: str, shape: tuple[int, int], draw: int) -> _believe_sets.ReferenceTask:
    return _believe_sets.weakly_labelled(name, *shape, 0.25 if shape[0] == 2 else 0.3, draw)


def _references(draw: int, found: _believe_sets.ReferenceTask) -> dict[str, tuple[Rows, Labels]]:
    return {
        f"{size}{', 20 % wrong' if share else ''}": found.reference(size, share, draw)
        for size in REFERENCE_SIZES
        for share in (0.0, REFERENCE_WRONG)
    }


def _reference_ours(name: str, shape: tuple[int, int], draw: int) -> Values:
    found = _weak_task(name, shape, draw)
    task = found.task
    alone = _believe_ours.judge(task.rows, task.labels, draw)
    values: Values = {
        "alone": _believe_rivals.told(task.wrong, alone.order),
        "wrong": float(task.wrong.mean()),
    }
    for words, reference in _references(draw, found).items():
        judged = _believe_ours.judge(task.rows, task.labels, draw, reference=reference)
        values[words] = _believe_rivals.told(task.wrong, judged.order)
    return values


def _reference_rivals(name: str, shape: tuple[int, int], draw: int) -> Values:
    found = _weak_task(name, shape, draw)
    task = found.task
    given = np.arange(len(task.labels)), task.labels
    noisy = _believe_rivals.tuned_regression(task.rows, task.labels, draw).probabilities
    values: Values = {"noisy": _believe_rivals.told(task.wrong, -noisy[given])}
    for words, (rows, labels) in _references(draw, found).items():
        clean = _believe_rivals.regression_on(rows, labels, task.rows, draw)
        values[f"reference {words}"] = _believe_rivals.told(task.wrong, -clean[given])
    return values


def _reviewed_ours(_: int) -> Values:
    rows, labels, unconfirmed = _believe_sets.reviewed()
    found = _believe_ours.judge(rows, labels, 0)
    return {"reviewed": _among_first(found.order, unconfirmed)}


def _reviewed_rivals(_: int) -> Values:
    rows, labels, unconfirmed = _believe_sets.reviewed()
    found = _believe_rivals.tuned_regression(rows, labels, 0).probabilities
    orders = _believe_rivals.cleanlab_orders(labels, found)
    return {score: _among_first(order, unconfirmed) for score, order in orders.items()}


def _among_first(order: npt.NDArray[np.float64], unconfirmed: Labels, first: int = 275) -> int:
    return int(np.isin(np.argsort(-order, kind="stable")[:first], unconfirmed).sum())


def reference(report: bool) -> list[Cell]:
    """Labels of a weak model, and rows known to be right."""
    cells = [
        Cell(
            "reference",
            name,
            words,
            _draws(shape[0] * shape[1]),
            partial(_reference_ours, name, shape),
            partial(_reference_rivals, name, shape),
        )
        for name in (("fashion-mnist",) if report else ("cifar10", "letters"))
        for words, shape in _WEAKLY.items()
    ]
    if report:
        cells.append(Cell("reference", "cifar10", "reviewed", 1, _reviewed_ours, _reviewed_rivals))
    return cells


# probabilities ---------------------------------------------------------------------------------------------


def _network_task(name: str, noise: str, draw: int) -> Task:
    """Return all rows that teach the network; the first `NETWORK_ROWS` of them are judged."""
    if noise.startswith("human"):
        return _believe_sets.human(noise.split()[1], TAUGHT_ROWS, draw)
    rows, truth, test, test_truth = _believe_sets.pool(name, draw)
    kind, share = {"symmetric 30 %": ("symmetric", 0.3), "asymmetric 20 %": ("pair", 0.2)}[noise]
    split = rows[:TAUGHT_ROWS], truth[:TAUGHT_ROWS], test[:3_000], test_truth[:3_000]
    return with_noise(split, kind, share, draw)


def _first(task: Task) -> Task:
    rows, labels, truth = task.rows, task.labels, task.truth
    judged = slice(NETWORK_ROWS)
    return Task(rows[judged], labels[judged], truth[judged], task.test, task.test_truth)


def _network_rivals(name: str, noise: str, draw: int) -> Values:
    task = _network_task(name, noise, draw)
    found = _believe_rivals.network(task.rows, task.labels, draw)[:NETWORK_ROWS]
    task = _first(task)
    orders = _believe_rivals.cleanlab_orders(task.labels, found)
    values: Values = {score: _believe_rivals.told(task.wrong, order) for score, order in orders.items()}
    return values | {"network": np.round(found, 6).tolist()}


def _network_ours(name: str, noise: str, draw: int, rivals: Values) -> Values:
    task = _first(_network_task(name, noise, draw))
    found = np.array(rivals["network"])
    found /= found.sum(axis=1, keepdims=True)
    values: Values = {}
    for words, known in (("own", {}), ("network", {"probabilities": found})):
        judged = _believe_ours.judge(task.rows, task.labels, draw, **known)
        values[words] = _believe_rivals.told(task.wrong, judged.order)
        for keep in KEEP:
            kept = _believe_ours.select(task.rows, task.labels, keep, draw, **known)
            picks = np.asarray(kept.indices)
            values[f"{words} {keep}"] = _believe_rivals.accuracy(
                task.rows[picks], task.labels[picks], task.test, task.test_truth, int(task.truth.max()) + 1
            )
    return values


def probabilities(report: bool) -> list[Cell]:
    """Probabilities of a network, trained out of fold on the wrong labels."""
    wanted = {"cifar10": (*(f"human {people}" for people in ANNOTATORS), "symmetric 30 %")}
    if report:
        wanted = {"fashion-mnist": ("symmetric 30 %", "asymmetric 20 %")}
    return [
        Cell(
            "probabilities",
            name,
            noise,
            DRAWS,
            partial(_network_ours, name, noise),
            partial(_network_rivals, name, noise),
            after_rivals=True,
        )
        for name, noises in wanted.items()
        for noise in noises
    ]


PARTS: dict[str, Callable[[bool], list[Cell]]] = {
    "small": small,
    "tails": tails,
    "balanced": balanced,
    "estimate": estimate,
    "reference": reference,
    "probabilities": probabilities,
    "select": select,
}
