"""Rows to decide about: likely wrong labels, outliers and copies, each beside what it is compared with."""

import base64

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray
from ..facts import WRONG
from ..trust import ODD
from .measure import Measures
from .records import AllLabels, Review, Tab
from .setting import Setting
from .suspicion import Suspicion
from .tables import listed_classes

TAB_ROWS = {"labels": 5_000, "outliers": 1_000, "copies": 1_000}
_MOST_LABELS = 1 << 20
_MOST_LETTERS = 12_000_000  # of all ids together
_TABS = {
    "labels": ("Labels", "Labels that are likely wrong, beside a typical row of the class that is likelier."),
    "outliers": ("Outliers", "Rows far outside their class, beside a typical row of it."),
    "copies": ("Copies", "A copy of each group, largest groups first, beside the row to keep."),
}

Pairs = tuple[int, IntArray, IntArray, npt.NDArray[np.float64]]


def find_rows(setting: Setting, measures: Measures, evidence: Suspicion) -> dict[str, Pairs]:
    """Return for each tab its number of rows, the first of them, those to compare them with, and scores."""
    typical = _typical(setting, measures, evidence)
    wrong, outlier, duplicate = evidence["suspicion"], evidence["outlier"], evidence["duplicate"]
    group, keep, suggested = evidence["group"], evidence["keep"], evidence["suggested"]
    own = setting.codes[evidence.rows]
    compared = np.where(suggested >= 0, suggested, own)
    # One copy of each group stands for the others.
    copies = np.flatnonzero(duplicate > 0)
    copies = copies[np.lexsort((evidence.rows[copies], -evidence["copies"][copies]))]
    _, first = np.unique(group[copies], return_index=True)
    likely, far = np.flatnonzero(wrong >= WRONG), np.flatnonzero(outlier > ODD)
    found = {
        "labels": (likely[np.argsort(-wrong[likely], kind="stable")], typical[compared], wrong),
        "outliers": (far[np.argsort(-outlier[far], kind="stable")], typical[own], outlier),
        "copies": (copies[np.sort(first)], keep, duplicate),
    }
    return {
        name: (len(at), evidence.rows[few := at[: TAB_ROWS[name]]], beside[few], score[few])
        for name, (at, beside, score) in found.items()
        if name != "labels" or setting.labelled
    }


def make_review(found: dict[str, Pairs], setting: Setting, evidence: Suspicion, at: dict[int, int]) -> Review:
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
    return Review(tabs, estimate, _all_labels(setting))


def compared_rows(found: dict[str, Pairs]) -> IntArray:
    """Return the rows that the page must know, those of the tabs and those beside them."""
    parts = [part[part >= 0] for _, rows, beside, _ in found.values() for part in (rows, beside)]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _typical(setting: Setting, measures: Measures, evidence: Suspicion) -> IntArray:
    """Return for each class the trusted row that is nearest to its centre; -1 where there is none."""
    trusted = evidence.rows[evidence.tiers == 0]
    order = trusted[np.lexsort((trusted, measures.distances[trusted]))][::-1]
    typical = np.full(len(setting.classes), -1, np.int64)
    typical[setting.codes[order]] = order
    return typical


def _all_labels(setting: Setting) -> AllLabels | None:
    if not setting.labelled or len(setting.codes) > _MOST_LABELS:
        return None
    width = next(size for size in (1, 2, 4) if len(setting.classes) < 256**size)
    codes = np.where(setting.usable_labels, setting.codes, 256**width - 1).astype(f"<u{width}")
    names = [str(name) for name in setting.classes.tolist()]
    listed = listed_classes(setting).tolist()
    ids = None if setting.ids is None else [str(name) for name in setting.ids.tolist()]
    if ids is not None and (len(set(ids)) < len(ids) or sum(map(len, ids)) > _MOST_LETTERS):
        ids = None
    return AllLabels(names, base64.b64encode(codes.tobytes()).decode(), width, listed, ids)
