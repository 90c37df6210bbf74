"""Four classes of rows that lie apart, for the tests of aims."""

from __future__ import annotations

from typing import Any

import numpy as np


def blobs(n_rows: int = 400, n_features: int = 12, seed: int = 0) -> tuple[Any, Any]:
    """Return rows and their classes, in turn."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n_rows) % 4
    middles = 3 * np.random.default_rng(99).normal(size=(4, n_features))
    return (rng.normal(size=(n_rows, n_features)) + middles[labels]).astype(np.float32), labels
