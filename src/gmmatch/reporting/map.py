"""The map: which rows are on it, where they lie, and what is known of them."""

import numpy as np
from scipy.linalg import eigh
from scipy.special import softmax

from ..arrays import FloatArray, IntArray, Mask, Vector
from ..compute.blocks import turns
from ..former import warn_former
from ..matching.budgets import Weights, share
from ..validation import check_choice
from .inputs import Inputs, Suspicion
from .summary import MapRows, short, significant

MOST_ROWS = 20_000
_FIRST_PICKS = 1_000
GRID = 65_535
_MOST_VALUES = 1 << 25  # of the rows that the components are fitted to
_EXACT_FEATURES = 1024
_CLASS_FEATURES = 50  # components that classes are told apart by
_MOST_ANCHORS = 500  # classes that have a place of their own
_SURE = 0.75  # mean probability of the likeliest class, which decides how sharp the scores are
_WITHIN = 0.16  # spread within a class, in units of the distance between two neighbouring classes
_MARGIN = 0.08


def check_projection(kind: str) -> str:
    """Return how the map will be laid out."""
    if kind in ("auto", "umap"):
        warn_former(f"projection={kind!r} is gone, and the map is laid out by classes")
        return "classes"
    return check_choice(kind, ("classes", "pca"), "projection")


