"""Centres of all classes in a few passes over rows that may be larger than memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, IntArray, Rows, Vector
from ..compute.blocks import group_order
from ..compute.runner import count_reads, hold_rows, runner_of, with_runner
from ..location.centers import find_centers
from ..location.geometric_median import certify, group_medians
from ..records import GeometricMedian
from ..validation import is_whole, resolve_keep
from .batches import BLOCK_ROWS, window_blocks, windows

Center = tuple[Vector, float | None]

_MEDIAN_READS = 3  # of a geometric median that starts from a sample: two or three on mixtures of Gaussians
SAMPLE_EPSILON = 1e-6  # where all rows are in the sample, as for rows in memory
STREAM_EPSILON = 1e-3  # where each further digit costs a pass over the file
_MOST_PASSES = 12
_SAMPLE_ROWS, _SAMPLE_ROWS_PER_CLASS = 16384, 2048


def stream_centers(
    center: Any,
    rows: Rows,
    codes: IntArray,
    labels: Sequence[Any],
    seed: int,
    known: list[Center] | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """Find the centre of every class.

    Geometric medians start from those of a sample, the first window of the logical order, and are
    certified on all rows: in high dimension one or two passes are enough.

    `center`: as for `GMMatching`. `rows`, `codes`: the rows and their classes; a negative one takes no part.
    `labels`: names of the classes. `seed`: seed of the logical order. `known`: the centres and their
    epsilons, where they have been found already: no pass is needed.

    Returns arrays that can be saved: `centers`, their certified `epsilons` (NaN: there is none), and the
    `reads` that it took.

    Memory: the sample (128 MB at most) and O(classes * features).
    """
    rows = with_runner(rows)
    # Where all rows are of one class, a pass need not ask for the class of each.
    grouped = None if len(labels) == 1 and codes.min() >= 0 else codes
    with count_reads(rows) as counter:
        if known is not None:
            found = known
        elif isinstance(center, str) and center == "geometric-median":
            found = [(own.point, own.epsilon) for own in _medians(rows, codes, grouped, len(labels), seed)]
        else:
            found = find_centers(center, rows, grouped, labels)
    return {
        "centers": np.stack([point for point, _ in found]),
        "epsilons": np.array([np.nan if epsilon is None else epsilon for _, epsilon in found]),
        "reads": np.array(counter.reads),
    }


def _medians(
    rows: Rows, codes: IntArray, grouped: IntArray | None, n_classes: int, seed: int
) -> list[GeometricMedian]:
    window = next(windows(len(codes), rows.shape[1], seed))
    if len(window) == len(codes):  # no more than the sample may be
        return group_medians(hold_rows(rows), grouped, n_classes, SAMPLE_EPSILON)
    sample = np.sort(window[: max(_SAMPLE_ROWS, _SAMPLE_ROWS_PER_CLASS * n_classes)])
    runner_of(rows).count.gathered += len(sample)
    starts = _sample_medians(rows[sample], codes[sample], n_classes)
    return group_medians(rows, grouped, n_classes, STREAM_EPSILON, starts=starts, max_iter=_MOST_PASSES)


def median_reads(n_rows: int, n_features: int) -> int:
    """Return how often `stream_centers` reads all rows for geometric medians: about, where rows are many.

    >>> median_reads(10_000, 24), median_reads(10**6, 24)
    (1, 3)
    """
    return 1 if n_rows <= BLOCK_ROWS * window_blocks(n_features) else _MEDIAN_READS


def sampled_medians(
    rows: Rows,
    groups: Sequence[tuple[IntArray, tuple[int, ...]]],
    codes: IntArray | None,
    sample: float | int,
) -> list[tuple[Vector, float | None]]:
    """Return the geometric medians of samples of groups, and how accurate they are for all their rows.

    `groups`: the rows of each, and the seed of its sample. `codes`: group of each row, as for
    `group_medians`. `sample`: fraction or count of the rows of each group.
    """
    points = []
    for members, seed in groups:
        wanted = min(sample, len(members)) if is_whole(sample) else sample
        drawn = np.random.default_rng(seed).choice(members, resolve_keep(wanted, len(members)), replace=False)
        runner_of(rows).count.gathered += len(drawn)
        points.append(group_medians(rows[np.sort(drawn)], None, 1)[0].point)
    return [(found.point, found.epsilon) for found in certify(rows, points, codes)]


def _sample_medians(rows: FloatArray, codes: IntArray, n_classes: int) -> Vector:
    """Return the medians of the classes in a sample; a class that it lacks starts from the median of all."""
    present = group_order(codes)[1]
    dense = np.searchsorted(present, codes)
    dense[codes < 0] = -1
    starts = np.zeros((n_classes, rows.shape[1]))
    if len(present) < n_classes:
        everyone = np.where(codes < 0, -1, 0)
        starts[:] = group_medians(rows, everyone, 1, STREAM_EPSILON)[0].point
    medians = group_medians(rows, dense, len(present), STREAM_EPSILON)
    starts[present] = [median.point for median in medians]
    return starts
