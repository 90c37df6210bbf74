"""Data for the benchmarks: made up, but shaped like the features of a network."""

from __future__ import annotations

from pathlib import Path

import numpy as np

_CHUNK = 10_000
_WRONG = 0.2


def make(folder: Path, n_rows: int, n_features: int, n_classes: int, seed: int = 0) -> Path:
    """Write `rows.npy` and `labels.npy`, a fifth of them wrong, into a folder of that size, and return it.

    Classes are clusters in a space of moderate rank, rectified as a network's features are.
    """
    made = folder / f"{n_rows}x{n_features}x{n_classes}"
    if (made / "labels.npy").exists():
        return made
    made.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_rows)
    rank = min(n_features, 100)
    mixing = rng.standard_normal((rank, n_features), dtype=np.float32)
    centers = rng.standard_normal((n_classes, rank), dtype=np.float32)
    rows = np.lib.format.open_memmap(made / "rows.npy", "w+", np.float32, (n_rows, n_features))
    for start in range(0, n_rows, _CHUNK):
        part = truth[start : start + _CHUNK]
        latent = centers[part] + rng.standard_normal((len(part), rank), dtype=np.float32)
        noise = rng.standard_normal((len(part), n_features), dtype=np.float32)
        rows[start : start + _CHUNK] = np.maximum(latent @ mixing + noise, 0)
    rows.flush()
    moved = rng.integers(1, max(n_classes, 2), n_rows) * (rng.random(n_rows) < _WRONG)
    np.save(made / "labels.npy", (truth + moved) % n_classes)
    return made
