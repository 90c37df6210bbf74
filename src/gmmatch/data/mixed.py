"""Tables as people have them: numbers beside categories, with gaps, made into rows of numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .items import Unreadable

MOST_CATEGORIES = 50
"""Different values of a column of categories, at most."""


def is_category(values: Sequence[Any]) -> bool:
    """Tell whether a column can be taken as categories: few values, several rows of each on average."""
    present = {str(value) for value in values if value is not None and not isinstance(value, Unreadable)}
    return 0 < len(present) <= min(MOST_CATEGORIES, max(2, len(values) // 2))


def numbers_of(values: Sequence[Any]) -> npt.NDArray[np.float64]:
    """Return a column of numbers in units of its spread around its median, and one that marks gaps, if any.

    >>> numbers_of([1.0, None, 3.0]).tolist()
    [[-1.349, 0.0], [0.0, 1.0], [1.349, 0.0]]
    """
    found = np.array([np.nan if value is None else float(value) for value in values])
    gaps = ~np.isfinite(found)
    present = found[~gaps]
    if not len(present):
        return np.zeros((len(found), 0))
    low, middle, high = np.quantile(present, [0.25, 0.5, 0.75])
    spread = (high - low) / 1.349 or float(present.std()) or 1.0
    scaled = np.where(gaps, 0.0, (found - middle) / spread).round(12)
    return np.stack([scaled, gaps], axis=1) if gaps.any() else scaled[:, None]


def categories_of(values: Sequence[Any]) -> npt.NDArray[np.float64]:
    """Return a column of categories as one column of zeros and ones for each; a gap has zeros alone.

    >>> categories_of(["b", None, "a"]).tolist()
    [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]
    """
    texts = [None if value is None or isinstance(value, Unreadable) else str(value) for value in values]
    names = sorted({text for text in texts if text is not None})
    places = {name: place for place, name in enumerate(names)}
    found = np.zeros((len(values), len(names)))
    for row, text in enumerate(texts):
        if text is not None:
            found[row, places[text]] = 1.0
    return found
