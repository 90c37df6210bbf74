"""What a plan would take, without doing it."""

from __future__ import annotations

import re
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from .aims import Cost
from .arrays import IntArray
from .data import Dataset, ForwardRows, machine_memory, temporary_room
from .encoders import Encoder, choose_encoder
from .encoders.embed import Run, content_key
from .encoders.registry import find_family, make_encoder
from .encoders.store import VectorStore, as_keys, folder_name
from .files import cache_folder
from .planning import Plan, fits, open_plan, wants_verdict
from .selectors import Selector
from .validation import CheckedRows, check_input, resolve_keep

# Time beside reads and picks, by a few measured runs: to start, and for each row.
_START_SECONDS, _ROW_SECONDS = 1.0, 1e-6
_PRODUCTS, _PRODUCT_SECONDS = 40, 0.5  # that measure how fast this machine multiplies
_WARM = 4  # rows that are encoded before the clock starts
_TRIALS = (16, 128, 1024)  # rows, until that took long enough to measure
_ENOUGH = 0.7  # seconds
_LOOKED_UP = 64  # rows that are looked up among the vectors that are kept


@dataclass(frozen=True)
class Estimate:
    """What a selection would take."""

    # What is there, and what was asked for; `features` is None for what has to be encoded first.
    rows: int
    features: int | None
    classes: int | None
    keep: int
    method: str
    encode: int = 0  # how many images or texts would be encoded first
    encode_seconds: float | None = None  # about how long that would take, a part of `seconds`
    batch_size: int | str | None = None  # rows of a batch, or `auto`; None: all rows of a class at once
    reads: int | None = None  # how often all rows would be read; see `RunInfo`
    # Memory that is needed, and whether the cap (a quarter of the machine by default) allows it; and what
    # Python, its libraries and the encoder take beside it, where the system says so.
    memory_bytes: int | None = None
    process_bytes: int = 0
    enough_memory: bool | None = None
    disk_bytes: int = 0  # room for the selection
    # Room in the temporary folder for rows that are decoded once, and whether it is there; if not, they are
    # decoded at every read.
    temporary_bytes: int = 0
    enough_temporary: bool = True
    seconds: float | None = None  # an estimate of the time, beside that of a training run if there is one
    trains: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return dict(vars(self))


def estimate(plan: Plan) -> Estimate:
    """Return what a plan would take; nothing is written, and of the rows at most 64 MB are read.

    The time comes from reading these and from one matrix product on this machine; of images and texts a few
    are encoded.
    """
    params = plan.parameters()
    items, encoding = 0, None
    data = open_plan(plan, encode=None)
    if data.rows is None or plan.encoder is not None:
        plan.check_budget(data)
        # Some are encoded, more where that is quick; nothing is fetched and nothing is kept.
        tried = try_encoder(choose_encoder(data, plan.encoder, plan.text, plan.image)[0], data)
        if tried is None:  # the encoder would have to be fetched first
            k = _rows_kept(plan, data, len(data))
            classes = None if data.labels is None else len(np.unique(data.labels))
            return Estimate(len(data), None, classes, k, plan.method, encode=len(data), disk_bytes=48 * k)
        items = round(len(data) * (1 - tried.known))
        encoding = items * tried.seconds
        # Rows of the right shape that take no memory.
        empty: Any = np.broadcast_to(np.zeros(1, np.float32), (len(data), tried.dimension))
        data = data.replace(rows=empty)
    checked = check_input(data.numbers(), data.labels, name=data.name, finite=False)
    rows, selector = checked.rows, plan.entry.build(**params)
    costs, reads = selector.costs(checked), expected_reads(plan, selector, checked)
    read_rate, work_rate = _rates(data)
    rest = _START_SECONDS + _ROW_SECONDS * len(rows)
    k = _rows_kept(plan, data, len(rows))
    seconds = 2 * reads * data.nbytes / read_rate + costs.work / work_rate + rest
    decoded = data.nbytes if isinstance(data.rows, ForwardRows) else 0
    return Estimate(
        rows=len(rows),
        features=rows.shape[1],
        classes=None if checked.classes is None else len(checked.classes),
        keep=k,
        method=plan.method,
        encode=items,
        encode_seconds=None if encoding is None else round(encoding, 3),
        batch_size=costs.batch_size,
        reads=reads,
        memory_bytes=costs.most_bytes,
        process_bytes=_process_bytes(),
        enough_memory=fits(costs.most_bytes, machine_memory() // 4 if plan.cap is None else plan.cap),
        disk_bytes=48 * k + 4 * items * rows.shape[1],
        temporary_bytes=decoded,
        enough_temporary=decoded <= temporary_room(),
        trains=plan.entry.needs_training,
        seconds=round(seconds + (encoding or 0.0), 3),
    )


def _process_bytes() -> int:
    """Return the most memory that this process ever took; 0 where the system does not say."""
    with suppress(OSError):
        found = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text(errors="replace"))
        return 0 if found is None else 1024 * int(found[1])
    return 0


