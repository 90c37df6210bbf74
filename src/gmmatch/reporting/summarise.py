"""From a selection and its input to plain data for a page."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np

from ..arrays import FloatArray, IntArray, Vector
from ..compute.blocks import group_order
from ..compute.runner import gather
from ..data import Dataset
from ..errors import InvalidInput
from ..facts import WRONG, plain
from ..location.distances import group_quantiles
from ..matching.objectives import running_objective
from ..progress import task
from ..records import Selection
from ..selectors import METHODS
from ..trust import ODD
from ..validation import CheckedRows
from .content import Content
from .inputs import PARTS, Inputs, Suspicion, judge_all, judge_rows, prepare
from .map import check_projection, choose_rows, make_map
from .summary import AllLabels, ClassTable, Curve, Gallery, Glance, Report, Review, Tab, short, significant

GALLERY_ROWS = 60
_FAR = 10.0 * 1.4826  # median deviations from the median: rows beyond them do not shape the map
_MOST_LABELS = 1 << 20
_MOST_LETTERS = 12_000_000  # of all ids together
# Of each tab of the review its heading, a line about it, and the most rows that it lists.
_TABS = {
    "labels": (
        "Labels", "Labels that are likely wrong, beside a typical row of the class that is likelier.", 5_000,
    ),
    "outliers": ("Outliers", "Rows far from the others of their class, beside a typical row of it.", 1_000),
    "duplicates": ("Duplicates", "One of each group, largest groups first, beside the row to keep.", 1_000),
}  # fmt: skip
_UNLABELLED_OUTLIERS = "Rows far from all others, beside a typical row."
_MOST_STEPS = 120_000  # budgets times classes
_BUDGETS = 240
_FEWEST_BUDGETS = 40
_EVERY_BUDGET = 1_000
# Parameters of methods that the command line has options of their own for; the others go by --param.
_OPTIONS = {"keep", "method", "guard", "budgets"}
_WEIGHED = {"match_to", "quality"}  # aims that may be names with numbers


def summarise(
    selection: Selection,
    source: Dataset,
    *,
    content: Content | None = None,
    checked: CheckedRows | None = None,
    projection: str = "classes",
    seconds: float | None = None,
    command: str | None = None,
    opened: Mapping[str, object] | None = None,
    any_input: bool = True,
) -> Report:
    """Gather what a report says.

    Parameters
    ----------
    selection, source
        What was chosen, and from what.
    content
        Images or texts of the rows.
    checked
        The rows and labels of the source, where they were checked already.
    projection
        `classes` or `pca`.
    seconds, command
        How long the selection took, in place of what it knows, and what repeats it.
    opened
        The data and how it was opened, by parameter, for the command and the call that repeat it.
    any_input
        Whether rows or labels that differ from the selection's are noted on the page, or refused.

    Notes
    -----
    Suspicion is what the selection's verdict found. Where it has none, rows are judged here: all of them
    where that takes seconds, else those of the map.

    Time: one pass over the rows, and work on at most 20,000 of them. Memory: O(block), the rows of the
    map, and some 60 bytes per row.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> rows = np.random.default_rng(0).normal(size=(500, 16))
    >>> report = summarise(gmmatch.select(rows, keep=50), gmmatch.open(rows))
    >>> report.glance.kept, len(report.map.row), report.curve.budgets[-1]
    (50, 500, 50)
    """
    kind, seed = check_projection(projection), selection.random_state or 0
    inputs = prepare(selection, source, checked, any_input)
    measures, usable = inputs.measures, inputs.usable
    if not len(usable):
        raise InvalidInput(f"{source.name} has no row without NaN or infinite values")
    evidence = judge_all(inputs, seed)
    groups, distances = inputs.groups[usable], measures.distances[usable]
    # By group the median distance to the centre, and the median deviation from it.
    usual = group_quantiles(distances, groups, len(measures.sizes))[:, 0]
    spread = group_quantiles(np.abs(distances - usual[groups]), groups, len(measures.sizes))[:, 0]
    # The dropped rows nearest to the centre, by distance over the median distance of their class.
    nearness = distances / np.where(usual > 0, usual, 1.0)[groups]
    nearness[np.isin(usable, selection.indices)] = np.inf
    order = np.argsort(nearness, kind="stable")[:GALLERY_ROWS]
    first, nearest = selection.indices[:GALLERY_ROWS], usable[order[nearness[order] < np.inf]]
    tabs = [] if evidence is None else find_tabs(inputs, evidence)
    always = np.array(
        [*first, *nearest, *(row for tab in tabs for row in (*tab.rows, *tab.beside))], np.int64
    )
    shown = choose_rows(usable, inputs.codes, selection.indices, always[always >= 0], seed)
    sampled = gather(inputs.rows, shown)
    if evidence is None:
        evidence = judge_rows(inputs, sampled, shown, seed)
        tabs = find_tabs(inputs, evidence)
    groups = inputs.groups[shown]
    ordinary = measures.distances[shown] <= usual[groups] + _FAR * spread[groups]
    at = {row: place for place, row in enumerate(shown.tolist())}
    smaller = " A smaller budget keeps the first of them." if inputs.prefixes_hold else ""
    whose = "their class" if inputs.labelled else "the data"
    about = f"Rows near the middle of {whose} that were not needed to match it."
    galleries = [
        Gallery("first", "Kept first", f"The first picks, in order.{smaller}", [at[row] for row in first]),
        Gallery("dropped", "Dropped nearest", about, [at[row] for row in nearest]),
    ]
    review, curve = make_review(tabs, inputs, evidence, at), make_curve(inputs)
    return Report(
        title=f"{len(selection):,} of {selection.n_rows:,} rows kept",
        labelled=inputs.labelled,
        glance=_glance(inputs, evidence, curve.objective[-1], seconds, command, opened or {}),
        curve=curve,
        map=make_map(inputs, evidence, shown, sampled, ordinary, kind),
        classes=class_table(inputs, evidence, np.array(curve.budgets)),
        galleries=galleries,
        review=review,
        content_kind=None if content is None else content.kind,
        content={} if content is None else _previews(content, shown, review, galleries, seed),
        notes=_notes(inputs, evidence, shown),
    )


def _previews(
    content: Content, shown: IntArray, review: Review, galleries: list[Gallery], seed: int
) -> dict[int, str]:
    """Return the content of the rows that are looked at, then of as many others as there is room for."""
    lists = [part for tab in review.tabs for part in (tab.rows, tab.beside)]
    lists += [gallery.rows for gallery in galleries]
    in_turn = (row for together in zip_longest(*lists, fillvalue=-1) for row in together if row >= 0)
    wanted = list(dict.fromkeys(in_turn))
    others = np.setdiff1d(np.arange(len(shown)), wanted)
    order = np.array([*wanted, *np.random.default_rng([seed, 1]).permutation(others)], np.int64)
    return {int(order[place]): preview for place, preview in content.previews(shown[order]).items()}


def _glance(
    inputs: Inputs,
    evidence: Suspicion,
    final: float,
    seconds: float | None,
    command: str | None,
    opened: Mapping[str, object],
) -> Glance:
    selection, source, info = inputs.selection, inputs.source, inputs.selection.info
    # Methods that match no centre, or those of other parts, know no such objective; the curve's end does.
    known = inputs.own_centers and not np.isnan(selection.objective)
    objective = selection.objective if known else final
    picks = np.bincount(inputs.picked_groups, minlength=len(inputs.centers))
    random = float(inputs.measures.random_objective(picks[None])[0])
    wrong, judged = count_suspects(inputs, evidence)
    bad_rows = len(inputs.usable) < selection.n_rows
    shell, python = repeat(selection, source.name, inputs.labelled, bad_rows, opened)
    return Glance(
        source=source.name,
        rows=selection.n_rows,
        usable=len(inputs.usable),
        features=inputs.rows.shape[1],
        classes=len(inputs.classes) if inputs.labelled else None,
        kept=len(selection),
        method=selection.method,
        guard=None if not info.guard or info.guard.get("mode") == "off" else plain(info.guard),
        seconds=info.seconds if seconds is None else round(seconds, 3),
        center=info.center,
        epsilon=selection.epsilon,
        objective=objective,
        random_objective=random,
        times_closer=random / objective if objective > 0 else None,
        suspects=len(wrong),
        judged=len(judged),
        kept_suspects=int(np.isin(selection.indices, wrong).sum()),
        learned=info.learned(),
        prefixes=inputs.prefixes_hold,
        command=command or shell,
        aims=[*(info.aims or ()), *(["holdout"] if info.leaks else [])],
        python=python,
        versions=dict(selection.versions),
        fingerprint=selection.fingerprint,
    )


def _notes(inputs: Inputs, evidence: Suspicion, shown: IntArray) -> list[str]:
    """Say what a reader must know about how the numbers came about."""
    notes, info = [], inputs.selection.info
    usable, judged = len(inputs.usable), len(evidence.table.numbers)
    if out := inputs.selection.n_rows - usable:
        rows = "1 row takes" if out == 1 else f"{out:,} rows take"
        notes.append(f"{rows} no part: not readable, without a label, or with NaN or infinite values.")
    if len(shown) < usable:
        notes.append(
            f"The map shows {len(shown):,} of {usable:,} rows: the first picks, the rows of the galleries,"
            " and a random sample that is balanced over the classes and over kept and dropped rows."
        )
    if judged < usable:
        notes.append(
            f"Suspicion was measured among the {judged:,} rows of the map alone. The guard and `gmmatch"
            " suspects` measure it among all rows."
        )
        if inputs.selection.tiers is not None:
            notes.append(
                "Suspects are counted as the rows that were not trusted, which are more than those that seem"
                " wrong."
            )
    if inputs.labelled and not evidence.labels_judged:
        notes.append(
            "There are too few rows, or too few or too many classes, to judge labels; suspicion is about"
            " distance alone."
        )
    for hint in (info.hint or "").splitlines():
        notes.append(f"{hint[0].upper()}{hint[1:]}{' (--budgets)' if 'budgets' in hint else ''}.")
    if not inputs.own_centers:
        parts = PARTS & set(info.aims or ())
        why = f"The picks match {parts.pop()}" if parts else "The selection holds no centres"
        whose = "classes" if inputs.labelled else "data"
        notes.append(
            f"{why}: distances, the curve and random subsets are about the geometric median of the {whose},"
            " computed for this page."
        )
    if not inputs.same_input:
        notes.append(f"{inputs.source.name}, or its labels, differ from what the selection was made from.")
    return notes


def counts_at(codes: IntArray, n_codes: int, budgets: IntArray) -> IntArray:
    """Return how many of the first k codes are of each kind, for every k in `budgets`."""
    place = np.searchsorted(budgets, np.arange(len(codes)), side="right")
    gained = np.bincount(place * n_codes + codes, minlength=len(budgets) * n_codes)
    return np.cumsum(gained.reshape(len(budgets), n_codes), axis=0)


def objectives_at(groups: IntArray, scores: Vector, counts: IntArray) -> Vector:
    """Return the objective of prefixes of the picks: the mean of the groups' own, weighted by their picks.

    `groups`: group of each pick, in pick order. `scores`: after each pick, the distance of the mean of its
    group's picks so far to the group's centre. `counts`: of each prefix how many picks the groups have.
    """
    sizes = np.bincount(groups, minlength=counts.shape[1])
    latest = scores[np.argsort(groups, kind="stable")][np.maximum(np.cumsum(sizes) - sizes + counts - 1, 0)]
    found: Vector = (np.where(counts > 0, latest, 0.0) * counts).sum(axis=1) / counts.sum(axis=1)
    return found


def group_objectives(rows: FloatArray, picked: IntArray, groups: IntArray, centers: Vector) -> Vector:
    """Return after each pick the distance of its group's picks' mean to the centre, from the rows.

    Time: O(picks * features), each kept row read once. Memory: O(block).
    """
    scores = np.empty(len(picked))
    with task("following the picks", len(picked)) as advance:
        order, present, starts = group_order(groups)
        for group, own in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
            scores[own] = running_objective(rows, picked[own], centers[group])[0]
            advance(len(own))
    return scores


def make_curve(inputs: Inputs) -> Curve:
    """Return the curve; kept rows are read where the picks' scores are not the objectives themselves."""
    selection, groups, scores = inputs.selection, inputs.picked_groups, inputs.selection.scores
    if not inputs.scores_are_objectives:
        scores = group_objectives(inputs.rows, selection.indices, groups, inputs.centers)
    n_groups = len(inputs.centers)
    budgets = choose_budgets(len(selection), max(n_groups, len(inputs.classes)))
    picks = counts_at(groups, n_groups, budgets)
    objective = objectives_at(groups, scores, picks)
    # Before every class has a pick the objective is that of some classes alone.
    anchor = min(int(np.searchsorted(budgets, n_groups)), len(budgets) - 1)
    return Curve(
        budgets=budgets.tolist(),
        objective=significant(objective),
        random=significant(inputs.measures.random_objective(picks)),
        inverse=significant(objective[anchor] * budgets[anchor] / budgets),
    )


