"""What is lost where the guard learns from a sample instead of all rows.

``python -m benchmarks.sample`` compares tiers on CIFAR-10 with CIFAR-10N's labels, with a sample of
16,384 of 50,000 rows, against those of the whole data. Needs GMMATCH_DATA (see `_features`).
Prints one JSON document.
"""

from __future__ import annotations

import importlib
import json

import numpy as np

SAMPLE_ROWS = 16384


def compare_tiers() -> dict[str, dict[str, float]]:
    """Return by kind of labels on which share of rows the tiers agree, and which are trusted."""
    from gmmatch.trust import judge

    learning = importlib.import_module("gmmatch.trust.judge")  # the name in the package is the function

    from . import _features

    archive, rows = _features.archive(), _features.load("train")
    truth = archive["train_labels"].astype(np.int64)
    results = {}
    for name in ("clean", "aggregate", "random1", "worst"):
        labels = truth if name == "clean" else archive[f"human_{name}"].astype(np.int64)
        whole = judge(rows, labels, 10, seed=0)
        usual, usual_per_feature = learning._SAMPLE_ROWS, learning._ROWS_PER_FEATURE
        learning._SAMPLE_ROWS, learning._ROWS_PER_FEATURE = SAMPLE_ROWS, 1
        found = judge(rows, labels, 10, seed=0)
        learning._SAMPLE_ROWS, learning._ROWS_PER_FEATURE = usual, usual_per_feature
        assert whole.sample is None and found.sample == SAMPLE_ROWS  # noqa: PT018
        right = labels == truth
        results[name] = {
            "agree": round(float((whole.tiers == found.tiers).mean()), 4),
            "trusted alike": round(float(((whole.tiers == 0) == (found.tiers == 0)).mean()), 4),
            "right of trusted, whole": round(float(right[whole.tiers == 0].mean()), 4),
            "right of trusted, sample": round(float(right[found.tiers == 0].mean()), 4),
            "trusted, whole": round(float((whole.tiers == 0).mean()), 4),
            "trusted, sample": round(float((found.tiers == 0).mean()), 4),
        }
    return results


if __name__ == "__main__":
    print(json.dumps(compare_tiers()))
