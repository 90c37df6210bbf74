"""Two numbers per row for the map: the rows' own, principal components, or UMAP."""

import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from ..errors import MissingExtra
from ..records import FloatArray
from ..validation import check_choice

Vector = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

GRID = 65_535
PROJECTIONS = ("pca", "umap", "auto")
_MOST_VALUES = 1 << 25  # of the rows that the components are fitted to
_EXACT_FEATURES = 1024
_UMAP_FEATURES = 50
_VIEW_QUANTILES = (0.005, 0.995)
_MARGIN = 0.08


@dataclass(frozen=True, eq=False)
class Projection:
    """Places of rows in the plane, and in words how they were found."""

    places: Vector
    about: str


def check_projection(kind: str) -> str:
    """Return the projection that will be used, after a look at what is installed."""
    check_choice(kind, PROJECTIONS, "projection")
    installed = importlib.util.find_spec("umap") is not None
    if kind == "umap" and not installed:
        raise MissingExtra("umap-learn", "umap")
    return ("umap" if installed else "pca") if kind == "auto" else kind


def project(rows: FloatArray, ordinary: Mask, kind: str, seed: int) -> Projection:
    """Lay rows out in the plane.

    `rows`: finite rows, in memory. `ordinary`: rows that the components are fitted to: a few rows that are
    very far off would otherwise be all that the map shows. `kind`: `pca` or `umap`. Rows of one or two
    numbers are shown as they are. `seed`: of what is random.
    """
    if rows.shape[1] <= 2:
        flat = np.zeros((len(rows), 2))
        flat[:, : rows.shape[1]] = rows
        return Projection(
            flat, "the two numbers of each row" if rows.shape[1] == 2 else "the number of each row"
        )
    if kind == "umap":
        return _umap(rows, ordinary, seed)
    places, shares = principal_components(rows, ordinary, 2, seed)
    words = " and ".join(f"{share:.0%}" for share in shares)
    return Projection(places, f"the first two principal components ({words} of the variance)")


def principal_components(rows: FloatArray, ordinary: Mask, count: int, seed: int) -> tuple[Vector, Vector]:
    """Return the first principal components of rows, and the share of the variance that each explains.

    They are fitted to the ordinary rows, to no more of these than 32 million numbers.
    """
    fitted = np.flatnonzero(ordinary)
    most = max(_MOST_VALUES // rows.shape[1], 2)
    if len(fitted) > most:
        fitted = np.sort(np.random.default_rng([seed, 0x706361]).choice(fitted, most, replace=False))
    if len(fitted) < 2:
        fitted = np.arange(len(rows))
    count = min(count, len(fitted), rows.shape[1])
    center = np.add.reduce(rows[fitted], dtype=np.float64) / len(fitted)
    offsets = np.subtract(rows[fitted], center, dtype=np.float64)
    total = float(np.vdot(offsets, offsets))
    if rows.shape[1] <= _EXACT_FEATURES:
        last = rows.shape[1] - 1
        squares, axes = eigh(offsets.T @ offsets, subset_by_index=[last - count + 1, last])
        squares, axes = squares[::-1], axes[:, ::-1].T
    else:
        from sklearn.utils.extmath import randomized_svd

        _, lengths, axes = randomized_svd(offsets, count, n_iter=4, random_state=seed)
        squares = lengths**2
    # The sign of an axis is arbitrary; one that does not change with the library is chosen.
    axes = axes * np.sign(axes[np.arange(count), np.abs(axes).argmax(axis=1)])[:, None]
    places = np.zeros((len(rows), max(count, 2)))
    step = max(1, _MOST_VALUES // (8 * rows.shape[1]))
    for start in range(0, len(rows), step):
        part = np.subtract(rows[start : start + step], center, dtype=np.float64)
        places[start : start + step, :count] = part @ axes.T
    return places, np.maximum(squares, 0.0) / (total or 1.0)


def _umap(rows: FloatArray, ordinary: Mask, seed: int) -> Projection:
    """Lay out by UMAP, after a reduction to fifty principal components."""
    import umap

    reduced: Any = rows
    if rows.shape[1] > _UMAP_FEATURES:
        reduced = principal_components(rows, ordinary, _UMAP_FEATURES, seed)[0]
    neighbors = max(2, min(15, len(rows) - 1))
    places = umap.UMAP(n_components=2, n_neighbors=neighbors, random_state=seed, n_jobs=1).fit_transform(
        reduced
    )
    return Projection(np.asarray(places, np.float64), "UMAP: near rows stay near, far distances mean little")


def to_grid(places: Vector) -> tuple[npt.NDArray[np.int64], tuple[int, int, int, int]]:
    """Return places as whole numbers from 0 to `GRID`, one scale for both axes, and the usual window.

    The window holds 99 % of the rows along each axis, and a margin; the others are beyond its borders.
    """
    low, high = places.min(axis=0), places.max(axis=0)
    extent = float((high - low).max()) or 1.0
    middle = (low + high) / 2
    grid = np.rint((places - middle) / extent * GRID + GRID / 2).astype(np.int64)
    left, right = np.quantile(grid, _VIEW_QUANTILES, axis=0)
    margin = np.maximum((right - left).max() * _MARGIN, 1.0)
    return grid, (
        int(left[0] - margin),
        int(right[0] + margin),
        int(left[1] - margin),
        int(right[1] + margin),
    )
