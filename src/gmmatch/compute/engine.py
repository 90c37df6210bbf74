"""Who runs the passes: this machine, or a cluster. The picks are the same."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from ..data import Dataset
from ..errors import InvalidParameter
from ..validation import check_choice
from .passes import Engine
from .processes import process_engine
from .ray import ray_engine

_Open = Callable[[Dataset | None, str | None, int | None], AbstractContextManager[Engine | None]]


def _threads(source: Dataset | None, address: str | None, workers: int | None) -> nullcontext[None]:
    """Run passes on the threads of this machine: no engine at all."""
    if address is not None or workers is not None:
        raise InvalidParameter("address and workers are for the engine 'ray'; the engine is 'local'")
    return nullcontext()


ENGINES: dict[str, _Open] = {"local": _threads, "processes": process_engine, "ray": ray_engine}
"""What opens each engine, given the rows, the address of a cluster and how many workers to use."""


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
    return ENGINES[check_choice(engine, tuple(ENGINES), "engine")](source, address, workers)
