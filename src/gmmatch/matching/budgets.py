"""Budgets of classes and the order of their picks: both are one sequence, cut off where the budget ends.

The sequence begins with the first pick of every class, the heaviest class first. Then every pick goes to the
class whose quotient `weight / (2 * picks so far + 1)` is the largest (Sainte-Laguë), among the classes that
have rows left; of equal quotients the first class's. Where rows are judged, the trusted rows of all classes
come before the next tier of any. So the first k picks of a larger budget are the picks of a budget of k.
"""

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray
from ..compute.blocks import by_group
from ..errors import InvalidInput, InvalidParameter
from ..validation import check_choice, is_number, is_whole

BUDGETS = ("proportional", "sqrt", "equal")

_AHEAD = 8  # picks of each class that are put in order at a time, once the threshold is nearly known
_HALVINGS = 64  # of the range of thresholds, in logarithms: to the last digits of a float64
_SORTED_AT_ONCE = 1 << 21  # picks, so that sorting takes little memory beside the result
_UNEVEN = 10  # times as many rows from which other budgets are pointed to
_MOST_EXACT = 1 << 32  # weights below are compared without rounding
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-100, 1e100  # between which no quotient leaves float64


@dataclass(frozen=True, eq=False)
class Weights:
    """What a class's share of the budget goes by."""

    # One weight per class, positive. Whole numbers below 2^32 are compared without rounding.
    values: npt.NDArray[Any]
    power: int = 1  # the share is in proportion to this root of the weight: 1 or 2

    def due(self, classes: IntArray, turns: IntArray) -> tuple[npt.NDArray[Any], ...]:
        """Return sort keys, the last the weightiest, that put picks in the order of the sequence.

        A pick is due at `(2 * turn + 1) ** power / weight`. As 64 binary places tell any two fractions with
        denominators below 2^32 apart, whole weights are divided to that many.
        """
        weights = self.values[classes]
        if self.values.dtype.kind == "f" or self.values.max(initial=0) >= _MOST_EXACT:
            return classes, (2.0 * turns + 1.0) ** self.power / weights
        weights = weights.astype(np.uint64)
        whole, rest = np.divmod((2 * turns.astype(np.uint64) + 1) ** self.power, weights)
        shift = np.uint64(32)
        high, rest = np.divmod(rest << shift, weights)
        return classes, high << shift | (rest << shift) // weights, whole

    def turns_before(self, due: float) -> npt.NDArray[np.float64]:
        """Return how many picks of each class are due by then, but for rounding."""
        floor: npt.NDArray[np.float64] = np.floor(
            ((due * self.values.astype(np.float64)) ** (1.0 / self.power) + 1.0) / 2.0
        )
        return floor


def check_budgets(budgets: Any) -> None:
    """Refuse what cannot say how classes share a budget, whatever the data."""
    if not isinstance(budgets, Mapping):
        check_choice(budgets, BUDGETS, "budgets")
        return
    for label, value in budgets.items():
        if is_bounds(value):
            continue
        if not (is_number(value) and _LEAST_WEIGHT <= value <= _MOST_WEIGHT):
            raise InvalidParameter(
                f"budgets must be counts of at least 1 or positive weights; got {value!r:.40} for class"
                f" {label!r} (weights go from 1e-100 to 1e100)"
            )


def is_bounds(value: Any) -> bool:
    """Return True for a pair of the least and the most rows.

    >>> is_bounds((0, 5)), is_bounds((5, 0)), is_bounds(5)
    (True, False, False)
    """
    pair = isinstance(value, (tuple, list)) and len(value) == 2 and all(map(is_whole, value))
    return pair and 0 <= value[0] <= value[1]


