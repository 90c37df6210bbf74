"""From rows to a selection: one readable function."""

from __future__ import annotations

from typing import Any

from .records import Selection
from .selectors import find_method


def select(
    X: Any,
    keep: float | int = 0.1,
    labels: Any = None,
    method: str = "gm-matching",
    guard: str | None = None,
    random_state: Any = 0,
    **method_params: Any,
) -> Selection:
    """Choose the rows of `X` worth keeping.

    Parameters
    ----------
    X
        Rows, array-like of shape (rows, features); a NumPy memory map or a torch CPU tensor will do.
    keep
        Fraction in (0, 1] or count of rows to keep.
    labels
        Optional class of each row; they may be wrong. The budget is divided among the classes.
    method
        A name from `gmmatch.methods()`.
    guard
        `auto` or `off`; None means the method's own default.
    random_state
        Seed. The same input, parameters and seed give the same rows in the same order.
    **method_params
        Further parameters of the method, such as `step` or `batch_size`.

    Returns
    -------
    Selection
        Row numbers to keep, in pick order, with scores and distances.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> rows = np.random.default_rng(0).normal(size=(1000, 16))
    >>> gmmatch.select(rows, keep=0.05)
    Selection(50 of 1000 rows by gm-matching, objective ...)
    """
    params = {"keep": keep, "random_state": random_state, **method_params}
    entry = find_method(method)
    if guard is not None and "guard" not in entry.fixed:
        params["guard"] = guard
    return entry.build(**params).fit(X, labels).selection_
