"""What a plan would take, without doing it."""

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .data import Dataset, machine_memory, open_dataset
from .matching.candidates import GRAM_BYTES
from .planning import JUDGED_ROW_BYTES, Plan, fits, memory_needed
from .selectors.gm_matching import AUTO_BATCH, WHOLE_ROWS, GMMatching
from .steps import open_plan
from .trust.guard import expected_reads
from .validation import CheckedRows, check_input, resolve_keep

_MEDIAN_READS = 2  # of a geometric median that starts from a sample: in high dimension one or two
_BATCH_BYTES = 128 << 20
# Of arrays with a number per row: row numbers and classes; with the guard what it found of each. Measured on
# 2,000,000 and 10,000,000 rows.
_ROW_BYTES = 16
# Time beside reads and picks, by a few measured runs: to start and learn from a sample, for each row, and for
# each row and class (in multiply-adds per feature; heads of labels).
_START_SECONDS, _ROW_SECONDS, _JUDGED_WORK = 1.0, 1e-6, 6


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
    batch_size: int | str | None = None  # rows of a batch, or `auto`; None: all rows of a class at once
    reads: int | None = None  # how often all rows would be read, the guard's reads included
    # Memory that is needed, and whether the cap (a quarter of the machine by default) allows it.
    memory_bytes: int | None = None
    enough_memory: bool | None = None
    # Room for the selection, and an estimate of the time, beside that of a training run if there is one.
    disk_bytes: int = 0
    seconds: float | None = None
    trains: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data; `passes`, the former name of `reads`, is there as well."""
        return asdict(self) | {"passes": self.reads}


def estimate(plan: Plan) -> Estimate:
    """Say what a plan would take; nothing is encoded, and of the rows at most 64 MB are read.

    The time comes from reading these and from one matrix product on this machine.
    """
    params = plan.parameters()
    plan.check_outputs()
    if plan.encoder is not None or plan.text is not None or plan.image is not None:
        return _before_encoding(plan)
    data = open_plan(plan)
    checked = check_input(data.numbers(), data.labels, name=data.name, finite=False)
    rows, codes = checked.rows, checked.codes
    selector = plan.entry.build(**params)
    sizes = np.array([len(rows)]) if codes is None else np.bincount(codes)
    batch = getattr(selector, "batch_size", None)
    if batch == "auto" and sizes.max() <= WHOLE_ROWS:
        batch = None
    needed, work = _needs(rows, sizes, batch, _ROW_BYTES if selector.guard == "off" else JUDGED_ROW_BYTES)
    needed = max(needed, memory_needed(selector, checked))
    reads = _reads(selector, checked, batch)
    judged = 0.0 if selector.guard == "off" else _JUDGED_WORK * rows.shape[1] * len(sizes) * float(len(rows))
    read_rate, work_rate = _rates(data)
    rest = _START_SECONDS + _ROW_SECONDS * len(rows)
    k = resolve_keep(plan.keep, len(rows))
    return Estimate(
        rows=len(rows),
        features=rows.shape[1],
        classes=None if codes is None else len(sizes),
        keep=k,
        method=plan.method,
        batch_size=batch,
        reads=reads,
        memory_bytes=needed,
        enough_memory=fits(needed, machine_memory() // 4 if plan.cap is None else plan.cap),
        disk_bytes=48 * k,
        trains=plan.entry.needs_training,
        seconds=round(2 * reads * data.nbytes / read_rate + (work + judged) / work_rate + rest, 3),
    )


def _needs(rows: Any, sizes: Any, batch: Any, row_bytes: int) -> tuple[int, float]:
    """Return the bytes that are needed, and the multiply-adds."""
    width, itemsize, largest = rows.shape[1], rows.dtype.itemsize, int(sizes.max())
    if batch is None:
        gram = min(largest**2 * itemsize, GRAM_BYTES)
        return 2 * largest * width * itemsize + gram, float((sizes.astype(float) ** 2).sum()) * width
    work = float(len(rows)) * (AUTO_BATCH if batch == "auto" else batch) * width
    return _BATCH_BYTES + len(rows) * row_bytes + 3 * len(sizes) * width * 8, work


def _reads(selector: Any, checked: CheckedRows, batch: Any) -> int:
    """Return how often all rows would be read: look, guard, centre, picks."""
    labelled = checked.codes is not None and selector.by_class
    guarded = selector.guard != "off"
    n_classes = 1 if checked.classes is None or not labelled else len(checked.classes)
    judging = expected_reads(len(checked.rows), checked.rows.shape[1], n_classes, labelled) if guarded else 0
    reads = 2 + judging
    if batch is None or not isinstance(selector, GMMatching):
        return reads
    if not isinstance(selector.center, str):
        return reads
    target = ("mean" if labelled and guarded else "geometric-median") if selector.center == "auto" else ""
    if "geometric-median" in (target, selector.center):
        return reads + _MEDIAN_READS
    # The pass that judges by a sample adds up the mean of the trusted rows, unless they are lifted.
    added_up = judging == 1 and labelled and selector.lift in ("auto", "off")
    return reads + (0 if added_up and "mean" in (target, selector.center) else 1)


def _before_encoding(plan: Plan) -> Estimate:
    """Return what is known of images or texts before they are encoded."""
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
    )
    k = resolve_keep(plan.keep, len(found))
    classes = None if found.labels is None else len(np.unique(found.labels))
    return Estimate(len(found), None, classes, k, plan.method, encode=len(found), disk_bytes=48 * k)


def _rates(source: Dataset) -> tuple[float, float]:
    """Return bytes read per second and multiply-adds per second on this machine."""
    rows = source.rows
    started = time.perf_counter()
    part = np.asarray(rows[: max(1, (64 << 20) // (source.shape[1] * rows.dtype.itemsize))])
    part.sum()
    read_rate = part.nbytes / max(time.perf_counter() - started, 1e-6)
    block = np.ones((512, 512), part.dtype)
    started = time.perf_counter()
    np.dot(block, block.T)
    return read_rate, 512.0**3 / max(time.perf_counter() - started, 1e-6)