def weigh(
    budgets: str | Mapping[Any, float], labels: Sequence[Any], sizes: IntArray, k: int
) -> tuple[Weights, IntArray]:
    """Return the weights of the classes, and how many rows each may give at most.

    `budgets`: `proportional` (to the class sizes), `sqrt` (to their square roots), `equal`, or a mapping from
    every class to a number. Numbers that are counts (see `_counts`) are kept to; others are weights.
    `labels`, `sizes`: the classes, and how many rows each has. `k`: how many rows to pick in all.
    """
    check_budgets(budgets)
    if isinstance(budgets, str):
        equal = np.ones(len(sizes), np.int64)
        return Weights(equal if budgets == "equal" else sizes, 2 if budgets == "sqrt" else 1), sizes
    known = set(labels)
    unknown = [label for label in budgets if label not in known]
    missing = [label for label in labels if label not in budgets]
    if unknown or missing:
        what = f"names class {unknown[0]!r}, which no row has" if unknown else f"has no class {missing[0]!r}"
        raise InvalidInput(f"budgets {what}; expected an entry for each of the {len(labels)} classes")
    values = [budgets[label] for label in labels]
    if any(map(is_bounds, values)):
        raise InvalidInput(
            "budgets that are pairs of a least and a most are for strata; pass strata, or weights"
        )
    if _counts(values, sizes, k):
        return Weights(np.array(values, np.int64)), np.array(values, np.int64)
    return Weights(np.array(values, np.float64)), sizes


def _counts(values: Sequence[Any], sizes: IntArray, k: int) -> bool:
    """Return True if budgets are counts: whole numbers that add up to `k`, none beyond its class."""
    whole = all(is_whole(value) for value in values)
    return whole and sum(values) == k and all(map(operator.le, values, sizes.tolist()))


def advise(budgets: Any, labels: Sequence[Any] | npt.NDArray[Any], sizes: IntArray, k: int) -> str | None:
    """Return what a user may not expect of budgets: whole numbers that are no counts, and long tails.

    Tails are long where proportional budgets give some class a tenth of another's picks, or less.

    >>> print(advise("proportional", ["cat", "dog", "ox"], np.array([900, 300, 45]), 100))
    class 'cat' has 20 times as many rows as 'ox'; budgets sqrt or equal give rare classes more picks
    >>> print(advise({"cat": 1, "dog": 3}, ["cat", "dog"], np.array([30, 30]), 20))
    budgets were taken as weights: as counts they would add up to 4 rows, and 20 are kept
    """
    if isinstance(budgets, Mapping):
        values = [budgets[label] for label in np.asarray(labels).tolist() if label in budgets]
        if not all(map(is_whole, values)) or _counts(values, sizes[sizes > 0], k):
            return None
        wrong = "are more than some class has" if sum(values) == k else ""
        wrong = wrong or f"would add up to {sum(values)} rows, and {k} are kept"
        return f"budgets were taken as weights: as counts they {wrong}"
    present = np.flatnonzero(sizes)
    most, least = present[sizes[present].argmax()], present[sizes[present].argmin()]
    times = sizes[most] / sizes[least]
    if budgets != "proportional" or times <= _UNEVEN:
        return None
    large, small = (np.asarray(labels)[code].item() for code in (most, least))
    return (
        f"class {large!r} has {times:,.0f} times as many rows as {small!r};"
        " budgets sqrt or equal give rare classes more picks"
    )


def class_budgets(sizes: Sequence[int] | IntArray, k: int, power: int = 1) -> IntArray:
    """Share `k` picks among classes in proportion to a root of their sizes.

    The budgets add up to `k`, none exceeds its class, and every class has at least one.
    """
    most = np.asarray(sizes, dtype=np.int64)
    check_share(len(most), k)
    return share(Weights(most, power), most[None], k)


def check_share(n_classes: int, k: int) -> None:
    """Refuse a budget that leaves a class without a row."""
    if k < n_classes:
        raise InvalidInput(
            f"keep gives {k} rows for {n_classes} classes, so that {n_classes - k} would have none;"
            f" keep at least {n_classes} rows, or pass by_class=False"
        )


