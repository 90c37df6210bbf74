"""What rows are compared by: the rows, scaled, and Fourier features where they spread in few directions."""

import warnings
from typing import Any

import numpy as np

from ..arrays import FloatArray, IntArray, Rows, Vector
from ..compute import kernels
from ..compute.blocks import block_rows, blocks
from ..compute.keys import draw_usable
from ..compute.runner import gather, take_rows
from ..data import ViewOf
from ..errors import InvalidParameter, brief
from ..trust import Verdict, judge
from ..trust.inputs import BANDWIDTH, FourierFeatures, typical_gap
from ..validation import as_labels, as_rows, as_seed, is_number

WEIGHT = 2.0
AUTO_FOURIER_FEATURES = 512
_SAMPLE_ROWS = 1024
FEW_DIRECTIONS = 16.0  # set by reason, not tuned: plain matching keeps most of the variance from 32 on
MOST_FEATURES = 1 << 14  # features: a row of 64 KB, and half a gigabyte for a class that is matched whole
_LARGEST_WEIGHT = 1e6  # beside which float32 still sees the rows
_BESIDE_FOURIER = 4.0  # typical distances that weigh as much as they do; of 1 to 8, tried on four sets
_FARTHEST = 1e15  # times the typical distance; squares of larger ones come near the end of float32


class MatchedRows(ViewOf):
    """Rows as they are matched: scaled, beside their random Fourier features where these are wanted.

    Computed for the rows that are read and never held for all; float32 whatever the type of the rows, so that
    the same values give the same features in float32 and float64.

    `rows`: the rows that `verdict` was found on. `verdict`: what the guard found. `fourier`: what is appended
    to each row; None: nothing.

    `means`: by class the mean of the features of its believed rows, where that is known without reading them.
    """

    def __init__(self, rows: Rows, verdict: Verdict, fourier: FourierFeatures | None = None) -> None:
        width = rows.shape[1] + (0 if fourier is None else fourier.n_features)
        super().__init__(rows, (len(rows), width), np.float32)
        # Not `verdict` itself, which has many numbers per row: a view may be sent to other machines.
        self._origin = verdict.rules.origin
        self._scale = verdict.rules.scale if fourier is None else _BESIDE_FOURIER * verdict.rules.scale
        self.fourier = fourier
        self.means: Vector | None = None
        if (
            fourier is None and verdict.means is not None
        ):  # else the features of means are not means of features
            self.means = (verdict.means - self._origin) / self._scale

    def __getitem__(self, chosen: Any, /) -> FloatArray:
        by_number = isinstance(chosen, np.ndarray) and chosen.dtype != bool and chosen.ndim == 1
        read = take_rows(self.rows, chosen) if by_number else np.atleast_2d(self.rows[chosen])
        found = np.empty((len(read), self.shape[1]), dtype=np.float32)
        step = block_rows(self.shape[1])
        for start in range(0, len(read), step):
            part = slice(start, start + step)
            kernels.scale_rows(read[part], self._origin, self._scale, _FARTHEST, found[part])
            if self.fourier is not None:
                found[part, self.rows.shape[1] :] = self.fourier(read[part])
        return found if isinstance(chosen, slice) or np.ndim(chosen) else found[0]

    def of_rows(self, point: Vector) -> Vector:
        """Return a point in the coordinates of the rows as they are matched without Fourier features."""
        scaled: Vector = (point - self._origin) / self._scale
        return scaled

    def of_known(self, point: Vector, other: Vector) -> Vector:
        """Return a point among the features; where its Fourier features are not known, those of another.

        `point`: coordinates of the rows, behind them those of these Fourier features, where they are known.
        """
        width = self.rows.shape[1]
        fourier = point[width : self.shape[1]]
        return np.concatenate([self.of_rows(point[:width]), fourier if len(fourier) else other[width:]])

    def to_known(self, point: Vector) -> Vector:
        """Return a point among the features in the coordinates of the rows, then its Fourier features."""
        width = self.rows.shape[1]
        return np.concatenate([self._origin + self._scale * point[:width], point[width:]])


def choose_fourier_features(
    rows: Rows, codes: IntArray | None, verdict: Verdict, count: str | int, seed: int
) -> FourierFeatures | None:
    """Return the Fourier features to match with, or None.

    `rows`, `codes`, `verdict`: rows, the class of each, and what the guard found on them. `count`: `off`, how
    many features to append, or `auto`: 512 where the believed rows of a class spread in few directions.
    `seed`: seed of the features. Reads a sample of 1,024 rows.
    """
    if count == "off":
        return None
    sample, own = _sample(rows, codes, verdict)
    if count == "auto" and within_dimension(sample, own) >= FEW_DIRECTIONS:
        return None
    n_features = AUTO_FOURIER_FEATURES if isinstance(count, str) else count
    return FourierFeatures.draw(verdict.rules.origin, BANDWIDTH * typical_gap(sample), n_features, seed + 1)


