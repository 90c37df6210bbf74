"""Loops over the values of rows that are compiled when they are first run.

NumPy needs large intermediate arrays, or many small calls, for what is one loop here. The compiled code is
kept on disk, so that only the first use after installation waits for the compiler; where no folder can be
written to, every process does. The loops run outside the interpreter's lock, so that threads run side by
side, each over blocks of its own.
"""

from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..progress import task
from ..records import FloatArray, IntArray
from .blocks import by_group

Vector = npt.NDArray[np.float64]
Keys = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_NO_CODES = np.empty(0, np.int64)
_NO_WEIGHTS = np.empty(0)


def group_distances(block: FloatArray, codes: IntArray | None, points: Vector) -> Vector:
    """Return the distance of each row of a block to the point of its group; None: to the first point."""
    found = np.empty(len(block))
    own = _NO_CODES if codes is None else codes.astype(np.int64, copy=False)
    _run("group_distances", _rows(block), _fixed(own), _fixed(points), found)
    return found


def spread_out(rows: FloatArray, first: int, draws: Vector) -> IntArray:
    """Return rows, each drawn with probability by its squared distance to the nearest of those before.

    `first`: the first of them. `draws`: for each of the others a number from 0 to 1. Where all rows equal one
    of those that are drawn already, it ends.

    >>> spread_out(np.array([[0.0], [1.0], [9.0], [1.0]]), 1, np.array([0.5, 0.5, 0.5]))
    array([1, 2, 0])
    """
    chosen = np.full(1 + len(draws), first)
    # Each difference, its square and each addition are rounded once.
    sure = 1.0 - (rows.shape[1] + 8) * float(np.finfo(np.float32 if rows.dtype == np.float32 else float).eps)
    return chosen[: _run("spread_out", _rows(rows), _fixed(draws), sure, chosen)]


def nearest_points(
    products: FloatArray, sizes: FloatArray, errors: Vector
) -> tuple[IntArray, Mask, Vector, Vector]:
    """Return the point nearest to each row, the first of those too close to tell, and where it has rivals.

    `products`: inner products of rows and points. `sizes`: squared lengths of the points, of the same type.
    `errors`: by row that of a squared distance. Also returns the two least squared distances of each row,
    less the squared length of the row.

    >>> nearest_points(np.array([[3.0, 1.0], [2.0, 2.0]]), np.array([4.0, 4.0]), np.array([0.1, 0.1]))
    (array([0, 0]), array([False,  True]), array([-2.,  0.]), array([2., 0.]))
    """
    found, unsure = np.empty(len(products), np.int64), np.empty(len(products), np.bool_)
    least, second = np.empty(len(products)), np.empty(len(products))
    _run("nearest_points", _rows(products), _fixed(sizes), _fixed(errors), found, unsure, least, second)
    return found, unsure, least, second


def nearest_moved(
    products: FloatArray,
    moved: IntArray,
    sizes: FloatArray,
    errors: Vector,
    found: IntArray,
    least: Vector,
    second: Vector,
) -> Mask:
    """Bring up to date what `nearest_points` returned, in place, after some of the points moved.

    `products`, `sizes`: those of the moved points, in their order. `moved`: by point, its place among these,
    -1 where it did not move. `errors`: by row that of all squared distances so far.

    Returns for which rows all points must be looked at; nothing is changed for these.

    >>> found, least, second = np.array([0]), np.array([-2.0]), np.array([2.0])
    >>> nearest_moved(np.array([[9.0]]), np.array([-1, 0]), np.ones(1), np.zeros(1), found, least, second)
    array([False])
    >>> found, least, second
    (array([1]), array([-17.]), array([-2.]))
    """
    unsure = np.empty(len(products), np.bool_)
    told = _rows(products), _fixed(moved), _fixed(sizes), _fixed(errors)
    _run("nearest_moved", *told, found, unsure, least, second)
    return unsure


def name_cells(
    points: FloatArray, rows: IntArray, sides: IntArray, shifts: FloatArray, width: float, factors: Keys
) -> Keys:
    """Return a hash of the cell of a grid that each of some points is in; those of one cell are equal.

    `rows`: which of the points. `sides`, `shifts`: the coordinates that the grid divides, and how far it is
    moved along each. `width`: that of a cell. `factors`: an odd number for each side.

    >>> sides, factors = np.array([1]), np.array([7], np.uint64)
    >>> points = np.array([[9.0, 0.5], [9.0, 1.5], [9.0, 2.5]], np.float32)
    >>> name_cells(points, np.arange(3), sides, np.zeros(1, np.float32), 2.0, factors)
    array([0, 0, 7], dtype=uint64)
    """
    names = np.empty(len(rows), np.uint64)
    told = _fixed(rows), _fixed(sides), _fixed(shifts), points.dtype.type(width), _fixed(factors)
    _run("name_cells", _rows(points), *told, names)
    return names


