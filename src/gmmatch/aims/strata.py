"""Columns that share the budget beside the class: source, language, annotator, month."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arrays import AnyArray, IntArray, Mask, Vector
from ..data import Dataset, values_of_rows
from ..data.columns import notes_on_alike
from ..errors import InvalidInput
from ..matching.budgets import Weights, is_bounds, share
from ..selectors.groups import Part, Parts
from ..validation import CheckedRows, as_labels, is_number, label_values

_MOST_PARTS = 1 << 16


def open_strata(given: object, data: Dataset) -> dict[str, AnyArray]:
    """Read strata: names of columns, an array, or a mapping of names to arrays or columns."""
    if isinstance(given, (str, os.PathLike)):
        given = {name.strip(): name.strip() for name in os.fspath(given).split(",")}
    elif isinstance(given, (list, tuple)) and len(given) < len(data):
        named = all(isinstance(name, str) for name in given)
        given = {name: name for name in given} if named else {"strata": given}
    elif not isinstance(given, Mapping):
        given = {"strata": given}
    if not given:
        raise InvalidInput("strata names no column; leave it out, or name one")
    return {str(name): values_of_rows(data, values, "strata") for name, values in given.items()}


def notes_on_strata(strata: Mapping[str, AnyArray]) -> list[str]:
    """Point out values that look alike, as labels that look alike are."""
    return [
        note
        for name, column in strata.items()
        for note in notes_on_alike(np.unique(label_values(column, name)[0]), f"strata ({name})")
    ]


def strata_parts(
    strata: Mapping[str, AnyArray], checked: CheckedRows, by_class: bool, budgets: object
) -> Parts:
    """Return the parts: the rows of a class, where rows have one, of one value in each column.

    `budgets`: a mapping gives each value of one column (or of the class) its weight, or its least and its
    most rows as a pair, and the parts of a value share these by their sizes; otherwise parts share the
    budget as classes do.
    """
    usable, columns = checked.usable, dict(strata)
    if by_class and checked.classes is not None and checked.codes is not None:
        columns = {"class": checked.classes[checked.codes], **columns}
    named = {name: as_labels(values, len(usable), name) for name, values in columns.items()}
    codes = np.zeros(len(usable), np.int64)
    for classes, own in named.values():
        codes = np.unique(codes * len(classes) + own, return_inverse=True)[1]
    present, codes[usable] = np.unique(codes[usable], return_inverse=True)
    codes[~usable] = -1
    if len(present) > _MOST_PARTS:
        raise InvalidInput(
            f"strata make {len(present):,} parts of {int(usable.sum()):,} rows; the most is"
            f" {_MOST_PARTS:,}: name columns of fewer values"
        )
    first = np.flatnonzero(usable)[np.unique(codes[usable], return_index=True)[1]]
    names = [
        Part(" / ".join(f"{name}={classes[own[row]]}" for name, (classes, own) in named.items()))
        for row in first.tolist()
    ]
    if not isinstance(budgets, Mapping):
        return Parts(codes, names)
    weights, bounds = _weights(budgets, named, codes, usable, first)
    return Parts(codes, names, weights, bounds=bounds)


def _weights(
    budgets: Mapping[Any, Any],
    named: Mapping[str, tuple[AnyArray, IntArray]],
    codes: IntArray,
    usable: Mask,
    first: IntArray,
) -> tuple[Vector, tuple[IntArray, IntArray] | None]:
    """Return what each part's share goes by, and its bounds, from an entry for each value of one column.

    The parts of a value share what it has by their sizes.
    """
    sizes = np.bincount(codes[usable], minlength=len(first))
    for classes, own in named.values():
        present = np.unique(own[usable])
        if set(classes[present].tolist()) != set(budgets):
            continue
        value, weights, bounds = own[first], sizes.astype(np.float64), np.zeros((2, len(first)), np.int64)
        bounded = all(map(is_bounds, budgets.values()))
        if not bounded and not all(is_number(entry) and entry > 0 for entry in budgets.values()):
            raise InvalidInput("budgets must be positive numbers, or pairs of the least and the most rows")
        for code in present.tolist():
            parts, entry = np.flatnonzero(value == code), budgets[classes[code : code + 1].tolist()[0]]
            there = int(sizes[parts].sum())
            if not bounded:
                weights[parts] = float(entry) * sizes[parts] / there
                continue
            for found, bound in zip(bounds, entry, strict=True):
                found[parts] = share(Weights(sizes[parts]), sizes[parts][None], min(int(bound), there))
        return weights, (bounds[0], bounds[1]) if bounded else None
    raise InvalidInput(
        f"budgets must name every value of one of {', '.join(named)}, and no other; got"
        f" {len(budgets):,} names"
    )


def unmet(parts: Parts, picks: IntArray) -> str | None:
    """Say which parts have too few picks, or none."""
    counts = np.bincount(parts.codes[picks], minlength=len(parts.names))
    short = [] if parts.bounds is None else np.flatnonzero(counts < parts.bounds[0]).tolist()
    empty = np.flatnonzero(counts == 0).tolist()
    missing, what = short or empty, "have less than their least" if short else "have no pick"
    if not missing:
        return None
    return (
        f"{len(missing):,} of {len(parts.names):,} parts {what}, such as {parts.names[missing[0]]};"
        " keep more rows"
    )
