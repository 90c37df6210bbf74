"""The work on one group of cells: damage the data, take features, select, train, write."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import Float32Array, IntArray
from ...errors import InvalidParameter
from ...facts import plain
from ...version import __version__
from ..training.config import FOR_EMBEDDINGS, NETWORKS, TrainConfig
from .array_cache import cached_array, cached_arrays, read_arrays
from .benchmarks import Benchmark
from .contenders import out_of_fold
from .grid_cells import RECORD_VERSION, CellGroup, GridCell, write_record
from .learners import Learner, NetworkLearner, ProbeLearner
from .proxies import Proxy, build_proxy, content_key
from .scenarios import ATTACKS, Given, contaminated, damage, parse_scenario
from .specs import PROBES

OnCell = Callable[[GridCell], None]


def run_group(
    group: CellGroup,
    cells: Sequence[GridCell],
    data: Benchmark,
    folder: Path,
    cache: Path,
    on_cell: OnCell,
    device: str = "auto",
) -> None:
    """Work out the given cells of a group and write their results."""
    scene = Scene(group, data, cache, device)
    for method in dict.fromkeys(cell.method for cell in cells):
        wanted = [cell for cell in cells if cell.method == method]
        orders = scene.picks(method, sorted({cell.keep for cell in wanted}))
        shared = len(wanted) if group.grid.asked(method).nested else 1
        for cell in wanted:
            picks, seconds, params = orders[cell.keep]
            accuracy, trained = scene.accuracy(cell.target, picks)
            corrupted = scene.corrupted
            measured = {
                "accuracy": round(accuracy, 4),
                "corrupted_picks": None if corrupted is None else float(corrupted[picks].mean()),
                "corrupted_rows": None if corrupted is None else float(corrupted.mean()),
                "seconds": {
                    "select": round(seconds, 3),
                    "train": round(trained, 3),
                    "total": round(seconds / shared + trained, 3),
                },
            }
            recipe = {
                "rows": len(data.inputs),
                "kept": len(picks),
                "training": scene.learner(cell.target).recipe(len(picks)),
                "method": params,
                "data": scene.key,
            }
            write_record(cell, folder, measured, recipe)
            on_cell(cell)


class Scene:
    """What the cells of a group share.

    `given`: the damaged training data. `rows`: its features. `corrupted`: which rows are damaged, or None.
    `key`: digest of the features and labels.
    """

    def __init__(self, group: CellGroup, data: Benchmark, cache: Path, device: str = "auto") -> None:
        grid = group.grid
        scenario = parse_scenario(group.scenario)
        if scenario.kind == "gross" and not set(grid.targets) <= set(PROBES):
            raise InvalidParameter(f"scenario {scenario.name!r} changes features; it needs a linear probe")
        self.group, self.data, self.cache, self.device = group, data, cache, device
        proxy: Proxy | None = None
        if grid.proxy_data == "clean" or scenario.kind in ATTACKS:
            proxy = build_proxy(grid, data, group.seed, cache, device)
        self.given: Given = damage(
            scenario,
            data.inputs,
            data.labels,
            group.seed,
            severity=grid.severity,
            human=dict(data.human),
            attacked=None if proxy is None else proxy.network,
        )
        if proxy is None or grid.proxy_data == "given":
            proxy = build_proxy(grid, data, group.seed, cache, device, self.given)
        probes = [name for name in grid.targets if name in PROBES]
        clean = proxy.features(data.inputs) if probes else None
        same = clean is not None and self.given.inputs is data.inputs
        rows: Float32Array = clean if same and clean is not None else proxy.features(self.given.inputs)
        changed, self.corrupted = contaminated(scenario, rows, self.given, group.seed)
        self.rows = np.asarray(changed, dtype=np.float32)
        self.key = content_key(self.rows, self.given.labels)
        self._learners: dict[str, Learner] = {}
        if clean is not None:
            test = proxy.features(data.test_inputs)
            for name in probes:
                self._learners[name] = ProbeLearner(name, clean, self.rows, test, data.test_labels)

    def learner(self, name: str) -> Learner:
        """Return who learns from the kept rows."""
        if name not in self._learners:
            how = self.group.grid.training
            self._learners[name] = NetworkLearner(name, how, self.data, self.given.inputs, self.device)
        return self._learners[name]

    def accuracy(self, name: str, picks: IntArray) -> tuple[float, float]:
        """Return what a learner makes of kept rows, and the seconds of its training.

        The same rows are learned once, whichever method, budget or table they come from: all rows, or a
        scenario that several tables have. A training that was killed goes on at its last epoch.
        """
        learner, rows, seed = self.learner(name), np.sort(picks), self.group.seed
        labels = self.given.labels[rows]
        key = content_key(RECORD_VERSION, learner.key, rows, labels, learner.recipe(len(rows)), seed)
        file = self.cache / "trained" / f"{name}-{key}.npz"
        checkpoint = file.with_suffix(".pt")

        def train() -> dict[str, float]:
            started = time.perf_counter()
            found = learner.accuracy(rows, labels, seed, checkpoint)
            return {"accuracy": found, "seconds": time.perf_counter() - started}

        found = cached_arrays(file, train, ("accuracy", "seconds"))
        checkpoint.unlink(missing_ok=True)
        return float(found["accuracy"]), float(found["seconds"])

    def picks(
        self, method: str, keeps: Sequence[float]
    ) -> dict[float, tuple[IntArray, float, dict[str, Any]]]:
        """Return the kept rows for every budget, the seconds they took, and the method's parameters.

        Where a smaller budget's picks are the first of a larger one's, the largest is selected once.
        """
        extra = self._signal(method)
        found = {}
        largest = max(self.group.grid.keeps)  # whatever is left to do: the same picks after a kill
        nested = self.group.grid.asked(method).nested
        for keep in keeps:
            order, seconds, params, batches = self._order(method, largest if nested else keep, extra)
            if nested and batches:
                order, seconds, params, _ = self._order(method, keep, extra)
            found[keep] = (order[: round(keep * len(self.rows))], seconds, params)
        return found

    def _order(
        self, method: str, keep: float, extra: dict[str, Any]
    ) -> tuple[IntArray, float, dict[str, Any], bool]:
        """Return all picks of a budget in order; they are kept, for budgets and seeds that share them."""
        contender = self.group.grid.asked(method)
        seed = self.group.seed if contender.seeded else 0
        known = (__version__, self.key, method, contender.settings(), keep, seed)
        key = content_key(*known, *extra.values())
        file = self.cache / "picks" / f"{method}-{key}.npz"

        def pick() -> dict[str, Any]:
            if contender.cleaned:
                self._chances()  # its time is that of no single method
            started = time.perf_counter()
            order, params, batches = contender.pick(
                self.rows, self.given.labels, keep, seed, extra, self._chances
            )
            seconds, told = time.perf_counter() - started, json.dumps(plain(params))
            return {"order": order, "seconds": seconds, "params": told, "batches": batches}

        kept = cached_arrays(file, pick, ("order", "seconds", "params", "batches"))
        return kept["order"], float(kept["seconds"]), json.loads(str(kept["params"])), bool(kept["batches"])

    def _chances(self) -> npt.NDArray[np.float64]:
        """Return class probabilities of all rows by who did not see them."""
        file = self.cache / "probabilities" / f"{self.key}.npz"
        return cached_array(file, lambda: out_of_fold(self.rows, self.given.labels))

    def _signal(self, method: str) -> dict[str, Any]:
        """Return what a method selects by, where that comes out of a training run on the given data."""
        asked = self.group.grid.asked(method)
        if asked.signal is None:
            return {}
        wanted = [self.group.grid.asked(name).signal for name in self.group.grid.methods]
        found = signal(self, asked.signal, [name for name in dict.fromkeys(wanted) if name is not None])
        return {"influence" if "influence" in asked.entry.parameters() else "scores": found}


def signal(scene: Scene, own: str, wanted: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the scores or the influence of all rows; one training run serves all that are wanted.

    EL2N and GraNd are means over several networks early in training, as their authors define them; the first
    of these is trained to the end for forgetting and influence.
    """
    from .. import signals

    grid = scene.group.grid
    images = not set(grid.targets) <= set(PROBES)
    inputs = scene.given.inputs if images else scene.rows
    labels, seed = scene.given.labels, scene.group.seed
    if images:
        name = grid.proxy if grid.proxy in NETWORKS else grid.targets[0]
        config = grid.signal_training.config(name, len(inputs), scene.data.recipe)
    else:
        how = grid.signal_training
        config = TrainConfig.from_dict(FOR_EMBEDDINGS | {"seeds": how.seeds, "score_at": how.score_at})
    folder = scene.cache / "signals" / f"{content_key(inputs, labels, config.as_dict())}-{seed}"
    if images:
        config = replace(config, device=scene.device)

    def compute(name: Any, run: signals.SignalRun) -> npt.NDArray[np.float64]:
        if name == "optimization":
            return signals.influence_of_rows(inputs, labels, config, seed=seed, runs=[run]).vectors
        return signals.score_rows(name, inputs, labels, config, seed=seed, runs=[run])

    missing = [name for name in wanted if read_arrays(folder / f"{name}.npz") is None]
    for member in range(config.seeds if missing else 0):
        due = [name for name in missing if name in signals.EARLY or member == 0]
        files = {name: folder / f"{name}-{member}.npz" for name in due}
        left = [name for name in due if read_arrays(files[name]) is None]
        if left:
            whole = not set(left) <= set(signals.EARLY)
            part = folder / f"run-{member}"
            run = signals.train_run(
                inputs, labels, config, seed=seed, member=member, whole=whole, folder=part
            )
            for name in left:
                cached_array(files[name], partial(compute, name, run))
            rmtree(part)
    for name in missing:
        found = [read_arrays(file) for file in sorted(folder.glob(f"{name}-*.npz"))]
        parts = [arrays["array"] for arrays in found if arrays is not None]
        cached_array(folder / f"{name}.npz", partial(_mean_of, parts))
    arrays = read_arrays(folder / f"{own}.npz")
    assert arrays is not None  # it has just been read, or made
    return arrays["array"]


def _mean_of(parts: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    return np.asarray(np.mean(parts, axis=0))
