"""The passes on processes of this machine, each with a core and with the rows opened by path.

The same calls as on a cluster, over a pipe to each process: the picks are the same, whoever makes them.
"""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..data import Dataset
from ..errors import InvalidInput, InvalidParameter, WorkerFailed
from ._agenda import Agenda, AgendaEngine, Task, rows_of
from ._by_path import MappedFile, Place, by_path, glimpse
from ._worker import Failure, Worker, call_of, pack
from .blocks import core_count

_MOST_LOSSES = 4  # of one task: it is then the task that ends processes
_START = "from gmmatch.compute.processes import serve; serve()"


class ProcessEngine(AgendaEngine):
    """Runs functions on processes of this machine.

    `source`: the rows; None for functions that open what they read by themselves. `place`: where processes
    find them. `workers`: how many processes.
    """

    def __init__(self, source: Dataset | None, place: Place | None, workers: int) -> None:
        super().__init__(None if source is None else source.rows, workers)
        self._name = "the input" if source is None else source.name
        self._opening = place, glimpse(self._rows)
        self._round = 0
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
        pipe.send(self._opening)
        self._processes[pipe] = number, process

    def close(self) -> None:
        """End the processes."""
        for pipe, (_, process) in self._processes.items():
            pipe.close()
            process.kill()
            process.wait()
        self._processes = {}

    def _run(self, function: Callable[..., Any], agenda: Agenda) -> Iterator[tuple[Task, list[Any]]]:
        parcel = pack(function, self._rows, import_module("cloudpickle").Pickler)
        self._round += 1
        busy: dict[Connection, Task] = {}
        idle = list(self._processes)
        try:
            while agenda or busy:
                for pipe in list(idle):
                    task = agenda.next(self._processes[pipe][0])
                    if task is None:
                        break
                    idle.remove(pipe)
                    busy[pipe] = task
                    calls = [call_of(item, task.state, parcel) for item in task.items]
                    known = self._known.get(pipe) == self._round
                    with suppress(OSError):  # a process that is lost is noticed below
                        pipe.send((self._round, None if known else parcel.content, parcel.dtypes, calls))
                    self._known[pipe] = self._round
                for ready in wait(list(busy)):
                    pipe = cast("Connection[Any, Any]", ready)
                    task = busy.pop(pipe)
                    results = self._answer(pipe, task)
                    if results is None:
                        agenda.put_back(task)
                        idle.append(next(reversed(self._processes)))
                    else:
                        idle.append(pipe)
                        yield task, results
        finally:
            for pipe in busy:  # what they still answer belongs to nobody
                self._replace(pipe)

    def _answer(self, pipe: Connection, task: Task) -> list[Any] | None:
        """Return the results of a task; None if its process was lost, and another was started."""
        try:
            outcome = pipe.recv()
        except (EOFError, OSError):
            task.losses.append("process")
            if len(task.losses) >= _MOST_LOSSES:
                raise WorkerFailed(
                    f"{_MOST_LOSSES} processes ended in {rows_of(task)} of {self._name}; memory may be short:"
                    " use fewer workers"
                ) from None
            self._replace(pipe)
            return None
        if isinstance(outcome, Failure):
            if outcome.kind == "memory":
                raise WorkerFailed(f"a process ran out of memory in {rows_of(task)} of {self._name}")
            raise InvalidInput(f"a process cannot read {rows_of(task)} of {self._name}: {outcome.reason}")
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    def _replace(self, pipe: Connection) -> None:
        number, process = self._processes.pop(pipe)
        pipe.close()
        process.kill()
        process.wait()
        self._start(number)


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