def share(weights: Weights, tiers: IntArray, k: int, begun: IntArray | None = None) -> IntArray:
    """Return how many of the first `k` picks of the sequence are of each class.

    `weights`: of the classes. `tiers`: how many rows each class has in each tier: one line per tier, the most
    trusted first. `k`: how many rows to pick; at most as many as there are. `begun`: how many picks of each
    class there are already, which count; None: there are none.
    """
    counts = np.zeros(tiers.shape[1], np.int64) if begun is None else begun
    for line in _stretches(tiers):
        most = np.maximum(line, counts)
        left = k - int(counts.sum())
        if left < int(most.sum() - counts.sum()):
            return _fill(weights, counts, most, left)
        counts = most
    return counts


def sequence(weights: Weights, tiers: IntArray, begun: IntArray | None = None) -> tuple[IntArray, IntArray]:
    """Return the whole sequence: for each place the class, and the place within that class.

    `begun`: how many picks of each class there are already; the sequence goes on from there.
    """
    counts = np.zeros(tiers.shape[1], np.int64) if begun is None else begun
    if tiers.shape[1] == 1:
        only = np.arange(int(counts[0]), int(tiers.sum()))
        return np.zeros_like(only), only
    classes, turns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for line in _stretches(tiers):
        most = np.maximum(line, counts)
        while (counts < most).any():
            left = min(_SORTED_AT_ONCE, int((most - counts).sum()))
            after = _fill(weights, counts, most, left)
            some, turn = _picks(counts, after)
            order = np.lexsort(weights.due(some, turn))
            classes.append(some[order])
            turns.append(turn[order])
            counts = after
    return np.concatenate(classes), np.concatenate(turns)


def _stretches(tiers: IntArray) -> Iterator[IntArray]:
    """Yield how many picks of each class come before the end of each stretch of the sequence."""
    rows = np.cumsum(tiers, axis=0)
    yield np.minimum(rows[-1], 1)
    for line in rows:
        yield np.maximum(line, np.minimum(rows[-1], 1))


def _picks(first: IntArray, last: IntArray) -> tuple[IntArray, IntArray]:
    """Return the class and the turn of the picks of each class from the first to the last."""
    lengths = last - first
    classes = np.repeat(np.arange(len(lengths)), lengths)
    ends = np.cumsum(lengths)
    return classes, np.arange(len(classes)) - (ends - lengths)[classes] + first[classes]


def _fill(weights: Weights, counts: IntArray, most: IntArray, k: int) -> IntArray:
    """Return the counts after `k` more picks, none beyond its most.

    A threshold that is found in floating point leaves a few picks of each class open; exact keys decide
    those. One pick less than the threshold allows is certainly not too many: the pick before is due earlier
    by far more than rounding.
    """
    goal = k + int(counts.sum())
    low, high = -1074.0, 1023.0  # the logarithms of all float64
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        with np.errstate(over="ignore"):
            reached = np.clip(weights.turns_before(np.exp2(middle)), counts, most).sum()
        low, high = (middle, high) if reached <= goal else (low, middle)
    with np.errstate(over="ignore"):
        counts = np.clip(weights.turns_before(np.exp2(low)) - 1, counts, most).astype(np.int64)
    while (left := goal - int(counts.sum())) > 0:
        ahead = np.minimum(counts + _AHEAD, most)
        classes, turns = _picks(counts, ahead)
        order = np.lexsort(weights.due(classes, turns))
        # Behind the last pick of a class that was looked at, the next of that class may be due.
        last = (turns == ahead[classes] - 1) & (ahead < most)[classes]
        known = np.flatnonzero(last[order])
        take = min(left, int(known[0]) + 1 if len(known) else left)
        counts = counts + np.bincount(classes[order[:take]], minlength=len(counts))
    return counts


def split(codes: npt.NDArray[Any], n_classes: int) -> list[IntArray]:
    """Return for each class the numbers of its rows, in ascending order."""
    return np.split(by_group(codes), np.cumsum(np.bincount(codes, minlength=n_classes))[:-1])
