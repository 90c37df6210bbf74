"""Suspects: which rows seem wrong, why, and how much of the data they make up."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..compute.blocks import block_rows
from ..facts import Evidence
from ..handover import as_frame
from ..records import FloatArray, IntArray
from .guard import TIERS, UsableRows, Verdict

Vector = npt.NDArray[np.float64]
Labels = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Suspects:
    """All rows with the evidence for and against them, most suspicious first.

    Attributes
    ----------
    rows
        Row numbers in the input.
    suspicion
        From 0 to 1. With r how many times as likely the best other class is as the label, each measured
        against the rows that bear it: r / (1 + r). Rows outside their class have at least d / (d + t),
        with d their distance and t the distance that the class allows; rows in a clump have 1.
    labels, suggested
        The given label, and the class that fits best beside it.
    probability
        Probability of the label by a head that did not see it; NaN where labels could not be judged.
    distance, other, other_distance
        Distance to the centre of the own class, the nearest other class, and the distance to its centre.
    tiers
        0 (trusted), 1 (unlikely label) or 2 (outside its class).
    reasons
        What is wrong, in words; empty for trusted rows.
    """

    rows: IntArray
    suspicion: Vector
    labels: Labels
    suggested: Labels
    probability: Vector
    distance: Vector
    other: Labels
    other_distance: Vector
    tiers: npt.NDArray[np.int8]
    reasons: npt.NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        facts = self.summary()
        return f"Suspects({facts['suspect']} of {facts['rows']} rows, {facts['share']:.1%})"

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the evidence as columns of a table, one row per row of the input."""
        return {
            "row": self.rows,
            "suspicion": self.suspicion,
            "label": self.labels,
            "suggested": self.suggested,
            "probability": self.probability,
            "distance": self.distance,
            "other": self.other,
            "other_distance": self.other_distance,
            "tier": self.tiers,
            "reason": self.reasons,
        }

    def to_pandas(self) -> Any:
        """Return the evidence as a pandas DataFrame, most suspicious row first."""
        return as_frame(self.columns())

    def summary(self) -> dict[str, Any]:
        """Return how much of the data seems wrong, as plain data."""
        counts = np.bincount(self.tiers, minlength=len(TIERS))
        suspect = int(counts[1:].sum())
        return {
            "rows": len(self),
            "suspect": suspect,
            "share": suspect / len(self),
            **{name: int(count) for name, count in zip(TIERS, counts, strict=True)},
        }


def suspects_from(verdict: Verdict, rows: FloatArray, codes: IntArray, classes: Labels) -> Suspects:
    """Gather the evidence for and against every row from a verdict that was made already.

    `verdict`: what `judge` found for these rows and codes. `rows`: the rows; read once, for the nearest other
    classes. `codes`: class of each row, as a position in `classes`; rows of a negative class are left out.
    `classes`: the classes' labels.
    """
    evidence = verdict.evidence(codes)
    other, distances = _nearest_others(rows, codes, verdict)
    suggested = evidence.suggested if evidence.labels_judged else other
    reasons = reasons_of(evidence, codes, suggested, classes)
    judged = np.flatnonzero(codes >= 0)
    order = judged[np.lexsort((judged, -evidence.suspicion[judged]))]
    return Suspects(
        rows=order,
        suspicion=evidence.suspicion[order].astype(np.float64),
        labels=classes[codes[order]],
        suggested=classes[suggested[order]],
        probability=np.full(len(order), np.nan) if verdict.labels is None else verdict.labels.own[order],
        distance=verdict.gate.distances[order],
        other=classes[other[order]],
        other_distance=distances[order],
        tiers=verdict.tiers[order],
        reasons=reasons[order],
    )


def _nearest_others(rows: FloatArray, codes: IntArray, verdict: Verdict) -> tuple[IntArray, Vector]:
    """Return by row the class, but for its own, with the nearest centre, and the distance to that."""
    centers = verdict.gate.centers
    other, distances = codes.copy(), np.full(len(rows), np.nan)
    if len(centers) < 2:
        return other, distances
    readable = rows if (codes >= 0).all() else cast(FloatArray, UsableRows(rows, codes >= 0))
    step = block_rows(max(rows.shape[1], len(centers)))
    for start in range(0, len(rows), step):
        part = slice(start, min(start + step, len(rows)))
        place = np.arange(part.stop - part.start)
        squares = _squared_distances(readable[part], centers, verdict.origin)
        squares[place, codes[part]] = np.inf
        other[part] = squares.argmin(axis=1)
        distances[part] = np.sqrt(squares[place, other[part]])
    return other, distances


def _squared_distances(rows: FloatArray, centers: Vector, origin: Vector) -> Vector:
    """Return the squared distances (rows, centres), by inner products about a common origin."""
    offsets, points = np.subtract(rows, origin, dtype=np.float64), centers - origin
    lengths = np.add.reduce(offsets * offsets, axis=1)
    squares: Vector = lengths[:, None] - 2 * (offsets @ points.T) + np.add.reduce(points * points, axis=1)
    return np.maximum(squares, 0.0)


def reasons_of(
    evidence: Evidence, codes: IntArray, suggested: IntArray, classes: Labels
) -> npt.NDArray[np.str_]:
    """Say what is wrong with each row, in words; nothing of rows that are trusted."""
    reasons = np.full(len(codes), "", dtype=object)
    for row in np.flatnonzero(evidence.tiers > 0):
        found = []
        if evidence.unlikely[row]:
            given, better = classes[codes[row]].item(), classes[suggested[row]].item()
            found.append(f"label {given!r} is unlikely, {better!r} fits better")
        if evidence.far[row]:
            found.append("far outside its class")
        if evidence.clumped[row]:
            found.append("in a dense clump of its class")
        reasons[row] = "; ".join(found)
    return reasons.astype(str)