def group_sums(
    block: FloatArray, codes: IntArray | None, n_groups: int, weights: Vector | None = None
) -> tuple[Vector, Vector]:
    """Return the (weighted) sum of the rows of each group, and the sum of their weights.

    Rows are added one after the other in float64; those of a negative group to none.
    """
    sums, mass = np.zeros((n_groups, block.shape[1])), np.zeros(n_groups)
    own = _NO_CODES if codes is None else codes.astype(np.int64, copy=False)
    weight = _NO_WEIGHTS if weights is None else weights.astype(np.float64, copy=False)
    _run("group_sums", _rows(block), _fixed(own), _fixed(weight), sums, mass)
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
    own = _NO_CODES if codes is None else codes.astype(np.int64, copy=False)
    weight = _NO_WEIGHTS if weights is None else weights.astype(np.float64, copy=False)
    _run("median_sums", _rows(block), _fixed(own), _fixed(weight), _fixed(points), numbers, pull, near)
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
    _run("scale_rows", _rows(block), _fixed(origin), scale, most, found)


def clip_rows(block: FloatArray, origin: Vector, scale: float, longest: float, found: Vector) -> None:
    """Fill the first columns of `found` with (row - origin) / scale, no row longer than `longest`.

    Examples
    --------
    >>> found = np.ones((2, 3))
    >>> clip_rows(np.array([[3.0, 4.0], [0.0, 1.0]]), np.zeros(2), 1.0, 2.0, found)
    >>> found.round(9)
    array([[1.2, 1.6, 1. ],
           [0. , 1. , 1. ]])
    """
    _run("clip_rows", _rows(block), _fixed(origin), scale, longest, found)


def cosines_and_sines(angles: Vector, factor: float, found: Vector) -> None:
    """Fill `found` with the cosines of the angles and, in further columns, their sines, times a factor.

    Examples
    --------
    >>> found = np.empty((1, 4))
    >>> cosines_and_sines(np.array([[0.0, np.pi / 6]]), 2.0, found)
    >>> found.round(9) + 0.0
    array([[2.        , 1.73205081, 0.        , 1.        ]])
    """
    _run("cosines_and_sines", _fixed(angles), factor, found)


def check_and_hash(block: FloatArray, factors: Keys, fixed: Keys) -> tuple[npt.NDArray[np.bool_], Keys, Keys]:
    """Look at each value of a block once: which rows are good, and two 64-bit hashes of each row.

    `factors`: one odd number per feature, from `keys.key_factors`. `fixed`: those of `validation.row_marks`.

    Returns whether all values of a row are finite and not absurdly large, the row's key, and its mark.
    """
    good, sums = np.empty(len(block), np.bool_), np.empty(len(block), np.uint64)
    marks = np.empty_like(sums)
    _run("check_and_hash", _rows(block), _fixed(factors), _fixed(fixed), good, sums, marks)
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
    rows, nothing = _rows(rows), np.empty((0, 0), np.float32 if rows.dtype == np.float32 else np.float64)
    # As `greedy_batches` has them, so that one loop is compiled for both.
    own, products = (
        np.require(one, requirements=("C", "A", "W")) for one in (squares, nothing if gram is None else gram)
    )
    fixed = rows, _fixed(center), _fixed(start), own, weight, products, nothing
    carried = scores, theta, picks, objectives, distances
    close_calls = _run("greedy", *fixed, unit, spread, count, *carried)
    return picks, objectives, distances, close_calls


def greedy_batches(
    rows: FloatArray,
    sizes: IntArray,
    quotas: IntArray,
    center: Vector,
    start: Vector,
    weight: float,
    unit: float,
    largest: float,
    count: int,
    theta: Vector,
    offsets: FloatArray,
) -> tuple[int, IntArray, Vector, Vector]:
    """Pick rows as `greedy` does, of batches that follow each other, whose products are computed as needed.

    `sizes`, `quotas`: rows of each batch, and how many to pick of them. `largest`: squared length of a
    centred row beyond which a batch is not done, nor those after it. `offsets`: memory for the largest batch.

    Returns how many batches were done, and of all picks places in the batch, objectives and distances.
    """
    total, rows = int(quotas.sum()), _rows(rows)
    picks, objectives, distances = np.empty(total, np.int64), np.empty(total), np.empty(total)
    with np.errstate(over="ignore"):  # rows without end are longer than the largest
        near = center.astype(rows.dtype)
    fixed = rows, np.cumsum(sizes), quotas, _fixed(center), _fixed(near)
    told = _fixed(start), weight, unit, largest, count
    done = _run("greedy_batches", *fixed, *told, theta, offsets, picks, objectives, distances)
    return done, picks, objectives, distances


