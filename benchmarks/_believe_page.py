"""Bars and tables of `benchmarks.believe`, from its records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._believe_parts import ARMS, KEEP, REFERENCE_SIZES
from ._believe_rivals import SCORES
from ._page import table

Draw = dict[str, Any]  # what our package and the rivals found in one draw


@dataclass(frozen=True)
class Found:
    """A cell and its draws so far."""

    part: str
    sets: str
    name: str
    draws: list[Draw]

    @property
    def words(self) -> str:
        """Return what the cell is called."""
        return f"{self.sets}, {self.name}"


@dataclass(frozen=True)
class Bar:
    """One demand: whether it is met, and by which figures. `met` is None where nothing was measured."""

    says: str
    met: bool | None
    figures: str

    def line(self) -> str:
        """Return the bar as a line of a list."""
        verdict = {True: "met", False: "**missed**", None: "not measured"}[self.met]
        return f"- {verdict}: {self.says}" + (f" ({self.figures})" if self.figures else "")


def _values(found: Found, *path: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return one figure of each draw; NaN where there is none."""
    taken = []
    for draw in found.draws:
        value: Any = draw
        for key in path:
            if isinstance(value, dict):
                value = value.get(key)
            elif value is not None:
                value = value[key]
        taken.append(np.nan if value is None else float(value))
    return np.array(taken, dtype=np.float64)


def _mean(values: Any) -> float:
    values = np.asarray(values, dtype=np.float64)
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")


def _error(differences: Any) -> float:
    """Return the standard error of paired differences; 0 where there is a single draw."""
    differences = np.asarray(differences, dtype=np.float64)
    count = len(differences)
    return float(differences.std(ddof=1) / np.sqrt(count)) if count > 1 else 0.0


def _behind(differences: Any, allowed: float) -> bool:
    """Return True if we are behind by more than is allowed and than two paired standard errors."""
    mean = _mean(differences)
    return bool(mean < -allowed and mean + allowed < -2 * _error(differences))


def _number(value: float, digits: int = 3) -> str:
    return "" if np.isnan(value) else f"{value:.{digits}f}"


