"""What learners make of the picks: the default against an earlier version and other ways, on noisy pools.

``python -m benchmarks.teach --features FOLDER --out FILE [--old SOURCES] [--seeds 0 1 2 3 4]
[--scenarios NAME ...] [--methods NAME ...] [--keeps 0.02 0.05 0.1 0.3 0.8] [--page PAGE]``

FOLDER holds one NAME.npz per data set, with arrays X and y, where there are such X_oos (rows of no class) and
human_worst (labels that people gave). SOURCES is the `src` folder of another version: its default is measured
as `old`, in a process of its own. Appends one JSON line per cell to FILE and skips those that are there, so
that it can be stopped and started again. Then it prints the differences to `old`, by scenario and on average,
and writes all cells to PAGE.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from gmmatch import corrupt

Rows = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]

SCENARIOS = (
    "letters/none", "letters/symmetric-20", "digits/symmetric-20", "digits/symmetric-40",
    "digits4/symmetric-20", "breast_cancer/none", "breast_cancer/symmetric-20", "clinc_train/none",
    "clinc_train/symmetric-20",
    "clinc_train/open-set", "cifar10_train/none", "cifar10_train/symmetric-40", "cifar10_train/pair-30",
    "cifar10_train/human", "cifar10_train/near-duplicates", "cifar10_train/tail", "letters/tail",
)  # fmt: skip
METHODS: dict[str, dict[str, Any]] = {
    "default": {"method": "gm-matching"},
    "residual": {"method": "gm-matching", "step": "residual"},
    "random": {"method": "random"},
    "herding+guard": {"method": "herding", "guard": "auto"},
    "small-loss": {"method": "small-loss"},
    "cleanlab+matching": {"method": "gm-matching", "guard": "off"},
    "cleanlab+facility-location": {"method": "facility-location"},
    "cleanlab+random": {"method": "random"},
}
LEARNERS = ("logistic", "neighbours", "network")
KEEPS = (0.02, 0.05, 0.1, 0.3, 0.8)
_POOL, _TEST = 6_000, 4_000
_TABLES = 64  # columns up to which rows are scaled by column
_COMPONENTS = 200  # that regression and network see of wider rows
_STRENGTHS = (0.003, 0.03, 0.3)
_TUNING_ROWS = 1_200
_TAIL = 50  # times as many rows has the largest class as the smallest


class Scene:
    """A pool with given labels, and clean test rows."""

    def __init__(self, folder: Path, scenario: str, seed: int) -> None:
        name, damage = scenario.split("/")
        rng = np.random.default_rng([seed, 0x7465616368])
        with np.load(folder / f"{name.replace('digits4', 'digits')}.npz") as file:
            found = {key: file[key] for key in file.files}
        rows, truth = found["X"].astype(np.float32), np.unique(found["y"], return_inverse=True)[1]
        order = rng.permutation(len(rows))
        n_pool = min(_POOL, int(0.7 * len(rows)))
        pool, test = order[:n_pool], order[n_pool : n_pool + _TEST]
        self.classes = int(truth.max()) + 1
        if name == "digits4":
            middle = rows[pool].mean(axis=0)
            rows = (rows - middle) @ np.linalg.svd(rows[pool] - middle, full_matrices=False)[2][:4].T
        elif rows.shape[1] <= _TABLES:
            spread = rows[pool].std(axis=0)
            rows = (rows - rows[pool].mean(axis=0)) / np.where(spread > 1e-3 * spread.max(), spread, 1.0)
        rows = rows.astype(np.float32)
        self.rows, self.labels, self.test, self.truth = rows[pool], truth[pool], rows[test], truth[test]
        self.balanced = damage == "tail"
        self._damage(
            damage, {key: values[pool] for key, values in found.items() if key == "human_worst"}, found, rng
        )

    def _damage(
        self, damage: str, human: dict[str, Any], found: dict[str, Any], rng: np.random.Generator
    ) -> None:
        seed = int(rng.integers(1 << 31))
        if damage.startswith(("symmetric", "pair")):
            kind, percent = damage.split("-")
            self.labels = corrupt.corrupt_labels(self.labels, int(percent) / 100, kind, rng=seed)[0]
        elif damage == "human":
            self.labels = human["human_worst"].astype(np.int64)
        elif damage == "open-set":
            others = found["X_oos"][:600].astype(np.float32)
            self.rows = np.vstack([self.rows, others])
            self.labels = np.concatenate([self.labels, rng.integers(0, self.classes, len(others))])
        elif damage == "near-duplicates":
            order, few = rng.permutation(len(self.rows)), len(self.rows) // 50
            copies, copied = (
                order[few : few + 3 * len(order) // 10],
                rng.choice(order[:few], 3 * len(order) // 10),
            )
            noise = rng.normal(size=(len(copies), self.rows.shape[1])) * 1e-3 * self.rows.std()
            self.rows[copies], self.labels[copies] = self.rows[copied] + noise, self.labels[copied]
            self.labels = corrupt.corrupt_labels(self.labels, 0.2, "symmetric", rng=seed)[0]
        elif damage == "tail":
            largest = np.bincount(self.labels).max()
            sizes = largest * float(_TAIL) ** (-np.arange(self.classes) / (self.classes - 1))
            parts = [np.flatnonzero(self.labels == code) for code in range(self.classes)]
            kept = np.concatenate([own[: max(5, int(size))] for own, size in zip(parts, sizes, strict=True)])
            self.rows, self.labels = self.rows[kept], self.labels[kept]
            self.labels = corrupt.corrupt_labels(self.labels, 0.2, "symmetric", rng=seed)[0]

    def reduced(self) -> tuple[Rows, Rows]:
        """Return pool and test rows by their principal components, where they are wide."""
        if self.rows.shape[1] <= 256:
            return self.rows, self.test
        middle = self.rows.mean(axis=0)
        turn = np.linalg.eigh((self.rows - middle).T @ (self.rows - middle))[1][:, ::-1][:, :_COMPONENTS]
        return (self.rows - middle) @ turn, (self.test - middle) @ turn


def score(scene: Scene, views: tuple[Rows, Rows], picks: Labels, seed: int) -> dict[str, float]:
    """Return the accuracy, in per cent, of each learner that is taught the picks."""
    picks = np.sort(picks)
    labels, kept, test = scene.labels[picks], views[0][picks], views[1]
    middle, spread = kept.mean(axis=0), max(float(kept.std(axis=0).mean()), 1e-9)
    kept, test = (kept - middle) / spread, (test - middle) / spread
    near = _unit(scene.test) @ _unit(scene.rows[picks]).T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = MLPClassifier((64,), max_iter=80, learning_rate_init=3e-3, random_state=seed).fit(
            kept, labels
        )
        guesses = {
            "logistic": _logistic(kept, labels, _tuned(kept, labels)).predict(test),
            "neighbours": _vote(near, labels, scene.classes),
            "network": network.predict(test),
        }
    return {name: 100 * _accuracy(guess, scene.truth, scene.balanced) for name, guess in guesses.items()}


def _unit(rows: Rows) -> Any:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def _vote(near: Any, labels: Labels, n_classes: int) -> Labels:
    """Return what five neighbours vote for; among equals the nearer."""
    k = min(5, near.shape[1])
    chosen = np.argpartition(-near, k - 1, axis=1)[:, :k]
    votes = np.zeros((len(near), n_classes))
    for place in range(k):
        own = chosen[:, place]
        votes[np.arange(len(near)), labels[own]] += 1 + 1e-3 * near[np.arange(len(near)), own]
    return votes.argmax(axis=1)


def _accuracy(guess: Labels, truth: Labels, balanced: bool) -> float:
    right = guess == truth
    return float(
        np.mean([right[truth == code].mean() for code in np.unique(truth)]) if balanced else right.mean()
    )


def _logistic(rows: Any, labels: Labels, strength: float) -> LogisticRegression:
    return LogisticRegression(C=strength, max_iter=200, tol=1e-2).fit(rows, labels)


def _tuned(rows: Any, labels: Labels) -> float:
    """Return the strength with the most rows right out of three folds; the weakest ridge among equals."""
    order = np.argsort(labels, kind="stable")
    order = order[:: max(1, len(order) // _TUNING_ROWS)]
    fold, hits = np.arange(len(order)) % 3, dict.fromkeys(_STRENGTHS, 0)
    for strength in _STRENGTHS:
        for part in range(3):
            inside, outside = order[fold != part], order[fold == part]
            if len(np.unique(labels[inside])) > 1:
                guess = _logistic(rows[inside], labels[inside], strength).predict(rows[outside])
                hits[strength] += int((guess == labels[outside]).sum())
    return max(reversed(_STRENGTHS), key=lambda strength: hits[strength])


def clean(scene: Scene, seed: int) -> Labels:
    """Return the rows that cleanlab leaves, by a tuned regression out of five folds."""
    from cleanlab.filter import find_label_issues
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    rows = scene.reduced()[0]
    rows = (rows - rows.mean(axis=0)) / max(float(rows.std(axis=0).mean()), 1e-9)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(C=_tuned(rows, scene.labels), max_iter=200, tol=1e-2)
        told = cross_val_predict(model, rows, scene.labels, cv=folds, method="predict_proba")
        return np.flatnonzero(~find_label_issues(scene.labels, told, n_jobs=1))


def pick(rows: Rows, labels: Labels, counts: list[int], seed: int, params: dict[str, Any]) -> list[list[int]]:
    """Return the picks of each budget."""
    import gmmatch

    return [
        gmmatch.select(rows, keep=count, labels=labels, random_state=seed, **params).indices.tolist()
        for count in counts
    ]


def pick_elsewhere(sources: str, rows: Rows, labels: Labels, counts: list[int], seed: int) -> list[list[int]]:
    """Return the picks of another version's default."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "pool.npz", rows=rows, labels=labels, counts=np.array(counts), seed=seed)
        environment = {**os.environ, "PYTHONPATH": sources}
        subprocess.run([sys.executable, __file__, "--picks-of", folder], check=True, env=environment)
        return json.loads((Path(folder) / "picks.json").read_text())  # type: ignore[no-any-return]