def choose_budgets(kept: int, classes: int) -> IntArray:
    """Return the budgets to look at: all of them where they are few, else close together at the start."""
    if kept <= _EVERY_BUDGET and kept * classes <= _MOST_STEPS:
        return np.arange(1, kept + 1)
    half = int(np.clip(_MOST_STEPS // classes, _FEWEST_BUDGETS, _BUDGETS)) // 2
    spread = np.concatenate([np.geomspace(1, kept, half), np.linspace(1, kept, half)])
    return np.unique(np.rint(spread).astype(np.int64))


def class_table(inputs: Inputs, evidence: Suspicion, budgets: IntArray) -> ClassTable:
    """Return the columns of the table of classes."""
    selection, codes, listed, n_classes = inputs.selection, inputs.codes, inputs.listed, len(inputs.classes)
    own, distances = codes[inputs.usable], inputs.measures.distances[inputs.usable]
    wrong, judged = count_suspects(inputs, evidence)
    picked = codes[selection.indices]
    columns = {"sizes": own, "kept": picked, "suspects": codes[wrong], "judged": codes[judged]}
    steps = np.diff(counts_at(picked, n_classes, budgets), axis=0, prepend=0)
    medians = group_quantiles(distances, own, n_classes)[:, 0]
    return ClassTable(
        names=[short(name) for name in inputs.classes[listed].tolist()] if inputs.labelled else ["all rows"],
        **{name: np.bincount(some, minlength=n_classes)[listed].tolist() for name, some in columns.items()},
        wrong=None if evidence.estimate is None else significant(evidence.estimate[listed, 1], 4),
        median=significant(np.nan_to_num(medians[listed]), 4),
        steps=steps[:, listed].tolist(),
        left_out=n_classes - len(listed),
    )


def count_suspects(inputs: Inputs, evidence: Suspicion) -> tuple[IntArray, IntArray]:
    """Return the rows that seem wrong, and those that were judged; the page has one count of them.

    Where the rows of the map alone were weighed, picks are too many among them: rows that the selection did
    not trust are counted instead.
    """
    usable, tiers, numbers = inputs.usable, inputs.selection.tiers, evidence.table.numbers
    if tiers is not None and len(numbers) < len(usable):
        return usable[tiers[usable] > 0], usable
    return numbers[evidence.table.suspect], numbers


def find_tabs(inputs: Inputs, evidence: Suspicion) -> list[Tab]:
    """Return the tabs of the review, with the numbers of rows in the input."""
    table, distances = evidence.table, inputs.measures.distances
    # For each class the trusted row that is nearest to its centre; -1 where there is none.
    trusted = table.numbers[evidence.tiers == 0]
    order = trusted[np.lexsort((trusted, distances[trusted]))][::-1]
    typical = np.full(len(inputs.classes), -1, np.int64)
    typical[inputs.codes[order]] = order
    own = inputs.codes[table.numbers]
    likelier = np.where(table.suggested >= 0, table.suggested, own)
    # One row of each group stands for the others.
    again = np.flatnonzero(table.duplicate > 0)
    again = again[np.lexsort((table.numbers[again], -table.copies[again]))]
    one_each = again[np.sort(np.unique(table.group[again], return_index=True)[1])]
    likely, far = np.flatnonzero(table.suspicion >= WRONG), np.flatnonzero(table.outlier > ODD)
    likely = likely[np.argsort(-table.suspicion[likely], kind="stable")]
    far = far[np.argsort(-table.outlier[far], kind="stable")]
    kinds = {
        "labels": (likely, typical[likelier], table.suspicion),
        "outliers": (far, typical[own], table.outlier),
        "duplicates": (one_each, table.keep, table.duplicate),
    }
    tabs = []
    for name, (at, beside, score) in kinds.items():
        title, about, most = _TABS[name]
        if name == "outliers" and not inputs.labelled:
            about = _UNLABELLED_OUTLIERS
        few = at[:most]
        scores = [round(value, 3) for value in score[few].tolist()]
        tabs.append(
            Tab(name, title, about, len(at), table.numbers[few].tolist(), beside[few].tolist(), scores)
        )
    return tabs if inputs.labelled else tabs[1:]


def make_review(tabs: list[Tab], inputs: Inputs, evidence: Suspicion, at: dict[int, int]) -> Review:
    """Return the review with places on the map; `at` tells where rows of the input are on it."""
    tabs = [
        replace(tab, rows=[at[row] for row in tab.rows], beside=[at.get(row, -1) for row in tab.beside])
        for tab in tabs
    ]
    estimate = None
    if evidence.estimate is not None:
        estimate = [round(part, 4) for part in evidence.estimate[-1, 1:].tolist()]
    if not inputs.labelled or len(inputs.codes) > _MOST_LABELS:
        return Review(tabs, estimate, None)
    codes = inputs.codes.copy()
    codes[inputs.source.bad_rows] = -1
    ids = None if inputs.source.ids is None else list(map(str, inputs.source.ids.tolist()))
    if ids is not None and (len(set(ids)) < len(ids) or sum(map(len, ids)) > _MOST_LETTERS):
        ids = None
    names = list(map(str, inputs.classes.tolist()))
    return Review(tabs, estimate, AllLabels(names, codes.tolist(), inputs.listed.tolist(), ids))


def repeat(
    selection: Selection, source: str, labelled: bool, bad_rows: bool, opened: Mapping[str, object]
) -> tuple[str, str]:
    """Return a command and a call that make the same selection.

    Files that nobody named stand in capitals in the command; in the call the rows are `X`, the labels `y`,
    and other arrays variables of their names. `source`: name of the data. `bad_rows`: whether some rows take
    no part. `opened`: the data and how it was opened, by parameter.

    >>> import numpy as np, gmmatch
    >>> selection = gmmatch.select(np.eye(4), keep=2, random_state=7)
    >>> for line in repeat(selection, "my rows.npy", False, False, {}):
    ...     print(line)
    gmmatch select 'my rows.npy' --keep 2 --seed 7
    gmmatch.select(X, keep=2, random_state=7)
    >>> for line in repeat(selection, "a", True, True, {"data": "a.csv", "labels": "kind"}):
    ...     print(line)
    gmmatch select a.csv --labels kind --on-bad-rows drop --keep 2 --seed 7
    gmmatch.select('a.csv', labels='kind', on_bad_rows='drop', keep=2, random_state=7)
    """
    given = {name: own for name, own in opened.items() if own is not None}
    given |= {"on_bad_rows": "drop"} if bad_rows else {}
    named: dict[str, Any] = {
        name: os.fspath(own) if isinstance(own, str | os.PathLike) else own if name in _WEIGHED else None
        for name, own in given.items()
    }
    path = named.pop("data", None)
    if path is None and labelled:
        named = {"labels": None} | named
    asked, params = _asked(selection)
    words = ["gmmatch", "select", path or source]
    every = named | {name: value for name, value in asked.items() if name not in named}
    for name, value in every.items():
        if value is None or isinstance(value, Mapping | tuple):
            words += [f"--{name.replace('_', '-')}", name.upper()]
        elif name in params and name not in _OPTIONS:
            words += ["--param", f"{name}={value}"]
        else:
            words += [f"--{name.replace('_', '-')}", str(value)]
    if selection.random_state is not None:
        words += ["--seed", str(selection.random_state)]
    call = ["X", *(["y"] if labelled else [])]
    call = [f"gmmatch.open({', '.join(call)}, on_bad_rows='drop')"] if bad_rows else call
    if path is not None and None not in named.values():
        call, asked = [repr(path)], every
    call += [f"{name}={name if value is None else repr(value)}" for name, value in asked.items()]
    return shlex.join(words), f"gmmatch.select({', '.join(call)}, random_state={selection.random_state})"


def _asked(selection: Selection) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what was asked for, and what of it is the method's; None for what only the caller has."""
    info, method = selection.info, METHODS.get(selection.method)
    params: dict[str, Any] = {}
    if method is not None:
        defaults = method.selector.defaults()
        for name, value in selection.params.items():
            usual = defaults.get(name)
            changed = not (isinstance(value, type(usual)) and value == usual)
            if changed and name not in ("keep", "random_state", *method.fixed):
                plain = isinstance(value, str | int | float | dict) and "array of shape" not in str(value)
                params[name] = value if plain else None
    settings, labels = dict(info.settings or {}), info.guard.get("labels") or {}
    known = {
        "holdout": info.leaks is not None,
        "reference": "reference" in labels.get("losses", ()),
        "probabilities": labels.get("classifier") == "given",
    }
    aims = dict.fromkeys([*(info.aims or ()), *(name for name, there in known.items() if there)])
    # A budget in another unit, or beyond rows that are in, is repeated as it was asked for.
    keep = settings.pop("keep", len(selection))
    keep = keep if {"cost", "include"} & set(aims) else len(selection)
    named = {} if selection.method == "gm-matching" else {"method": selection.method}
    return {"keep": keep, **named, **params, **aims, **settings}, params