def _rows_kept(plan: Plan, data: Dataset, n_rows: int) -> int:
    """Return how many rows would be kept; where rows have a cost, about how many it pays for."""
    if plan.aims.cost is None:
        return resolve_keep(plan.keep, n_rows)
    cost, every = Cost.of(plan.aims.cost, data), np.ones(n_rows, bool)
    return min(n_rows, max(1, round(cost.budget(plan.keep, every) / float(cost.values.mean()))))


def expected_reads(plan: Plan, selector: Selector, checked: CheckedRows) -> int:
    """Return how often a run reads all rows, from what is known before any is read; see `Selector`."""
    trains = plan.entry.needs_training and not plan.trains_on_images
    judged_for_others = wants_verdict(plan, selector, checked) and not selector.judges
    several = checked.classes is not None and len(checked.classes) > 1
    # Duplicates, and the nearest other class.
    suspects = 0 if plan.suspects is None else 1 + several
    # Near-duplicates, and rows like a reference.
    wishes = plan.aims
    aims = (wishes.holdout is not None) + (wishes.duplicates == "drop") + (wishes.match_to is not None)
    return selector.expected_reads(checked) + trains + judged_for_others + suspects + aims


def _rates(source: Dataset) -> tuple[float, float]:
    """Return bytes read per second and multiply-adds per second on this machine."""
    rows = source.rows
    started = time.perf_counter()
    part = np.asarray(rows[: max(1, (64 << 20) // (source.shape[1] * rows.dtype.itemsize))])
    part.sum()
    read_rate = part.nbytes / max(time.perf_counter() - started, 1e-6)
    block = np.ones((512, 512), part.dtype)
    threads = max((pool["num_threads"] for pool in threadpool_info()), default=1)
    took: list[float] = []
    # One thread, and the quickest of many: threads that wait for each other beside other work would make a
    # product look twenty times as slow as the run will be.
    with threadpool_limits(1):
        while len(took) < _PRODUCTS and sum(took) < _PRODUCT_SECONDS:
            started = time.perf_counter()
            np.dot(block, block.T)
            took.append(time.perf_counter() - started)
    return read_rate, threads * 512.0**3 / max(min(took), 1e-6)


# ---- how long it takes, found by encoding a few rows and keeping nothing ----


@dataclass(frozen=True)
class Trial:
    """What a trial found."""

    seconds: float  # per row that is encoded
    known: float  # share of the rows whose vectors are kept already
    dimension: int


def try_encoder(chosen: str | Encoder, found: Dataset) -> Trial | None:
    """Encode some rows of a dataset; None where the encoder would be downloaded, or no row can be encoded."""
    with tempfile.TemporaryDirectory(prefix="gmmatch-") as passing:
        folder = Path(passing)
        if isinstance(chosen, str) and find_family(chosen)[0].extra == "hub":
            return None
        made = make_encoder(chosen, folder, {})
        order = np.random.default_rng(0).permutation(len(found))
        if _encode_some(made, found, order[:_WARM], folder / "warm") is None:
            return None
        seconds, dimension = 0.0, 0
        for number, size in enumerate(_TRIALS):
            some = np.sort(order[:size])
            started = time.perf_counter()
            width = _encode_some(made, found, some, folder / str(number))
            seconds, dimension = (time.perf_counter() - started) / len(some), width or dimension
            if width is None or seconds * len(some) >= _ENOUGH or size >= len(found):
                break
        return Trial(seconds, _share_known(made, found, order[:_LOOKED_UP]), dimension) if dimension else None


def _encode_some(made: Encoder, found: Dataset, rows: IntArray, folder: Path) -> int | None:
    """Encode rows; return how long their vectors are."""
    with VectorStore(folder) as store:
        run = Run(found.chosen(rows), made, store)
        run.encode(0, len(rows), made.batch_size)
        good = run.positions[run.positions >= 0]
        return int(store.gather(good[:1]).shape[1]) if len(good) else None


def _share_known(made: Encoder, found: Dataset, rows: IntArray) -> float:
    """Return the share of rows whose vectors are kept already."""
    if made.revision is None or found.content is None:
        return 0.0
    folder = cache_folder() / "vectors" / folder_name(made.name, made.revision)
    if not folder.is_dir():
        return 0.0
    keys = as_keys(content_key(found.content.read(row, row + 1)[0]) for row in rows.tolist())
    with VectorStore(folder) as store:
        places = store.find(keys)
    return float((places >= 0).mean())
