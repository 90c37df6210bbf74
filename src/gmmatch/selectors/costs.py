"""What a selection costs, from what is known before any row is read."""

from dataclasses import dataclass

from ..matching.groups import Outline
from ..trust.classifiers import KERNEL_FEATURES, classifier_bytes
from ..trust.judge import sample_size
from ..trust.noise import MANY_CLASSES

_JUDGED_ROW_BYTES = 140  # what is found of each row, as long as it is needed
# Multiply-adds of judging, by a few measured runs: for each row of the sample and pair of the classifier's
# features, and for each row, feature and class.
_LEARNED_WORK, _JUDGED_WORK = 5, 6


@dataclass(frozen=True)
class Costs:
    """Memory and work, beside Python, the libraries and reading."""

    least_bytes: int  # without which it cannot be done
    most_bytes: int  # that are used where there is enough
    work: float  # multiply-adds
    batch_size: int | str | None = None  # rows of a batch, or `auto`; None: all rows of a class at once


def judging_costs(outline: Outline) -> Costs:
    """Return what judging takes: the sample, what is found of each row, and classifiers of many classes.

    Set by what 50,000 to 2,000,000 rows of 10 to 1,000 classes took.
    """
    n_rows, width, n_classes = outline.n_rows, outline.n_features, len(outline.sizes)
    sample = sample_size(width, n_classes)
    needed = min(n_rows, sample) * width * outline.itemsize + _JUDGED_ROW_BYTES * n_rows
    if n_classes > MANY_CLASSES:
        needed += 3 * classifier_bytes(width, n_classes)
    lifted = width + KERNEL_FEATURES
    learned = _LEARNED_WORK * float(min(n_rows, sample)) * lifted**2
    return Costs(needed, needed, learned + _JUDGED_WORK * float(n_rows) * lifted * n_classes)
