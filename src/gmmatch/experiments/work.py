"""The work on one group of cells: damage the data, take features, select, train, write."""

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidParameter
from ..facts import plain
from ..files import whole_file
from ..pipeline import select
from ..records import IntArray
from ..training.config import NETWORKS
from ..version import __version__
from .cells import Cell, Group, write_record
from .datasets import Dataset
from .proxies import Features, Proxy, build_proxy, cached_array, content_key
from .scenarios import Given, contaminated, damage, parse_scenario
from .specs import PROBES
from .targets import NetworkTarget, ProbeTarget, Target

OnCell = Callable[[Cell], None]
_PICKS_VERSION = 2  # of the files of kept picks


def run_group(
    group: Group, cells: Sequence[Cell], data: Dataset, folder: Path, cache: Path, on_cell: OnCell
) -> None:
    """Work out the given cells of a group and write their results."""
    scene = Scene(group, data, cache)
    for method in dict.fromkeys(cell.method for cell in cells):
        wanted = [cell for cell in cells if cell.method == method]
        nested = group.grid.asked(method)[0].nested
        orders = scene.picks(method, sorted({cell.keep for cell in wanted}))
        for cell in wanted:
            picks, seconds, params = orders[cell.keep]
            target = scene.target(cell.target)
            started = time.perf_counter()
            accuracy = target.accuracy(picks, scene.given.labels[picks], group.seed)
            corrupted = scene.corrupted
            trained = time.perf_counter() - started
            measured = {
                "accuracy": round(accuracy, 4),
                "corrupted_picks": None if corrupted is None else float(corrupted[picks].mean()),
                "corrupted_rows": None if corrupted is None else float(corrupted.mean()),
                "seconds": {
                    "select": round(seconds, 3),
                    "train": round(trained, 3),
                    "total": round(seconds / (len(wanted) if nested else 1) + trained, 3),
                },
            }
            recipe = {
                "rows": len(data.inputs),
                "kept": len(picks),
                "training": target.recipe(len(picks)),
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

    def __init__(self, group: Group, data: Dataset, cache: Path) -> None:
        grid = group.grid
        scenario = parse_scenario(group.scenario)
        if scenario.kind == "gross" and not set(grid.targets) <= set(PROBES):
            raise InvalidParameter(f"scenario {scenario.name!r} changes features; it needs a linear probe")
        self.group, self.data, self.cache = group, data, cache
        self.proxy: Proxy = build_proxy(grid, data, group.seed, cache)
        self.given: Given = damage(
            scenario,
            data.inputs,
            data.labels,
            group.seed,
            severity=grid.severity,
            human=dict(data.human),
            attacked=self.proxy.network,
        )
        probes = [name for name in grid.targets if name in PROBES]
        clean = self.proxy.features(data.inputs) if probes else None
        same = clean is not None and self.given.inputs is data.inputs
        rows: Features = clean if same and clean is not None else self.proxy.features(self.given.inputs)
        changed, self.corrupted = contaminated(scenario, rows, self.given, group.seed)
        self.rows = np.asarray(changed, dtype=np.float32)
        self.key = content_key(self.rows, self.given.labels)
        self._targets: dict[str, Target] = {}
        if clean is not None:
            test = self.proxy.features(data.test_inputs)
            for name in probes:
                self._targets[name] = ProbeTarget(name, clean, self.rows, test, data.test_labels)

    def target(self, name: str) -> Target:
        """Return who learns from the kept rows."""
        if name not in self._targets:
            how = self.group.grid.training
            self._targets[name] = NetworkTarget(name, how, self.data, self.given.inputs)
        return self._targets[name]

    def picks(
        self, method: str, keeps: Sequence[float]
    ) -> dict[float, tuple[IntArray, float, dict[str, Any]]]:
        """Return the kept rows for every budget, the seconds they took, and the method's parameters.

        Where a smaller budget's picks are the first of a larger one's, the largest is selected once.
        """
        extra = self._signal(method)
        found = {}
        largest = max(self.group.grid.keeps)  # whatever is left to do: the same picks after a kill
        nested = self.group.grid.asked(method)[0].nested
        for keep in keeps:
            order, seconds, params, batched = self._order(method, largest if nested else keep, extra)
            if nested and batched:
                order, seconds, params, _ = self._order(method, keep, extra)
            found[keep] = (order[: round(keep * len(self.rows))], seconds, params)
        return found

    def _order(
        self, method: str, keep: float, extra: dict[str, Any]
    ) -> tuple[IntArray, float, dict[str, Any], bool]:
        """Return all picks of a budget in order; they are kept, for budgets and seeds that share them."""
        entry, asked = self.group.grid.asked(method)
        seed = self.group.seed if entry.seeded else 0
        known = (_PICKS_VERSION, __version__, self.key, method, entry.defaults() | asked, keep, seed)
        key = content_key(*known, *extra.values())
        file = self.cache / "picks" / f"{method}-{key}.npz"
        if not file.is_file():
            started = time.perf_counter()
            how = asked | extra
            selection = select(self.rows, keep, self.given.labels, entry.name, random_state=seed, **how)
            seconds = time.perf_counter() - started
            file.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(file) as unfinished, unfinished.open("wb") as stream:
                params = json.dumps(plain(selection.params))
                batched = selection.facts.batches is not None
                np.savez(stream, order=selection.indices, seconds=seconds, params=params, batched=batched)
        with np.load(file, allow_pickle=False) as kept:
            params = json.loads(str(kept["params"]))
            return kept["order"], float(kept["seconds"]), params, bool(kept["batched"])

    def _signal(self, method: str) -> dict[str, Any]:
        """Return what a method selects by, where that comes out of a training run on the given data."""
        grid = self.group.grid
        entry, _ = grid.asked(method)
        own = entry.signal
        if own is None:
            return {}
        wanted = [grid.asked(name)[0].signal for name in grid.methods]
        found = signal(self, own, [name for name in dict.fromkeys(wanted) if name is not None])
        return {"influence" if "influence" in entry.parameters() else "scores": found}


def signal(scene: Scene, own: str, wanted: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the scores or the influence of all rows; one training run serves all that are wanted."""
    from .. import signals

    grid = scene.group.grid
    images = not set(grid.targets) <= set(PROBES)
    inputs = scene.given.inputs if images else scene.rows
    labels, seed = scene.given.labels, scene.group.seed
    config = None
    if images:
        name = grid.proxy if grid.proxy in NETWORKS else grid.targets[0]
        config = grid.signal_training.config(name, len(inputs), scene.data.recipe)
    key = content_key(inputs, labels, None if config is None else config.as_dict())
    folder = scene.cache / "signals" / f"{key}-{seed}"
    missing = [name for name in wanted if not (folder / f"{name}.npy").is_file()]
    if missing:
        runs = signals.train_runs(inputs, labels, config, seed=seed)

        def compute(name: Any) -> npt.NDArray[np.float64]:
            if name == "optimization":
                return signals.influence_of_rows(inputs, labels, config, seed=seed, runs=runs).vectors
            return signals.score_rows(name, inputs, labels, config, seed=seed, runs=runs)

        for name in missing:
            cached_array(folder / f"{name}.npy", partial(compute, name))
    found: npt.NDArray[np.float64] = np.load(folder / f"{own}.npy")
    return found
