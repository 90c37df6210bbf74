"""Suspects: which rows seem wrong, why, and how much of the data they make up.

Three kinds of evidence, each with a score of its own: labels that are likely wrong, rows far outside their
class, and copies of other rows.
"""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..compute import kernels
from ..compute.blocks import block_rows, tiles
from ..compute.passes import PerRow, map_blocks
from ..errors import InvalidInput
from ..handover import as_frame
from ..records import FloatArray, IntArray
from ..validation import check_probability
from .copies import Copies
from .doubt import overall
from .guard import TIERS, UsableRows, Verdict
from .weighing import ODD, weigh

Vector = npt.NDArray[np.float64]
Labels = npt.NDArray[Any]

_FEW_ROWS, _SOME_ROWS = 2048, 1 << 16
_CENTERS_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class Suspects:
    """All rows with the evidence for and against them, most suspicious first.

    Attributes
    ----------
    rows
        Row numbers in the input.
    suspicion
        What the rows are ordered by: `wrong_label`, or (2 * `outlier` - 1)^2 of outliers where that is more;
        0 for copies that bear the label of the row to keep, which stands for them.
    wrong_label
        Probability that the label is wrong, from 0 to 1; they add up to the estimated number of wrong
        labels. Where copies of a row bear other labels that are likelier, more than 0.95.
    outlier
        From 0 to 1; with d the distance to the centre of the class and t what the class allows, d / (d + t).
        Beyond 0.5 a row is far outside its class; rows in a dense clump that are no copies have at least 0.5.
    duplicate
        1 for a copy of another row, from 1 down to 0.5 for near copies, 0 for all others and for the row of
        each group that is to be kept.
    group, copies, keep
        Number of the group of copies, its size, and the row of it to keep; -1, 1 and the row itself where
        it is alone.
    labels, suggested
        The given label, and the class that is likelier; None where none is.
    probability
        Probability of the label by a head that did not see it; NaN where labels could not be judged.
    suggested_probability
        How likely the suggested class is right, more than 1 - `wrong_label`; NaN where nothing is suggested.
    distance, other, other_distance
        Distance to the centre of the own class, the nearest other class, and the distance to its centre.
    tiers
        0 (trusted), 1 (unlikely label) or 2 (outside its class).
    reasons
        What is wrong, as a sentence; empty where nothing is.
    classes, estimate
        The classes, and by class: rows judged, the estimated share of wrong labels, its least and its most;
        None where labels could not be judged.
    notes
        What the user should know of the input.
    """

    rows: IntArray
    suspicion: Vector
    labels: Labels
    suggested: Labels
    wrong_label: Vector
    outlier: Vector
    duplicate: Vector
    group: IntArray
    copies: IntArray
    keep: IntArray
    probability: Vector
    suggested_probability: Vector
    distance: Vector
    other: Labels
    other_distance: Vector
    tiers: npt.NDArray[np.int8]
    reasons: npt.NDArray[Any]
    classes: Labels
    estimate: Vector | None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        facts = self.summary()
        return f"Suspects({facts['suspect']} of {facts['rows']} rows, {facts['share']:.1%})"

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the evidence as columns of a table, one row per row of the input."""
        names = {"rows": "row", "labels": "label", "tiers": "tier", "reasons": "reason"}
        return {
            names.get(name, name): values
            for name, values in vars(self).items()
            if name not in ("classes", "estimate", "notes")
        }

    def to_pandas(self) -> Any:
        """Return the evidence as a pandas DataFrame, most suspicious row first."""
        return as_frame(self.columns())

    def summary(self) -> dict[str, Any]:
        """Return how much of the data seems wrong, kind by kind, as plain data."""
        wrong, far, copied = self.wrong_label > ODD, self.outlier > ODD, self.duplicate > 0
        suspect = int((wrong | far).sum())
        groups = np.unique(self.group[self.group >= 0])
        labels: dict[str, Any] = self._part(wrong)
        if self.estimate is not None:
            share, low, high = overall(self.estimate)
            labels |= {
                "estimate": share,
                "interval": [low, high],
                "by_class": {
                    str(name): {"rows": int(size), "estimate": share, "interval": [low, high]}
                    for name, (size, share, low, high) in zip(
                        self.classes.tolist(), self.estimate.tolist(), strict=True
                    )
                },
            }
        return {
            "rows": len(self),
            "suspect": suspect,
            "share": suspect / len(self),
            **dict(zip(TIERS, np.bincount(self.tiers, minlength=len(TIERS)).tolist(), strict=True)),
            "wrong_labels": labels,
            "outliers": self._part(far),
            "duplicates": self._part(copied) | {"groups": len(groups)},
        }

    def _part(self, found: npt.NDArray[np.bool_]) -> dict[str, Any]:
        return {"rows": int(found.sum()), "share": float(found.mean())}

    def changes(self, above: float) -> list[dict[str, Any]]:
        """Return `row`, `from`, `to` and `probability` of what `fix` changes, most suspicious rows first."""
        least = check_probability(above, "above")
        chosen = np.flatnonzero(np.nan_to_num(self.suggested_probability, nan=-1.0) >= least)
        columns = self.rows, self.labels, self.suggested, self.suggested_probability.round(6)
        return [
            dict(zip(("row", "from", "to", "probability"), values, strict=True))
            for values in zip(*(column[chosen].tolist() for column in columns), strict=True)
        ]

    def fix(self, labels: Any, above: float) -> Labels:
        """Return a copy of labels with the suggestions that are likely enough in place.

        Parameters
        ----------
        labels
            The given labels, one per row of the input.
        above
            Probability that a suggested class must have at least, from 0 to 1.

        Examples
        --------
        >>> import numpy as np, gmmatch
        >>> rng = np.random.default_rng(0)
        >>> labels = np.repeat(["cat", "dog"], 200)
        >>> rows = rng.normal(size=(400, 8)) + 1.2 * (labels == "dog")[:, None]
        >>> labels[7] = "dog"
        >>> found = gmmatch.suspects(rows, labels)
        >>> str(found.fix(labels, above=0.9)[7]), found.changes(above=0.9)[0]["row"]
        ('cat', 7)
        """
        fixed = np.array(labels)
        n_rows = int(self.rows.max(initial=-1)) + 1
        if fixed.ndim != 1 or len(fixed) < n_rows:
            raise InvalidInput(
                f"labels has shape {fixed.shape}; expected one label for each of {n_rows} rows"
            )
        if fixed.dtype.kind == "U" and self.classes.dtype.kind == "U":
            fixed = fixed.astype(np.result_type(fixed, self.classes), copy=False)  # no suggestion is cut off
        for change in self.changes(above):
            fixed[change["row"]] = change["to"]
        return fixed


def folds_for(n_rows: int) -> int:
    """Return how many folds labels are judged by: more where rows are few, so that heads learn from more.

    >>> folds_for(1_000), folds_for(10_000), folds_for(1_000_000)
    (10, 5, 3)
    """
    return 10 if n_rows <= _FEW_ROWS else 5 if n_rows <= _SOME_ROWS else 3


def apart_from_copies(codes: IntArray, found: Copies) -> tuple[IntArray, IntArray]:
    """Return the codes without copies under the same label, and for each row the one that stands for it.

    However often a row is there, it then counts once in all that rows are judged by.
    """
    groups = np.where(found.groups >= 0, found.groups, -1)
    members = np.flatnonzero((groups >= 0) & (codes >= 0))
    stands = np.arange(len(codes))
    _, first, place = np.unique(
        groups[members] * (int(codes.max()) + 1) + codes[members], return_index=True, return_inverse=True
    )
    stands[members] = members[first][place]
    return np.where(stands == np.arange(len(codes)), codes, -1), stands


def suspects_from(
    verdict: Verdict,
    rows: FloatArray,
    codes: IntArray,
    classes: Labels,
    copies: Copies,
    stands: IntArray | None = None,
) -> Suspects:
    """Gather the evidence for and against every row from a verdict that was made already.

    `verdict`: what `judge` found for these rows and codes. `rows`: the rows; read once, for the nearest other
    classes. `codes`: class of each row, as a position in `classes`; rows of a negative class are left out.
    `classes`: the classes' labels. `copies`: which rows are copies. `stands`: for each row the one that was
    judged in its place; None: all were judged.
    """
    own = None if verdict.labels is None else verdict.labels.own
    distance = verdict.gate.distances
    if stands is None:
        evidence = verdict.evidence(codes)
    else:
        evidence = verdict.evidence(np.where(stands == np.arange(len(codes)), codes, -1)).take(stands)
        own, distance = None if own is None else own[stands], distance[stands]
    other, other_distance, lost = _nearest_others(rows, codes, verdict)
    found = weigh(evidence, codes, copies)
    suspicion = found.suspicion
    order = np.flatnonzero(codes >= 0)
    order = order[np.lexsort((order, -found.wrong_label[order], -suspicion[order]))]
    named = found.suggested[order] >= 0
    suggested = np.full(len(order), None, dtype=object)
    suggested[named] = classes[found.suggested[order][named]].tolist()
    return Suspects(
        rows=order,
        suspicion=suspicion[order],
        wrong_label=found.wrong_label[order],
        outlier=found.outlier[order],
        duplicate=found.duplicate[order],
        group=found.group[order],
        copies=found.copies[order],
        keep=found.keep[order],
        labels=classes[codes[order]],
        suggested=suggested,
        probability=np.full(len(order), np.nan) if own is None else own[order],
        suggested_probability=found.likely[order],
        distance=distance[order],
        other=classes[other[order]],
        other_distance=other_distance[order],
        tiers=evidence.tiers[order],
        reasons=found.reasons(codes, classes, lost)[order],
        classes=classes,
        estimate=evidence.estimate,
    )


def _nearest_others(
    rows: FloatArray, codes: IntArray, verdict: Verdict
) -> tuple[IntArray, Vector, npt.NDArray[np.bool_]]:
    """Return by row the nearest other class, the distance to its centre, and whether no class reaches it.

    Time: O(rows * classes * features) in BLAS. Memory beyond the input: O(block), O(classes * features).
    """
    centers, reach = verdict.gate.centers, verdict.gate.thresholds**2
    if len(centers) < 2:
        alone = np.full(len(rows), np.nan)
        return codes.copy(), alone, verdict.gate.far.copy()
    readable = rows if (codes >= 0).all() else cast(FloatArray, UsableRows(rows, codes >= 0))
    own_code = PerRow(codes)
    points = centers - verdict.origin
    # One product with these tells squared distances, up to the squared length of the row.
    points = np.c_[-2 * points, np.add.reduce(points * points, axis=1)]

    def part(block: slice) -> tuple[IntArray, Vector, npt.NDArray[np.bool_]]:
        values, code = readable[block], own_code[block]
        offsets = np.empty((len(values), values.shape[1] + 1))
        offsets[:, -1] = 1.0
        np.subtract(values, verdict.origin, out=offsets[:, :-1], dtype=np.float64)
        place, nearest, least = np.arange(len(values)), np.zeros(len(values), np.int64), np.inf
        lost = kernels.group_distances(values, code, centers) ** 2 > reach[code]
        far, length = np.flatnonzero(lost), np.add.reduce(offsets[lost, :-1] ** 2, axis=1)
        for some in tiles(len(points), len(values)):
            squares = offsets @ points[some].T
            inside = np.flatnonzero((code >= some.start) & (code < some.stop))
            squares[inside, code[inside] - some.start] = np.inf
            best = squares.argmin(axis=1)
            found = squares[place, best]
            nearest = np.where(found < least, best + some.start, nearest)
            least = np.minimum(found, least)
            lost[far] &= np.logical_and.reduce(squares[far] + length[:, None] > reach[some], axis=1)
        return nearest, kernels.group_distances(values, nearest, centers), lost

    nothing = np.empty((0, rows.shape[1]), rows.dtype)
    kernels.group_distances(nothing, codes[:0], centers)  # compiled before threads need it
    step = block_rows(max(rows.shape[1], min(len(centers), _CENTERS_AT_ONCE)))
    with threadpool_limits(1):
        found = zip(*map_blocks(part, readable, "measuring distances", step), strict=True)
        other, distances, lost = (np.concatenate(column) for column in found)
    return other, distances, lost
