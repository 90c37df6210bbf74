"""Centres of all classes in a few passes over rows that may be larger than memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, IntArray, Rows, Vector
from ..compute.blocks import group_order
from ..compute.runner import count_reads, hold_rows, runner_of, with_runner
from ..location.centers import find_centers
from ..location.geometric_median import certify, group_medians
from ..validation import is_whole, resolve_keep
from .batches import BLOCK_ROWS, window_blocks, windows

Center = tuple[Vector, float | None]

_MEDIAN_READS = 3  # of a geometric median that starts from a sample: two or three on mixtures of Gaussians
SAMPLE_EPSILON = 1e-6  # where all rows are in the sample, as for rows in memory
STREAM_EPSILON = 1e-3  # where each further digit costs a pass over the file
_MOST_PASSES = 12
_SAMPLE_ROWS, _SAMPLE_ROWS_PER_CLASS = 16384, 2048


@dataclass(frozen=True, eq=False)
class StreamCenters:
    """One centre per class, its certified epsilon where it has one, and the reads that it took."""

    points: Vector
    epsilons: list[float | None]
    reads: int

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return it as plain arrays."""
        return {
            "centers": self.points,
            "epsilons": np.array([np.nan if value is None else value for value in self.epsilons]),
            "reads": np.array(self.reads),
        }


def saved_centers(state: Mapping[str, npt.NDArray[Any]] | None, rows: Rows) -> StreamCenters | None:
    """Return the centres in a saved state, if there is one; what was read of the rows for it counts again."""
    if state is None:
        return None
    epsilons = [None if np.isnan(value) else float(value) for value in state["epsilons"]]
    found = StreamCenters(state["centers"], epsilons, int(state["reads"]))
    runner_of(rows).count.passes += found.reads
    return found


def stream_centers(
    center: Any,
    rows: Rows,
    codes: IntArray,
    labels: Sequence[Any],
    seed: int,
    known: list[Center] | None = None,
) -> StreamCenters:
    """Find the centre of every class.

    Geometric medians start from those of a sample, the first window of the logical order, and are
    certified on all rows: in high dimension one or two passes are enough.

    `center`: as for `GMMatching`. `rows`, `codes`: the rows and their classes; a negative one takes no part.
    `labels`: names of the classes. `seed`: seed of the logical order. `known`: the centres and their
    epsilons, where they have been found already: no pass is needed.

    Memory: the sample (128 MB at most) and O(classes * features).
    """
    rows = with_runner(rows)
    with count_reads(rows) as counter:
        points, epsilons = _find(center, rows, codes, labels, seed, known)
    return StreamCenters(np.stack(points), list(epsilons), counter.reads)


def _find(
    center: Any,
    rows: Rows,
    codes: IntArray,
    labels: Sequence[Any],
    seed: int,
    known: list[Center] | None,
) -> tuple[Sequence[Vector], Sequence[float | None]]:
    # Where all rows are of one class, a pass need not ask for the class of each.
    grouped = None if len(labels) == 1 and codes.min() >= 0 else codes
    if known is not None or not (isinstance(center, str) and center == "geometric-median"):
        found = known or find_centers(center, rows, grouped, labels)
        return [point for point, _ in found], [epsilon for _, epsilon in found]
    window = next(windows(len(codes), rows.shape[1], seed))
    sample = np.sort(window[: max(_SAMPLE_ROWS, _SAMPLE_ROWS_PER_CLASS * len(labels))])
    if len(window) == len(codes):  # no more than the sample may be
        medians = group_medians(hold_rows(rows), grouped, len(labels), SAMPLE_EPSILON)
    else:
        runner_of(rows).count.gathered += len(sample)
        starts = _sample_medians(rows[sample], codes[sample], len(labels))
        medians = group_medians(
            rows,
            grouped,
            len(labels),
            STREAM_EPSILON,
            starts=starts,
            max_iter=_MOST_PASSES,
        )
    return [median.point for median in medians], [median.epsilon for median in medians]


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
