"""Features that know the labels: the rows beside what a head that never saw a row's label makes of it."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..compute import kernels
from ..compute.blocks import block_rows, blocks
from ..compute.keys import draw_usable, gather, take_rows
from ..compute.passes import PerRow
from ..errors import InvalidParameter
from ..records import FloatArray, IntArray
from ..trust.guard import FOLDS, Verdict, judge
from ..trust.head import nearest_of
from ..trust.lift import BANDWIDTH, Lift, effective_dimension, typical_gap
from ..trust.rules import Means
from ..validation import as_labels, as_rows, as_seed, is_number, is_whole

Vector = npt.NDArray[np.float64]

WEIGHT = 2.0
AUTO_LIFT = 512
_SAMPLE_ROWS = 1024
_FEW_DIRECTIONS = 16.0  # set by reason, not tuned: plain matching keeps most of the variance from 32 on
_MOST_LIFTED = 1 << 14  # features: a row of 64 KB, and half a gigabyte for a class that is matched whole
_LARGEST_WEIGHT = 1e6  # beside which float32 still sees the rows
_BESIDE_LIFT = 4.0  # typical distances that count as much as the lift; of 1 to 8, tried on four sets
_FARTHEST = 1e15  # times the typical distance; squares of larger ones come near the end of float32


class MatchedRows:
    """Rows as they are matched: scaled, beside their lift and what the labels say of them.

    Computed for the rows that are read and never held for all. Takes the place of an array for readers
    that slice it or index it with row numbers.

    `rows`: the rows that `verdict` was found on. `verdict`: what the guard found. Class probabilities are
    appended where labels were judged; where classes are many, those of the nearest to a row's own, for which
    `codes` has the class of each row. `lift`: what is appended to each row; None: nothing. `weight`: that of
    the class probabilities beside the rows.

    `means`: by class the mean of the features of its trusted rows, where that is known without reading them.
    """

    dtype = np.dtype(np.float32)
    itemsize = 4
    ndim = 2

    def __init__(
        self,
        rows: FloatArray,
        verdict: Verdict,
        lift: Lift | None = None,
        weight: float = WEIGHT,
        codes: IntArray | None = None,
    ) -> None:
        # Not `verdict` itself, which has many numbers per row: a view may be sent to other machines.
        self.rows = rows
        empty = np.empty((0, rows.shape[1]), rows.dtype), verdict.origin, verdict.scale, _FARTHEST
        kernels.scale_rows(*empty, np.empty(empty[0].shape, np.float32))  # compiled before threads need it
        self._origin = verdict.origin
        self._scale = verdict.scale if lift is None else _BESIDE_LIFT * verdict.scale
        self._lift = lift
        self._head = verdict.head
        self.labelled = verdict.head is not None
        width = rows.shape[1] + (0 if lift is None else lift.n_features)
        self._lifted = slice(rows.shape[1], width)
        if verdict.head is not None:
            assert verdict.labels is not None
            assert verdict.folds is not None
            self._folds = PerRow(verdict.folds)
            kept = verdict.labels.probabilities
            self._kept = None if kept is None else PerRow(kept)
            nearest = verdict.head.nearest if codes is not None else None
            self._nearest, self._codes = nearest, None if codes is None else PerRow(codes)
            self._mean = verdict.labels.mean if nearest is None else np.zeros(1)
            # Where all probabilities are alike they say nothing.
            self._factor = weight / verdict.labels.scale if verdict.labels.scale > 0 else 0.0
            width += verdict.head.weights.shape[2] if nearest is None else nearest.shape[1]
        self.shape = (len(rows), width)
        self.means = None if lift is not None or verdict.means is None else self._features_of(verdict.means)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, chosen: Any) -> FloatArray:
        """Return the features of some rows, float32 whatever the type of the rows.

        One type for all, so that the same values give the same features in float32 and float64.
        """
        numbers = self._numbers(chosen)
        found = np.empty((numbers.size, self.shape[1]), dtype=np.float32)
        by_number = isinstance(chosen, np.ndarray) and chosen.dtype != bool and chosen.ndim == 1
        read = take_rows(self.rows, chosen) if by_number else np.atleast_2d(self.rows[chosen])
        step = block_rows(self.shape[1])
        for start in range(0, len(read), step):
            part = slice(start, start + step)
            kernels.scale_rows(read[part], self._origin, self._scale, _FARTHEST, found[part])
            if self._lift is not None:
                found[part, self._lifted] = self._lift(read[part])
            if self._head is not None:
                told = self._probabilities(read[part], numbers.ravel()[part])
                found[part, self._lifted.stop :] = (told - self._mean) * self._factor
        return found if numbers.ndim else found[0]

    def _features_of(self, means: Means) -> Vector:
        """Return the features of means, which are the means of the features where nothing is lifted."""
        scaled = (means.rows - self._origin) / self._scale
        return np.hstack([scaled, (means.probabilities - self._mean) * self._factor])

    def _probabilities(self, rows: FloatArray, numbers: IntArray) -> Any:
        assert self._head is not None
        folds = self._folds[numbers].astype(np.int64)
        if self._nearest is None or self._codes is None:
            return self._head.probabilities(rows, folds) if self._kept is None else self._kept[numbers]
        codes = np.maximum(self._codes[numbers], 0)
        if self._kept is not None:
            return nearest_of(self._kept[numbers], self._nearest[codes])
        return self._head.among_nearest(rows, folds, codes)

    def _numbers(self, chosen: Any) -> IntArray:
        """Return the row numbers that an index means."""
        if isinstance(chosen, slice):
            return np.arange(*chosen.indices(len(self)))
        numbers = np.asarray(chosen)
        return np.flatnonzero(numbers) if numbers.dtype == bool else numbers % len(self)

    def to_rows(self, point: Vector) -> Vector:
        """Return a point among the features in the coordinates of the rows."""
        return self._origin + self._scale * point[: self.rows.shape[1]]


def check_lift(lift: str | int) -> None:
    """Refuse a lift that would take the memory of the machine."""
    if not isinstance(lift, str) and lift > _MOST_LIFTED:
        raise InvalidParameter(f"lift must be at most {_MOST_LIFTED:,} features; got {lift:,}")


def choose_lift(rows: FloatArray, verdict: Verdict, lift: str | int, seed: int) -> Lift | None:
    """Return the lift to match with, or None.

    `rows`, `verdict`: rows, and what the guard found on them. `lift`: `off`, how many features to append, or
    `auto`: 512 features where the trusted rows spread in few directions, or the lifted head judges labels
    better; of many rows with labels the latter alone. `seed`: seed of the lift.
    """
    if lift == "off" or (lift == "auto" and _read_thrice(verdict)):
        return None
    sample = gather(rows, _drawn(verdict))
    if lift == "auto" and not verdict.lifted and effective_dimension(sample) >= _FEW_DIRECTIONS:
        return None
    n_features = AUTO_LIFT if isinstance(lift, str) else lift
    return Lift.draw(verdict.origin, BANDWIDTH * typical_gap(sample), n_features, seed + 1)


def _read_thrice(verdict: Verdict) -> bool:
    """Tell whether many rows were judged by a linear head: their targets are known from the same read.

    Those of a lift would take another read of all rows.
    """
    return verdict.sample is not None and verdict.head is not None and not verdict.lifted


def _drawn(verdict: Verdict) -> IntArray:
    """Return a random sample of the trusted rows, drawn by their values; of equal rows the first alone.

    Where rows are many they are the first of those that taught the guard, which are held: no other is read.
    """
    if verdict.sample is not None:
        return draw_usable(verdict.keys, verdict.tiers == 0, _SAMPLE_ROWS)
    trusted = np.flatnonzero(verdict.tiers == 0)
    _, first = np.unique(verdict.keys[trusted], return_index=True)
    drawn: IntArray = trusted[first[:_SAMPLE_ROWS]]
    return drawn


def label_aware(
    X: Any, y: Any, weight: float = WEIGHT, folds: int = FOLDS, random_state: Any = 0
) -> FloatArray:
    """Return features that know the labels: rows with a wrong label stand apart from their class.

    The rows, moved to the middle and scaled by their typical distance to it; and beside them `weight`
    times the class probabilities of a linear head, without their mean and scaled alike. The head is
    fitted to the given labels, which may be wrong, on rows that are not gross outliers; no row's
    probabilities come from a head that saw its label.

    Parameters
    ----------
    X
        Rows, array-like of shape (rows, features).
    y
        Labels, one per row.
    weight
        Weight of the class probabilities.
    folds
        Parts that the rows are divided into; each is judged by a head fitted on the others.
    random_state
        Seed of the folds. They depend on the rows' values, not on their order.

    Returns
    -------
    features
        float32, shape (rows, features + classes). Where labels cannot be judged (one class only, or
        fewer than five rows per class on average) the last columns are zero.

    Notes
    -----
    Time: that of `gmmatch.trust.judge` and one pass over the rows. Memory: the result, a sample, and
    8 * folds * features * (features + 2 * classes) bytes.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat(["cat", "dog"], 100)
    >>> rows = rng.normal(size=(200, 8)) + 3.0 * (labels == "dog")[:, None]
    >>> gmmatch.label_aware(rows, labels).shape
    (200, 10)
    """
    rows = as_rows(X)
    classes, codes = as_labels(y, len(rows), "y")
    if not is_whole(folds) or folds < 2:
        raise InvalidParameter(f"folds must be a whole number of at least 2; got {folds!r}")
    if not (is_number(weight) and 0 <= weight <= _LARGEST_WEIGHT):
        raise InvalidParameter(f"weight must be a number from 0 to {_LARGEST_WEIGHT:g}; got {weight!r}")
    verdict = judge(rows, codes, len(classes), as_seed(random_state), int(folds))
    features = np.zeros((len(rows), rows.shape[1] + len(classes)), dtype=np.float32)
    matched = MatchedRows(rows, verdict, weight=float(weight))[:]
    features[:, : matched.shape[1]] = matched
    return features


def unit_rows(rows: FloatArray) -> FloatArray:
    """Return the rows scaled to length one; rows of zeros stay as they are."""
    scaled = np.empty_like(rows, subok=False)
    for block in blocks(rows):
        exact = rows[block].astype(np.float64)
        lengths = np.sqrt(np.add.reduce(exact * exact, axis=1))
        lengths[lengths == 0] = 1.0
        scaled[block] = exact / lengths[:, None]
    return scaled