def _few(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return "; ".join(names[:most]) + more


# small -----------------------------------------------------------------------------------------------------


def _lead(found: Found, rival: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return _values(found, "order", 0) - _values(found, rival, 0)


def _small(cells: Sequence[Found]) -> tuple[list[Bar], str]:
    plain = [cell for cell in cells if cell.name != "table"]
    tables = [cell for cell in cells if cell.name == "table"]
    lost = [
        f"{c.words} {_mean(_lead(c, 'regression')):+.3f}"
        for c in plain
        if _behind(_lead(c, "regression"), 0.01)
    ]
    bars = [
        Bar(
            "small classes: AUC at least that of the tuned regression, less 0.01, in every cell",
            not lost if plain else None,
            f"{len(plain) - len(lost)} of {len(plain)} cells; mean lead"
            f" {_mean([_mean(_lead(c, 'regression')) for c in plain]):+.3f}"
            + (f"; behind: {_few(lost)}" if lost else ""),
        )
    ]
    leads = [_mean(_lead(cell, "boosting")) for cell in tables]
    own = _mean([_mean(_values(cell, "order", 0)) for cell in tables])
    bars.append(
        Bar(
            "tables: on average at least gradient boosting",
            _mean(leads) >= 0 if tables else None,
            f"{_number(own)}, boosting {_number(own - _mean(leads))}, regression"
            f" {_number(_mean([_mean(_values(c, 'regression', 0)) for c in tables]))}",
        )
    )
    better = {
        cell.words: max(("regression", "boosting"), key=lambda r: _mean(_values(cell, r, 0)))
        for cell in tables
    }
    far = [
        f"{c.words} {_mean(_lead(c, better[c.words])):+.3f}"
        for c in tables
        if _behind(_lead(c, better[c.words]), 0.03)
    ]
    bars.append(
        Bar(
            "tables: never more than 0.03 behind the better of the two",
            not far if tables else None,
            f"behind: {_few(far)}" if far else f"{len(tables)} tables",
        )
    )
    head = ["set", "cell", "draws", "gmmatch", "regression", "boosting", "lead on the regression",
            "calibration"]  # fmt: skip
    lines = []
    for cell in cells:
        lead = _lead(cell, "regression")
        auc = [_number(_mean(_values(cell, who, 0))) for who in ("order", "regression", "boosting")]
        lines.append(
            [
                *(cell.sets, cell.name, str(len(cell.draws)), *auc),
                f"{_mean(lead):+.3f} ± {_error(lead):.3f}",
                _number(_mean(_values(cell, "calibration"))),
            ]
        )
    return bars, table(head, lines)


# tails and select ------------------------------------------------------------------------------------------

_BELIEVED = {"good": (0.90, 1), "small": (0.80, 1), "wrong": (0.08, -1)}


def _tails(cells: Sequence[Found]) -> tuple[list[Bar], str]:
    words = {
        "good": "good rows believed at least 90 %",
        "small": "good rows of the smallest third of the classes believed at least 80 %",
        "wrong": "wrong rows believed at most 8 %",
    }
    bars = []
    for kind, (bound, sign) in _BELIEVED.items():
        shares = {cell.words: _mean(_values(cell, "believed", kind)) for cell in cells}
        shares = {name: share for name, share in shares.items() if not np.isnan(share)}
        lost = [f"{name} {100 * share:.0f} %" for name, share in shares.items() if sign * (share - bound) < 0]
        bars.append(
            Bar(
                f"long tails: {words[kind]}",
                not lost if shares else None,
                f"{len(shares) - len(lost)} of {len(shares)} cells;"
                f" mean {100 * _mean(list(shares.values())):.0f} %"
                + (f"; not: {_few(lost, 9)}" if lost else ""),
            )
        )
    head = ["set", "cell", "draws", "good believed", "smallest third", "wrong believed", "AUC",
            "wrong", "estimate"]  # fmt: skip
    lines = [
        [cell.sets, cell.name, str(len(cell.draws))]
        + [_number(100 * _mean(_values(cell, "believed", kind)), 1) for kind in _BELIEVED]
        + [_number(_mean(_values(cell, "order", 0)))]
        + [_number(100 * _mean(_values(cell, key)), 1) for key in ("wrong", "estimate")]
        for cell in cells
    ]
    return bars, table(head, lines)


def _select(cells: Sequence[Found]) -> tuple[list[Bar], str]:
    lines, lost, starved = [], [], 0
    ways: dict[str, list[tuple[float, float]]] = {}
    for cell in cells:
        for keep in KEEP:
            auto, off, oracle = (_values(cell, f"{arm} {keep}", "accuracy") for arm in ARMS)
            gain = auto - off
            if np.isnan(gain).all():
                continue  # fewer picks than classes
            if _behind(gain, 1.0):
                lost.append(f"{cell.words}, keep {100 * keep:g} % {_mean(gain):+.1f}")
            ways.setdefault(cell.name.split(",")[0], []).append((_mean(gain), _mean(oracle - off)))
            count = int(np.nansum(_values(cell, f"auto {keep}", "starved")))
            starved += count
            lines.append(
                [cell.sets, cell.name, f"{100 * keep:g} %", str(len(cell.draws))]
                + [_number(_mean(values), 1) for values in (auto, off, oracle)]
                + [f"{_mean(gain):+.1f} ± {_error(gain):.1f}", str(count)]
                + [
                    _number(100 * _mean(_values(cell, f"{arm} {keep}", "wrong")), 1)
                    for arm in ("auto", "off")
                ]
            )
    bars = [
        Bar(
            "select on long tails: in no cell more than 1 point behind guard off",
            not lost if cells else None,
            f"{len(lines) - len(lost)} of {len(lines)} cells" + (f"; behind: {_few(lost)}" if lost else ""),
        )
    ]
    for words, wanted in (("15 % wrong", 0.5), ("30 % wrong", 2 / 3)):
        pairs = np.array(ways.get(words, []))
        way = float(pairs[:, 0].mean() / pairs[:, 1].mean()) if len(pairs) else float("nan")
        bars.append(
            Bar(
                f"select, {words}: on average at least {wanted:.2f} of the way from guard off to the oracle",
                way >= wanted if len(pairs) else None,
                f"{way:.2f}: {pairs[:, 0].mean():+.1f} of {pairs[:, 1].mean():+.1f} points"
                if len(pairs)
                else "",
            )
        )
    bars.append(
        Bar(
            "select: no class below half of its share",
            starved == 0 if cells else None,
            f"{starved} classes, summed over cells and draws",
        )
    )
    head = ["set", "cell", "keep", "draws", "auto", "guard off", "oracle", "gain", "starved classes"]
    return bars, table([*head, "wrong picks, auto", "off"], lines)


# balanced --------------------------------------------------------------------------------------------------


def _balanced(
    cells: Sequence[Found], before: dict[str, list[float]], others: Sequence[Found]
) -> tuple[list[Bar], str]:
    bars, lines, own, rival, former = [], [], [], [], []
    for cell in cells:
        for seed, draw in enumerate(cell.draws):
            best = np.max([draw[score] for score in SCORES], axis=0)
            own.append(draw["order"])
            rival.append(best)
            was = before.get(f"{cell.sets} {cell.name} {seed}")
            former.append(was if was is not None else [np.nan, np.nan])
            pairs = [
                f"{a:.3f} / {b:.3f}" for a, b in (draw["order"], former[-1], best, *(draw[s] for s in SCORES))
            ]
            lost = draw["believed"]["good"]
            lines.append(
                [cell.sets, cell.name, str(seed), *pairs, "" if lost is None else f"{100 - 100 * lost:.1f}"]
            )
    if not own:
        return [Bar("balanced order", None, "")], ""
    ours, best_rival, was_ours = np.array(own), np.array(rival), np.array(former)
    known = ~np.isnan(was_ours[:, 0])
    if known.any():
        change = (ours - was_ours)[known].mean(axis=0)
        bars.append(
            Bar(
                "balanced: order no worse than 0.2.0 on average (within 0.003)",
                bool((change >= -0.003).all()),
                f"AUC {change[0]:+.4f}, average precision {change[1]:+.4f}, {known.sum()} cells",
            )
        )
    won = (ours >= best_rival - 1e-9).mean(axis=0)
    bars.append(
        Bar(
            "balanced: at least the best score of cleanlab on the tuned regression in two thirds of them",
            bool((won >= 2 / 3).all()),
            f"AUC {100 * won[0]:.0f} %, precision {100 * won[1]:.0f} % of {len(ours)}; means"
            f" {ours.mean(axis=0)[0]:.3f} / {ours.mean(axis=0)[1]:.3f} beside"
            f" {best_rival.mean(axis=0)[0]:.3f} / {best_rival.mean(axis=0)[1]:.3f}",
        )
    )
    level = [cell for cell in others if not cell.name.startswith("tail")]
    losses = [100 - 100 * _mean(_values(cell, "believed", "good")) for cell in (*cells, *level)]
    bars.append(
        Bar(
            "balanced: good rows lost at most 10 % on average",
            _mean(losses) <= 10,
            f"{_mean(losses):.1f} % over {len(losses)} cells, at most {max(losses):.1f} %",
        )
    )
    head = ["set", "noise", "seed", "gmmatch", "0.2.0", "best of cleanlab", "self", "margin",
            "entropy", "good rows lost"]  # fmt: skip
    return bars, table(head, lines)


# estimate --------------------------------------------------------------------------------------------------


def _estimate(cells: Sequence[Found]) -> tuple[list[Bar], str]:
    runs = [(cell, draw) for cell in cells for draw in cell.draws if "estimate" in draw]
    if not runs:
        return [Bar("the estimate", None, "")], ""
    lines = []
    for cell in cells:
        if not cell.draws:
            continue
        errors = _values(cell, "estimate") - _values(cell, "wrong")
        widths = _values(cell, "interval", 1) - _values(cell, "interval", 0)
        lines.append(
            [cell.part, cell.sets, cell.name, f"{_mean(_values(cell, 'rows')):.0f}", str(len(cell.draws))]
            + [_number(100 * _mean(_values(cell, key)), 1) for key in ("wrong", "estimate")]
            + [
                _number(100 * _mean(np.abs(errors)), 1),
                f"{sum(map(_holds, cell.draws))}",
                _number(100 * _mean(widths), 1),
            ]
        )
    large = [
        abs(d["estimate"] - d["wrong"]) if d["estimate"] is not None else 1.0
        for _, d in runs
        if d["rows"] >= 500
    ]
    near = float(np.mean(np.array(large) <= 0.05)) if large else float("nan")
    held = float(np.mean([_holds(draw) for _, draw in runs]))
    wide = [
        d["interval"][1] - d["interval"][0]
        for _, d in runs
        if d["rows"] >= 1_000 and d["interval"] is not None
    ]
    silent = sum(draw["estimate"] is None for _, draw in runs)
    bars = [
        Bar(
            "the estimate is within 5 points in nine of ten draws with 500 rows or more",
            near >= 0.9,
            f"{100 * near:.0f} % of {len(large)}",
        ),
        Bar(
            "the 90 % interval holds the truth in 85 % of all draws",
            held >= 0.85,
            f"{100 * held:.0f} % of {len(runs)}" + (f", {silent} without an estimate" if silent else ""),
        ),
        Bar(
            "the interval is at most 10 points wide (median) with 1,000 rows or more",
            float(np.median(wide)) <= 0.10 if wide else None,
            f"{100 * np.median(wide):.1f} points, {len(wide)} draws" if wide else "",
        ),
    ]
    head = ["part", "set", "cell", "rows", "draws", "wrong", "estimate", "error", "truth held", "width"]
    return bars, table(head, lines)


def _holds(draw: Draw) -> bool:
    interval = draw.get("interval")
    return interval is not None and interval[0] - 1e-9 <= draw["wrong"] <= interval[1] + 1e-9


# reference -------------------------------------------------------------------------------------------------


def _reference(cells: Sequence[Found]) -> tuple[list[Bar], str]:
    weak = [cell for cell in cells if cell.name != "reviewed"]
    lines, lost, costs = [], [], []
    ahead: dict[str, list[float]] = {"reference": [], "noisy": []}
    for cell in weak:
        noisy = max((_values(cell, who, 0) for who in ("noisy", "alone")), key=_mean)
        for size in REFERENCE_SIZES:
            ours, clean = _values(cell, str(size), 0), _values(cell, f"reference {size}", 0)
            dirty = _values(cell, f"{size}, 20 % wrong", 0)
            ahead["reference"].append(_mean(ours - clean))
            ahead["noisy"].append(_mean(ours - noisy))
            better = max((clean, noisy), key=_mean)
            if _behind(ours - better, 0.01):
                lost.append(f"{cell.words}, {size} rows {_mean(ours - better):+.3f}")
            costs.append(_mean(ours - dirty))
            shown = (ours, dirty, clean, _values(cell, "alone", 0), _values(cell, "noisy", 0))
            lines.append(
                [
                    *(cell.sets, cell.name, str(size), str(len(cell.draws))),
                    *(_number(_mean(values)) for values in shown),
                    _number(100 * _mean(_values(cell, "wrong")), 1),
                ]
            )
    built = bool(lines) and not all(np.isnan(ahead["reference"]))
    means = {name: _mean(values) for name, values in ahead.items()} if built else {}
    bars = [
        Bar(
            "reference: on average ahead of the reference alone and of the noisy labels alone",
            min(means.values()) > 0 if built else None,
            f"by {means['reference']:+.3f} and {means['noisy']:+.3f}" if built else "",
        ),
        Bar(
            "reference: in no cell behind the better of the two by more than 0.01",
            not lost if built else None,
            f"{len(lines) - len(lost)} of {len(lines)} cells" + (f"; behind: {_few(lost)}" if lost else "")
            if built
            else "",
        ),
        Bar(
            "reference with 20 % of it wrong: at most 0.03 lost",
            max(costs) <= 0.03 if built else None,
            f"mean {_mean(costs):.3f}, at most {max(costs):.3f}" if built else "",
        ),
    ]
    head = ["set", "cell", "reference rows", "draws", "gmmatch", "20 % of it wrong", "reference alone"]
    text = table([*head, "gmmatch without", "regression without", "wrong"], lines)
    for cell in cells:
        if cell.name == "reviewed" and cell.draws:
            draw = cell.draws[0]
            rivals = ", ".join(f"{score} {draw[score]}" for score in SCORES)
            text += (
                "\n\nUnconfirmed test labels of CIFAR-10 among the first 275 suspects, of 54:"
                f" {draw['reviewed']}; cleanlab on the tuned regression: {rivals}."
            )
    return bars, text


# probabilities ---------------------------------------------------------------------------------------------


def _probabilities(cells: Sequence[Found]) -> tuple[list[Bar], str]:
    lines, behind, picks = [], [], []
    for cell in cells:
        own, network = _values(cell, "own", 0), _values(cell, "network", 0)
        best = np.max([_values(cell, score, 0) for score in SCORES], axis=0)
        if _behind(network - best, 0.0):
            behind.append(f"{cell.words} {_mean(network - best):+.4f}")
        accuracies = []
        for keep in KEEP:
            pair = [_values(cell, f"{words} {keep}") for words in ("own", "network")]
            picks.append((f"{cell.words}, keep {100 * keep:g} %", pair[1] - pair[0]))
            accuracies.append(" / ".join(_number(_mean(values), 1) for values in pair))
        lines.append(
            [cell.sets, cell.name, str(len(cell.draws))]
            + [_number(_mean(values), 4) for values in (network, best, own)]
            + accuracies
        )
    built = any(not np.isnan(_mean(_values(cell, "network", 0))) for cell in cells)
    worse = [f"{words} {_mean(gain):+.1f}" for words, gain in picks if _behind(gain, 0.0)]
    bars = [
        Bar(
            "probabilities: order at least the best score of cleanlab on the same probabilities",
            not behind if built else None,
            f"{len(cells) - len(behind)} of {len(cells)} cells"
            + (f"; behind: {_few(behind)}" if behind else "")
            if built
            else "",
        ),
        Bar(
            "probabilities: picks at least as good as with our own classifiers",
            not worse if built else None,
            f"mean {_mean([_mean(gain) for _, gain in picks]):+.2f} points"
            + (f"; behind: {_few(worse)}" if worse else "")
            if built
            else "",
        ),
    ]
    head = ["set", "labels", "draws", "gmmatch on the network's", "best of cleanlab on them",
            "gmmatch on its own"]  # fmt: skip
    return bars, table([*head, *(f"accuracy at {100 * k:g} %, own / network's" for k in KEEP)], lines)


# the page --------------------------------------------------------------------------------------------------

_HEADS = {
    "small": "Small classes and tables, 25 % wrong: AUC of the order",
    "tails": "Long tails: which rows are believed, in percent",
    "balanced": "Balanced data: AUC / average precision of the order",
    "estimate": "The estimated share of wrong labels, in percent",
    "reference": "Labels of a weak model, with rows known to be right: AUC of the order",
    "probabilities": "Probabilities of a network: AUC of the order, accuracy of what the picks teach",
    "select": "Picks from long tails: balanced accuracy of a regression with class weights",
}


def sections(
    cells: Sequence[Found], before: dict[str, list[float]], parts: Sequence[str]
) -> dict[str, tuple[list[Bar], str]]:
    """Return bars and table of each part."""
    of = {part: [cell for cell in cells if cell.part == part and cell.draws] for part in _HEADS}
    made = {
        "small": lambda: _small(of["small"]),
        "tails": lambda: _tails(of["tails"]),
        "balanced": lambda: _balanced(of["balanced"], before, of["estimate"]),
        "estimate": lambda: _estimate(of["small"] + of["tails"] + of["balanced"] + of["estimate"]),
        "reference": lambda: _reference(of["reference"]),
        "probabilities": lambda: _probabilities(of["probabilities"]),
        "select": lambda: _select(of["select"]),
    }
    return {part: made[part]() for part in _HEADS if part in parts}


def counted(cells: Sequence[Found]) -> str:
    """Return how many cells of each part are measured, and by how many draws."""
    words = []
    for part in _HEADS:
        own = [cell for cell in cells if cell.part == part]
        draws = sorted(len(cell.draws) for cell in own if cell.draws)
        spread = f" ({draws[0]} to {draws[-1]})" if draws else ""
        words.append(f"{part} {len(draws)} of {len(own)}{spread}")
    return ", ".join(words) + "."


def page(found: dict[str, dict[str, tuple[list[Bar], str]]]) -> tuple[str, list[str]]:
    """Return the answer and the parts of the page: for each group of sets first all bars, then all cells."""
    parts, answers = [], []
    for sets, made in found.items():
        measured = {part: (bars, table) for part, (bars, table) in made.items() if table}
        if not measured:
            continue
        bars = [bar for part, _ in measured.values() for bar in part if bar.met is not None]
        missed = [bar.says for bar in bars if not bar.met]
        words = f"{sets}: of {len(bars)} goals {len(missed)} are missed and {len(bars) - len(missed)} met."
        answers.append(words + (f" Missed: {'; '.join(missed)}." if missed else ""))
        parts += [f"## {sets}", "\n".join(bar.line() for bars, _ in made.values() for bar in bars)]
        parts += [part for name, (_, text) in measured.items() for part in (f"### {_HEADS[name]}", text)]
    return "\n\n".join(answers), parts
