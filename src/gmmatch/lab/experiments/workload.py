"""What a run would do, and how many hours it would take: one timed step of each network, times the steps."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..signals import EARLY
from ..training.config import NETWORKS, TrainConfig
from .benchmarks import BENCHMARKS
from .grid_cells import GridCell, groups_of, read_record
from .runner import share_devices
from .specs import PROBES, Grid

_STEPS = 2  # that are timed, after one that is not
_ROWS = 8  # whose gradients are timed, for GraNd


@dataclass(frozen=True)
class Training:
    """Trainings of one kind: who is trained for what, on which images, how many steps each."""

    purpose: str  # proxy, signal, target, or rows whose gradients GraNd takes
    network: str
    shape: tuple[int, int, int]
    classes: int
    batch_size: int
    steps: int


@dataclass(frozen=True)
class WorkEstimate:
    """What is left to do of a run."""

    cells: int  # figures of the table that have no result yet
    trainings: Mapping[Training, int]  # how many trainings of each kind
    seconds: Mapping[Training, float]  # of one training of each kind
    places: tuple[str, ...]  # the devices that share the work

    @property
    def hours(self) -> float:
        """Hours of all trainings, shared out evenly; picking rows and linear probes come on top."""
        whole = sum(self.seconds[kind] * count for kind, count in self.trainings.items())
        return whole / 3600 / len(self.places)

    def lines(self) -> list[str]:
        """Say it in words."""
        count: Counter[tuple[str, str]] = Counter()
        hours: defaultdict[tuple[str, str], float] = defaultdict(float)
        for kind, times in self.trainings.items():
            count[kind.purpose, kind.network] += times
            hours[kind.purpose, kind.network] += self.seconds[kind] * times / 3600
        return [
            f"{self.cells} results to do",
            *(f"{count[key]} x {key[0]} {key[1]}: {hours[key]:.2g} hours" for key in count),
            f"{self.hours:.2g} hours of training on {', '.join(dict.fromkeys(self.places))}"
            f" with {len(self.places)} worker{'s' if len(self.places) > 1 else ''};"
            " picking rows and linear probes come on top",
        ]


def estimate_work(grids: Sequence[Grid], folder: Path, *, workers: int | None, device: str) -> WorkEstimate:
    """Count what is missing, and time a step of each network on the device.

    Rows and sizes are those of the datasets as published, so that the data need not be there.
    """
    missing = [
        cell for group in groups_of(grids) for cell in group.cells() if read_record(cell, folder) is None
    ]
    # The same training has one entry, whichever methods and tables ask for it.
    wanted = {key: (kind, times) for cell in missing for key, kind, times in _needed(cell)}
    trainings: Counter[Training] = Counter()
    for what, times in wanted.values():
        trainings[what] += times
    places = share_devices(device, workers, grids)
    timed = {
        alike: _seconds(*alike, places[0])
        for alike in dict.fromkeys(_alike(training) for training in trainings)
    }
    seconds = {training: training.steps * timed[_alike(training)] for training in trainings}
    return WorkEstimate(len(missing), trainings, seconds, tuple(places))


def _needed(cell: GridCell) -> Iterator[tuple[tuple[object, ...], Training, int]]:
    """Yield the trainings behind a cell: what makes each the same as another's, its kind, how many."""
    group, grid = cell.group, cell.group.grid
    source = BENCHMARKS[group.dataset]
    rows = min(source.rows, grid.train_rows or source.rows)
    data = (group.dataset, group.seed)

    def kind(purpose: str, config: TrainConfig, count: int, epochs: int | None = None) -> Training:
        recipe = config.resolved()
        steps = (epochs or recipe.epochs) * math.ceil(count / recipe.batch_size)
        return Training(purpose, config.network, source.shape, source.classes, recipe.batch_size, steps)

    if grid.proxy in NETWORKS:
        config = grid.proxy_training.config(grid.proxy, rows, source.recipe)
        own = group.scenario if grid.proxy_data == "given" else ""
        yield ("proxy", config, own, *data), kind("proxy", config, rows), 1
    signal = grid.asked(cell.method).signal
    if signal and not set(grid.targets) <= set(PROBES):
        name = grid.proxy if grid.proxy in NETWORKS else grid.targets[0]
        config = grid.signal_training.config(name, rows, source.recipe)
        known = (config, group.scenario, *data)
        yield ("signal", *known), kind("signal", config, rows), 1
        if signal in EARLY and config.seeds > 1:
            early = kind("signal", config, rows, config.early_epoch())
            yield ("early", *known), early, config.seeds - 1
        if signal == "grand":
            passes = Training("gradients", name, source.shape, source.classes, 1, rows)
            yield ("gradients", *known), passes, config.seeds
    if cell.target not in PROBES:
        count = round(cell.keep * rows)
        config = grid.training.config(cell.target, count, source.recipe)
        method = "" if cell.keep == 1 else cell.method
        yield ("target", config, group.scenario, method, cell.keep, *data), kind("target", config, count), 1


Alike = tuple[bool, str, tuple[int, int, int], int, int]


def _alike(training: Training) -> Alike:
    """Return what the time of a step depends on."""
    return (
        training.purpose == "gradients",
        training.network,
        training.shape,
        training.classes,
        training.batch_size,
    )


def _seconds(
    gradients: bool, network: str, shape: tuple[int, int, int], classes: int, batch: int, device: str
) -> float:
    """Return the seconds of one step of training, or of the gradient of one row."""
    from .. import training
    from ..signals import grand_scores

    count = _ROWS if gradients else _STEPS * batch
    images = np.random.default_rng(0).integers(0, 256, (count, *shape)).astype(np.uint8)
    labels = np.arange(count) % classes
    learner = training.build_network(network, classes, shape[2])
    recipe = replace(training.RECIPES["cpu-plain"], batch_size=batch, epochs=1)

    def work(rows: int) -> None:
        if gradients:
            grand_scores(learner, images[:rows], labels[:rows], device=device)
        else:
            training.train(learner, images[:rows], labels[:rows], recipe, device=device)

    work(1 if gradients else batch)
    started = time.perf_counter()
    work(count)
    return (time.perf_counter() - started) / (count if gradients else _STEPS)
