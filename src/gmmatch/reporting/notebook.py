"""What results show of themselves in a notebook: counts, classes, first rows; the page inline; two plots."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import fill
from typing import Any

import numpy as np

from ..arrays import AnyArray, IntArray
from ..data import Dataset
from ..errors import require
from ..records import Selection
from ..trust import Suspects
from .content import Content, table_content
from .map import project
from .summarise import choose_budgets, counts_at, objectives_at

_SHOWN = 10  # rows
_CLASSES = 12
_LETTERS = 160
_MAPPED = 4000
_TITLE = 80  # letters in a line
_IMAGE = "image"  # the one column that is markup already
_PICTURE = 'style="height:48px;width:auto;max-width:none"'
_CELL = 'style="text-align:left;vertical-align:top;padding:2px 8px"'


@dataclass(frozen=True)
class Page:
    """A page that a notebook shows inside a cell."""

    page: str
    height: int = 900

    def _repr_html_(self) -> str:
        style = f"width:100%;height:{self.height}px;border:1px solid #ccc"
        return f'<iframe srcdoc="{escape(self.page, quote=True)}" style="{style}"></iframe>'


def selection_html(selection: Selection, data: Dataset | None = None) -> str:
    """Return counts, classes and the first picks of a selection."""
    info = selection.info
    head = f"<b>{len(selection):,} of {selection.n_rows:,} rows kept</b> by {escape(selection.method)}"
    lines = [head]
    if info.tiers:
        lines.append(", ".join(f"{count:,} {escape(name)}" for name, count in info.tiers.items()))
    lines += [escape(line) for line in [info.learned(), *(info.hint or "").splitlines()] if line]
    if selection.labels is not None:
        lines.append(_classes(selection.labels))
    rows = selection.indices[:_SHOWN]
    columns = {"rank": range(len(rows)), **_named(rows, selection.ids, selection.labels)}
    columns["weight"] = [f"{weight:.3g}" for weight in selection.weights[: len(rows)]]
    return _block(lines, columns | _seen(data, rows))


def suspects_html(found: Suspects) -> str:
    """Return counts and the first rows of a list of suspects, with their photos or texts."""
    told = found.summary()
    lines = [f"<b>{told['suspect']:,} of {told['rows']:,} rows seem wrong</b>"]
    labels = told["wrong_labels"]
    if "estimate" in labels:
        low, high = labels["interval"]
        lines.append(f"about {labels['estimate']:.1%} of the labels are wrong ({low:.1%} to {high:.1%})")
    lines += [escape(note) for note in found.notes]
    first = found.head(_SHOWN)
    columns: dict[str, Sequence[Any]] = {
        "row": first.rows.tolist(),
        **({} if found.ids is None else {"id": found.ids[first.rows].tolist()}),
        "label": first.labels.tolist(),
        "suspicion": [f"{one:.3f}" for one in first.suspicion],
        "suggested": ["" if one is None else one for one in first.suggested.tolist()],
        "reason": first.reasons.tolist(),
    }
    return _block(lines, columns | _seen(found.data, first.rows))


def dataset_html(data: Dataset) -> str:
    """Return counts, classes and the first rows of a dataset."""
    size = f"{len(data):,} rows" + ("" if data.rows is None else f" of {data.shape[1]:,} numbers")
    lines = [f"<b>{escape(data.name)}</b>: {size}"]
    if data.bad:
        lines.append(f"{len(data.bad):,} rows take no part")
    lines += [escape(note) for note in data.notes]
    if data.labels is not None:
        lines.append(_classes(np.delete(data.labels, data.bad_rows)))
    rows = np.arange(min(len(data), _SHOWN))
    return _block(lines, _named(rows, data.ids, data.labels) | _seen(data, rows))


def _named(rows: IntArray, ids: AnyArray | None, labels: AnyArray | None) -> dict[str, Sequence[Any]]:
    """Return columns of the numbers of the first rows, and of their ids and labels where they have some."""
    named = {"row": rows, "id": ids, "label": labels}
    return {name: own[: len(rows)].tolist() for name, own in named.items() if own is not None}


def _classes(labels: AnyArray) -> str:
    """Return how many rows the classes have, the largest first."""
    names, counts = np.unique(labels, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    words = [f"{escape(str(names[at]))} {counts[at]:,}" for at in order[:_CLASSES]]
    more = f" and {len(names) - _CLASSES:,} others" if len(names) > _CLASSES else ""
    return f"{len(names):,} classes: {', '.join(words)}{more}"


def _seen(data: Dataset | None, rows: IntArray) -> dict[str, Sequence[Any]]:
    """Return a column of thumbnails or texts, where the data has some."""
    content = None if data is None else table_content(data) if data.content is None else Content(data)
    if content is None:
        return {}
    shown = content.previews(rows)
    cells = [shown.get(place, "") for place in range(len(rows))]
    if content.kind == "image":
        return {_IMAGE: [f'<img src="{escape(cell, quote=True)}" {_PICTURE}>' for cell in cells]}
    return {"text": [cell if len(cell) <= _LETTERS else f"{cell[:_LETTERS]}…" for cell in cells]}


def _block(lines: Iterable[str], columns: dict[str, Sequence[Any]]) -> str:
    head = "".join(f"<th {_CELL}>{escape(name)}</th>" for name in columns)
    shown = [[cell if name == _IMAGE else escape(str(cell)) for cell in columns[name]] for name in columns]
    body = ""
    for row in zip(*shown, strict=True):
        body += f"<tr>{''.join(f'<td {_CELL}>{cell}</td>' for cell in row)}</tr>"
    return f"<div>{'<br>'.join(lines)}<table><tr>{head}</tr>{body}</table></div>"


def plot(selection: Selection, data: Dataset | None) -> Any:
    """Return a figure: where the kept rows are, if the data is at hand, and the error by picks."""
    pyplot = require("matplotlib.pyplot", "matplotlib", "figures")
    rows = None if data is None else data.rows
    figure, axes = pyplot.subplots(1, 1 if rows is None else 2, figsize=(6 if rows is None else 11, 4.5))
    curve, errors = axes if rows is None else axes[1], selection.scores
    budgets = np.arange(len(selection)) + 1
    if selection.labels is not None and selection.params.get("by_class", True):  # they are those of a class
        codes = np.unique(selection.labels, return_inverse=True)[1]
        budgets = choose_budgets(len(selection), int(codes.max()) + 1)
        errors = objectives_at(codes, errors, counts_at(codes, int(codes.max()) + 1, budgets))
    curve.plot(budgets, errors)
    curve.set(xlabel="picks", ylabel="distance of the picks' mean to the centre", xscale="log", yscale="log")
    if data is not None and rows is not None:
        rng, dropped = np.random.default_rng(0), np.setdiff1d(np.arange(selection.n_rows), selection.indices)
        drawn = [rng.permutation(own)[:_MAPPED] for own in (dropped, selection.indices)]
        numbers = np.sort(np.concatenate(drawn))
        values = np.asarray(rows[numbers], np.float64)
        good = np.asarray(np.isfinite(values).all(axis=1))
        values[~good] = 0.0
        # Laid out as the report does: by a classifier where there are labels.
        classes = None if data.labels is None else np.unique(data.labels[numbers], return_inverse=True)[1]
        believed = good if selection.tiers is None else good & (selection.tiers[numbers] == 0)
        places, about = project(values, good, "classes", 0, classes, believed)
        kept = np.isin(numbers, selection.indices)
        for own, name, look in ((~kept, "dropped", {"alpha": 0.25}), (kept, "kept", {})):
            axes[0].scatter(*places[own & good].T, s=6, label=name, **look)
        axes[0].set_title(fill(f"Laid out by {about}", _TITLE), fontsize="small")
        axes[0].set(xticks=[], yticks=[])
        axes[0].legend()
    figure.tight_layout()
    pyplot.close(figure)  # a notebook shows what is returned, and shows it once
    return figure
