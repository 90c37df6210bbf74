"""Data for the benchmarks: made up, but shaped like the features of a network."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def features(
    n_rows: int, n_features: int, n_classes: int, seed: int = 0, dtype: npt.DTypeLike = np.float32
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return class clusters in a space of moderate rank, rectified as a network's features are."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_rows)
    rank = min(n_features, 100)
    mixing = rng.normal(size=(rank, n_features)).astype(dtype)
    centers = rng.normal(size=(n_classes, rank)).astype(dtype)
    rows = np.empty((n_rows, n_features), dtype=dtype)
    for start in range(0, n_rows, 10_000):
        part = slice(start, min(start + 10_000, n_rows))
        latent = centers[labels[part]] + rng.standard_normal((part.stop - start, rank), dtype=np.float32)
        noise = rng.standard_normal((part.stop - start, n_features), dtype=np.float32)
        rows[part] = np.maximum(latent @ mixing + noise, 0)
    return rows, labels
