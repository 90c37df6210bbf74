"""Cells of a study such as `benchmarks.teach`: a scenario, a seed, a method and a budget.

Finished cells are lines of a CSV file in benchmarks/cells, in the repository: a run goes on where another one
stopped, on whichever machine. What depends on the picks of this package is measured again when their
digest changes; what does not is measured once.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tools.check_figures import RESULTS, digest

from ._learners import LEARNERS, logistic, score, tuned
from ._scenes import Scene
from ._sets import Labels, Rows

Line = dict[str, Any]
KEPT = Path(__file__).with_name("cells")


@dataclass(frozen=True)
class Method:
    """A way to pick: parameters of `gmmatch.select`, or a function of rows and a count.

    `cleaned`: cleanlab drops rows first. `ours`: picks depend on this package's digest. `within`: a context
    in which it picks.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    cleaned: bool = False
    ours: bool = True
    function: Callable[[Rows, int, int], Any] | None = None
    within: Callable[[], AbstractContextManager[Any]] = nullcontext


def centres_of_k_means(rows: Rows, count: int, seed: int) -> Any:
    """Return the row nearest to each centre of k-means: scikit-learn's mini-batches, one start."""
    from sklearn.cluster import MiniBatchKMeans

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = MiniBatchKMeans(count, n_init=1, batch_size=2048, max_iter=20, random_state=seed).fit(rows)
    squares = (rows**2).sum(axis=1)
    far = squares[:, None] - 2 * rows @ found.cluster_centers_.T
    return np.unique(far.argmin(axis=0))


METHODS: dict[str, Method] = {
    "old": Method({}, ours=False),
    "default": Method({"method": "gm-matching"}),
    "random": Method({"method": "random"}, ours=False),
    "herding+guard": Method({"method": "herding", "guard": "auto"}),
    "small-loss": Method({"method": "small-loss"}),
    "cleanlab+matching": Method({"method": "gm-matching", "guard": "off"}, cleaned=True),
    "cleanlab+facility-location": Method({"method": "facility-location"}, cleaned=True, ours=False),
    "cleanlab+random": Method({"method": "random"}, cleaned=True, ours=False),
    "facility-location": Method({"method": "facility-location"}, ours=False),
    "k-means": Method(ours=False, function=centres_of_k_means),
}


class Cells:
    """Finished cells in a CSV file: the header is of the first cell, values are JSON, a name is bare."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.file, self.digests = file, {labelled: digest(labelled) for labelled in (True, False)}
        self.all = self._read()

    def _read(self) -> list[Line]:
        text = self.file.read_text(encoding="utf-8") if self.file.exists() else ""
        return [
            {name: _value(value) for name, value in line.items()}
            for line in csv.DictReader(text.splitlines())
        ]

    def digest(self, scenario: str) -> str:
        """Return the digest of the picks that a scenario depends on."""
        return self.digests[not scenario.endswith("/unlabelled")]

    def current(self) -> list[Line]:
        """Return the lines that are of no picks of ours, or of those of today."""
        return [line for line in self.all if line["digest"] in (None, self.digest(line["scenario"]))]

    def done(self, scenario: str, seed: int, method: str) -> set[float]:
        """Return the budgets of a method that are finished."""
        wanted = scenario, seed, method
        return {li["keep"] for li in self.current() if (li["scenario"], li["seed"], li["method"]) == wanted}

    def add(self, line: Line) -> None:
        """Append a finished cell."""
        self.all.append(line)
        self._write([line], "a")

    def prune(self) -> None:
        """Write the file anew, with what others added to it: older picks go, and lines are in order."""
        self.all = self._read()
        self.all = sorted(
            self.current(), key=lambda line: [line[name] for name in ("scenario", "method", "seed", "keep")]
        )
        self._write(self.all, "w")

    def _write(self, lines: Sequence[Line], mode: str) -> None:
        with self.file.open(mode, encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(self.all[0]), lineterminator="\n") if self.all else None
            if writer is not None and not file.tell():
                writer.writeheader()
            for line in lines if writer is not None else ():
                writer.writerow({name: _text(value) for name, value in line.items()})


def _text(value: Any) -> str:
    """Return a value as a cell of the file; accuracies have two decimals."""
    if value is None or (isinstance(value, str) and _value(value) == value):
        return value or ""
    return json.dumps(round(value, 2) if isinstance(value, float) else value)


def _value(text: str) -> Any:
    """Return what `_text` wrote."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


