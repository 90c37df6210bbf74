"""Selection by class, as composition: budgets for the classes, and one order for all their picks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from ..records import IntArray


def class_budgets(sizes: Sequence[int] | IntArray, k: int) -> IntArray:
    """Share `k` picks among classes in proportion to their sizes, by largest remainder.

    The budgets add up to `k`, none exceeds its class, and every class has at least one.

    Examples
    --------
    >>> class_budgets([60, 30, 10], 10)
    array([6, 3, 1])
    >>> class_budgets([997, 2, 1], 10)
    array([8, 1, 1])
    """
    size = np.asarray(sizes, dtype=np.int64)
    if k < len(size):
        raise InvalidInput(
            f"keep gives {k} rows for {len(size)} classes, so that {len(size) - k} would have none;"
            f" keep at least {len(size)} rows, or pass by_class=False"
        )
    budgets = proportional(size, k)
    for empty in np.flatnonzero(budgets == 0):
        budgets[np.argmax(budgets)] -= 1
        budgets[empty] = 1
    return budgets


def proportional(sizes: IntArray, k: int) -> IntArray:
    """Share `k` in proportion to sizes, by largest remainder; the first of equal remainders wins.

    Examples
    --------
    >>> proportional(np.array([5, 3, 0]), 4)
    array([3, 1, 0])
    """
    total = int(sizes.sum())
    # Whole numbers throughout: floating-point shares would misjudge remainders of large inputs.
    budgets = np.array([int(n) * k // total for n in sizes], dtype=np.int64)
    remainders = [int(n) * k % total for n in sizes]
    order = sorted(range(len(sizes)), key=lambda i: (-remainders[i], i))
    budgets[order[: k - int(budgets.sum())]] += 1
    return budgets


def interleave(lengths: Sequence[int] | IntArray) -> tuple[IntArray, IntArray]:
    """Return an order of all classes' picks in which every prefix is class-proportional.

    Returns
    -------
    classes, turns
        For each place in the common order, the class and the place within that class.

    Examples
    --------
    >>> interleave([4, 2])
    (array([0, 1, 0, 0, 1, 0]), array([0, 0, 1, 2, 1, 3]))
    """
    classes = np.repeat(np.arange(len(lengths)), lengths)
    turns = np.concatenate([np.arange(length) for length in lengths])
    due = (2 * turns + 1) / np.asarray(lengths)[classes]
    order = np.lexsort((classes, due))
    return classes[order], turns[order]


def split(codes: npt.NDArray[Any], n_classes: int) -> list[IntArray]:
    """Return for each class the numbers of its rows, in ascending order.

    Examples
    --------
    >>> split(np.array([1, 0, 1]), 2)
    [array([1]), array([0, 2])]
    """
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes, minlength=n_classes))[:-1])
