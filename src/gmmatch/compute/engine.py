"""Who runs the reads: this machine, its processes, or a cluster. The picks are the same."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from ..data import Dataset
from ..errors import InvalidParameter
from ..validation import check_choice
from .processes import process_engine
from .ray import ray_engine
from .runner import NO_ROWS, Runner, Threads

ENGINES = ("local", "processes", "ray")


@dataclass(frozen=True)
class Ray:
    """A Ray cluster to run on, as ``engine=``.

    `address`: a running cluster to join (`auto`: the one that this machine is part of; None: a new one on
    this machine). `workers`: how many worker processes to use; None: one per core.
    """

    address: str | None = None
    workers: int | None = None


def open_runner(
    engine: str | Ray | Runner, source: Dataset | None, address: str | None = None, workers: int | None = None
) -> AbstractContextManager[Runner]:
    """Return a context manager that opens a runner for the rows of a source, and closes it.

    `engine`: `local`, `processes` or `ray`, or a runner of these rows that is open already, and stays so.
    `source`: the rows; None for functions that open what they read by themselves. `address`, `workers`: for
    `ray`, see `gmmatch.compute.ray.ray_engine`; `workers` for `processes`, too.
    """
    if isinstance(engine, Runner):
        if source is not None and engine.rows.content is not source.rows:
            raise InvalidParameter(f"the engine is open for other rows than those of {source.name}")
        return nullcontext(engine)
    if isinstance(engine, Ray):
        return open_runner("ray", source, engine.address, engine.workers)
    check_choice(engine, ENGINES, "engine")
    if engine != "local":
        return (process_engine if engine == "processes" else ray_engine)(source, address, workers)
    if address is not None or workers is not None:
        raise InvalidParameter(
            "address and workers are for the engine 'ray', workers also for 'processes'; the engine is"
            " 'local'"
        )
    return nullcontext(Threads(NO_ROWS if source is None else source.rows))
