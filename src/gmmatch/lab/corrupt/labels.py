"""Wrong labels on purpose: symmetric, to the next class, by a transition matrix, by the row itself."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from ...arrays import IntArray
from ...errors import InvalidInput, InvalidParameter
from ...validation import as_labels, as_rows, check_parameters
from ._draw import as_generator, check_kind, check_share, count_of, draw_rows, draw_weighted

LABEL_KINDS: tuple[str, ...] = ("symmetric", "pair", "matrix", "instance")
_OWN_PARAMETERS = {"matrix": "matrix", "instance": "features"}
# How much single rows' chances of being wrong differ around the share, in instance-dependent noise.
_INSTANCE_DEVIATION = 0.1


def corrupt_labels(
    labels: Any,
    share: float | None = 0.2,
    kind: str = "symmetric",
    rng: int | np.random.Generator | None = 0,
    *,
    classes: Any = None,
    matrix: Any = None,
    features: Any = None,
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Give exactly the rounded share of the rows a wrong label.

    Parameters
    ----------
    labels
        One class per row, whole numbers or text. Never modified.
    share
        Fraction of the rows to mislabel, in [0, 1]. For ``kind="matrix"`` None means the share that the
        matrix itself implies.
    kind
        ``"symmetric"``: any other class, all equally likely. ``"pair"``: the next class in order, the
        last one becoming the first. ``"matrix"``: rows go wrong in proportion to one minus their
        class's diagonal entry, and the rest of that row of the matrix says where to.
        ``"instance"``: the wrong class depends on the row's features, through one random projection per
        class, and the chance of being wrong differs from row to row (Xia et al. 2020, part-dependent
        label noise), so that similar rows are mislabelled alike.
    rng
        A seed or a Generator.
    classes
        All classes there are, in order; by default the sorted ones that occur.
    matrix
        For ``"matrix"``: entry (i, j) is the probability that class i is labelled j; rows sum to one.
    features
        For ``"instance"``: one row of numbers per label.

    Returns
    -------
    corrupted
        A copy with wrong labels, of the same type and shape.
    mask
        True where the label is wrong now.

    Examples
    --------
    >>> import numpy as np
    >>> noisy, mask = corrupt_labels(np.repeat([0, 1, 2], 10), share=0.2)
    >>> int(mask.sum()), int((noisy != np.repeat([0, 1, 2], 10)).sum())
    (6, 6)
    >>> corrupt_labels(["cat", "dog", "owl"], share=1, kind="pair")[0].tolist()
    ['dog', 'owl', 'cat']
    """
    if hasattr(labels, "detach"):
        labels = labels.detach().cpu()
    array: npt.NDArray[Any] = np.asarray(labels)
    name = check_kind(kind, LABEL_KINDS)
    given = {"matrix": matrix, "features": features}
    _check_own(name, {key for key, value in given.items() if value is not None})
    known, codes = _encode(array, classes)
    generator = as_generator(rng)
    if share is None and name != "matrix":
        raise InvalidParameter(f"share must be a fraction in [0, 1] for kind {name!r}; got None")
    count = 0 if share is None else count_of(check_share(share), codes.size)
    if len(known) < 2 and (count or share is None):
        (only,) = known.tolist()
        raise InvalidInput(f"labels hold one class only ({only!r}); a wrong label needs a second class")
    if name == "matrix":
        rows, wrong = _by_matrix(codes, _as_matrix(matrix, len(known)), share, generator)
    elif name == "instance":
        rows, wrong = _by_instance(codes, as_rows(features, "features"), len(known), count, generator)
    else:
        rows = draw_rows(codes.size, count, generator)
        shift = generator.integers(1, len(known), count) if name == "symmetric" and count else 1
        wrong = (codes[rows] + shift) % len(known)
    corrupted = array.copy()
    corrupted.reshape(-1)[rows] = known[wrong]
    mask = np.zeros(codes.size, dtype=bool)
    mask[rows] = True
    return corrupted, mask


