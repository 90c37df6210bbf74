"""Runs grids: one result file per cell, what is done is skipped, groups of cells in parallel processes."""

import multiprocessing
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Protocol

from threadpoolctl import threadpool_limits

from ...compute.blocks import core_count
from ...errors import InvalidParameter, require
from ...files import remove_partials_in
from ...progress import Advance, task
from ...validation import check_positive_int
from ..training.config import NETWORKS
from .benchmarks import Benchmark
from .grid_cells import CellGroup, GridCell, groups_of, read_record, read_records
from .proxies import build_proxy
from .specs import PROBES, Grid
from .work import run_group

_LOOK_EVERY = 0.5  # seconds between looks at what parallel workers have finished

Progress = Callable[[str], None]


class Benchmarks(Protocol):
    """Opens a dataset; can be sent to another process, and compared."""

    def __hash__(self) -> int: ...

    def open(self, name: str, seed: int) -> Benchmark:
        """Return the dataset of that name, split by the seed where it has no split of its own."""


@dataclass(frozen=True)
class Run:
    """What a run left: all results of its grids, how many are new, and the seconds it took."""

    records: list[dict[str, Any]]
    new: int
    seconds: float


def run_grids(
    grids: Sequence[Grid],
    folder: Path,
    *,
    data: Benchmarks,
    cache: Path,
    workers: int | None = None,
    device: str = "auto",
    say: Progress | None = None,
) -> Run:
    """Work out every cell of the grids that has no result yet.

    A killed run goes on where it was: results, trained proxies, features and picks are kept. Every
    worker computes on one thread, so that results do not depend on their number.

    `folder`: where the results go, one file per cell. `data`: opens the datasets by name. `cache`: folder for
    what cells share. `workers`: processes; by default one per GPU, or one per core where there is none.
    `device`: where networks run: ``auto``, ``cpu``, ``mps``, ``cuda`` (every GPU) or some, such as
    ``cuda:0,cuda:1``, which the workers share out. `say`: called with a sentence now and then, for logs.
    """
    started = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    for place in (folder, cache):  # what is there already is not written again
        remove_partials_in(place)
    missing = (
        (group, [cell for cell in group.cells() if read_record(cell, folder) is None])
        for group in groups_of(grids)
    )
    jobs = [(group, cells) for group, cells in missing if cells]
    left = sum(len(todo) for _, todo in jobs)
    places = share_devices(device, workers, grids)[: max(1, len(jobs))]
    clock = _Clock(left, say)
    with task("cells", left) as advance:
        if len(places) == 1:
            _run_here(jobs, folder, cache, data, places[0], lambda: clock.tick(advance))
        elif jobs:
            _run_parallel(jobs, folder, cache, data, places, lambda: clock.tick(advance))
    return Run(finished(grids, folder), left, time.perf_counter() - started)


def finished(grids: Sequence[Grid], folder: Path) -> list[dict[str, Any]]:
    """Return the results of the grids that there are."""
    cells = [cell for group in groups_of(grids) for cell in group.cells()]
    return read_records(cells, folder)


Jobs = Sequence[tuple[CellGroup, list[GridCell]]]


def share_devices(device: str, workers: int | None, grids: Sequence[Grid]) -> list[str]:
    """Return the device of each worker.

    >>> share_devices("cuda:0,cuda:1", 3, [])
    ['cuda:0', 'cuda:1', 'cuda:0']
    """
    named = device.split(",")
    strange = [name for name in named if not re.fullmatch(r"auto|mps|(cpu|cuda)(:\d+)?", name)]
    if strange:
        raise InvalidParameter(
            f"device must be auto, cpu, mps, cuda or some such as cuda:0,cuda:1; got {strange[0]!r}"
        )
    if device in ("auto", "cuda") and any(_trains(grid) for grid in grids):
        count = require("torch", "torch", "torch").cuda.device_count()
        named = [f"cuda:{number}" for number in range(count)] or [device]
    several = len(named) > 1 or named[0].startswith("cuda")
    usual = len(named) if several else core_count()
    return list(islice(cycle(named), check_positive_int(usual if workers is None else workers, "workers")))


