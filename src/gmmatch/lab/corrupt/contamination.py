"""Gross contamination of embeddings: a minority of rows becomes whatever an adversary likes.

The paper's alpha-corrupted process: the adversary inspects all rows and changes a share psi < 1/2 of them.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import FloatArray, IntArray
from ...errors import InvalidInput, InvalidParameter
from ...validation import as_labels, as_rows, check_parameters, is_number
from ._draw import as_generator, check_kind, check_share, count_of, draw_rows

_PARAMETERS: dict[str, tuple[str, ...]] = {
    "far-cluster": ("distance", "spread"),
    "outliers": ("distance", "spread"),
    "other-class": ("labels",),
    "sign-flip": (),
    "adversary": ("distance", "spread"),
}
CONTAMINATION_KINDS: tuple[str, ...] = tuple(_PARAMETERS)
_DISTANCES = {"far-cluster": 5.0, "outliers": 5.0, "adversary": 1.0}
_SPREAD = 0.1
_POWER_STEPS = 20
_REDRAWS = 50
_CHUNK_VALUES = 1 << 21


def contaminate(
    X: Any,
    share: float = 0.2,
    kind: str = "far-cluster",
    rng: int | np.random.Generator | None = 0,
    *,
    labels: Any = None,
    distance: float | None = None,
    spread: float | None = None,
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Replace exactly the rounded share of the rows by gross errors.

    Distances are in units of the data's radius: the root mean square distance of the given rows to
    their mean.

    Parameters
    ----------
    X
        Rows of numbers, shape (rows, features). Never modified.
    share
        Fraction of the rows to replace (the paper's psi), in [0, 0.5). Always fewer than half.
    kind
        ``"far-cluster"``: one clump in a random direction. ``"outliers"``: each row far away in a
        random direction of its own. ``"other-class"``: copies of rows of other classes.
        ``"sign-flip"``: the row times minus one. ``"adversary"``: the rows that lie farthest back along
        the data's widest direction are placed together so that the mean of all rows moves forward by
        exactly `distance`.
    rng
        A seed or a Generator.
    labels
        For ``"other-class"``: one class per row.
    distance
        Of the clump or the outliers from the mean (default 5), or by which the adversary moves the mean
        (default 1).
    spread
        Root mean square distance of the placed rows to their middle (default 0.1); for
        ``"outliers"`` the relative range of their distances.

    Returns
    -------
    corrupted
        A copy; float types are kept, whole numbers become float64.
    mask
        True where the row was replaced; all others are bit-identical.

    Notes
    -----
    Two passes over the rows for the radius, 20 more for the adversary's direction; memory for one copy.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(1000, 16))
    >>> bad, mask = contaminate(X, share=0.2, kind="far-cluster", distance=5)
    >>> int(mask.sum()), bool(np.linalg.norm(bad[mask], axis=1).min() > np.linalg.norm(X, axis=1).max())
    (200, True)
    """
    if hasattr(X, "detach"):
        X = X.detach().cpu()
    rows = as_rows(X)
    name = check_kind(kind, CONTAMINATION_KINDS)
    given = {"labels": labels, "distance": distance, "spread": spread}
    used = {key for key, value in given.items() if value is not None}
    check_parameters(used, _PARAMETERS[name], f"contamination of kind {name!r}")
    far = _check_positive(distance, _DISTANCES.get(name, 1.0), "distance")
    width = _check_positive(spread, _SPREAD, "spread")
    # Rounding up must not make the wrong rows a half: the paper's alpha stays below one.
    count = min(count_of(check_share(share, below_half=True), len(rows)), (len(rows) - 1) // 2)
    generator = as_generator(rng)
    if name == "other-class":
        changed, values = _copy_other_class(rows, labels, count, generator)
    elif name == "sign-flip":
        changed, values = _flip_signs(rows, count, generator)
    elif name == "adversary":
        changed, values = _pull_mean(rows, count, far, width, generator)
    else:
        place = _far_cluster if name == "far-cluster" else _outliers
        changed, values = place(rows, count, far, width, generator)
    kept_type = np.asarray(X).dtype
    corrupted = np.array(rows, dtype=kept_type if kept_type.kind == "f" else rows.dtype)
    corrupted[changed] = values
    mask = np.zeros(len(rows), dtype=bool)
    mask[changed] = True
    return corrupted, mask


def _far_cluster(
    rows: FloatArray, count: int, distance: float, spread: float, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Put rows drawn at random into one clump in a random direction from the mean."""
    center, radius = _center_and_radius(rows)
    direction = _directions(1, center.size, rng)
    noise = rng.standard_normal((count, center.size)) * (spread / np.sqrt(center.size))
    return draw_rows(len(rows), count, rng), center + radius * (distance * direction + noise)


def _outliers(
    rows: FloatArray, count: int, distance: float, spread: float, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Put rows drawn at random far from the mean, each in a direction of its own."""
    center, radius = _center_and_radius(rows)
    lengths = distance * (1 + spread * rng.uniform(-1, 1, (count, 1)))
    return draw_rows(len(rows), count, rng), center + radius * lengths * _directions(count, center.size, rng)


def _copy_other_class(
    rows: FloatArray, labels: Any, count: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Overwrite rows drawn at random with rows drawn from all other classes."""
    if labels is None:
        raise InvalidParameter("contamination of kind 'other-class' needs the parameter 'labels'")
    classes, codes = as_labels(labels, len(rows))
    if classes.size < 2:
        raise InvalidInput(
            f"labels hold one class only ({classes[0]!r}); there is no other class to copy from"
        )
    changed = draw_rows(len(rows), count, rng)
    by_class = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    own, first = sizes[codes[changed]], (np.cumsum(sizes) - sizes)[codes[changed]]
    origin = np.empty(count, dtype=np.int64)
    again = np.arange(count)
    for _ in range(_REDRAWS):
        # A place among the rows of the other classes: skip the block of the row's own class.
        place = rng.integers(0, len(rows) - own[again])
        origin[again] = by_class[place + np.where(place >= first[again], own[again], 0)]
        again = again[(rows[origin[again]] == rows[changed[again]]).all(axis=1)]
        if not again.size:
            return changed, rows[origin]
    raise InvalidInput(
        f"row {changed[again[0]]} equals the rows of the other classes; a copy would not change it"
    )


def _flip_signs(rows: FloatArray, count: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Multiply rows drawn at random by minus one; rows of zeros, which that leaves alone, are not drawn."""
    possible = np.flatnonzero(rows.any(axis=1))
    if possible.size < count:
        raise InvalidInput(f"share asks for {count} flipped rows, but only {possible.size} are not all zero")
    changed = possible[draw_rows(possible.size, count, rng)]
    return changed, -rows[changed]


def _pull_mean(
    rows: FloatArray, count: int, distance: float, spread: float, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Take the rows farthest back along the widest direction, and place them where the mean must land."""
    center, radius = _center_and_radius(rows)
    direction = _widest_direction(rows, center, rng)
    if count == 0:
        return np.empty(0, dtype=np.int64), rows[:0]
    along = np.concatenate([(chunk - center) @ direction for chunk in _chunks(rows)])
    changed = np.argsort(along, kind="stable")[:count]
    # n (center + distance radius direction) = the sum of the rows that stay + count * place.
    moved = rows[changed].sum(axis=0, dtype=np.float64) + len(rows) * distance * radius * direction
    noise = rng.standard_normal((count, center.size)) * (spread * radius / np.sqrt(center.size))
    return changed, moved / count + noise - noise.mean(axis=0)


def _widest_direction(
    rows: FloatArray, center: npt.NDArray[np.float64], rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Return (nearly) the first principal direction, of random sign: power steps, no (features)^2 matrix."""
    direction: npt.NDArray[np.float64] = _directions(1, center.size, rng)[0]
    for _ in range(_POWER_STEPS):
        image = np.zeros_like(direction)
        for chunk in _chunks(rows):
            centered = chunk - center
            image += (centered @ direction) @ centered
        length = np.linalg.norm(image)
        if length == 0:
            break
        direction = image / length
    return direction


def _directions(count: int, features: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    vectors = rng.standard_normal((count, features))
    unit: npt.NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def _center_and_radius(rows: FloatArray) -> tuple[npt.NDArray[np.float64], float]:
    """Return the mean and the root mean square distance to it (1 where all rows are equal)."""
    center: npt.NDArray[np.float64] = rows.mean(axis=0, dtype=np.float64)
    total = sum(float(np.square(chunk - center).sum()) for chunk in _chunks(rows))
    return center, float(np.sqrt(total / len(rows))) or 1.0


def _chunks(rows: FloatArray) -> Iterator[FloatArray]:
    """Yield runs of rows small enough that float64 copies of them do not matter."""
    step = max(1, _CHUNK_VALUES // rows.shape[1])
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _check_positive(value: Any, default: float, name: str) -> float:
    if value is None:
        return default
    if not (is_number(value) and 0 < value < np.inf):
        raise InvalidParameter(f"{name} must be a finite number above 0; got {value!r}")
    return float(value)
