"""A score that people have already: within each class only the better rows compete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import IntArray, Mask, Vector
from ..data import Dataset
from ..errors import InvalidParameter, brief
from ..inputs import numbers_of_rows
from ..matching.budgets import split
from ..validation import is_number

WEIGHT = 0.5


@dataclass(frozen=True, eq=False)
class Quality:
    """How good each row is, the larger the better, and what that weighs beside matching."""

    values: Vector
    weight: float = WEIGHT

    @classmethod
    def of(cls, given: object, data: Dataset) -> Quality:
        """Read scores, a column or an array, or `(scores, weight)`."""
        weight: Any = WEIGHT
        if isinstance(given, tuple) and len(given) == 2:
            given, weight = given
        if not (is_number(weight) and 0 < weight < 1):
            raise InvalidParameter(f"the weight of quality must be between 0 and 1; got {brief(weight)}")
        return cls(numbers_of_rows(given, data, "quality")[0], float(weight))

    def best(self, codes: IntArray, allowed: Mask, share: float) -> Mask:
        """Return the rows that compete: of each class the better ones, a share of 1 less the weight.

        `share`: how much of the rows is to be picked, and must be left. Of equal scores all compete.
        """
        kept = max(1.0 - self.weight, share)
        found = np.zeros(len(codes), bool)
        own = np.where(allowed, codes, -1)
        for members in split(own + 1, int(own.max(initial=-1)) + 2)[1:]:
            if len(members):
                values = self.values[members]
                least = np.sort(values)[len(values) - max(1, int(np.ceil(kept * len(values))))]
                found[members[values >= least]] = True
        return found
