"""The map: which rows are on it, where they lie, and what is known of them."""

import importlib.util
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from ..arrays import FloatArray, IntArray, Mask, Vector
from ..compute.blocks import turns
from ..errors import MissingExtra
from ..matching.budgets import Weights, share
from ..validation import check_choice
from .inputs import Inputs, Measures, Suspicion
from .summary import MapRows, short, significant

MOST_ROWS = 20_000
_FIRST_PICKS = 1_000
GRID = 65_535
PROJECTIONS = ("classes", "pca", "umap", "auto")
_MOST_VALUES = 1 << 25  # of the rows that the components are fitted to
_EXACT_FEATURES = 1024
_UMAP_FEATURES = 50
_CLASS_FEATURES = 50  # components that classes are told apart by
_MOST_ANCHORS = 500  # classes that have a place of their own
_SURE = 0.75  # mean probability of the likeliest class, which decides how sharp the scores are
_WITHIN = 0.16  # spread within a class, in units of the distance between two neighbouring classes
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
    return ("umap" if installed else "classes") if kind == "auto" else kind


def project(
    rows: FloatArray,
    ordinary: Mask,
    kind: str,
    seed: int,
    codes: IntArray | None = None,
    believed: Mask | None = None,
) -> Projection:
    """Lay rows out in the plane.

    `rows`: finite rows, in memory. `ordinary`: rows that the components are fitted to: a few rows that are
    very far off would otherwise be all that the map shows. `kind`: `classes`, `pca` or `umap`. Rows of one or
    two numbers are shown as they are. `seed`: of what is random. `codes`, `believed`: the class of each row,
    and whether it is believed; without two believed classes, `classes` becomes `pca`.
    """
    if rows.shape[1] <= 2:
        flat = np.zeros((len(rows), 2))
        flat[:, : rows.shape[1]] = rows
        return Projection(
            flat, "the two numbers of each row" if rows.shape[1] == 2 else "the number of each row"
        )
    if kind == "umap":
        import umap

        reduced = rows
        if rows.shape[1] > _UMAP_FEATURES:
            reduced = principal_components(rows, ordinary, _UMAP_FEATURES, seed)[0]
        layout = umap.UMAP(
            n_components=2, n_neighbors=max(2, min(15, len(rows) - 1)), random_state=seed, n_jobs=1
        )
        places = np.asarray(layout.fit_transform(reduced), np.float64)
        return Projection(places, "UMAP: near rows stay near, far distances mean little")
    if kind == "classes" and codes is not None and believed is not None:
        placed = _by_class(rows, ordinary, codes, believed, seed)
        if placed is not None:
            return Projection(
                placed,
                "a linear classifier that learned the believed rows: a row lies near the class it belongs to"
                " by its numbers, and between classes where that is unclear",
            )
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


def _by_class(rows: FloatArray, ordinary: Mask, codes: IntArray, believed: Mask, seed: int) -> Vector | None:
    """Place every row at the mean of its classes' places, weighted by their probabilities.

    The probabilities are those of a linear discriminant with a shrunk covariance, on the first principal
    components, learned from believed rows alone; so a row with a wrong label lies where its numbers belong.
    None: there are fewer than two classes to tell apart, or too many.

    Time: O(rows * components * (features + classes)).
    """
    taught = believed & ordinary
    present, sizes = np.unique(codes[taught], return_counts=True)
    present = present[sizes > 1]
    if not 2 <= len(present) <= _MOST_ANCHORS:
        return None
    taught &= np.isin(codes, present)
    reduced = principal_components(rows, ordinary, _CLASS_FEATURES, seed)[0]
    own = np.searchsorted(present, codes[taught])
    sums = np.zeros((len(present), reduced.shape[1]))
    np.add.at(sums, own, reduced[taught])
    means = sums / np.bincount(own, minlength=len(present))[:, None]
    offsets = reduced[taught] - means[own]
    within = offsets.T @ offsets / len(own)
    level = float(np.trace(within)) / len(within)
    if not level > 0:
        return None
    within += 0.1 * level * np.eye(len(within))
    lengths, axes = np.linalg.eigh(within)
    white = axes / np.sqrt(lengths)
    turned, centers = reduced @ white, means @ white
    scores = turned @ centers.T - 0.5 * np.square(centers).sum(axis=1)
    chances = _sharpened(scores, taught)
    anchors, gap = _anchors(centers)
    rest = turned - chances @ centers
    spread, _ = principal_components(rest, taught, 2, seed)
    spread = spread[:, :2] / np.maximum(np.quantile(np.abs(spread[taught][:, :2]), 0.9, axis=0), 1e-12)
    far = np.maximum(np.linalg.norm(spread, axis=1, keepdims=True), 1.0)
    places: Vector = chances @ anchors + _WITHIN * gap * spread * (2.0 - 1.0 / far) / far  # less than 2 away
    return places


