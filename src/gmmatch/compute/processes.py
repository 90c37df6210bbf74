"""The reads on processes of this machine, each with a core and with the rows opened by path.

The same calls as on a cluster, over a pipe to each process: the picks are the same, whoever makes them.
"""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

from ..data import Dataset
from ..errors import InvalidInput, InvalidParameter
from ._crew import Crew, Lost
from ._worker import Call, MappedFile, Parcel, Place, Worker, by_path
from .blocks import core_count

_START = "from gmmatch.compute.processes import serve; serve()"


class ProcessEngine(Crew):
    """Runs functions on processes of this machine, over a pipe to each."""

    name = "processes"

    def __init__(self, source: Dataset | None, place: Place | None, workers: int) -> None:
        super().__init__(source, place, workers, import_module("cloudpickle").Pickler)
        self._processes: dict[Connection, tuple[int, subprocess.Popen[bytes]]] = {}
        self._known: dict[Connection, int] = {}  # the round whose function each process has
        for number in range(workers):
            self._start(number)

    def _start(self, number: int) -> None:
        """Start a process, which opens the rows while others start."""
        here, there = socket.socketpair()
        words = [sys.executable, "-c", _START, str(there.fileno())]
        paths = os.pathsep.join(path for path in sys.path if path)
        process = subprocess.Popen(
            words,
            pass_fds=[there.fileno()],
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.DEVNULL,
        )
        there.close()
        pipe = Connection(here.detach())
        pipe.send((self._place, self._expected))
        self._processes[pipe] = number, process
        self._idle.append(pipe)

    def close(self) -> None:
        """End the processes."""
        for pipe in list(self._processes):
            self._end(pipe)

    def _end(self, pipe: Connection) -> int:
        """End a process; return its number."""
        number, process = self._processes.pop(pipe)
        pipe.close()
        process.kill()
        process.wait()
        return number

    def _begin(self, parcel: Parcel) -> None:
        """Each process is sent the function with its first calls."""

    def _number(self, worker: Connection) -> int:
        return self._processes[worker][0]

    def _send(self, worker: Connection, parcel: Parcel, calls: list[Call]) -> None:
        known = self._known.get(worker) == self._round
        with suppress(OSError):  # a process that is lost is noticed when it does not answer
            worker.send((self._round, None if known else parcel.content, parcel.dtypes, calls))
        self._known[worker] = self._round

    def _answers(self) -> Iterator[tuple[Connection, Any]]:
        ready = wait(list(self._busy))
        for pipe in [pipe for pipe in self._busy if pipe in ready]:
            try:
                outcome = pipe.recv()
            except (EOFError, OSError):
                self._start(self._end(pipe))
                outcome = Lost("ended; memory may be short: use fewer workers")
            yield pipe, outcome

    def _abandon(self, worker: Connection) -> None:
        self._start(self._end(worker))  # what it still answers belongs to nobody


def serve() -> None:
    """Do what comes through the pipe whose number the command names, until it is closed."""
    pipe = Connection(int(sys.argv[1]))
    place, expected = pipe.recv()
    worker = Worker(place, expected, lambda: "this machine")
    content: Any = None
    with suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        while True:
            number, new, dtypes, calls = pipe.recv()
            content = content if new is None else new
            try:
                answer: Any = worker.run(number, content, dtypes, calls)
            except Exception as error:
                answer = error
            pipe.send(answer)


@contextmanager
def process_engine(
    source: Dataset | None, address: str | None = None, workers: int | None = None
) -> Iterator[ProcessEngine]:
    """Open an engine of processes; rows in memory are written to a temporary file that they map.

    `address`: for other engines. `workers`: how many processes; one per core by default.
    """
    if address is not None:
        raise InvalidParameter("address is for the engine 'ray'; the engine is 'processes'")
    if os.name != "posix":
        raise InvalidParameter("engine='processes' needs Linux or macOS; use 'local'")
    with tempfile.TemporaryDirectory(prefix="gmmatch-") as folder:
        place: Place | None = None
        if source is not None:
            try:
                place = by_path(source.rows, source.name)
            except InvalidInput:
                place = _written(source.rows, Path(folder) / "rows.npy")
        engine = ProcessEngine(source, place, workers or core_count())
        try:
            yield engine
        finally:
            engine.close()


def _written(rows: Any, path: Path) -> MappedFile:
    """Write rows that are held in memory to a file."""
    np.save(path, rows[:], allow_pickle=False)
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    return MappedFile(str(path), mapped.dtype.str, mapped.shape, int(mapped.offset))