def project(
    rows: FloatArray,
    ordinary: Mask,
    kind: str,
    seed: int,
    codes: IntArray | None = None,
    believed: Mask | None = None,
) -> tuple[Vector, str]:
    """Lay rows out in the plane; return their places, and in words how they were found.

    `rows`: finite rows, in memory. `ordinary`: rows that the components are fitted to: a few rows that are
    very far off would otherwise be all that the map shows. `kind`: `classes` or `pca`. Rows of one or
    two numbers are shown as they are. `seed`: of what is random. `codes`, `believed`: the class of each row,
    and whether it is believed; without two believed classes, `classes` becomes `pca`.
    """
    if rows.shape[1] <= 2:
        flat = np.zeros((len(rows), 2))
        flat[:, : rows.shape[1]] = rows
        return flat, "the two numbers of each row" if rows.shape[1] == 2 else "the number of each row"
    if kind == "classes" and codes is not None and believed is not None:
        placed = _by_class(rows, ordinary, codes, believed & ordinary, seed)
        if placed is not None:
            return placed, (
                "a linear classifier that learned the believed rows: a row lies near the class it belongs to"
                " by its numbers, and between classes where that is unclear"
            )
    places, shares = principal_components(rows, ordinary, 2, seed)
    words = " and ".join(f"{share:.0%}" for share in shares)
    return places, f"the first two principal components ({words} of the variance)"


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
    if rows.shape[1] <= _EXACT_FEATURES:
        last = rows.shape[1] - 1
        squares, axes = eigh(offsets.T @ offsets, subset_by_index=[last - count + 1, last])
        squares, axes = squares[::-1], axes[:, ::-1]
    else:
        from sklearn.utils.extmath import randomized_svd

        _, lengths, axes = randomized_svd(offsets, count, n_iter=4, random_state=seed)
        squares, axes = lengths**2, axes.T
    axes = _signed(axes)
    places = np.zeros((len(rows), max(count, 2)))
    step = max(1, _MOST_VALUES // (8 * rows.shape[1]))
    for start in range(0, len(rows), step):
        part = np.subtract(rows[start : start + step], center, dtype=np.float64)
        places[start : start + step, :count] = part @ axes
    return places, np.maximum(squares, 0.0) / (float(np.vdot(offsets, offsets)) or 1.0)


def _signed(columns: Vector) -> Vector:
    """Return columns with the largest entry of each positive: the sign of an axis is arbitrary otherwise."""
    largest = np.take_along_axis(columns, np.abs(columns).argmax(axis=0)[None], axis=0)
    signed: Vector = columns * np.where(largest < 0, -1.0, 1.0)
    return signed


def _by_class(rows: FloatArray, ordinary: Mask, codes: IntArray, taught: Mask, seed: int) -> Vector | None:
    """Place every row at the mean of its classes' places, weighted by their probabilities.

    The probabilities are those of a linear discriminant with a shrunk covariance, on the first principal
    components, learned from the rows of `taught` alone; so a row with a wrong label lies where its numbers
    belong. None: there are fewer than two classes to tell apart, or too many.

    Time: O(rows * components * (features + classes)).
    """
    present, sizes = np.unique(codes[taught], return_counts=True)
    present = present[sizes > 1]
    if not 2 <= len(present) <= _MOST_ANCHORS:
        return None
    taught = taught & np.isin(codes, present)
    reduced = principal_components(rows, ordinary, _CLASS_FEATURES, seed)[0]
    learned, own = reduced[taught], np.searchsorted(present, codes[taught])
    means = np.stack([learned[own == code].mean(axis=0) for code in range(len(present))])
    offsets = learned - means[own]
    within = offsets.T @ offsets / len(own)
    level = float(np.trace(within)) / len(within)
    if not level > 0:
        return None
    lengths, axes = np.linalg.eigh(within + 0.1 * level * np.eye(len(within)))
    turned, centers = (each @ (axes / np.sqrt(lengths)) for each in (reduced, means))
    scores = turned @ centers.T - 0.5 * np.square(centers).sum(axis=1)
    low, high = -10.0, 10.0  # logarithms of the temperature at which they are sure enough on average
    for _ in range(40):
        middle = (low + high) / 2
        sure = softmax(scores[taught] / np.exp(middle), axis=1).max(axis=1).mean()
        low, high = (middle, high) if sure > _SURE else (low, middle)
    chances = softmax(scores / np.exp(low), axis=1)
    anchors, gap = _anchors(centers)
    spread = principal_components(turned - chances @ centers, taught, 2, seed)[0][:, :2]
    spread /= np.maximum(np.quantile(np.abs(spread[taught]), 0.9, axis=0), 1e-12)
    far = np.maximum(np.linalg.norm(spread, axis=1, keepdims=True), 1.0)
    places: Vector = chances @ anchors + _WITHIN * gap * spread * (2.0 - 1.0 / far) / far  # less than 2 away
    return places


def _anchors(centers: Vector) -> tuple[Vector, float]:
    """Return a place for each class, like classes near each other, and the distance between neighbours.

    Up to eight classes lie on a circle, more on a disc; who lies where follows from the first two principal
    coordinates of the centres.
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    number, count = np.arange(len(centers)), len(centers)
    axes, lengths, _ = np.linalg.svd(centers - centers.mean(axis=0), full_matrices=False)
    seen = _signed((axes * lengths)[:, :2])
    angles = number * (2 * np.pi / count if count <= 8 else np.pi * (3 - np.sqrt(5)))
    radius = np.ones(count) if count <= 8 else np.sqrt((number + 0.5) / count)
    places = np.stack([radius * np.cos(angles), radius * np.sin(angles)], axis=1)
    order = linear_sum_assignment(cdist(seen / (np.abs(seen).max() or 1.0), places, "sqeuclidean"))[1]
    apart = cdist(places, places)
    np.fill_diagonal(apart, np.inf)
    return places[order], float(np.median(apart.min(axis=1)))


def to_grid(places: Vector) -> tuple[IntArray, tuple[int, int, int, int]]:
    """Return places as whole numbers from 0 to `GRID`, one scale for both axes, and the usual window.

    The window holds 99 % of the rows along each axis, and a margin; the others are beyond its borders.
    """
    low, high = places.min(axis=0), places.max(axis=0)
    extent = float((high - low).max()) or 1.0
    grid = np.rint((places - (low + high) / 2) / extent * GRID + GRID / 2).astype(np.int64)
    start, end = np.quantile(grid, (0.005, 0.995), axis=0)
    margin = max(float((end - start).max()) * _MARGIN, 1.0)
    (left, bottom), (right, top) = (start - margin).astype(int).tolist(), (end + margin).astype(int).tolist()
    return grid, (left, right, bottom, top)


def balanced_sample(rows: IntArray, codes: IntArray, total: int, rng: np.random.Generator) -> IntArray:
    """Draw up to `total` of `rows` at random, as evenly over their classes as possible; sorted.

    `rows`, `codes`: row numbers and the class of each.
    """
    if total >= len(rows):
        return np.sort(rows)
    order, sizes = rng.permutation(len(rows)), np.bincount(codes)
    places = share(Weights(np.ones(len(sizes))), sizes[None], total)
    return np.sort(rows[order[turns(codes[order]) < places[codes[order]]]])


def choose_rows(
    usable: IntArray, codes: IntArray, picked: IntArray, always: IntArray, seed: int, total: int = MOST_ROWS
) -> IntArray:
    """Choose the rows of the map, in the order in which they are drawn: dropped ones, then late picks first.

    Where there are more rows than places, the map has the rows of `always`, the first thousand picks, and
    a balanced sample of kept and one of dropped rows that share the other places evenly.

    `usable`: numbers of the rows that may be shown. `codes`: class of each row of the input. `picked`: the
    picks, in pick order. `always`: rows that must be there.
    """
    chosen = usable
    if len(usable) > total:
        rng = np.random.default_rng([seed, 0x6D6170])
        must = np.unique(np.concatenate([always, picked[:_FIRST_PICKS]]))
        dropped = np.setdiff1d(usable, picked, assume_unique=True)
        kept_left, dropped_left = np.setdiff1d(picked, must), np.setdiff1d(dropped, must)
        places = total - len(must)
        half = max(places // 2, places - len(dropped_left))
        some = balanced_sample(kept_left, codes[kept_left], half, rng)
        rest = balanced_sample(dropped_left, codes[dropped_left], places - len(some), rng)
        chosen = np.concatenate([must, some, rest])
    rank = np.full(len(codes), -1, np.int64)
    rank[picked] = np.arange(len(picked))
    ranks = rank[chosen]
    return chosen[np.lexsort((chosen, -ranks, ranks >= 0))]


def make_map(
    inputs: Inputs, evidence: Suspicion, shown: IntArray, sampled: FloatArray, ordinary: Mask, kind: str
) -> MapRows:
    """Return the columns of the map.

    `shown`, `sampled`, `ordinary`: numbers of the rows on the map, the rows themselves, and which of them are
    not far off. `kind`: how they are laid out.
    """
    selection, table = inputs.selection, evidence.table
    rank, place = np.full((2, selection.n_rows), -1, np.int64)
    rank[selection.indices] = np.arange(len(selection))
    place[table.numbers] = np.arange(len(table.numbers))
    judged = place[shown]
    known, reasons = judged >= 0, evidence.reasons[judged]
    tiers = np.where(known, evidence.tiers[judged], -1)
    ids, codes = inputs.source.ids, inputs.codes[shown] if inputs.labelled else None
    places, about = project(sampled, ordinary, kind, selection.random_state or 0, codes, tiers == 0)
    distances, (grid, window) = inputs.measures.distances[shown], to_grid(places)
    return MapRows(
        row=shown.tolist(),
        id=None if ids is None else [short(name) for name in ids[shown].tolist()],
        x=grid[:, 0].tolist(),
        y=grid[:, 1].tolist(),
        code=inputs.listed_codes(inputs.codes[shown]),
        rank=rank[shown].tolist(),
        distance=significant(distances, 4),
        reach=significant(np.quantile(distances, (0.02, 0.98)), 4),
        suspicion=[round(float(table.suspicion[at]), 3) if at >= 0 else None for at in judged.tolist()],
        suggested=inputs.listed_codes(np.where(known, table.suggested[judged], -1)),
        tier=tiers.tolist(),
        reason={at: str(reasons[at]) for at in np.flatnonzero(known & (reasons != "")).tolist()},
        projection=about,
        window=window,
    )