def _sharpened(scores: Vector, taught: Mask) -> Vector:
    """Return class probabilities from scores, at the temperature at which they are sure enough on average."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    low, high = -10.0, 10.0  # logarithms of the temperature
    for _ in range(40):
        middle = (low + high) / 2
        sure = float((1.0 / np.exp(shifted[taught] / np.exp(middle)).sum(axis=1)).mean())
        low, high = (middle, high) if sure > _SURE else (low, middle)
    weights = np.exp(shifted / np.exp(low))
    result: Vector = weights / weights.sum(axis=1, keepdims=True)
    return result


def _anchors(centers: Vector) -> tuple[Vector, float]:
    """Return a place for each class, like classes near each other, and the distance between neighbours.

    Up to eight classes lie on a circle, more on a disc; who lies where follows from the first two principal
    coordinates of the centres.
    """
    count = len(centers)
    offsets = centers - centers.mean(axis=0)
    lengths, axes = np.linalg.eigh(offsets @ offsets.T)
    seen = (axes * np.sqrt(np.maximum(lengths, 0.0)))[:, ::-1][:, :2]
    # The sign of an axis is arbitrary; one that does not change with the library is chosen.
    seen = seen * np.where(seen[np.abs(seen).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    if count <= 8:
        turns = 2 * np.pi * np.arange(count) / count
        places = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    else:
        radius = np.sqrt((np.arange(count) + 0.5) / count)
        turns = np.arange(count) * np.pi * (3 - np.sqrt(5))
        places = np.stack([radius * np.cos(turns), radius * np.sin(turns)], axis=1)
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    scaled = seen / (np.abs(seen).max() or 1.0)
    order = linear_sum_assignment(cdist(scaled, places, "sqeuclidean"))[1]
    apart = cdist(places, places)
    np.fill_diagonal(apart, np.inf)
    return places[order], float(np.median(apart.min(axis=1)))


def to_grid(places: Vector) -> tuple[IntArray, tuple[int, int, int, int]]:
    """Return places as whole numbers from 0 to `GRID`, one scale for both axes, and the usual window.

    The window holds 99 % of the rows along each axis, and a margin; the others are beyond its borders.
    """
    low, high = places.min(axis=0), places.max(axis=0)
    extent = float((high - low).max()) or 1.0
    middle = (low + high) / 2
    grid = np.rint((places - middle) / extent * GRID + GRID / 2).astype(np.int64)
    left, right = np.quantile(grid, _VIEW_QUANTILES, axis=0)
    margin = np.maximum((right - left).max() * _MARGIN, 1.0)
    (left, bottom), (right, top) = (left - margin).astype(int).tolist(), (right + margin).astype(int).tolist()
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
    inputs: Inputs,
    measures: Measures,
    evidence: Suspicion,
    shown: IntArray,
    sampled: FloatArray,
    ordinary: Mask,
    kind: str,
    seed: int,
) -> MapRows:
    """Return the columns of the map.

    `inputs`, `measures`, `evidence`: what is known of the rows. `shown`, `sampled`, `ordinary`: numbers of
    the rows on the map, the rows themselves, and which of them are not far off. `kind`, `seed`: projection,
    and the seed of what is random in it.
    """
    rank = np.full(inputs.selection.n_rows, -1, np.int64)
    rank[inputs.selection.indices] = np.arange(len(inputs.selection))
    place = np.full(inputs.selection.n_rows, -1, np.int64)
    place[evidence.table.numbers] = np.arange(len(evidence.table.numbers))
    judged = place[shown]
    known = judged >= 0
    suggested = np.where(known, evidence.table.suggested[judged], -1)
    tiers = np.where(known, evidence.tiers[judged], -1)
    ids, codes = inputs.source.ids, inputs.codes[shown] if inputs.labelled else None
    projection = project(sampled, ordinary, kind, seed, codes, tiers == 0)
    grid, window = to_grid(projection.places)
    return MapRows(
        row=shown.tolist(),
        id=None if ids is None else [short(name) for name in ids[shown].tolist()],
        x=grid[:, 0].tolist(),
        y=grid[:, 1].tolist(),
        code=inputs.listed_codes(inputs.codes[shown]),
        rank=rank[shown].tolist(),
        distance=significant(measures.distances[shown], 4),
        suspicion=[
            round(float(evidence.table.suspicion[at]), 3) if at >= 0 else None for at in judged.tolist()
        ],
        suggested=inputs.listed_codes(suggested),
        tier=tiers.tolist(),
        reason={
            at: str(evidence.reasons[judged[at]])
            for at in np.flatnonzero(known & (evidence.reasons[judged] != "")).tolist()
        },
        projection=projection.about,
        window=window,
    )
