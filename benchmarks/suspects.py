"""How well suspects find wrong human labels, beside cleanlab on the same probabilities.

``python -m benchmarks.suspects`` prints one JSON document: areas under the ROC curve for CIFAR-10N's labels.
Needs GMMATCH_DATA (see `_features`) and cleanlab.
"""

from __future__ import annotations

import json

import numpy as np
from cleanlab.rank import get_label_quality_scores
from sklearn.metrics import roc_auc_score

import gmmatch
from gmmatch.trust import judge

from . import _features


def main() -> None:
    archive, rows = _features.archive(), _features.load("train")
    truth = archive["train_labels"].astype(np.int64)
    results = {}
    for name in ("aggregate", "random1", "worst"):
        labels = archive[f"human_{name}"].astype(np.int64)
        wrong = labels != truth
        found = gmmatch.suspects(rows, labels)
        suspicion = np.empty(len(rows))
        suspicion[found.rows] = found.suspicion
        filtered = judge(rows, labels, 10, seed=0).labels
        assert filtered is not None and filtered.probabilities is not None  # noqa: PT018
        probabilities = filtered.probabilities / filtered.probabilities.sum(axis=1, keepdims=True)
        quality = {
            method: get_label_quality_scores(labels, probabilities, method=method)
            for method in ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
        }
        results[name] = {
            "wrong": round(float(wrong.mean()), 4),
            "suspects": round(found.summary()["share"], 4),
            "gmmatch": round(float(roc_auc_score(wrong, suspicion)), 4),
            **{f"cleanlab {key}": round(float(roc_auc_score(wrong, -q)), 4) for key, q in quality.items()},
        }
    print(json.dumps(results))
    names = list(results["worst"])
    print("| labels | " + " | ".join(names) + " |\n" + "|---" * (len(names) + 1) + "|")
    for name, facts in results.items():
        print(f"| {name} | " + " | ".join(str(facts[key]) for key in names) + " |")


if __name__ == "__main__":
    main()
