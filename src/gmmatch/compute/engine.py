"""Who runs the passes: this machine, or a cluster. The picks are the same."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from ..data import Dataset
from ..errors import InvalidParameter
from ..validation import check_choice
from .passes import Engine
from .processes import process_engine
from .ray import ray_engine
from .threads import local_engine

ENGINES = ("local", "processes", "ray")


@dataclass(frozen=True)
class Ray:
    """A Ray cluster to run on, as ``engine=``.

    `address`: a running cluster to join (`auto`: the one that this machine is part of; None: a new one on
    this machine). `workers`: how many worker processes to use; None: one per core.
    """

    address: str | None = None
    workers: int | None = None


def open_engine(
    engine: str | Engine, source: Dataset | None, address: str | None = None, workers: int | None = None
) -> AbstractContextManager[Engine | None]:
    """Return a context manager that opens an engine for the rows of a source, and closes it.

    `engine`: `local`, `processes` or `ray`, or an engine for these rows that is open already, and stays so.
    `source`: the rows; None for functions that open what they read by themselves. `address`, `workers`: for
    `ray`, see `gmmatch.compute.ray.ray_engine`; `workers` for `processes`, too.
    """
    if not isinstance(engine, str):
        if source is not None and not engine.holds(source.rows):
            raise InvalidParameter(f"the engine is open for other rows than those of {source.name}")
        return nullcontext(engine)
    if check_choice(engine, ENGINES, "engine") == "ray":
        return ray_engine(source, address, workers)
    if engine == "processes" and address is None:
        return process_engine(source, workers)
    if address is not None or workers is not None:
        raise InvalidParameter(f"address and workers are for the engine 'ray'; the engine is {engine!r}")
    return local_engine()