def greedy_groups(
    rows: FloatArray,
    firsts: IntArray,
    sizes: IntArray,
    quotas: IntArray,
    centers: Vector,
    starts: Vector,
    weight: float,
    unit: float,
    largest: float,
) -> tuple[int, IntArray, Vector, Vector]:
    """Pick rows as `greedy_batches` does, of many groups: each has a centre and a theta of its own.

    `firsts`, `sizes`, `quotas`: where the rows of each group begin, how many there are, and how many to pick.

    Returns how many groups were done, and of all picks places in the group, objectives and distances.
    """
    total, rows = int(quotas.sum()), _rows(rows)
    picks, objectives, distances = np.empty(total, np.int64), np.empty(total), np.empty(total)
    with np.errstate(over="ignore"):  # groups with such a centre are left for the caller
        near = _fixed(centers.astype(rows.dtype))
    fixed = rows, firsts, sizes, quotas, _fixed(centers), near, _fixed(starts)
    offsets = np.empty((int(sizes.max()), rows.shape[1]), rows.dtype)
    done = _run("greedy_groups", *fixed, weight, unit, largest, offsets, picks, objectives, distances)
    return done, picks, objectives, distances


def fold_scores(inputs: FloatArray, folds: IntArray, weights: FloatArray) -> FloatArray:
    """Return the product of each row with the weights of its fold, of shape (folds, inputs, outputs).

    Examples
    --------
    >>> weights = np.array([[[3.0], [4.0]], [[5.0], [6.0]]])
    >>> fold_scores(np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([0, 1]), weights)
    array([[11.],
           [17.]])
    """
    scores = np.empty((len(inputs), weights.shape[2]), weights.dtype)
    order = by_group(folds)
    given = (
        _rows(inputs),
        order,
        _fixed(folds.astype(np.int64, copy=False)),
        _rows(weights.transpose(0, 2, 1)),
    )
    _run("fold_scores", *given, scores)
    return scores


def judge_labels(
    probabilities: FloatArray, codes: IntArray, thresholds: Vector, slack: float
) -> tuple[Mask, Vector, IntArray, Mask]:
    """Tell what class probabilities say of each row's label.

    `thresholds`: by class, from which probability on it is a likely one. `slack`: rounding error of the
    probabilities, as a share of them.

    Returns whether the likeliest of a row's likely classes is another than its label; how well the best other
    class fits beside the label, from 0 to 1, with each probability measured by its class's threshold; that
    class; and whether rounding may have decided.
    """
    wrong, close = np.empty(len(codes), np.bool_), np.empty(len(codes), np.bool_)
    odds, other = np.empty(len(codes)), np.empty(len(codes), np.int64)
    given = _rows(probabilities), _fixed(codes.astype(np.int64, copy=False)), _fixed(thresholds), slack
    _run("judge_labels", *given, wrong, odds, other, close)
    return wrong, odds, other, close


def running_means(rows: FloatArray, center: Vector, count: int, total: Vector) -> tuple[Vector, Vector]:
    """Return how far the mean of all rows so far is from the centre after each row; and each row's distance.

    `count`, `total`: how many rows came before, and the sum of their offsets, which is carried on in place.

    >>> running_means(np.array([[0.0], [4.0]]), np.array([2.0]), 0, np.zeros(1))
    (array([2., 0.]), array([2., 2.]))
    """
    objectives, distances = np.empty(len(rows)), np.empty(len(rows))
    _run("running_means", _rows(rows), _fixed(center), count, total, objectives, distances)
    return objectives, distances


def _run(name: str, *arguments: Any) -> Any:
    """Run a loop, and say so where it must be compiled before."""
    loop = _loop(name)
    known = loop.overloads or _kept(loop)
    with nullcontext() if known else task("compiling loops (once)", None):
        try:
            return loop(*arguments)
        except OSError:  # the code is compiled, but there was no place to keep it
            return loop(*arguments)


@cache
def _loop(name: str) -> Any:
    from . import _clustering, _loops, _picking

    return next(getattr(module, name) for module in (_loops, _picking, _clustering) if hasattr(module, name))


def _kept(loop: Any) -> bool:
    """Tell whether compiled code of a loop is kept on disk."""
    folder, function = loop.stats.cache_path, loop.py_func
    file = f"{function.__module__.rpartition('.')[2]}.{function.__name__}-*.nbi"
    return folder is not None and any(Path(folder).glob(file))


def _rows(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return rows as the loops expect them, float32 or float64."""
    kind = np.float32 if array.dtype == np.float32 else np.float64
    return _fixed(array.astype(kind, copy=False))


def _fixed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array that is read only: one form of all inputs, so that each loop is compiled once."""
    if type(array) is not np.ndarray or not (array.flags.c_contiguous and array.flags.aligned):
        array = np.require(array, requirements=("C", "A")).view(np.ndarray)
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array
