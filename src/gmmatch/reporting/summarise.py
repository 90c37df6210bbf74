"""From a selection and its input to plain data for a page."""

import base64
import os
import shlex
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import numpy as np

from ..arrays import FloatArray, IntArray, Vector
from ..compute.blocks import group_order, turns
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
from .inputs import PARTS, Inputs, Measures, Suspicion, judge_all, judge_rows, measure, prepare
from .map import check_projection, choose_rows, make_map
from .summary import AllLabels, ClassTable, Curve, Gallery, Glance, Report, Review, Tab, short, significant

GALLERY_ROWS = 60
_FAR = 10.0  # times the usual spread: rows beyond it do not shape the map
_MAD_TO_SIGMA = 1.4826
TAB_ROWS = {"labels": 5_000, "outliers": 1_000, "duplicates": 1_000}
_MOST_LABELS = 1 << 20
_MOST_LETTERS = 12_000_000  # of all ids together
_TABS = {
    "labels": ("Labels", "Labels that are likely wrong, beside a typical row of the class that is likelier."),
    "outliers": ("Outliers", "Rows far from the others of their class, beside a typical row of it."),
    "duplicates": ("Duplicates", "One of each group, largest groups first, beside the row to keep."),
}
_MOST_STEPS = 120_000  # budgets times classes
_BUDGETS = 240
_FEWEST_BUDGETS = 40
_EVERY_BUDGET = 1_000
BINS = 16
_RANGE = (0.005, 0.995)
_REACH = 5.0  # times the spread of the middle half of the distances
# Parameters of methods that the command line has options of their own for; the others go by --param.
_OPTIONS = {"keep", "method", "guard", "budgets"}


