"""How well suspects find wrong labels, beside cleanlab's usual workflow and cleanlab on our probabilities.

``python -m benchmarks.suspects`` measures every cell (set, noise, seed) once, keeps it in a file of JSON
lines, and writes the page with all of them. Needs GMMATCH_DATA (see `_features`) and cleanlab; `--only`
restricts what is measured, so that the work can be done in pieces. `--reuse` takes what logistic regression
found, which costs most and does not depend on this package, from the cells of an earlier run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import gmmatch
from gmmatch.compute.keys import row_keys
from gmmatch.trust import Suspects, find_copies, judge, suspects_from

from ._noisy_cells import SEEDS, SETS, Labels, Mask, Rows, case
from ._suspects_page import page

SCORES = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
SMALL = ("digits", "letters")
COPIES = 0.3


def logistic(rows: Rows, labels: Labels, seed: int) -> npt.NDArray[np.float64]:
    """Return probabilities by 5-fold logistic regression on the embeddings, cleanlab's usual workflow."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    model, folds = LogisticRegression(), StratifiedKFold(5, shuffle=True, random_state=seed)
    return np.asarray(cross_val_predict(model, rows, labels, cv=folds, method="predict_proba"))


def _told(wrong: Mask, scores: npt.NDArray[np.float64]) -> list[float]:
    from sklearn.metrics import average_precision_score, roc_auc_score

    values = roc_auc_score(wrong, scores), average_precision_score(wrong, scores)
    return [round(float(value), 4) for value in values]


def measure(name: str, noise: str, seed: int, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return what is found in one cell: area under the ROC curve and average precision by method.

    `before`: the cell in an earlier run, whose figures of logistic regression stand.
    """
    from cleanlab.rank import get_label_quality_scores

    rows, labels, wrong = case(name, noise, seed)
    found, ours = judged(rows, labels, seed)
    suspicion = np.empty(len(rows))
    suspicion[found.rows] = found.suspicion
    results = {"gmmatch": _told(wrong, suspicion)}
    sources = {"ours": ours}
    if before is None:
        sources = {"logistic": logistic(rows, labels, seed), "ours": ours}
    else:
        results |= {key: told for key, told in before["results"].items() if key.startswith("logistic")}
    for source, probabilities in sources.items():
        for score in SCORES:
            quality = get_label_quality_scores(labels, probabilities, method=score)
            results[f"{source} {score}"] = _told(wrong, -quality)
    told = found.summary()["wrong_labels"]
    return {
        "set": name,
        "noise": noise,
        "seed": seed,
        "rows": len(rows),
        "wrong": round(float(wrong.mean()), 4),
        "estimate": round(told["estimate"], 4),
        "interval": [round(share, 4) for share in told["interval"]],
        "moved": moved(rows, labels, wrong, found, seed) if seed == 0 or name in SMALL else None,
        "results": results,
    }


def judged(rows: Rows, labels: Labels, seed: int) -> tuple[Suspects, npt.NDArray[np.float64]]:
    """Return what `gmmatch.suspects` returns, and the probabilities that it is based on."""
    keys, classes = row_keys(rows, seed), np.arange(int(labels.max()) + 1)
    copies = find_copies(rows, keys, np.ones(len(rows), dtype=bool))
    verdict = judge(rows, labels, len(classes), seed, keys=keys)
    probabilities = verdict.class_probabilities(rows, labels)
    found = suspects_from(verdict, rows, labels, classes, copies)
    return found, probabilities / probabilities.sum(axis=1, keepdims=True)


def moved(rows: Rows, labels: Labels, wrong: Mask, before: Suspects, seed: int) -> float:
    """Return by how much of the ranks 30 % copies of five harmless rows move a wrong label down at most."""
    rng = np.random.default_rng([seed, 30])
    harmless = rng.permutation(np.flatnonzero(~wrong))[:5]
    sources = rng.choice(harmless, round(COPIES * len(rows)))
    jitter = 0.001 * rows.std(axis=0).mean() * rng.standard_normal((len(sources), rows.shape[1]))
    copies = rows[sources] + (jitter * (rng.random(len(sources)) < 0.5)[:, None]).astype(np.float32)
    among = gmmatch.suspects(
        np.concatenate([rows, copies]), np.concatenate([labels, labels[sources]]), random_state=seed
    )
    places = [np.argsort(found.rows)[np.flatnonzero(wrong)] / len(found) for found in (before, among)]
    return round(float((places[1] - places[0]).max()), 5)


def cells(seeds: list[int], only: list[str] | None) -> Iterator[tuple[str, str, int]]:
    """Yield the cells, those of cheap sets first."""
    for name in reversed(SETS):
        for seed in seeds:
            for noise in SETS[name]:
                if only is None or {name, noise, f"{name}:{noise}"} & set(only):
                    yield name, noise, seed


def read(file: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Return the cells that a run wrote."""
    found = [json.loads(line) for line in file.read_text().splitlines()]
    return {(cell["set"], cell["noise"], cell["seed"]): cell for cell in found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--only", nargs="+", help="sets, kinds of noise, or both as SET:NOISE")
    parser.add_argument("--cells", type=Path, default=Path("out/suspects.jsonl"))
    parser.add_argument("--reuse", type=Path, help="cells of an earlier run")
    parser.add_argument("--page", type=Path, help="write the page there")
    asked = parser.parse_args()
    asked.cells.parent.mkdir(parents=True, exist_ok=True)
    asked.cells.touch()
    known, before = read(asked.cells), {} if asked.reuse is None else read(asked.reuse)
    for name, noise, seed in cells(asked.seeds, asked.only):
        key = (name, noise, seed)
        if key not in known:
            known[key] = measure(name, noise, seed, before.get(key))
            with asked.cells.open("a") as file:
                file.write(json.dumps(known[key]) + "\n")
            print(json.dumps(known[key]), flush=True)
    if asked.page is not None:
        order = [known[key] for key in cells(asked.seeds, None) if key in known]
        asked.page.write_text(page(order), encoding="utf-8")


if __name__ == "__main__":
    main()
