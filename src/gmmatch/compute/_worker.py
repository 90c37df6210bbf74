"""What runs in a worker process: it opens the rows by path, and calls the functions it is sent."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..errors import GmmatchError
from ..validation import fingerprint
from ._by_path import Place
from ._transport import Entries, Where, unpack
from .blocks import limit_threads


@dataclass(frozen=True)
class Failure:
    """Why a worker cannot do its work; trying again would not help."""

    kind: Literal["unreadable", "other rows", "memory"]
    node: str
    reason: str


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a function: what it is called with, and the entries of per-row arrays for it."""

    arguments: tuple[Any, ...]
    where: Where  # the rows that it looks at; None where there are no per-row arrays
    entries: list[npt.NDArray[Any]]  # of each per-row array, the entries of these rows


class Worker:
    """One process with one core's share of the work.

    `place`: where the rows are, if there are any. `expected`: fingerprint of the rows. `name_node`: function
    that names the node it is called on.
    """

    def __init__(self, place: Place | None, expected: str, name_node: Callable[[], str]) -> None:
        self.node = name_node()
        self.failure: Failure | None = None
        self._round = -1
        self._function: Callable[..., Any] = print
        self._entries: list[Entries] = []
        # Cores are shared out as workers, one each.
        self._limits = threadpool_limits(1)
        self.rows: Any = None
        if place is None:
            return
        try:
            self.rows = place.open()
            found = fingerprint(self.rows)
        except (GmmatchError, OSError) as error:
            self.failure = Failure("unreadable", self.node, str(error))
            return
        if found != expected:
            self.failure = Failure("other rows", self.node, f"fingerprint {found} in place of {expected}")

    def hello(self) -> tuple[str, int] | Failure:
        """Return the node and the process once the rows are open, or why they are not."""
        return self.failure or (self.node, os.getpid())

    def run(
        self,
        number: int,
        content: npt.NDArray[np.uint8],
        dtypes: Sequence[np.dtype[Any]],
        calls: Sequence[Call],
    ) -> list[Any] | Failure:
        """Call the function of a round, several times in a row; return the results.

        Nothing is kept but the function, so that a call can be made again, here or elsewhere.
        """
        if self.failure is not None:
            return self.failure
        try:
            if number != self._round:
                self._function, self._entries = unpack(content, self.rows)
                self._round = number
            return [self._call(call, dtypes) for call in calls]
        except MemoryError as error:
            return Failure("memory", self.node, str(error))
        except (GmmatchError, OSError) as error:
            return Failure("unreadable", self.node, str(error))

    def _call(self, call: Call, dtypes: Sequence[np.dtype[Any]]) -> Any:
        for entries, values, dtype in zip(self._entries, call.entries, dtypes, strict=False):
            entries.bind(call.where, values, dtype)
        with limit_threads(1):
            return self._function(*call.arguments)