def summarise(
    selection: Selection,
    source: Dataset,
    *,
    content: Content | None = None,
    checked: CheckedRows | None = None,
    projection: str = "classes",
    seconds: float | None = None,
    command: str | None = None,
    opened: tuple[str, Mapping[str, object]] | None = None,
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
        `classes`, `pca`, `umap` or `auto`.
    seconds, command
        How long the selection took, in place of what it knows, and what repeats it.
    opened
        The path of the rows and how they were opened, by parameter, for the call that repeats it.
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
    kind = check_projection(projection)
    inputs = prepare(selection, source, checked, any_input)
    seed = selection.random_state or 0
    measures = measure(inputs.rows, inputs.groups, inputs.centers)
    usable = np.flatnonzero(measures.usable)
    if not len(usable):
        raise InvalidInput(f"{source.name} has no row without NaN or infinite values")
    evidence = judge_all(inputs, usable, seed)
    first = selection.indices[:GALLERY_ROWS]
    groups, distances = inputs.groups[usable], measures.distances[usable]
    # By group the median distance to the centre, and the median deviation from it.
    usual = group_quantiles(distances, groups, len(measures.sizes))[:, 0]
    spread = group_quantiles(np.abs(distances - usual[groups]), groups, len(measures.sizes))[:, 0]
    # The dropped rows nearest to the centre, by distance over the median distance of their class.
    dropped = ~np.isin(usable, selection.indices)
    nearness = (distances / np.where(usual > 0, usual, 1.0)[groups])[dropped]
    nearest = usable[dropped][np.argsort(nearness, kind="stable")[:GALLERY_ROWS]]
    found = None if evidence is None else find_rows(inputs, measures, evidence)
    # The rows of the tabs and those beside them.
    compared = [part[part >= 0] for tab in (found or {}).values() for part in tab[1:3]]
    always = np.concatenate([first, nearest, *compared])
    shown = choose_rows(usable, inputs.codes, selection.indices, always, seed)
    sampled = gather(inputs.rows, shown)
    if evidence is None or found is None:
        evidence = judge_rows(inputs, sampled, shown, seed)
        found = find_rows(inputs, measures, evidence)
    groups = inputs.groups[shown]
    ordinary = measures.distances[shown] <= usual[groups] + _FAR * _MAD_TO_SIGMA * spread[groups]
    at = {row: place for place, row in enumerate(shown.tolist())}
    galleries = _galleries(inputs, [at[row] for row in first.tolist()], [at[row] for row in nearest.tolist()])
    review = make_review(found, inputs, evidence, at)
    curve, steps = make_curve(inputs, measures)
    glance = _glance(inputs, measures, evidence, curve.objective[-1], seconds, command, opened)
    return Report(
        title=f"{len(selection):,} of {selection.n_rows:,} rows kept",
        labelled=inputs.labelled,
        glance=glance,
        curve=curve,
        map=make_map(inputs, measures, evidence, shown, sampled, ordinary, kind, seed),
        classes=class_table(inputs, measures, evidence, steps),
        galleries=galleries,
        review=review,
        content_kind=None if content is None else content.kind,
        content={} if content is None else _previews(content, shown, review, galleries, seed),
        notes=_notes(inputs, measures, evidence, shown),
    )


def _galleries(inputs: Inputs, first: list[int], nearest: list[int]) -> list[Gallery]:
    order = "The first picks, in order."
    if inputs.prefixes_hold:
        order += " A smaller budget keeps the first of them."
    whose = "their class" if inputs.labelled else "the data"
    about = f"Rows near the middle of {whose} that were not needed to match it."
    return [
        Gallery("first", "Kept first", order, first),
        Gallery("dropped", "Dropped nearest", about, nearest),
    ]


def _previews(
    content: Content, shown: IntArray, review: Review, galleries: list[Gallery], seed: int
) -> dict[int, str]:
    """Return the content of the rows that are looked at, then of as many others as there is room for."""
    lists = [part for tab in review.tabs for part in (tab.rows, tab.beside)]
    lists += [gallery.rows for gallery in galleries]
    turns = [row for together in zip_longest(*lists, fillvalue=-1) for row in together]
    wanted = list(dict.fromkeys(row for row in turns if row >= 0))
    others = np.setdiff1d(np.arange(len(shown)), wanted)
    order = np.concatenate([np.array(wanted, np.int64), np.random.default_rng([seed, 1]).permutation(others)])
    return {int(order[place]): preview for place, preview in content.previews(shown[order]).items()}


def _glance(
    inputs: Inputs,
    measures: Measures,
    evidence: Suspicion,
    final: float,
    seconds: float | None,
    command: str | None,
    opened: tuple[str, Mapping[str, object]] | None,
) -> Glance:
    selection, source = inputs.selection, inputs.source
    # Methods that match no centre, or those of other parts, know no such objective; the curve's end does.
    known = inputs.own_centers and not np.isnan(selection.objective)
    objective = selection.objective if known else final
    picks = np.bincount(inputs.picked_groups, minlength=len(inputs.centers))
    random = float(measures.random_objective(picks[None])[0])
    guard = selection.info.guard
    wrong, judged = count_suspects(inputs, measures, evidence)
    return Glance(
        source=source.name,
        rows=selection.n_rows,
        usable=int(measures.usable.sum()),
        features=inputs.rows.shape[1],
        classes=len(inputs.classes) if inputs.labelled else None,
        kept=len(selection),
        method=selection.method,
        guard=None if not guard or guard.get("mode") == "off" else plain(guard),
        seconds=selection.info.seconds if seconds is None else round(seconds, 3),
        center=selection.info.center,
        epsilon=selection.epsilon,
        objective=objective,
        random_objective=random,
        times_closer=random / objective if objective > 0 else None,
        suspects=len(wrong),
        judged=len(judged),
        kept_suspects=int(np.isin(selection.indices, wrong).sum()),
        learned=selection.info.learned(),
        prefixes=inputs.prefixes_hold,
        command=command
        or shell_command(selection, source.name, {"labels": "LABELS"} if inputs.labelled else {}),
        aims=[*(selection.info.aims or ()), *(["holdout"] if selection.info.leaks else [])],
        python=python_call(selection, inputs.labelled, bool((~measures.usable).any()), opened),
        versions=dict(selection.versions),
        fingerprint=selection.fingerprint,
    )


def _notes(inputs: Inputs, measures: Measures, evidence: Suspicion, shown: IntArray) -> list[str]:
    """Say what a reader must know about how the numbers came about."""
    notes = []
    usable, total = int(measures.usable.sum()), inputs.selection.n_rows
    if usable < total:
        out = "1 row takes" if total - usable == 1 else f"{total - usable:,} rows take"
        notes.append(f"{out} no part: not readable, without a label, or with NaN or infinite values.")
    if len(shown) < usable:
        notes.append(
            f"The map shows {len(shown):,} of {usable:,} rows: the first picks, the rows of the galleries,"
            " and a random sample that is balanced over the classes and over kept and dropped rows."
        )
    if len(evidence.table.numbers) < usable:
        notes.append(
            f"Suspicion was measured among the {len(evidence.table.numbers):,} rows of the map alone."
            " The guard and `gmmatch suspects` measure it among all rows."
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
    for hint in (inputs.selection.info.hint or "").splitlines():
        option = " (--budgets)" if "budgets" in hint else ""
        notes.append(f"{hint[0].upper()}{hint[1:]}{option}.")
    if not inputs.own_centers:
        parts = PARTS & set(inputs.selection.info.aims or ())
        why = f"The picks match {parts.pop()}" if parts else "The selection holds no centres"
        whose = "classes" if inputs.labelled else "data"
        notes.append(
            f"{why}: distances, the curve and random subsets are about the geometric median of the {whose},"
            " computed for this page."
        )
    if not inputs.same_input:
        notes.append(f"{inputs.source.name}, or its labels, differ from what the selection was made from.")
    return notes


def objective_of_prefixes(groups: IntArray, scores: Vector) -> Vector:
    """Return the objective after every pick, from the objectives of the picks' own groups.

    `groups`: group of each pick, in pick order. `scores`: after each pick, the distance of the mean of its
    group's picks so far to the group's centre.

    Returns the mean of the groups' latest scores, weighted by their picks so far.
    """
    weighted = (turns(groups) + 1) * scores
    order = np.argsort(groups, kind="stable")
    gained = np.empty_like(weighted)
    gained[order] = np.diff(weighted[order], prepend=0.0)
    starts = order[np.r_[True, groups[order][1:] != groups[order][:-1]]]
    gained[starts] = weighted[starts]
    result: Vector = np.maximum(np.cumsum(gained), 0.0) / np.arange(1, len(groups) + 1)
    return result


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


def make_curve(inputs: Inputs, measures: Measures) -> tuple[Curve, IntArray]:
    """Return the curve, and the budgets that it is drawn at.

    Where the picks' scores are not the objectives themselves, the kept rows are read once.
    """
    selection, groups = inputs.selection, inputs.picked_groups
    if inputs.scores_are_objectives:
        scores = selection.scores
    else:
        scores = group_objectives(inputs.rows, selection.indices, groups, inputs.centers)
    budgets = choose_budgets(len(selection), max(len(inputs.centers), len(inputs.classes)))
    objective = objective_of_prefixes(groups, scores)[budgets - 1]
    picks = counts_at(groups, len(inputs.centers), budgets)
    random = measures.random_objective(picks)
    # Before every class has a pick the objective is that of some classes alone.
    anchor = min(int(np.searchsorted(budgets, len(inputs.centers))), len(budgets) - 1)
    inverse = objective[anchor] * budgets[anchor] / budgets
    curve = Curve(
        budgets=budgets.tolist(),
        objective=significant(objective),
        random=significant(random),
        inverse=significant(inverse),
    )
    return curve, budgets


def choose_budgets(kept: int, classes: int) -> IntArray:
    """Return the budgets to look at: all of them where they are few, else close together at the start."""
    if kept <= _EVERY_BUDGET and kept * classes <= _MOST_STEPS:
        return np.arange(1, kept + 1)
    count = int(np.clip(_MOST_STEPS // classes, _FEWEST_BUDGETS, _BUDGETS))
    spread = np.concatenate([np.geomspace(1, kept, count // 2), np.linspace(1, kept, count // 2)])
    return np.unique(np.rint(spread).astype(np.int64))


def counts_at(codes: IntArray, n_codes: int, budgets: IntArray) -> IntArray:
    """Return how many of the first k codes are of each kind, for every k in `budgets`."""
    starts = np.concatenate([[0], budgets[:-1]])
    gained = [
        np.bincount(codes[start:stop], minlength=n_codes) for start, stop in zip(starts, budgets, strict=True)
    ]
    return np.cumsum(np.stack(gained), axis=0)


def class_table(inputs: Inputs, measures: Measures, evidence: Suspicion, budgets: IntArray) -> ClassTable:
    """Return the columns of the table of classes."""
    selection, codes, classes = inputs.selection, inputs.codes, inputs.classes
    usable = np.flatnonzero(measures.usable)
    n_classes, own, distances = len(classes), codes[usable], measures.distances[usable]
    edges = bin_edges(distances)
    bins = np.clip(np.searchsorted(edges, distances, side="right") - 1, 0, BINS - 1)
    kept = np.zeros(selection.n_rows, bool)
    kept[selection.indices] = True
    histograms = [
        np.bincount(code * BINS + place, minlength=n_classes * BINS).reshape(n_classes, BINS)
        for code, place in ((own, bins), (own[kept[usable]], bins[kept[usable]]))
    ]
    wrong, judged = count_suspects(inputs, measures, evidence)
    counts = counts_at(codes[selection.indices], n_classes, budgets)
    steps = np.diff(counts, axis=0, prepend=0)
    listed = inputs.listed
    columns = {
        "sizes": np.bincount(own, minlength=n_classes),
        "kept": counts[-1],
        "suspects": np.bincount(codes[wrong], minlength=n_classes),
        "judged": np.bincount(codes[judged], minlength=n_classes),
    }
    medians = group_quantiles(distances, own, n_classes)[:, 0]
    return ClassTable(
        names=[short(name) for name in classes[listed].tolist()] if inputs.labelled else ["all rows"],
        **{name: values[listed].tolist() for name, values in columns.items()},
        wrong=None if evidence.estimate is None else significant(evidence.estimate[listed, 1], 4),
        median=significant(np.nan_to_num(medians[listed]), 4),
        edges=significant(edges, 4),
        histogram=histograms[0][listed].tolist(),
        kept_histogram=histograms[1][listed].tolist(),
        steps=steps[:, listed].tolist(),
        left_out=n_classes - len(listed),
    )


def count_suspects(inputs: Inputs, measures: Measures, evidence: Suspicion) -> tuple[IntArray, IntArray]:
    """Return the rows that seem wrong, and those that were judged; the page has one count of them.

    Where the rows of the map alone were weighed, picks are too many among them: rows that the selection did
    not trust are counted instead.
    """
    usable, tiers = np.flatnonzero(measures.usable), inputs.selection.tiers
    if tiers is not None and len(evidence.table.numbers) < len(usable):
        return usable[tiers[usable] > 0], usable
    return evidence.table.numbers[evidence.table.suspect], evidence.table.numbers


def bin_edges(distances: Vector) -> Vector:
    """Return the borders of the bins: nearly all distances, but not far beyond the middle half of them.

    >>> distances = np.r_[np.linspace(1.0, 2.0, 90), np.full(10, 500.0)]
    >>> bool(bin_edges(distances)[-1] < 6.0)
    True
    """
    low, first, middle, third, high = np.quantile(distances, (_RANGE[0], 0.25, 0.5, 0.75, _RANGE[1]))
    if third > first:
        reach = _REACH * (third - first)
        low, high = max(low, middle - reach), min(high, middle + reach)
    return np.linspace(low, high if high > low else low + 1.0, BINS + 1)


Pairs = tuple[int, IntArray, IntArray, Vector]


def find_rows(inputs: Inputs, measures: Measures, evidence: Suspicion) -> dict[str, Pairs]:
    """Return for each tab its number of rows, the first of them, those to compare them with, and scores."""
    # For each class the trusted row that is nearest to its centre; -1 where there is none.
    trusted = evidence.table.numbers[evidence.tiers == 0]
    order = trusted[np.lexsort((trusted, measures.distances[trusted]))][::-1]
    typical = np.full(len(inputs.classes), -1, np.int64)
    typical[inputs.codes[order]] = order
    wrong, outlier, duplicate = evidence.table.suspicion, evidence.table.outlier, evidence.table.duplicate
    group, keep, suggested = evidence.table.group, evidence.table.keep, evidence.table.suggested
    own = inputs.codes[evidence.table.numbers]
    compared = np.where(suggested >= 0, suggested, own)
    # One row of each group stands for the others.
    again = np.flatnonzero(duplicate > 0)
    again = again[np.lexsort((evidence.table.numbers[again], -evidence.table.copies[again]))]
    _, first = np.unique(group[again], return_index=True)
    likely, far = np.flatnonzero(wrong >= WRONG), np.flatnonzero(outlier > ODD)
    found = {
        "labels": (likely[np.argsort(-wrong[likely], kind="stable")], typical[compared], wrong),
        "outliers": (far[np.argsort(-outlier[far], kind="stable")], typical[own], outlier),
        "duplicates": (again[np.sort(first)], keep, duplicate),
    }
    return {
        name: (len(at), evidence.table.numbers[few := at[: TAB_ROWS[name]]], beside[few], score[few])
        for name, (at, beside, score) in found.items()
        if name != "labels" or inputs.labelled
    }


def make_review(found: dict[str, Pairs], inputs: Inputs, evidence: Suspicion, at: dict[int, int]) -> Review:
    """Return the tabs; `at` tells where rows of the input are on the map."""
    tabs = [
        Tab(
            name,
            *_TABS[name],
            total,
            [at[row] for row in rows.tolist()],
            [at.get(row, -1) for row in beside.tolist()],
            [round(float(value), 3) for value in score],
        )
        for name, (total, rows, beside, score) in found.items()
    ]
    estimate = (
        None if evidence.estimate is None else [round(part, 4) for part in evidence.estimate[-1, 1:].tolist()]
    )
    if not inputs.labelled or len(inputs.codes) > _MOST_LABELS:
        return Review(tabs, estimate, None)
    width = next(size for size in (1, 2, 4) if len(inputs.classes) < 256**size)
    codes = inputs.codes.astype(f"<u{width}")
    codes[inputs.source.bad_rows] = 256**width - 1
    names = [str(name) for name in inputs.classes.tolist()]
    ids = None if inputs.source.ids is None else [str(name) for name in inputs.source.ids.tolist()]
    if ids is not None and (len(set(ids)) < len(ids) or sum(map(len, ids)) > _MOST_LETTERS):
        ids = None
    coded = base64.b64encode(codes.tobytes()).decode()
    return Review(tabs, estimate, AllLabels(names, coded, width, inputs.listed.tolist(), ids))


def shell_command(selection: Selection, source: str, opening: Mapping[str, Any]) -> str:
    """Return a command that makes the same selection; files that nobody named stand there in capitals.

    `opening`: how the input was opened, by option; None: not asked for.

    >>> import numpy as np, gmmatch
    >>> selection = gmmatch.select(np.eye(4), keep=2, random_state=7)
    >>> shell_command(selection, "my rows.npy", {"labels": "kinds.npy", "ids": None})
    "gmmatch select 'my rows.npy' --labels kinds.npy --keep 2 --seed 7"
    """
    words = ["gmmatch", "select", source]
    for name, value in opening.items():
        path = os.fspath(value) if isinstance(value, str | os.PathLike) else name.upper()
        words += [] if value is None else [f"--{name}", path]
    params = _changed(selection)
    for name, value in _asked(selection).items():
        if value is None or isinstance(value, Mapping):
            words += [f"--{name.replace('_', '-')}", name.upper()]
        elif name in params and name not in _OPTIONS:
            words += ["--param", f"{name}={value}"]
        else:
            words += [f"--{name}", str(value)]
    if selection.random_state is not None:
        words += ["--seed", str(selection.random_state)]
    return shlex.join(words)


def python_call(
    selection: Selection,
    labelled: bool,
    bad_rows: bool = False,
    opened: tuple[str, Mapping[str, object]] | None = None,
) -> str:
    """Return a call that makes the same selection: of rows `X` with labels `y`, or of the files named.

    What belonged to the rows of one dataset (a reference, a holdout) and was no file is a variable of its
    name. `bad_rows`: whether some rows take no part. `opened`: the path of the rows and how they were
    opened, by parameter.

    >>> import numpy as np, gmmatch
    >>> python_call(gmmatch.select(np.eye(4), keep=2), labelled=True)
    'gmmatch.select(X, y, keep=2, random_state=0)'
    >>> python_call(gmmatch.select(np.eye(4), keep=2), True, opened=("a.csv", {"labels": "kind"}))
    "gmmatch.select('a.csv', labels='kind', keep=2, random_state=0)"
    """
    data = ["X", *(["y"] if labelled else [])]
    words = [f"gmmatch.open({', '.join(data)}, on_bad_rows='drop')"] if bad_rows else data
    if opened is not None:
        path, asked = opened
        asked = {**asked, **({"on_bad_rows": "drop"} if bad_rows else {})}
        words = [repr(path), *(f"{name}={value!r}" for name, value in asked.items())]
    known = () if opened is None else opened[1]
    words += [
        f"{name}={name if value is None else repr(value)}"
        for name, value in _asked(selection).items()
        if name not in known
    ]
    return f"gmmatch.select({', '.join(words)}, random_state={selection.random_state})"


def opened_as(source: object, asked: Mapping[str, object]) -> tuple[str, dict[str, str]] | None:
    """Return the path of rows and how they were opened, by parameter; None: some of it was no path or text.

    `asked`: what was asked for; None: not asked for.
    """
    named = {name: os.fspath(own) for name, own in asked.items() if isinstance(own, str | os.PathLike)}
    whole = len(named) == sum(value is not None for value in asked.values())
    return (os.fspath(source), named) if whole and isinstance(source, str | os.PathLike) else None


def _asked(selection: Selection) -> dict[str, Any]:
    """Return what was asked for, by parameter; None for what only the caller has, such as arrays."""
    info, settings = selection.info, dict(selection.info.settings or {})
    aims = dict.fromkeys(info.aims or ())
    if info.leaks is not None:
        aims["holdout"] = None
    labels = info.guard.get("labels") or {}
    if "reference" in labels.get("losses", ()):
        aims["reference"] = None
    if labels.get("classifier") == "given":
        aims["probabilities"] = None
    keep = settings.pop("keep", len(selection))
    method = {} if selection.method == "gm-matching" else {"method": selection.method}
    # A budget in another unit, or beyond rows that are in, is repeated as it was asked for.
    keep = keep if {"cost", "include"} & set(aims) else len(selection)
    return {"keep": keep, **method, **_changed(selection), **aims, **settings}


def _changed(selection: Selection) -> dict[str, Any]:
    """Return the parameters that are not the method's defaults; None for arrays, which nothing holds."""
    method = METHODS.get(selection.method)
    if method is None:
        return {}
    defaults = method.selector.defaults()
    return {
        name: value
        if isinstance(value, str | int | float | dict) and "array of shape" not in str(value)
        else None
        for name, value in selection.params.items()
        if name not in ("keep", "random_state", *method.fixed)
        and not (isinstance(value, type(defaults.get(name))) and value == defaults.get(name))
    }
