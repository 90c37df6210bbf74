"""Loops over the values of rows, which NumPy needs large intermediate arrays or many small calls for.

They come compiled (`loops`) and run outside the interpreter's lock: threads run side by side, each over
blocks of its own. Each is refused arrays that it would read or write beyond the end of.
"""

import numpy as np

from ..arrays import FloatArray, IntArray, Keys, Mask, Vector
from ..validation import LARGEST_VALUE
from .loops import run

LINE = 16
"""Numbers per class come in lines of a multiple of this length."""


def group_distances(block: FloatArray, codes: IntArray | None, points: Vector) -> Vector:
    """Return the distance of each row of a block to the point of its group; None: to the first point."""
    found = np.empty(len(block))
    _check_room(len(block) == 0 or len(points) > 0)
    run("group_distances", block, codes, points, found)
    return found


def spread_out(rows: FloatArray, first: int, draws: Vector) -> IntArray:
    """Return rows, each drawn with probability by its squared distance to the nearest of those before.

    `first`: the first of them. `draws`: for each of the others a number from 0 to 1. Where all rows equal one
    of those that are drawn already, it ends.

    >>> spread_out(np.array([[0.0], [1.0], [9.0], [1.0]]), 1, np.array([0.5, 0.5, 0.5]))
    array([1, 2, 0])
    """
    chosen = np.full(1 + len(draws), first)
    _check_inside(chosen[:1], len(rows))
    # Each difference, its square and each addition are rounded once.
    sure = 1.0 - (rows.shape[1] + 8) * float(np.finfo(np.float32 if rows.dtype == np.float32 else float).eps)
    memory = np.empty(len(rows)), np.empty(-(-len(rows) // 256)), np.empty(rows.shape[1])
    return chosen[: run("spread_out", rows, draws, sure, chosen, *memory)]


def nearest_points(products: FloatArray, sizes: FloatArray, errors: Vector) -> tuple[IntArray, Mask, Vector]:
    """Return the point nearest to each row, the first of those too close to tell, and where it has rivals.

    `products`: inner products of rows and points. `sizes`: squared lengths of the points, of the same type.
    `errors`: by row that of a squared distance. Also returns the least squared distance of each row, less
    the squared length of the row.

    >>> nearest_points(np.array([[3.0, 1.0], [2.0, 2.0]]), np.array([4.0, 4.0]), np.array([0.1, 0.1]))
    (array([0, 0]), array([False,  True]), array([-2.,  0.]))
    """
    found, unsure = np.empty(len(products), np.int64), np.empty(len(products), np.bool_)
    least = np.empty(len(products))
    run("nearest_points", products, sizes, errors, found, unsure, least)
    return found, unsure, least


def group_sums(
    block: FloatArray, codes: IntArray | None, n_groups: int, weights: Vector | None = None
) -> tuple[Vector, Vector]:
    """Return the (weighted) sum of the rows of each group, and the sum of their weights.

    Rows are added one after the other in float64; those of a negative group to none.
    """
    sums, mass = np.zeros((n_groups, block.shape[1])), np.zeros(n_groups)
    _check_room(len(block) == 0 or (0 if codes is None else codes.max()) < n_groups)
    run("group_sums", block, codes, weights, sums, mass)
    return sums, mass


def median_sums(
    block: FloatArray, codes: IntArray | None, weights: Vector | None, points: Vector
) -> tuple[Vector, Vector, Vector]:
    """Return what a block tells about one point per group: six numbers, the pull, that of the nearest row.

    The numbers: weight; sums of weighted distances and of inverse ones; weight of the rows at the point;
    distance and weight of the nearest other row.
    """
    numbers, pull, near = np.zeros((len(points), 6)), np.zeros(points.shape), np.zeros(points.shape)
    numbers[:, 4] = np.inf
    _check_room(len(block) == 0 or (0 if codes is None else codes.max()) < len(points))
    run("median_sums", block, codes, weights, points, numbers, pull, near)
    return numbers, pull, near


def scale_rows(block: FloatArray, origin: Vector, scale: float, most: float, found: FloatArray) -> None:
    """Fill the first columns of `found` with (row - origin) / scale, no value larger than `most`.

    Examples
    --------
    >>> found = np.zeros((1, 3), np.float32)
    >>> scale_rows(np.array([[3.0, -90.0]]), np.ones(2), 2.0, 10.0, found)
    >>> found
    array([[  1., -10.,   0.]], dtype=float32)
    """
    _check_room(found.shape[1] >= len(origin))
    run("scale_rows", block, origin, scale, most, found)


def clip_rows(block: FloatArray, origin: Vector, scale: float, longest: float, found: FloatArray) -> None:
    """Fill the first columns of `found` with (row - origin) / scale, no row longer than `longest`.

    `found` is float64 or float32: what it holds is rounded once.

    Examples
    --------
    >>> found = np.ones((2, 3))
    >>> clip_rows(np.array([[3.0, 4.0], [0.0, 1.0]]), np.zeros(2), 1.0, 2.0, found)
    >>> found.round(9)
    array([[1.2, 1.6, 1. ],
           [0. , 1. , 1. ]])
    """
    _check_room(found.shape[1] >= len(origin))
    loop = "clip_rows_single" if found.dtype == np.float32 else "clip_rows"
    run(loop, block, origin, scale, longest, found)


def cosines_and_sines(angles: Vector, factor: float, found: Vector) -> None:
    """Fill `found` with the cosines of the angles and, in further columns, their sines, times a factor.

    Examples
    --------
    >>> found = np.empty((1, 4))
    >>> cosines_and_sines(np.array([[0.0, np.pi / 6]]), 2.0, found)
    >>> found.round(9) + 0.0
    array([[2.        , 1.73205081, 0.        , 1.        ]])
    """
    _check_room(found.shape[1] >= 2 * angles.shape[1])
    run("cosines_and_sines", angles, factor, found)


def check_and_hash(block: FloatArray, factors: Keys, fixed: Keys) -> tuple[Mask, Keys, Keys]:
    """Look at each value of a block once: which rows are good, and two 64-bit hashes of each row.

    `factors`: one odd number per feature, from `keys.key_factors`. `fixed`: those of `validation.row_marks`.

    Returns whether all values of a row are finite and not absurdly large, the row's key, and its mark.
    """
    good, sums = np.empty(len(block), np.bool_), np.empty(len(block), np.uint64)
    marks = np.empty_like(sums)
    run("check_and_hash", block, factors, fixed, LARGEST_VALUE, good, sums, marks)
    return good, mix(sums), marks


def mix(values: Keys) -> Keys:
    """Spread the bits of numbers (the finishing steps of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def greedy(
    rows: FloatArray,
    center: Vector,
    start: Vector,
    squares: Vector,
    weight: float,
    gram: FloatArray | None,
    unit: float,
    spread: float,
    count: int,
    scores: Vector,
    theta: Vector,
    size: int,
) -> tuple[IntArray, Vector, Vector, int]:
    """Pick rows one after the other: the best score, and where rounding may have decided, from the rows.

    `rows`, `center`, `start`: the rows, the point to match, and theta before the first pick of all.
    `squares`, `weight`: squared length of each centred row, and how much of it a row's score is reduced by.
    `gram`: inner products of the centred rows; None: the scores are good for one pick only. `unit`: rounding
    error of an inner product, as a share of the product of the norms. `spread`: square of the norm of theta
    that the errors of the scores grow with. `count`: picks made before. `scores`, `theta`: scores of the
    rows, minus infinity for those that are picked; accumulated error. Both are carried on in place.

    Returns the rows, the objective after each, the distance of each to the centre, and how many picks were
    too close to tell by their scores.
    """
    picks, objectives, distances = np.empty(size, np.int64), np.empty(size), np.empty(size)
    _check_room(size <= len(rows))
    carried = unit, spread, count, scores, theta, picks, objectives, distances
    close_calls = run("greedy", rows, center, start, squares, weight, gram, None, *carried)
    return picks, objectives, distances, close_calls


def greedy_batches(
    rows: FloatArray,
    firsts: IntArray,
    sizes: IntArray,
    quotas: IntArray,
    owners: IntArray,
    centers: Vector,
    starts: Vector,
    counts: IntArray,
    thetas: Vector,
    *,
    weight: float,
    unit: float,
    largest: float,
) -> tuple[int, IntArray, Vector, Vector]:
    """Pick rows as `greedy` does, of batches whose products are computed as needed.

    `firsts`, `sizes`, `quotas`: where the rows of each batch begin, how many there are, and how many to pick.
    `owners`: by batch whose centre, start and theta it goes by; `counts`, `thetas`: by owner how many picks
    were made before, and the accumulated error, both carried on in place. `largest`: squared length of a
    centred row beyond which a batch is not done, nor those after it.

    Returns how many batches were done, and of all picks places in the batch, objectives and distances.
    """
    total, most = int(quotas.sum()), int(sizes.max())
    kind = np.float32 if rows.dtype == np.float32 else np.float64
    picks, objectives, distances = np.empty(total, np.int64), np.empty(total), np.empty(total)
    _check_inside(owners, len(centers))
    within = (firsts >= 0) & (firsts + sizes <= len(rows)) & (quotas >= 0) & (quotas <= sizes)
    _check_room(bool(within.all()))
    memory = np.empty((most + 2, rows.shape[1]), kind), np.empty(most), np.empty(most)
    batches = firsts, sizes, quotas, owners, centers, starts, weight, unit, largest
    done = run("greedy_batches", rows, *batches, counts, thetas, *memory, picks, objectives, distances)
    return done, picks, objectives, distances


def running_means(rows: FloatArray, center: Vector, count: int, total: Vector) -> tuple[Vector, Vector]:
    """Return how far the mean of all rows so far is from the centre after each row; and each row's distance.

    `count`, `total`: how many rows came before, and the sum of their offsets, which is carried on in place.

    >>> running_means(np.array([[0.0], [4.0]]), np.array([2.0]), 0, np.zeros(1))
    (array([2., 0.]), array([2., 2.]))
    """
    objectives, distances = np.empty(len(rows)), np.empty(len(rows))
    run("running_means", rows, center, count, total, objectives, distances)
    return objectives, distances


def judge_labels(
    scores: FloatArray,
    codes: IntArray,
    factors: FloatArray,
    bias: FloatArray,
    weights: FloatArray,
    given: FloatArray,
    right: FloatArray,
    empty: FloatArray,
) -> tuple[Vector, IntArray, Vector, Vector, Vector, Vector]:
    """Return what a noise model, as `NoiseModel.tables` tells it, concludes of rows by their scores.

    Of each row: how likely its label is wrong, the likeliest other class and its probability, how likely it
    belongs to no class, and the probability of its label by the model and by the classifier alone.
    """
    (n_rows, n_classes), width = scores.shape, bias.shape[1]
    wrong, likely, outside, evidence, probability = np.empty((5, n_rows))
    suggested, memory = np.empty(n_rows, np.int64), np.empty((3, width), scores.dtype)
    _check_inside(codes, n_classes)
    _check_room(width % LINE == 0 and width > n_classes and len(factors) == len(weights) + 1)
    _check_room(given.shape[1] in (1, n_classes))
    columns = wrong, suggested, likely, outside, evidence, probability
    run("judge_labels", scores, codes, factors, bias, weights, given, right, empty, memory, *columns)
    return columns


def noise_step(
    likelihood: Vector, codes: IntArray, odds: Vector, given: Vector, right: Vector, empty: Vector
) -> tuple[Vector, Vector, Vector, Vector, Vector | None, Vector]:
    """Take one step of expectation maximisation of a noise model.

    `likelihood`: of each row by true class, in lines. `odds`: weights of the true classes. `given`, `right`,
    `empty`: the probability of each given class by true class, in lines (one for all where classes are
    many), from the class itself, and from none.

    Returns by true class the sums of its probability without the label, of the squares, and with the label;
    by given class that of the class itself and, unless classes are many, of each, in lines; and the
    probability of the label of each row.
    """
    n_classes, width = len(right), likelihood.shape[1]
    _check_inside(codes, n_classes)
    _check_room(width % LINE == 0 and width > n_classes and len(given) in (1, n_classes))
    memory, expected, squares, truth = np.empty((4, width))
    own, totals = np.empty(n_classes), np.empty(len(codes))
    counts = np.empty((n_classes, width)) if len(given) > 1 else None
    columns = expected, squares, truth, own, counts, totals
    run("noise_step", likelihood, codes, odds, given, right, empty, memory, *columns)
    return columns


def _check_inside(places: IntArray, size: int) -> None:
    """Refuse places that are not within so many."""
    _check_room(len(places) == 0 or (places.min() >= 0 and places.max() < size))


def _check_room(fits: bool) -> None:
    if not fits:
        raise IndexError("a loop would read or write beyond the end of an array")
