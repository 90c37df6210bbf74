"""Optimization-based pruning (Yang et al., 2022): rows whose complement a model hardly misses.

The influence of each row comes from a training run; the discrete program that chooses the rows under a
fixed budget is here, and needs none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import FloatArray, IntArray, Vector
from ..errors import InvalidInput, InvalidParameter
from ..matching.groups import Group
from ..progress import task
from ..selectors.ranking import Ranking
from ..validation import as_rows, resolve_keep


@dataclass(frozen=True, eq=False)
class LeastChange:
    """Rows whose complement can be removed with little change."""

    indices: IntArray  # rows to keep, in the order they were picked
    change: float  # length of the sum of the removed rows' vectors
    bound: float  # what `change` cannot exceed: the root mean square change over all subsets of that size


def keep_least_change(vectors: Any, keep: int | float) -> LeastChange:
    """Choose the rows to keep so that the vectors of the removed rows add up to little.

    The program min ||sum of s_i over the removed rows|| with a fixed number of removed rows is hard
    to solve exactly. Each step of this greedy solution keeps the row after which the expected
    squared change is smallest, were all later picks left to chance. With m rows to be removed, u rows
    undecided after the pick, T and A the sum of their vectors and of their squared lengths, that
    expectation is (a - c) A + c ||T||^2, where a = m/u and c = m(m-1)/(u(u-1)).

    The smallest expectation is at most their average, which is the expectation before the pick.
    Hence the bound: the change is at most the root mean square change of a random choice of that size,

        change^2 <= (m/n) (n-m)/(n-1) sum ||s_i||^2 + m(m-1)/(n(n-1)) ||sum s_i||^2.

    Picks depend on the budget: those of a smaller one are not a prefix of those of a larger one.

    Parameters
    ----------
    vectors
        Shape (rows, parameters): change of the parameters when the row is removed.
    keep
        Fraction or count of rows to keep.

    Returns
    -------
    LeastChange
        Time O(keep * rows * parameters), memory O(rows) beside the vectors.

    Examples
    --------
    >>> found = keep_least_change([[3.0], [-1.0], [1.0], [-9.0]], keep=2)
    >>> sorted(found.indices.tolist()), found.change
    ([0, 3], 0.0)
    """
    rows = as_rows(vectors, "vectors")
    n = len(rows)
    budget = resolve_keep(keep, n)
    removed = n - budget
    squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    total = rows.sum(axis=0, dtype=np.float64)
    bound = _expected_square(removed, n, float(squares.sum()), float(total @ total)) ** 0.5
    picked = np.empty(budget, dtype=np.int64)
    taken = np.zeros(n, dtype=bool)
    with task("choosing rows", total=budget) as advance:
        for pick in range(budget):
            left = n - pick - 1
            single, pair = _shares(removed, left)
            expected = (2 * pair - single) * squares - 2 * pair * (rows @ total.astype(rows.dtype))
            expected[taken] = np.inf
            row = int(expected.argmin())
            picked[pick] = row
            taken[row] = True
            total -= rows[row]
            advance(1)
    change = float(np.linalg.norm(rows[~taken].sum(axis=0, dtype=np.float64)))
    return LeastChange(picked, change, bound)


class Optimization(Ranking):
    """Keep the rows whose complement moves a model's parameters least, class by class.

    Parameters
    ----------
    influence
        Shape (rows, parameters): by how much the model's parameters move when the row is removed.

    Notes
    -----
    The picks of a class are those of :func:`keep_least_change`, and depend on its budget. The score of a
    pick is the length of its influence.

    Time: O(picks * rows * parameters) per class. Memory: a copy of the influence of one class.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> influence = [[3.0], [-1.0], [1.0], [-9.0]]
    >>> kept = gmmatch.select(np.eye(4), keep=2, method="optimization", influence=influence)
    >>> sorted(kept.indices.tolist())
    [0, 3]
    """

    name = "optimization"

    center: Any = None
    influence: Any = None

    def _check(self) -> None:
        if self.influence is None:
            raise InvalidParameter(f"{self.name} needs influence, one vector per row; got None")

    def _score(self, groups: list[Group], distances: Vector) -> Vector:
        vectors = self._vectors()
        if len(vectors) != len(distances):
            raise InvalidInput(f"influence has {len(vectors)} vectors for {len(distances)} rows")
        return np.asarray(np.linalg.norm(vectors, axis=1), dtype=np.float64)

    def _order(self, group: Group, scores: Vector, k: int) -> IntArray:
        return keep_least_change(self._vectors()[group.members], k).indices

    def _vectors(self) -> FloatArray:
        return as_rows(self.influence, "influence")


def _shares(removed: int, left: int) -> tuple[float, float]:
    """Return how likely one undecided row, and how likely a pair of them, is to be removed."""
    single = removed / left if left else 0.0
    pair = removed * (removed - 1) / (left * (left - 1)) if left > 1 else 0.0
    return single, pair


def _expected_square(removed: int, left: int, squares: float, total_square: float) -> float:
    """Return the expected squared length of the sum of randomly removed rows."""
    single, pair = _shares(removed, left)
    return max(0.0, (single - pair) * squares + pair * total_square)
