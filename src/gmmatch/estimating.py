"""What a plan would take, without doing it."""

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .aims import Cost
from .data import Dataset, machine_memory, open_dataset
from .run import Plan, expected_reads, fits, open_plan
from .validation import check_input, resolve_keep

# Time beside reads and picks, by a few measured runs: to start, and for each row.
_START_SECONDS, _ROW_SECONDS = 1.0, 1e-6


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
    # Memory that is needed, and whether the cap (a quarter of the machine by default) allows it.
    memory_bytes: int | None = None
    enough_memory: bool | None = None
    # Room for the selection, and an estimate of the time, beside that of a training run if there is one.
    disk_bytes: int = 0
    seconds: float | None = None
    trains: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def estimate(plan: Plan) -> Estimate:
    """Say what a plan would take; nothing is written, and of the rows at most 64 MB are read.

    The time comes from reading these and from one matrix product on this machine; of images and texts a few
    are encoded.
    """
    params = plan.parameters()
    encoding: _Encoding | None = None
    if plan.encoder is not None or plan.text is not None or plan.image is not None:
        data = _before_encoding(plan)
        encoding = _encoding(plan, data)
        if encoding.dimension is None:
            k = _rows_kept(plan, data, len(data))
            classes = None if data.labels is None else len(np.unique(data.labels))
            return Estimate(len(data), None, classes, k, plan.method, encode=len(data), disk_bytes=48 * k)
        # Rows of the right shape that take no memory.
        rows: Any = np.broadcast_to(np.zeros(1, np.float32), (len(data), encoding.dimension))
        data = data.replace(rows=rows)
    else:
        data = open_plan(plan)
    checked = check_input(data.numbers(), data.labels, name=data.name, finite=False)
    rows, selector = checked.rows, plan.entry.build(**params)
    costs, reads = selector.costs(checked), expected_reads(plan, selector, checked)
    read_rate, work_rate = _rates(data)
    rest = _START_SECONDS + _ROW_SECONDS * len(rows)
    k = _rows_kept(plan, data, len(rows))
    seconds = 2 * reads * data.nbytes / read_rate + costs.work / work_rate + rest
    return Estimate(
        rows=len(rows),
        features=rows.shape[1],
        classes=None if checked.classes is None else len(checked.classes),
        keep=k,
        method=plan.method,
        encode=0 if encoding is None else encoding.items,
        encode_seconds=None if encoding is None else round(encoding.seconds, 3),
        batch_size=costs.batch_size,
        reads=reads,
        memory_bytes=costs.most_bytes,
        enough_memory=fits(costs.most_bytes, machine_memory() // 4 if plan.cap is None else plan.cap),
        disk_bytes=48 * k + (0 if encoding is None else 4 * encoding.items * rows.shape[1]),
        trains=plan.entry.needs_training,
        seconds=round(seconds + (0.0 if encoding is None else encoding.seconds), 3),
    )


def _rows_kept(plan: Plan, data: Dataset, n_rows: int) -> int:
    """Return how many rows would be kept; where rows have a cost, about how many it pays for."""
    if plan.aims.cost is None:
        return resolve_keep(plan.keep, n_rows)
    cost, every = Cost.of(plan.aims.cost, data), np.ones(n_rows, bool)
    return min(n_rows, max(1, round(cost.budget(plan.keep, every) / float(cost.values.mean()))))


def _before_encoding(plan: Plan) -> Dataset:
    """Open images or texts; refuse a budget that cannot be."""
    from .encoders import choose_encoder

    found = open_dataset(
        plan.source,
        plan.labels,
        plan.ids,
        text=plan.text,
        image=plan.image,
        holds=choose_encoder(plan.source, plan.encoder, plan.text, plan.image)[1],
        on_bad_rows=plan.on_bad_rows,
        unlabelled=plan.unlabelled,
        header=plan.header,
    )
    plan.check_budget(found)
    return found


@dataclass(frozen=True)
class _Encoding:
    """What encoding would take."""

    items: int  # contents that have no vector yet, by a sample
    seconds: float
    dimension: int | None  # None: the encoder would have to be fetched first


def _encoding(plan: Plan, found: Dataset) -> _Encoding:
    """Encode some rows, more where that is quick, and tell what all of them would take.

    Nothing is fetched and nothing is kept: encoders that are downloaded are not tried.
    """
    from .encoders.embed import choose_encoder
    from .encoders.trial import try_encoder

    chosen = choose_encoder(found, plan.encoder, plan.text, plan.image)[0]
    tried = try_encoder(chosen, found)
    if tried is None:
        return _Encoding(len(found), 0.0, None)
    items = round(len(found) * (1 - tried.known))
    return _Encoding(items, items * tried.seconds, tried.dimension)


def _rates(source: Dataset) -> tuple[float, float]:
    """Return bytes read per second and multiply-adds per second on this machine."""
    rows = source.rows
    started = time.perf_counter()
    part = np.asarray(rows[: max(1, (64 << 20) // (source.shape[1] * rows.dtype.itemsize))])
    part.sum()
    read_rate = part.nbytes / max(time.perf_counter() - started, 1e-6)
    block = np.ones((512, 512), part.dtype)
    took = []
    for _ in range(6):
        started = time.perf_counter()
        np.dot(block, block.T)
        took.append(time.perf_counter() - started)
    return read_rate, 512.0**3 / max(float(np.median(took[1:])), 1e-6)
