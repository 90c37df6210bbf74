"""Suspects: which rows seem wrong, why, and how much of the data they make up.

Three kinds of evidence, each with a score of its own: labels that are likely wrong, rows far outside their
class, and copies of other rows.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import AnyArray, FloatArray, IntArray, Labels, Mask, Rows, Vector
from ..compute import kernels
from ..compute.blocks import block_rows
from ..compute.reads import EachRow
from ..compute.runner import PerRow, run_read
from ..errors import InvalidInput, InvalidInputType, InvalidParameter, brief
from ..handover import as_frame
from ..records import verb
from ..validation import check_probability, is_whole, label_values
from .evidence import KINDS
from .evidence.duplicate import Copies
from .judge import TIERS, UsableRows, Verdict
from .table import make_table, suspected


@dataclass(frozen=True, eq=False)
class Suspects:
    """All rows with the evidence for and against them, most suspicious first.

    Attributes
    ----------
    rows
        Row numbers in the input.
    suspicion
        Probability that the given label is wrong, from 0 to 1; they add up to the estimated number of wrong
        labels. Rows are ordered by it, then by `outlier`, then by `duplicate`.
    outside
        Probability that the row belongs to none of the classes.
    outlier
        From 0 to 1; with d the distance to the centre of the class and t what the class allows (half as much
        again where the label is sure), d / (d + t). Beyond 0.5 a row is far outside its class; rows in a
        dense cluster that are no duplicates have more.
    duplicate
        1 for a copy of another row, from 1 down to 0.5 for near copies, 0 for all others and for the row of
        each group that is to be kept.
    group, copies, keep
        Number of the group of copies, its size, and the row of it to keep; -1, 1 and the row itself where
        it is alone.
    labels, suggested
        The given label, and the class that is likelier; None where none is.
    probability
        Probability of the label by a classifier that did not see it; NaN where labels could not be judged.
    suggested_probability
        How likely the suggested class is right, more than 1 - `suspicion`; NaN where nothing is suggested.
    distance, other, other_distance
        Distance to the centre of the own class, the nearest other class, and the distance to its centre.
    tiers
        0 (trusted), 1 (unlikely label) or 2 (outside its class).
    reasons
        What is wrong, as a sentence; empty where nothing is.
    classes, estimate
        The classes; and by class, then over all of them: rows judged, the estimated share of wrong labels,
        its least and its most, meant to hold the truth nine times in ten; None where labels were not judged.
    notes
        What the user should know of the input.
    given, ids
        The labels of all rows of the input, as they were given, and their ids, where they have some.
    read
        Names of the files that were read, which `save` does not replace.
    data
        The dataset, whose photos or texts a notebook shows; None for one that was pickled.
    """

    rows: IntArray
    suspicion: Vector
    labels: Labels
    suggested: Labels
    outside: Vector
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
    given: Labels | None = None
    ids: Labels | None = None
    read: tuple[str, ...] = ()
    data: Any = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "data": None}

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def wrong_label(self) -> Vector:
        """The name of `suspicion` in version 0.2; it goes with 0.4."""
        warnings.warn("wrong_label is called suspicion now", DeprecationWarning, stacklevel=2)
        return self.suspicion

    def __repr__(self) -> str:
        facts = self.summary()
        return f"Suspects({facts['suspect']} of {facts['rows']} rows, {facts['share']:.1%})"

    def _repr_html_(self) -> str:
        return verb("html")(self)  # type: ignore[no-any-return]

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the evidence as columns of a table, one row per row of the input."""
        names = {"rows": "row", "labels": "label", "tiers": "tier", "reasons": "reason"}
        return {names.get(name, name): values for name, values in vars(self).items() if name in _BY_ROW}

    def to_pandas(self) -> Any:
        """Return the evidence as a pandas DataFrame, most suspicious row first."""
        return as_frame(self.columns())

    def summary(self) -> dict[str, Any]:
        """Return how much of the data seems wrong, kind by kind, as plain data."""
        kinds = {name: _counted(kind.flag(self)) for name, kind in KINDS.items()}
        if self.estimate is not None:
            kinds["wrong_labels"] |= _told(self.estimate[-1]) | {
                "by_class": {
                    str(name): {"rows": int(row[0])} | _told(row)
                    for name, row in zip(self.classes.tolist(), self.estimate[:-1], strict=True)
                }
            }
        kinds["duplicates"]["groups"] = len(np.unique(self.group[self.group >= 0]))
        suspects = _counted(suspected(self))
        return {
            "rows": len(self),
            "suspect": suspects["rows"],
            "share": suspects["share"],
            **dict(zip(TIERS, np.bincount(self.tiers, minlength=len(TIERS)).tolist(), strict=True)),
            **kinds,
        }

    def changes(self, above: float) -> list[dict[str, Any]]:
        """Return `row`, `from`, `to` and `probability` of what `fix` changes, most suspicious rows first."""
        least = check_probability(above, "above")
        chosen = np.flatnonzero(np.nan_to_num(self.suggested_probability, nan=-1.0) >= least)
        columns = self.rows, self.labels, self.suggested, self.suggested_probability.round(6)
        return [
            dict(zip(("row", "from", "to", "probability"), values, strict=True))
            for values in zip(*(column[chosen].tolist() for column in columns), strict=True)
        ]

    def fix(self, labels: Any = None, above: float = 0.9) -> Labels:
        """Return a copy of the labels of the input with the suggestions that are likely enough in place.

        Parameters
        ----------
        labels
            Other labels to put them into, one per row of the input; by default those that were given.
        above
            Probability that a suggested class must have at least, from 0 to 1.

        Examples
        --------
        >>> import numpy as np, gmmatch
        >>> rng = np.random.default_rng(0)
        >>> labels = np.repeat(["cat", "dog"], 200)
        >>> rows = rng.normal(size=(400, 8)) + 2.0 * (labels == "dog")[:, None]
        >>> labels[7] = "dog"
        >>> found = gmmatch.suspects(rows, labels)
        >>> str(found.fix(above=0.9)[7]), found.changes(above=0.9)[0]["row"]
        ('cat', 7)
        """
        fixed = np.array(self.given if labels is None else labels)
        n_rows = int(self.rows.max(initial=-1)) + 1
        if fixed.ndim != 1 or len(fixed) < n_rows:
            raise InvalidInput(
                f"labels has shape {fixed.shape}; expected one label for each of {n_rows} rows"
            )
        if labels is not None:
            fixed = self._able_to_hold_classes(fixed)
        for change in self.changes(above):
            fixed[change["row"]] = change["to"]
        return fixed

    def _able_to_hold_classes(self, labels: AnyArray) -> AnyArray:
        """Return labels as an array in which no suggestion is cut off or becomes another."""
        found, own = label_values(labels)[0], self.classes.dtype
        if (found.dtype.kind in "US", found.dtype.kind == "b") != (own.kind in "US", own.kind == "b"):
            raise InvalidInputType(
                f"the labels are {found.dtype.name}, and the suggestions {own.name}, as the labels that were"
                " judged; expected labels of one kind"
            )
        if labels.dtype.kind == "S":
            return found.astype(np.result_type(found, own))
        if labels.dtype.kind not in "Uiu":
            return labels
        common = np.result_type(labels, own)
        return labels.astype(object if common.kind == "f" else common)

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the evidence about every row, most suspicious first: .parquet, .csv or .jsonl."""
        verb("save suspects")(self, path, overwrite)

    def head(self, k: int = 20) -> Suspects:
        """Return the `k` most suspicious rows.

        >>> import numpy as np, gmmatch
        >>> rows = np.random.default_rng(0).normal(size=(60, 4))
        >>> len(gmmatch.suspects(rows, np.repeat(["a", "b"], 30)).head(5))
        5
        """
        if not is_whole(k) or k < 0:
            raise InvalidParameter(f"head takes a whole number of rows; got {brief(k)}")
        return replace(self, **{name: getattr(self, name)[:k] for name in _BY_ROW})


_BY_ROW = tuple(
    entry.name
    for entry in fields(Suspects)
    if entry.name not in ("classes", "estimate", "notes", "given", "ids", "read", "data")
)


def _counted(found: Mask) -> dict[str, Any]:
    return {"rows": int(found.sum()), "share": float(found.mean())}


def _told(estimate: Vector) -> dict[str, Any]:
    share, low, high = (round(float(part), 6) for part in estimate[1:])
    return {"estimate": share, "interval": [low, high]}


def suspects_from(verdict: Verdict, rows: Rows, codes: IntArray, classes: Labels, copies: Copies) -> Suspects:
    """Gather the evidence for and against every row from a verdict that was made already.

    `verdict`: what `judge` found for these rows and codes. `rows`: the rows; read once, for the nearest other
    classes. `codes`: class of each row, as a position in `classes`; rows of a negative class are left out.
    `classes`: the classes' labels. `copies`: which rows are duplicates.
    """
    evidence = verdict.evidence(codes)
    probability = np.full(len(codes), np.nan) if verdict.labels is None else verdict.labels.probability
    other, other_distance = _nearest_others(rows, codes, verdict)
    found = make_table(evidence, codes, copies)
    order = found.order(np.flatnonzero(codes >= 0))
    named = found.suggested[order] >= 0
    suggested = np.full(len(order), None, dtype=object)
    suggested[named] = classes[found.suggested[order][named]].tolist()
    shared = vars(found).keys() & set(_BY_ROW) - {"suggested"}
    return Suspects(
        **{name: getattr(found, name)[order] for name in shared},
        rows=order,
        labels=classes[codes[order]],
        suggested=suggested,
        probability=probability[order].astype(np.float64),
        distance=verdict.distances[order],
        other=classes[other[order]],
        other_distance=other_distance[order],
        tiers=evidence.tiers[order],
        reasons=found.reasons(codes, classes)[order],
        classes=classes,
        estimate=evidence.estimate,
        notes=verdict.notes,
    )


def _nearest_others(rows: Rows, codes: IntArray, verdict: Verdict) -> tuple[IntArray, Vector]:
    """Return by row the nearest other class, and the distance to its centre.

    Time: O(rows * classes * features) in BLAS. Memory beyond the input: O(block), O(classes * features).
    """
    centers = verdict.rules.limits.centers
    if len(centers) < 2:
        return codes.copy(), np.full(len(rows), np.nan)
    readable = rows if (codes >= 0).all() else UsableRows(rows, codes >= 0)
    own_code = PerRow(codes)
    points = centers - verdict.rules.origin
    # One product with these tells squared distances, up to the squared length of the row.
    points = np.c_[-2 * points, np.add.reduce(points * points, axis=1)]

    def part(block: slice, values: FloatArray) -> tuple[IntArray, Vector]:
        code = own_code[block]
        offsets = np.empty((len(values), values.shape[1] + 1))
        offsets[:, -1] = 1.0
        np.subtract(values, verdict.rules.origin, out=offsets[:, :-1], dtype=np.float64)
        squares, usable = offsets @ points.T, np.flatnonzero(code >= 0)
        squares[usable, code[usable]] = np.inf
        nearest = squares.argmin(axis=1)
        return nearest, kernels.group_distances(values, nearest, centers)

    step = block_rows(max(rows.shape[1], len(centers)))
    other, distances = run_read(readable, EachRow("measuring distances", part, step, products=True))
    return other, distances
