"""Rows without a label beside labelled ones: they have their share of the budget, and are to be labelled."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import IntArray
from ..data import Dataset
from ..errors import InvalidParameter
from ..matching.budgets import Weights, sequence, share
from ..records import Selection
from ..validation import Beyond, check_keep, resolve_keep

if TYPE_CHECKING:
    from . import Aims

_WITH = ("exclude", "holdout", "duplicates")  # aims that both kinds of rows can have


def check_aims(aims: Aims) -> None:
    """Refuse aims that say how labelled rows share a budget."""
    for entry in fields(aims):
        if entry.name not in _WITH and getattr(aims, entry.name) is not None:
            raise InvalidParameter(
                f"{entry.name} is not for unlabelled='pick', which goes with {', '.join(_WITH)}; select from"
                " the labelled rows alone with on_bad_rows='drop'"
            )


def share_rows(keep: object, data: Dataset) -> IntArray:
    """Return how many labelled and how many unlabelled rows to pick: in proportion to what there is."""
    asked = check_keep(keep)
    if isinstance(asked, (str, Beyond)):
        raise InvalidParameter(f"with unlabelled='pick', keep must be a share or a count; got {keep!r}")
    sizes = _sizes(data)
    return share(Weights(sizes), sizes[None], resolve_keep(asked, int(sizes.sum())))


def join(labelled: Selection, both: Selection, data: Dataset) -> Selection:
    """Return the picks of labelled rows, and those of unlabelled ones, as one sequence.

    `both`: the labelled picks, then those of unlabelled rows. `data`: all rows; the unlabelled ones bear a
    label that no other row has.
    """
    assert data.labels is not None
    n_labelled, sizes, unlabelled = len(labelled), _sizes(data), data.unlabelled
    counts = np.array([n_labelled, len(both) - n_labelled])
    kind, turn = sequence(Weights(sizes), counts[None])
    place = np.where(kind == 0, turn, n_labelled + turn)
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(labelled, name), getattr(both, name)[n_labelled:]])[place]
        for name in ("scores", "distances", "weights")
    }
    for code, size in enumerate(sizes):  # each kind stands for its own rows
        columns["weights"][kind == code] *= size / max(columns["weights"][kind == code].sum(), 1e-300)
    columns["weights"] /= columns["weights"].mean()
    indices, label = both.indices[place], data.labels[unlabelled[0]]
    tiers, evidence = labelled.tiers, labelled.evidence
    if tiers is not None and both.tiers is not None:
        tiers = tiers.copy()
        tiers[unlabelled] = both.tiers[unlabelled]
        if evidence is not None:
            classes = np.unique(np.delete(data.labels, data.bad_rows))
            evidence = replace(evidence.among(np.flatnonzero(classes != label), len(classes)), tiers=tiers)
    told = {"rows": len(unlabelled), "picked": int(counts[1]), "label": label.item()}
    hints = dict.fromkeys(filter(None, [labelled.info.hint, both.info.hint]))
    note = f"{counts[1]:,} of {len(unlabelled):,} rows without a label were picked, and are to be labelled"
    tier_counts = labelled.info.tiers
    if tier_counts is not None and both.tiers is not None and both.evidence is not None:
        judged = both.evidence.judged[unlabelled]
        more = np.bincount(both.tiers[unlabelled][judged], minlength=len(tier_counts)).tolist()
        tier_counts = {
            name: own + extra for (name, own), extra in zip(tier_counts.items(), more, strict=True)
        }
    info = replace(
        labelled.info,
        tiers=tier_counts,
        kept=len(indices),
        reads=(labelled.info.reads or 0) + (both.info.reads or 0),
        hint="\n".join([*hints, note]),
        leaks=both.info.leaks if labelled.info.leaks is None else labelled.info.leaks,
        aims={**(labelled.info.aims or {}), "unlabelled": told},
    )
    unknown: dict[str, Any] = dict.fromkeys(("centers", "carried", "made"))
    return replace(
        labelled,
        indices=indices,
        labels=data.labels[indices],
        ids=None if data.ids is None else data.ids[indices],
        params={**labelled.params, "keep": len(indices)},
        tiers=tiers,
        evidence=evidence,
        info=info,
        **columns,
        **unknown,
    )


def _sizes(data: Dataset) -> IntArray:
    """Return how many labelled and how many unlabelled rows may be picked."""
    unlabelled = len(np.setdiff1d(data.unlabelled, data.bad_rows))
    return np.array([len(data) - len(data.bad_rows) - unlabelled, unlabelled])