def study_parser(text: str | None, name: str) -> argparse.ArgumentParser:
    """Return the options that all studies have: seeds, the file of cells, the folder of pages, `--show`."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=KEPT / f"{name}.csv", help="finished cells")
    parser.add_argument("--pages", type=Path, default=RESULTS, help="folder of the pages")
    parser.add_argument("--show", action="store_true", help="measure nothing; write the pages")
    return parser


def measure(
    cells: Cells,
    scenario: str,
    seed: int,
    methods: Mapping[str, Method],
    keeps: Sequence[float],
    old: str | None = None,
    learners: Sequence[str] = LEARNERS,
) -> None:
    """Measure what is missing of a scenario under a seed; `old`: sources of another version."""
    scene, views = None, None
    for name, method in methods.items():
        missing = [keep for keep in keeps if keep not in cells.done(scenario, seed, name)]
        if not missing or (name == "old" and old is None):
            continue
        if scene is None or views is None:
            scene = Scene(scenario, seed)
            views = scene.reduced()
        for keep, picks in _picks(scene, method, seed, missing, old if name == "old" else None):
            line: Line = {"scenario": scenario, "seed": seed, "method": name, "keep": keep}
            line |= {"digest": cells.digest(scenario) if method.ours else None}
            line |= score(scene, views, picks, seed, learners)
            cells.add(line | {"outliers": 100 * float(scene.outlier[picks].mean())})


def _picks(
    scene: Scene, method: Method, seed: int, keeps: Sequence[float], old: str | None
) -> Iterator[tuple[float, Labels]]:
    """Yield each budget and the picks of a method for it; budgets that cannot be had are left out."""
    numbers = clean(scene, seed) if method.cleaned else np.arange(len(scene.rows))
    rows, labels = scene.rows[numbers], scene.labels[numbers] if scene.labelled else None
    fewest = 1 if labels is None else len(np.unique(labels))
    some = [keep for keep in keeps if fewest <= round(keep * len(scene.rows)) <= len(rows)]
    counts = [round(keep * len(scene.rows)) for keep in some]
    if method.function is not None:
        found = [method.function(rows, count, seed) for count in counts]
    elif old is not None:
        found = _pick_elsewhere(old, rows, labels, counts, seed)
    else:
        with method.within():
            found = pick(rows, labels, counts, seed, method.params)
    for keep, picks in zip(some, found, strict=True):
        yield keep, numbers[np.asarray(picks)]


@lru_cache(maxsize=1)
def clean(scene: Scene, seed: int) -> Labels:
    """Return the rows that cleanlab leaves, by a tuned regression out of five folds."""
    from cleanlab.filter import find_label_issues
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    rows = scene.reduced()[0]
    rows = (rows - rows.mean(axis=0)) / max(float(rows.std(axis=0).mean()), 1e-9)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = logistic(rows, scene.labels, tuned(rows, scene.labels))
        told = cross_val_predict(model, rows, scene.labels, cv=folds, method="predict_proba")
        return np.flatnonzero(~find_label_issues(scene.labels, told, n_jobs=1))


def pick(
    rows: Rows, labels: Labels | None, counts: Sequence[int], seed: int, params: Mapping[str, Any]
) -> list[Any]:
    """Return the picks of each budget; where smaller ones are prefixes of larger ones, all from one run."""
    import gmmatch

    nested = labels is not None and params.get("method", "gm-matching") in (
        "gm-matching",
        "herding",
        "random",
    )
    runs = [max(counts, default=0)] if nested else counts
    found = {
        count: gmmatch.select(rows, keep=count, labels=labels, random_state=seed, **params).indices
        for count in runs
        if count
    }
    return [(found[max(counts)][:count] if nested else found[count]).tolist() for count in counts]


def _pick_elsewhere(
    sources: str, rows: Rows, labels: Labels | None, counts: Sequence[int], seed: int
) -> list[Any]:
    """Return the picks of another version's default, made by a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "pool.npz", rows=rows, labels=[] if labels is None else labels)
        (Path(folder) / "asked.json").write_text(json.dumps([list(counts), seed]))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([sources, os.getcwd()])}
        subprocess.run([sys.executable, "-m", "benchmarks._cells", folder], check=True, env=environment)
        found: list[Any] = json.loads((Path(folder) / "picks.json").read_text())
        return found


def _main(folder: Path) -> None:
    counts, seed = json.loads((folder / "asked.json").read_text())
    with np.load(folder / "pool.npz") as file:
        rows, labels = file["rows"], file["labels"]
    found = pick(rows, labels if len(labels) else None, counts, seed, {"method": "gm-matching"})
    (folder / "picks.json").write_text(json.dumps(found))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    _main(Path(sys.argv[1]))