def cells(
    scene: Scene, method: str, seed: int, keeps: list[float], old: str | None
) -> Iterator[tuple[float, Labels]]:
    """Yield each budget and the picks of a method for it."""
    rows, labels, numbers = scene.rows, scene.labels, np.arange(len(scene.rows))
    if method.startswith("cleanlab"):
        numbers = clean(scene, seed)
        rows, labels = rows[numbers], labels[numbers]
    n_classes = len(np.unique(labels))
    some = [keep for keep in keeps if n_classes <= round(keep * len(scene.rows)) <= len(rows)]
    counts = [round(keep * len(scene.rows)) for keep in some]
    if method == "old":
        assert old is not None
        found = pick_elsewhere(old, rows, labels, counts, seed)
    else:
        found = pick(rows, labels, counts, seed, METHODS[method])
    for keep, picks in zip(some, found, strict=True):
        yield keep, numbers[np.array(picks)]


def report(lines: list[dict[str, Any]]) -> None:
    """Print the differences to `old` by scenario and on average."""
    scores = {
        (li["scenario"], li["seed"], li["method"], li["keep"], le): li[le] for li in lines for le in LEARNERS
    }
    methods = list(dict.fromkeys(line["method"] for line in lines if line["method"] != "old"))
    keeps = sorted({line["keep"] for line in lines})
    scenarios = list(dict.fromkeys(line["scenario"] for line in lines))
    for method in methods:
        print(f"\n{method}: gap to old at keep {keeps}; {', '.join(LEARNERS)} (mean +- error)")
        averages: dict[Any, list[float]] = {}
        for scenario in scenarios:
            told = []
            for keep in keeps:
                gaps: dict[str, list[float]] = {learner: [] for learner in LEARNERS}
                for (name, seed, which, kept, learner), value in scores.items():
                    before = scores.get((scenario, seed, "old", keep, learner))
                    if (name, which, kept) == (scenario, method, keep) and before is not None:
                        gaps[learner].append(value - before)
                if not gaps["logistic"]:
                    continue
                for learner in LEARNERS:
                    averages.setdefault((keep, learner), []).append(float(np.mean(gaps[learner])))
                paired = np.mean([gaps[learner] for learner in LEARNERS], axis=0)
                error = paired.std(ddof=1) / np.sqrt(len(paired)) if len(paired) > 1 else np.nan
                each = " ".join(f"{np.mean(gaps[learner]):+5.1f}" for learner in LEARNERS)
                told.append(f"{each} ({paired.mean():+.1f} +- {error:.1f})")
            print(f"{scenario:32s}", " | ".join(told))
        for keep in keeps:
            each = {
                learner: np.mean(averages[keep, learner])
                for learner in LEARNERS
                if (keep, learner) in averages
            }
            print(f"average, keep {keep:g}:", " ".join(f"{gap:+.2f}" for gap in each.values()),
                  f"mean {np.mean(list(each.values())):+.2f}")  # fmt: skip