def claim_device(place: str) -> str:
    """Make this process see its own GPU alone, and return what torch calls it then."""
    kind, _, number = place.partition(":")
    if kind == "cuda" and number:
        visible = dict(enumerate(os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")))
        os.environ["CUDA_VISIBLE_DEVICES"] = visible.get(int(number)) or number
    return kind


def _trains(grid: Grid) -> bool:
    """Tell whether a grid has networks."""
    return grid.proxy in NETWORKS or not set(grid.targets) <= set(PROBES)


def _run_here(
    jobs: Jobs, folder: Path, cache: Path, data: Benchmarks, place: str, tick: Callable[[], None]
) -> None:
    with _one_thread():
        for group, cells in jobs:
            run_group(group, cells, _dataset(group, data), folder, cache, lambda cell: tick(), place)


def _run_parallel(
    jobs: Jobs, folder: Path, cache: Path, data: Benchmarks, places: Sequence[str], tick: Callable[[], None]
) -> None:
    """Make the proxies first, each once, then run the groups; count the results as their files appear."""
    waiting = [cell.file(folder) for _, cells in jobs for cell in cells]
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    for place in places:
        queue.put(place)
    with ProcessPoolExecutor(
        len(places), mp_context=context, initializer=_begin_worker, initargs=(queue,)
    ) as pool:
        try:
            shared = {
                (group.grid, group.dataset, group.seed): group
                for group, _ in jobs
                if group.grid.proxy_data == "clean"
            }
            _finish([pool.submit(_prepare, group, cache, data) for group in shared.values()])
            pending: set[Future[None]] = {
                pool.submit(_work, group, cells, folder, cache, data) for group, cells in jobs
            }
            while pending:
                done, pending = wait(pending, timeout=_LOOK_EVERY, return_when=FIRST_COMPLETED)
                arrived = {file for file in waiting if file.is_file()}
                waiting = [file for file in waiting if file not in arrived]
                for _ in arrived:
                    tick()
                _finish(done)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _finish(futures: Any) -> None:
    for future in futures:
        future.result()


def _prepare(group: CellGroup, cache: Path, data: Benchmarks) -> None:
    """Train a proxy, or encode with it, so that the groups that share it find that done."""
    dataset = _dataset(group, data)
    build_proxy(group.grid, dataset, group.seed, cache, _worker["device"]).features(dataset.inputs)


def _work(group: CellGroup, cells: list[GridCell], folder: Path, cache: Path, data: Benchmarks) -> None:
    run_group(group, cells, _dataset(group, data), folder, cache, lambda cell: None, _worker["device"])


_worker = {"device": "auto"}  # what a worker process has claimed, once, when it began


def _begin_worker(places: Any) -> None:
    """Claim a device, compute on one thread, and end with the parent, however that ends."""
    _worker["device"] = claim_device(places.get())
    threadpool_limits(1)
    _torch_threads(1)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute on one thread inside the block."""
    before = _torch_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        if before is not None:
            _torch_threads(before)


def _torch_threads(count: int) -> int | None:
    """Set the threads of torch, if it is installed; return what they were."""
    try:
        import torch
    except ImportError:
        return None
    before: int = torch.get_num_threads()
    torch.set_num_threads(count)
    return before


def _dataset(group: CellGroup, data: Benchmarks) -> Benchmark:
    return _opened(data, group.dataset, group.seed, group.grid.train_rows, group.grid.test_rows)


@lru_cache(maxsize=1)
def _opened(
    data: Benchmarks, name: str, seed: int, train_rows: int | None, test_rows: int | None
) -> Benchmark:
    return data.open(name, seed).head(train_rows, test_rows)


class _Clock:
    """Reports now and then how many results there are and how long the rest will take."""

    def __init__(self, total: int, say: Progress | None, every: float = 30.0) -> None:
        self.total, self.say, self.every = total, say, every
        self.done, self.last = 0, time.perf_counter()
        self.first: float | None = None  # time of the first result, which also opens the data

    def tick(self, advance: Advance) -> None:
        advance(1)
        self.done += 1
        now = time.perf_counter()
        self.first = now if self.first is None else self.first
        if self.say is not None and (now - self.last >= self.every or self.done == self.total):
            self.last = now
            left = (now - self.first) / max(self.done - 1, 1) * (self.total - self.done)
            wait = f", about {left / 60:.0f} min left" if left >= 90 else ", little left" if left else ""
            self.say(f"{self.done} of {self.total} results done{wait}")