def spread_of(rows: Rows, codes: IntArray | None, verdict: Verdict) -> float:
    """Return in how many directions the believed rows of a class spread, by a sample."""
    return within_dimension(*_sample(rows, codes, verdict))


def within_dimension(rows: FloatArray, codes: IntArray | None) -> float:
    """Return in how many directions rows spread about the means of their classes.

    Classes that lie far apart would hide how their own rows spread. A class of which the sample has one row
    says nothing of it.
    """
    if codes is None:
        return effective_dimension(rows)
    present, dense, counts = np.unique(codes, return_inverse=True, return_counts=True)
    if len(present) < 2 or counts.max() < 2:
        return effective_dimension(rows)
    sums = np.zeros((len(present), rows.shape[1]))
    np.add.at(sums, dense, rows)
    several = counts[dense] > 1
    # The mean of few rows lies nearer to them than that of the class does: made up for.
    factor = np.sqrt(counts / np.maximum(counts - 1, 1))[dense[several], None]
    apart = (rows[several] - (sums / counts[:, None])[dense[several]]) * factor
    return effective_dimension(apart)


def effective_dimension(rows: FloatArray) -> float:
    """Return in how many directions the rows spread: (sum of the variances)^2 / sum of their squares.

    Equal variances in d directions and none elsewhere give d.

    Time: O(n^2 d) or O(n d^2), whichever is less. Meant for samples.
    """
    if not len(rows):
        return 0.0
    offsets = rows - np.add.reduce(rows, axis=0, dtype=np.float64) / len(rows)
    # Ratios alone matter: squares of squares must neither overflow nor vanish.
    offsets /= float(np.abs(offsets).max(initial=0.0)) or 1.0
    gram = offsets @ offsets.T if len(rows) < rows.shape[1] else offsets.T @ offsets
    squares = float(np.add.reduce(gram * gram, axis=None))
    return float(np.trace(gram)) ** 2 / squares if squares > 0 else 0.0


def _sample(rows: Rows, codes: IntArray | None, verdict: Verdict) -> tuple[FloatArray, IntArray | None]:
    """Return a sample of the believed rows, drawn by their values, of equal ones the first; and its classes.

    `codes`: class of each row; those of a negative one take no part.
    Where rows are many they are the first of those that taught the guard, which are held: no other is read.
    """
    believed = (verdict.tiers == 0) & (True if codes is None else codes >= 0)
    drawn = draw_usable(verdict.keys, believed, _SAMPLE_ROWS)
    _, first = np.unique(verdict.keys[drawn], return_index=True)
    drawn = drawn[np.sort(first)]
    return gather(rows, drawn), None if codes is None else codes[drawn]


def label_aware(
    X: Any, y: Any, weight: float = WEIGHT, folds: int | None = None, random_state: Any = 0
) -> FloatArray:
    """Return features that know the labels: rows with a wrong label stand apart from their class.

    The rows, moved to the middle and scaled by their typical distance to it; and beside them `weight`
    times the class probabilities of a ridge classifier, without their mean and scaled alike. The classifier
    learns the given labels, which may be wrong, and judges each row as if it had not learned from it.

    Parameters
    ----------
    X
        Rows, array-like of shape (rows, features).
    y
        Labels, one per row.
    weight
        Weight of the class probabilities.
    folds
        Ignored: every row is left out by itself. It goes with version 0.4.
    random_state
        Seed of the samples. They depend on the rows' values, not on their order.

    Returns
    -------
    features
        float32, shape (rows, features + classes). Where labels cannot be judged the last columns are zero.

    Notes
    -----
    Time: that of `gmmatch.trust.judge` and one read of the rows. Memory: the result and a sample.

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
    if folds is not None:
        warnings.warn("folds is ignored, and goes with gmmatch 0.4", DeprecationWarning, stacklevel=2)
    if not (is_number(weight) and 0 <= weight <= _LARGEST_WEIGHT):
        raise InvalidParameter(f"weight must be a number from 0 to {_LARGEST_WEIGHT:g}; got {brief(weight)}")
    verdict = judge(rows, codes, len(classes), as_seed(random_state))
    features = np.zeros((len(rows), rows.shape[1] + len(classes)), dtype=np.float32)
    features[:, : rows.shape[1]] = MatchedRows(rows, verdict)[:]
    if verdict.rules.classifier is None:
        return features
    known = verdict.class_probabilities(rows, codes)
    passed = ~(verdict.far | verdict.clumped)
    known -= np.add.reduce(known[passed], axis=0) / max(1, int(passed.sum()))
    spread = float(np.sqrt(np.mean(np.add.reduce(known[passed] ** 2, axis=1)))) if passed.any() else 0.0
    if spread > 0:  # where all probabilities are alike they say nothing
        features[:, rows.shape[1] :] = known * (weight / spread)
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