def page(lines: list[dict[str, Any]]) -> str:
    """Return all cells as Markdown: averages of differences, wins and losses, then every accuracy."""
    means: dict[tuple[str, str, float], Any] = {}
    for line in lines:
        key = line["method"], line["scenario"], line["keep"]
        means.setdefault(key, []).append([line[learner] for learner in LEARNERS])
    means = {key: np.mean(values, axis=0) for key, values in means.items()}
    seeds: dict[str, int] = {}
    for line in lines:
        seeds[line["method"]] = max(seeds.get(line["method"], 0), line["seed"] + 1)
    keeps = sorted({line["keep"] for line in lines})
    methods = [name for name in ("old", *METHODS) if name in seeds]
    shown = [f"{keep:.0%}" for keep in keeps]
    found = [
        "## The default against each other way",
        "",
        "Difference of the default in points, averaged over scenarios: logistic regression / neighbours /",
        "network.",
        "Wins and losses count scenarios by the mean of the three.",
        "",
        "| against | " + " | ".join(shown) + " |",
        "|---|" + "---|" * len(keeps),
    ]
    for method in methods:
        if method == "default":
            continue
        told: list[str] = []
        for keep in keeps:
            both = [key[1] for key in means if key[0] == method and key[2] == keep]
            gaps = [means["default", name, keep] - means[method, name, keep] for name in both
                    if ("default", name, keep) in means]  # fmt: skip
            if not gaps:
                told.append("-")
                continue
            each = " / ".join(f"{gap:+.1f}" for gap in np.mean(gaps, axis=0))
            won, lost = (sum(sign * float(gap.mean()) > 0 for gap in gaps) for sign in (1, -1))
            told.append(f"{each} ({won} won, {lost} lost)")
        found.append(f"| {method} | " + " | ".join(told) + " |")
    found += [
        "",
        "## Every cell",
        "",
        "Accuracy in per cent, logistic regression / neighbours / network; balanced where there is a tail.",
        "",
    ]
    for scenario in dict.fromkeys(line["scenario"] for line in lines):
        found += [f"### {scenario}", "", f"| | {' | '.join(shown)} |", "|---|" + "---|" * len(keeps)]
        for method in methods:
            row = [means.get((method, scenario, keep)) for keep in keeps]
            if any(cell is not None for cell in row):
                told = ["-" if one is None else " / ".join(f"{x:.1f}" for x in one) for one in row]
                found.append(f"| {method} | " + " | ".join(told) + " |")
        found.append("")
    return "\n".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--features", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--old")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--scenarios", nargs="+", default=list(SCENARIOS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--keeps", type=float, nargs="+", default=list(KEEPS))
    parser.add_argument("--page", type=Path)
    parser.add_argument("--picks-of", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.picks_of is not None:
        with np.load(asked.picks_of / "pool.npz") as file:
            counts, seed = file["counts"].tolist(), int(file["seed"])
            found = pick(file["rows"], file["labels"], counts, seed, {"method": "gm-matching"})
        (asked.picks_of / "picks.json").write_text(json.dumps(found))
        return
    lines = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out.exists() else []
    methods = (["old"] if asked.old else []) + asked.methods
    for seed in asked.seeds:
        for scenario in asked.scenarios:
            done = {
                (li["method"], li["keep"]) for li in lines if (li["scenario"], li["seed"]) == (scenario, seed)
            }
            scene, views = None, None
            for method in methods:
                missing = [keep for keep in asked.keeps if (method, keep) not in done]
                if not missing:
                    continue
                if scene is None or views is None:
                    scene = Scene(asked.features, scenario, seed)
                    views = scene.reduced()
                for keep, picks in cells(scene, method, seed, missing, asked.old):
                    cell = {"scenario": scenario, "seed": seed, "method": method, "keep": keep}
                    lines.append(cell | score(scene, views, picks, seed))
                    with asked.out.open("a") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
    report(lines)
    if asked.page is not None:
        asked.page.write_text(page(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
