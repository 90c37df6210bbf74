"""The columns of the map and of the table of classes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, IntArray, Vector
from ..facts import plain
from ..location.distances import group_quantiles
from .measure import Measures, counts_at, significant
from .projection import project, to_grid
from .records import ClassTable, MapRows
from .setting import Setting
from .suspicion import Suspicion

BINS = 16
MOST_CLASSES = 5_000
_RANGE = (0.005, 0.995)
_REACH = 5.0  # times the spread of the middle half of the distances
_MOST_LETTERS = 200


def make_map(
    setting: Setting,
    measures: Measures,
    evidence: Suspicion,
    shown: IntArray,
    sampled: FloatArray,
    ordinary: npt.NDArray[np.bool_],
    kind: str,
    seed: int,
) -> MapRows:
    """Return the columns of the map.

    `setting`, `measures`, `evidence`: what is known of the rows. `shown`, `sampled`, `ordinary`: numbers of
    the rows on the map, the rows themselves, and which of them are not far off. `kind`, `seed`: projection,
    and the seed of what is random in it.
    """
    rank = np.full(setting.selection.n_rows, -1, np.int64)
    rank[setting.selection.indices] = np.arange(len(setting.selection))
    place = np.full(setting.selection.n_rows, -1, np.int64)
    place[evidence.rows] = np.arange(len(evidence.rows))
    judged = place[shown]
    known = judged >= 0
    suspicion = np.where(known, evidence["suspicion"][judged], np.nan)
    suggested = np.where(known, evidence["suggested"][judged], -1)
    listed = listed_classes(setting)
    tiers = np.where(known, evidence.tiers[judged], -1)
    codes = setting.codes[shown] if setting.labelled else None
    projection = project(sampled, ordinary, kind, seed, codes, tiers == 0)
    grid, window = to_grid(projection.places)
    return MapRows(
        row=shown.tolist(),
        id=None if setting.ids is None else [short(name) for name in setting.ids[shown].tolist()],
        x=grid[:, 0].tolist(),
        y=grid[:, 1].tolist(),
        code=_places(listed, setting.codes[shown]),
        rank=rank[shown].tolist(),
        distance=significant(measures.distances[shown], 4),
        suspicion=[
            round(value, 3) if ok else None for value, ok in zip(suspicion.tolist(), known, strict=True)
        ],
        suggested=_places(listed, suggested),
        tier=tiers.tolist(),
        reason={
            at: str(evidence.reasons[judged[at]])
            for at in np.flatnonzero(known & (evidence.reasons[judged] != "")).tolist()
        },
        projection=projection.about,
        window=window,
        shown_kept=int((rank[shown] >= 0).sum()),
    )


def class_table(setting: Setting, measures: Measures, evidence: Suspicion, budgets: IntArray) -> ClassTable:
    """Return the columns of the table of classes."""
    selection, codes, classes = setting.selection, setting.codes, setting.classes
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
    wrong, judged = count_suspects(setting, measures, evidence)
    counts = counts_at(codes[selection.indices], n_classes, budgets)
    steps = np.diff(counts, axis=0, prepend=0)
    listed = listed_classes(setting)
    columns = {
        "sizes": np.bincount(own, minlength=n_classes),
        "kept": counts[-1],
        "suspects": np.bincount(codes[wrong], minlength=n_classes),
        "judged": np.bincount(codes[judged], minlength=n_classes),
    }
    medians = group_quantiles(distances, own, n_classes)[:, 0]
    return ClassTable(
        names=[short(name) for name in classes[listed].tolist()] if setting.labelled else ["all rows"],
        **{name: values[listed].tolist() for name, values in columns.items()},
        wrong=None if evidence.estimate is None else significant(evidence.estimate[listed, 1], 4),
        median=significant(np.nan_to_num(medians[listed]), 4),
        edges=significant(edges, 4),
        histogram=histograms[0][listed].tolist(),
        kept_histogram=histograms[1][listed].tolist(),
        steps=steps[:, listed].tolist(),
        left_out=n_classes - len(listed),
    )


def count_suspects(setting: Setting, measures: Measures, evidence: Suspicion) -> tuple[IntArray, IntArray]:
    """Return the rows that seem wrong, and those that were judged; the page has one count of them.

    Where the rows of the map alone were weighed, picks are too many among them: rows that the selection did
    not trust are counted instead.
    """
    usable, tiers = np.flatnonzero(measures.usable), setting.selection.tiers
    if tiers is not None and len(evidence.rows) < len(usable):
        return usable[tiers[usable] > 0], usable
    return evidence.rows[evidence["suspect"]], evidence.rows


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


def listed_classes(setting: Setting) -> IntArray:
    """Return the classes that the page knows by name: all, or the largest ones, in their order."""
    if len(setting.classes) <= MOST_CLASSES:
        return np.arange(len(setting.classes))
    sizes = np.bincount(setting.codes, minlength=len(setting.classes))
    return np.sort(np.argsort(-sizes, kind="stable")[:MOST_CLASSES])


def _places(listed: IntArray, codes: IntArray) -> list[int]:
    """Return the place of each class among those listed; -1 where it is none of them."""
    found = np.minimum(np.searchsorted(listed, codes), len(listed) - 1)
    places: list[int] = np.where(listed[found] == codes, found, -1).tolist()
    return places


def typical_distances(measures: Measures, groups: IntArray) -> tuple[Vector, Vector]:
    """Return by group the median distance to the centre, and the median deviation from it.

    Time: O(rows log rows).
    """
    own, distances = groups[measures.usable], measures.distances[measures.usable]
    usual = group_quantiles(distances, own, len(measures.sizes))[:, 0]
    return usual, group_quantiles(np.abs(distances - usual[own]), own, len(measures.sizes))[:, 0]


def plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as data that JSON can hold."""
    result: dict[str, Any] = plain(params)
    return result


def short(name: Any) -> str:
    """Return a name as text, its middle left out where it is very long."""
    text = str(name)
    half = _MOST_LETTERS // 2
    return text if len(text) <= _MOST_LETTERS else f"{text[: half - 1]}…{text[-half:]}"
