"""From rows to a selection: one readable function."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .checkpoints import FileCheckpoint
from .compute.engine import ENGINES, open_engine
from .compute.passes import Engine, map_blocks, use_engine
from .errors import InvalidInput, InvalidParameter
from .matching.budgets import class_budgets
from .matching.candidates import GRAM_BYTES
from .records import IntArray, Selection
from .selectors import find_method
from .selectors.gm_matching import AUTO_BATCH
from .selectors.registry import METHODS, Method
from .sources import ChosenRows, Source
from .sources.opening import machine_memory
from .trust import Suspects, suspects
from .validation import (
    as_labels,
    as_rows,
    as_seed,
    bad_rows,
    check_choice,
    describe_bad_rows,
    fingerprint,
    resolve_keep,
)

if TYPE_CHECKING:
    from .encoders import Embedded

# Beyond this many multiply-adds (half a minute) matching against all rows of a class gives way to batches.
MOST_WORK = 2e12
# A multiply-add of a product per pick, which waits for memory, costs as many of a Gram matrix.
_PRODUCT_COST = 50
_SCORING_COST = 64  # of finding the best of the rows at every pick, in the same units per row
_TYPICAL_PASSES = 4  # check, median twice, picks
_CHECK_ROWS = 1 << 22  # values looked at together for NaN


def select(
    X: Any,
    keep: float | int = 0.1,
    labels: Any = None,
    method: str = "gm-matching",
    guard: str | None = None,
    random_state: Any = 0,
    *,
    memory: int | None = None,
    on_bad_rows: str = "error",
    state: Path | None = None,
    resume: bool = False,
    images: Any = None,
    train_config: Any = None,
    engine: str | Engine = "local",
    address: str | None = None,
    workers: int | None = None,
    **method_params: Any,
) -> Selection:
    """Choose the rows of `X` worth keeping.

    Parameters
    ----------
    X
        Rows, array-like of shape (rows, features): an array, a NumPy memory map, a torch CPU tensor, or
        a source from `gmmatch.open_source`.
    keep
        Fraction in (0, 1] or count of rows to keep.
    labels
        Optional class of each row; they may be wrong. The budget is divided among the classes. A source's
        own labels by default.
    method
        A name from `gmmatch.methods()`.
    guard
        `auto` or `off`; None means the method's own default.
    random_state
        Seed. The same input, parameters and seed give the same rows in the same order.
    memory
        Bytes that may be used; a quarter of the machine by default. Where matching against all rows of
        a class does not fit, or would take very long, it runs in batches (``batch_size="auto"``).
    on_bad_rows
        `error` refuses rows with NaN or infinite values; `drop` leaves them out and counts them.
    state, resume
        File for the state of a long run, and whether to go on from it.
    images
        For methods that need a training run (`forgetting`, `el2n`, `grand`, `optimization`): uint8 images
        to train on, one per row. By default a softmax regression learns the rows themselves.
    train_config
        How to train: a `gmmatch.training.TrainConfig`, a dictionary of its settings, or a TOML or JSON
        file of them. The seed of the run is `random_state`.
    engine
        `local` runs on this machine, `ray` on a Ray cluster (extra `ray`), with the same picks. For `ray`,
        `X` must be mapped from files that every node can read: a memory map, or a source of one. Or an
        engine for `X` that is open already, from `gmmatch.compute.ray.ray_engine`.
    address, workers
        With ``engine="ray"``: a running cluster to join (`auto`: the one this machine is part of; None: a
        new one on this machine), and how many worker processes to use (one per core by default).
    **method_params
        Further parameters of the method, such as `step` or `batch_size`.

    Returns
    -------
    Selection
        Row numbers to keep, in pick order, with scores and distances.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> rows = np.random.default_rng(0).normal(size=(1000, 16))
    >>> gmmatch.select(rows, keep=0.05)
    Selection(50 of 1000 rows by gm-matching, objective ...)
    """
    check_choice(on_bad_rows, ("error", "drop"), "on_bad_rows")
    entry = find_method(method)
    params = {"keep": keep, "random_state": random_state, **method_params}
    if guard is not None and "guard" not in entry.fixed:
        params["guard"] = guard
    entry.build(**params)  # refuses unknown parameters before any row is read
    check_engine(engine, entry)
    source = X if isinstance(X, Source) else Source(as_rows(X, finite=False), "X", "array")
    rows = as_rows(source.rows, source.name, finite=False)
    labels = source.labels if labels is None else labels
    codes = None if labels is None else as_labels(labels, len(rows))[1]
    if batches_needed(entry, params, rows.shape, rows.dtype.itemsize, codes, memory):
        params["batch_size"] = "auto"
    with open_engine(engine, source, address, workers) as running, use_engine(running):
        bad = find_bad_rows(source)
        if bad.size and on_bad_rows == "error":
            raise InvalidInput(f"{source.name} has {describe_bad_rows(bad)}")
        usable = np.ones(len(rows), dtype=bool)
        usable[bad] = False
        trained, training_facts = train_if_needed(entry, params, rows, codes, usable, images, train_config)
        checkpoint = None
        if state is not None:
            recipe = {"bad_rows": bad.size, "method": method, **entry.build(**params).get_params(deep=False)}
            checkpoint = FileCheckpoint(state, fingerprint(rows, codes), recipe, resume)
        fitted = entry.build(**params, **trained).fit(rows, labels, usable=usable, checkpoint=checkpoint)
        if checkpoint is not None:
            checkpoint.discard()
    selection: Selection = fitted.selection_
    reads = (selection.facts.reads or 0) + 1  # and the check of the rows
    facts = dataclasses.replace(selection.facts, bad_rows=int(bad.size), reads=reads, training=training_facts)
    ids = None if source.ids is None else source.ids[selection.indices]
    return dataclasses.replace(selection, ids=ids, facts=facts)


def check_engine(engine: str | Engine, entry: Method) -> None:
    """Refuse an engine that there is not, or that cannot run a method."""
    if isinstance(engine, str):
        check_choice(engine, ENGINES, "engine")
    if engine != "local" and not entry.engine:
        able = [method.name for method in METHODS.values() if method.engine]
        raise InvalidParameter(
            f"method {entry.name!r} runs on one machine; other engines are for {', '.join(able)}"
        )


def embed(
    path: Any,
    encoder: str | None = None,
    *,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    **options: Any,
) -> Embedded:
    """Turn images or texts into vectors, on this machine or on a Ray cluster.

    Parameters
    ----------
    path, encoder, options
        See `gmmatch.encoders.embed_input`. On a cluster every node must see the input, the cache and the
        output under the same paths.
    engine, address, workers
        As for `select`.
    """
    from .encoders import embed_input

    with open_engine(engine, None, address, workers) as running:
        spread = None if running is None else running.map
        return embed_input(path, encoder, spread=spread, **options)


def encode(path: Any, encoder: str | None = None, **options: Any) -> Source:
    """Turn images or texts into a source of rows; see `gmmatch.encoders.embed_input` for the options.

    Rows that cannot be encoded are left out where ``on_bad_rows="drop"`` asks for it: they are rows of NaN
    here, so that row numbers stay those of the input.
    """
    embedded = embed(path, encoder, **options)
    rows, ids, labels = embedded.embeddings, embedded.ids, embedded.labels
    if embedded.bad_rows:
        rows = np.full((embedded.n_rows, rows.shape[1]), np.nan, rows.dtype)
        rows[embedded.rows] = embedded.embeddings
        ids = _spread(ids, embedded.rows, embedded.n_rows)
        labels = None if labels is None else _spread(labels, embedded.rows, embedded.n_rows)
    return Source(rows, str(path), "encoded", ids=ids, labels=labels)


def _spread(values: npt.NDArray[Any], rows: IntArray, n_rows: int) -> npt.NDArray[Any]:
    """Put values at their rows; other rows, which take no part, repeat the first value."""
    spread = np.full(n_rows, values[0], values.dtype)
    spread[rows] = values
    return spread


def plan(
    source: Source, keep: float | int, method: str, memory: int | None, **method_params: Any
) -> dict[str, Any]:
    """Say what a selection would do, without doing it: passes, memory, disk and an estimate of the time.

    The estimate comes from reading 64 MB of the rows and from one matrix product on this machine.
    """
    entry = find_method(method)
    params = {"keep": keep, **method_params}
    entry.build(**params)
    rows = as_rows(source.rows, source.name, finite=False)
    codes = None if source.labels is None else as_labels(source.labels, len(rows))[1]
    sizes = np.array([len(rows)]) if codes is None else np.bincount(codes)
    width, itemsize = rows.shape[1], rows.dtype.itemsize
    if batches_needed(entry, params, rows.shape, itemsize, codes, memory):
        params["batch_size"] = "auto"
    batch = params.get("batch_size")
    if batch is None:
        largest = int(sizes.max())
        work = float((sizes.astype(float) ** 2).sum()) * width
        needed = 2 * largest * width * itemsize + min(largest**2 * itemsize, GRAM_BYTES)
    else:
        work = float(len(rows)) * (AUTO_BATCH if batch == "auto" else batch) * width
        needed = (256 << 20) + len(rows) * 16 + 3 * len(sizes) * width * 8
    read_rate, work_rate = _rates(source)
    k = resolve_keep(keep, len(rows))
    return {
        "rows": len(rows),
        "features": width,
        "classes": None if codes is None else len(sizes),
        "keep": k,
        "method": method,
        "batch_size": batch,
        "passes": _TYPICAL_PASSES,
        "memory_bytes": int(needed),
        "disk_bytes": 48 * k,
        "seconds": round(2 * _TYPICAL_PASSES * source.nbytes / read_rate + work / work_rate, 3),
    }


def _rates(source: Source) -> tuple[float, float]:
    """Return bytes read per second and multiply-adds per second on this machine."""
    started = time.perf_counter()
    part = np.asarray(source.rows[: max(1, (64 << 20) // (source.shape[1] * source.rows.dtype.itemsize))])
    part.sum()
    read_rate = part.nbytes / max(time.perf_counter() - started, 1e-6)
    block = np.ones((512, 512), part.dtype)
    started = time.perf_counter()
    np.dot(block, block.T)
    return read_rate, 512.0**3 / max(time.perf_counter() - started, 1e-6)


def find_suspects(source: Source, seed: int, bad: IntArray | None = None) -> Suspects:
    """Gather the evidence that rows of a source, or their labels, are wrong; `bad` rows are left out."""
    if source.labels is None:
        raise InvalidInput(f"suspects need labels, and {source.name} has none; name them with --labels")
    if bad is None or not bad.size:
        return suspects(source.rows, source.labels, random_state=seed)
    good = np.setdiff1d(np.arange(len(source)), bad)
    found = suspects(ChosenRows(source.rows, good), source.labels[good], random_state=seed)
    return dataclasses.replace(found, rows=good[found.rows])


def find_bad_rows(source: Source) -> IntArray:
    """Return the numbers of the rows with NaN, infinite or absurd values: one pass, on all cores."""
    step = max(1, _CHECK_ROWS // source.shape[1])
    rows = source.rows

    def look(block: slice) -> IntArray:
        found: IntArray = bad_rows(rows[block]) + block.start
        return found

    return np.concatenate(list(map_blocks(look, rows, "checking rows", step)))


def train_if_needed(
    entry: Method,
    params: dict[str, Any],
    rows: Any,
    codes: IntArray | None,
    usable: npt.NDArray[np.bool_],
    images: Any,
    train_config: Any,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Make the training run that a method needs; return the parameter it gives, and facts about it."""
    has_signal = any(params.get(name) is not None for name in ("scores", "influence"))
    if entry.needs_labels and codes is None and not has_signal:
        raise InvalidInput(f"method {entry.name!r} needs labels, one per row; got none")
    if has_signal or entry.signal is None or codes is None:
        if images is not None or train_config is not None:
            raise InvalidParameter(
                f"images and train_config are for a training run, and {entry.name} makes none here"
            )
        return {}, None
    sizes = np.bincount(codes[usable])
    sizes = sizes[sizes > 0]
    if len(sizes) < 2:
        raise InvalidInput(f"method {entry.name!r} needs labels of at least two classes; got one")
    k = resolve_keep(params["keep"], int(usable.sum()))
    if params.get("by_class", True):
        class_budgets(sizes, k)  # refuses a budget that cannot be shared before the training, not after
    from .signals import train_for_selection

    seed = as_seed(params["random_state"])
    trained = train_for_selection(
        entry.signal, rows, codes, usable, images=images, config=train_config, seed=seed
    )
    return trained.params, trained.config.as_dict()


def batches_needed(
    entry: Method,
    params: dict[str, Any],
    shape: tuple[int, ...],
    itemsize: int,
    codes: IntArray | None,
    memory: int | None,
) -> bool:
    """Tell whether to match in batches because all rows at once would not fit, or take very long."""
    if not entry.streams or "batch_size" in params:
        return False
    n_rows, width = shape
    by_class = codes is not None and params.get("by_class", True)
    sizes = np.bincount(codes) if by_class and codes is not None else np.array([n_rows])
    sizes = sizes[sizes > 0]
    k = resolve_keep(params["keep"], n_rows)
    budgets = class_budgets(sizes, k)
    gram = sizes.astype(float) ** 2 * itemsize <= GRAM_BYTES
    bytes_needed = 2.0 * sizes * width * itemsize + np.where(gram, sizes.astype(float) ** 2 * itemsize, 0)
    products = _PRODUCT_COST * budgets * sizes.astype(float) * (width + _SCORING_COST)
    work = np.where(gram, sizes.astype(float) ** 2 * width, products)
    cap = machine_memory() // 4 if memory is None else memory
    return bool(bytes_needed.max() > cap or work.sum() > MOST_WORK)
