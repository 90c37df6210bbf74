"""From a selection and its input to plain data for a page."""

from itertools import zip_longest

import numpy as np

from ..arrays import IntArray, Vector
from ..compute.runner import gather
from ..data import Dataset
from ..errors import InvalidInput
from ..records import Selection
from ..validation import CheckedRows
from .content import Content
from .measure import Measures, make_curve, measure
from .projection import check_projection
from .records import Gallery, Glance, Report, Review
from .review import compared_rows, find_rows, make_review
from .sample import choose_rows
from .setting import Setting, prepare, python_call, shell_command
from .suspicion import Suspicion, from_evidence, judge_rows, worth_judging
from .tables import class_table, count_suspects, make_map, plain_params, typical_distances

GALLERY_ROWS = 60
_FAR = 10.0  # times the usual spread: rows beyond it do not shape the map
_MAD_TO_SIGMA = 1.4826
_GALLERIES = (
    ("first", "Kept first", "The first picks, in order. A smaller budget keeps the first of them."),
    ("dropped", "Dropped nearest", "Rows near the middle of their class that were not needed to match it."),
)


def summarise(
    selection: Selection,
    source: Dataset,
    *,
    content: Content | None = None,
    checked: CheckedRows | None = None,
    projection: str = "classes",
    seconds: float | None = None,
    command: str | None = None,
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
    setting = prepare(selection, source, checked, any_input)
    seed = selection.random_state or 0
    measures = measure(setting.rows, setting.groups, setting.centers)
    usable = np.flatnonzero(measures.usable)
    if not len(usable):
        raise InvalidInput(f"{source.name} has no row without NaN or infinite values")
    evidence = _judge_all(setting, usable, seed)
    first = selection.indices[:GALLERY_ROWS]
    usual, spread = typical_distances(measures, setting.groups)
    nearest = _dropped_nearest(setting, measures, usual)
    found = None if evidence is None else find_rows(setting, measures, evidence)
    doubtful = np.empty(0, np.int64) if found is None else compared_rows(found)
    always = np.concatenate([first, nearest, doubtful])
    shown = choose_rows(usable, setting.codes, selection.indices, always, seed)
    sampled = gather(setting.rows, shown)
    if evidence is None or found is None:
        evidence = judge_rows(sampled, shown, setting.codes[shown], setting.classes, seed)
        found = find_rows(setting, measures, evidence)
    groups = setting.groups[shown]
    ordinary = measures.distances[shown] <= usual[groups] + _FAR * _MAD_TO_SIGMA * spread[groups]
    at = {row: place for place, row in enumerate(shown.tolist())}
    galleries = [
        Gallery(*words, [at[row] for row in rows.tolist()])
        for words, rows in zip(_GALLERIES, (first, nearest), strict=True)
    ]
    review = make_review(found, setting, evidence, at)
    curve, steps = make_curve(setting, measures)
    glance = _glance(setting, source, measures, evidence, curve.objective[-1], seconds, command)
    return Report(
        title=f"{len(selection):,} of {selection.n_rows:,} rows kept",
        labelled=setting.labelled,
        glance=glance,
        curve=curve,
        map=make_map(setting, measures, evidence, shown, sampled, ordinary, kind, seed),
        classes=class_table(setting, measures, evidence, steps),
        galleries=galleries,
        review=review,
        content_kind=None if content is None else content.kind,
        content={} if content is None else _previews(content, shown, review, galleries, seed),
        notes=_notes(setting, source, measures, evidence, shown),
    )


def _judge_all(setting: Setting, usable: IntArray, seed: int) -> Suspicion | None:
    """Return what is known of all usable rows, or None where judging them would take too long."""
    if setting.selection.evidence is not None:
        known = setting.selection.evidence
        return from_evidence(known, setting.rows, usable, setting.codes, setting.classes, seed)
    if not worth_judging(len(usable), setting.rows.shape[1], len(setting.classes)):
        return None
    return judge_rows(setting.rows[usable], usable, setting.codes[usable], setting.classes, seed)


def _dropped_nearest(setting: Setting, measures: Measures, usual: Vector) -> IntArray:
    """Return the dropped rows nearest to the centre, by distance over the median distance of their class."""
    waiting = measures.usable.copy()
    waiting[setting.selection.indices] = False
    rows = np.flatnonzero(waiting)
    unit = np.where(usual > 0, usual, 1.0)
    nearness = measures.distances[rows] / unit[setting.groups[rows]]
    few = rows if len(rows) <= GALLERY_ROWS else rows[np.argpartition(nearness, GALLERY_ROWS)[:GALLERY_ROWS]]
    near = measures.distances[few] / unit[setting.groups[few]]
    return few[np.lexsort((few, near))]


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
    setting: Setting,
    source: Dataset,
    measures: Measures,
    evidence: Suspicion,
    final: float,
    seconds: float | None,
    command: str | None,
) -> Glance:
    selection = setting.selection
    # Methods that match no centre know no objective; the end of the curve does.
    objective = final if np.isnan(selection.objective) else selection.objective
    picks = np.bincount(setting.picked_groups, minlength=len(setting.centers))
    random = float(measures.random_objective(picks[None])[0])
    guard = selection.info.guard
    wrong, judged = count_suspects(setting, measures, evidence)
    return Glance(
        source=source.name,
        rows=selection.n_rows,
        usable=int(measures.usable.sum()),
        features=setting.rows.shape[1],
        classes=len(setting.classes) if setting.labelled else None,
        kept=len(selection),
        method=selection.method,
        params=plain_params(selection.params),
        seed=selection.random_state,
        guard=None if not guard or guard.get("mode") == "off" else plain_params(guard),
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
        prefixes=setting.prefixes_hold,
        command=command or shell_command(selection, source.name, setting.labelled),
        python=python_call(selection, setting.labelled, bad_rows=bool((~measures.usable).any())),
        versions=dict(selection.versions),
        fingerprint=selection.fingerprint,
    )


def _notes(
    setting: Setting, source: Dataset, measures: Measures, evidence: Suspicion, shown: IntArray
) -> list[str]:
    """Say what a reader must know about how the numbers came about."""
    notes = []
    usable, total = int(measures.usable.sum()), setting.selection.n_rows
    if usable < total:
        notes.append(
            f"{total - usable:,} rows take no part: they could not be read, have no label, or hold NaN or"
            " infinite values."
        )
    if len(shown) < usable:
        notes.append(
            f"The map shows {len(shown):,} of {usable:,} rows: the first picks, the rows of the galleries,"
            " and a random sample that is balanced over the classes and over kept and dropped rows."
        )
    if len(evidence.rows) < usable:
        notes.append(
            f"Suspicion was measured among the {len(evidence.rows):,} rows of the map alone;"
            " The guard, or a list of suspects, measures it among all rows."
        )
        if setting.selection.tiers is not None:
            notes.append(
                "Suspects are counted as the rows that were not trusted, which are more than those that seem"
                " wrong."
            )
    if setting.labelled and not evidence.labels_judged:
        notes.append(
            "There are too few rows, or too few or too many classes, to judge labels; suspicion is about"
            " distance alone."
        )
    for hint in (setting.selection.info.hint or "").splitlines():
        option = " (--budgets)" if "budgets" in hint else ""
        notes.append(f"{hint[0].upper()}{hint[1:]}{option}.")
    if not setting.own_centers:
        notes.append(
            "The selection holds no centres: distances are to the geometric medians of the classes, all"
            " rows included, found for this page."
        )
    if not setting.same_input:
        notes.append(f"{source.name}, or its labels, differ from what the selection was made from.")
    return notes