def _check_own(kind: str, given: set[str]) -> None:
    """Refuse a parameter that belongs to another kind, and miss the one that this kind needs."""
    own = _OWN_PARAMETERS.get(kind)
    check_parameters(given, ["classes", *([own] if own else [])], f"label noise of kind {kind!r}")
    if own and own not in given:
        raise InvalidParameter(f"label noise of kind {kind!r} needs the parameter {own!r}")


def _encode(array: npt.NDArray[Any], classes: Any) -> tuple[npt.NDArray[Any], IntArray]:
    """Return all classes in order, in the labels' own type, and each row's position among them."""
    present, codes = as_labels(array, array.shape[0] if array.ndim else 0)
    if not codes.size:
        raise InvalidInput("labels are empty; expected one class per row")
    if classes is None:
        return present.astype(array.dtype), codes
    known, order = as_labels(classes, len(np.asarray(classes)), "classes")
    if known.size < order.size:
        raise InvalidInput("classes must name each class once")
    unknown = ~np.isin(present, known)
    if unknown.any():
        raise InvalidInput(f"labels hold {present[unknown][0]!r}, which is not among the given classes")
    place = np.argsort(order)[np.searchsorted(known, present)]
    ordered = known[order]
    if array.dtype.kind in "US" and ordered.dtype.itemsize > array.dtype.itemsize:
        raise InvalidInput(
            f"labels of type {array.dtype} cannot hold the longest of the given classes; widen their type"
        )
    return ordered.astype(array.dtype), place[codes].astype(np.int64)


def _as_matrix(matrix: Any, n_classes: int) -> npt.NDArray[np.float64]:
    transition = as_rows(matrix, "matrix").astype(np.float64)
    if transition.shape != (n_classes, n_classes):
        raise InvalidInput(
            f"matrix has shape {transition.shape}; expected ({n_classes}, {n_classes}), one row per class"
        )
    sums = transition.sum(axis=1)
    wrong = (transition < 0).any(axis=1) | (np.abs(sums - 1) > 1e-6)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInput(
            f"row {row} of matrix sums to {sums[row]:.6g} with smallest entry {transition[row].min():.6g};"
            " expected probabilities that sum to one"
        )
    return transition


def _by_matrix(
    codes: IntArray, transition: npt.NDArray[np.float64], share: float | None, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Draw the rows to mislabel by their class's error rate, and each one's class from its matrix row."""
    moves = transition.copy()
    np.fill_diagonal(moves, 0)
    rates = moves.sum(axis=1)
    weights = rates[codes]
    implied = weights.mean() if share is None else share
    rows = draw_weighted(weights, count_of(float(implied), codes.size), rng)
    wrong = np.empty(rows.size, dtype=np.int64)
    for code in np.unique(codes[rows]):
        members = codes[rows] == code
        wrong[members] = rng.choice(len(rates), int(members.sum()), p=moves[code] / rates[code])
    return rows, wrong


def _by_instance(
    codes: IntArray, features: npt.NDArray[Any], n_classes: int, count: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Draw rows with uneven chances, and send each to the class that its own features point to.

    One product of the drawn rows of a class with a random (features, classes) matrix each.
    """
    if len(features) != codes.size:
        raise InvalidInput(
            f"features has {len(features)} rows for {codes.size} labels; expected one per label"
        )
    if count == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    share = count / codes.size
    low, high = ndtr(-share / _INSTANCE_DEVIATION), ndtr((1 - share) / _INSTANCE_DEVIATION)
    chance = share + _INSTANCE_DEVIATION * ndtri(rng.uniform(low, high, codes.size))
    rows = draw_weighted(np.clip(chance, 1e-12, 1), count, rng)
    drawn = features[rows].astype(np.float64)
    drawn -= drawn.mean(axis=0)
    deviation = drawn.std(axis=0)
    drawn /= np.where(deviation > 0, deviation, 1)
    wrong = np.empty(rows.size, dtype=np.int64)
    for code in range(n_classes):
        projection = rng.standard_normal((features.shape[1], n_classes))
        members = np.flatnonzero(codes[rows] == code)
        scores = drawn[members] @ projection
        scores[:, code] = -np.inf
        # The largest of scores plus Gumbel noise is a draw from their softmax.
        wrong[members] = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    return rows, wrong
