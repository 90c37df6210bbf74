"""The passes on a Ray cluster: workers open the rows by path, and only sums, states and picks travel.

Every call is a pure function of what it is sent, under the number of its round, so that a call whose worker
was lost is made again by another one, with the same result. Lost workers are replaced as long as the
cluster has room for them.
"""

import importlib
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..data import Dataset
from ..errors import InvalidInput, MissingExtra, WorkerFailed
from ._agenda import Agenda, AgendaEngine, Task, rows_of
from ._by_path import Place, by_path, glimpse
from ._worker import Failure, Parcel, Worker, call_of, count_bytes, pack

_OBJECT_STORE_BYTES = 512 << 20  # picks of all workers wait there for their turn
_MOST_LOSSES = 4  # of one task: it is then the task that kills workers
_PATIENCE_SECONDS = 120.0  # without any worker
_REACH_SECONDS = 10.0


@dataclass(eq=False)
class Member:
    """A worker: its place among the workers, its handle, and the node and process that it runs in."""

    place: int
    handle: Any
    node: str = "unknown"
    process: int = 0


class RayEngine(AgendaEngine):
    """Runs functions on the workers of a Ray cluster; see `gmmatch.compute.passes.Engine`.

    `source`: the rows, mapped from files that every node can read; None for functions that open what they
    read by themselves. `workers`: how many worker processes to use, one core each.

    `sent`, `received`: bytes of arrays that went through the driver so far. `members`: the workers that are
    ready.
    """

    def __init__(self, ray: Any, source: Dataset | None, workers: int) -> None:
        super().__init__(None if source is None else source.rows, workers)
        self.sent = self.received = 0
        self.source, self._ray = source, ray
        self._name = "the input" if source is None else source.name
        self._place: Place | None = None if source is None else by_path(source.rows, source.name)
        self._expected = glimpse(self._rows)
        self._pickler = importlib.import_module("ray.cloudpickle").Pickler
        options = {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
        self._actor = ray.remote(Worker).options(**options)
        self._round = 0
        self._idle: list[Member] = []
        self._busy: dict[Any, tuple[Member, Task]] = {}
        self._starting: dict[Any, Member] = {}
        self._failed_starts = 0
        for place in range(workers):
            self._start(place)

    @property
    def members(self) -> list[Member]:
        """The workers that are ready, those at work last."""
        return [*self._idle, *(member for member, _ in self._busy.values())]

    def close(self) -> None:
        """End the workers."""
        for member in [*self.members, *self._starting.values()]:
            self._ray.kill(member.handle)
        self._idle, self._starting = [], {}

    def _start(self, place: int) -> None:
        """Ask for a worker; it joins in when it is ready."""
        handle = self._actor.remote(self._place, self._expected, _name_node)
        self._starting[handle.hello.remote()] = Member(place, handle)

    def _run(self, function: Callable[..., Any], agenda: Agenda) -> Iterator[tuple[Task, list[Any]]]:
        """Let the workers do what is on the agenda; yield tasks and their results as they are done."""
        parcel = pack(function, self._rows, self._pickler)
        content = self._ray.put(parcel.content)
        self.sent += parcel.content.nbytes * self.workers
        self._round += 1
        busy = self._busy
        deadline = time.monotonic() + _PATIENCE_SECONDS
        try:
            while agenda or busy:
                self._hand_out(agenda, parcel, content)
                done, _ = self._ray.wait([*busy, *self._starting], num_returns=1, timeout=1.0)
                if busy:
                    deadline = time.monotonic() + _PATIENCE_SECONDS
                elif time.monotonic() > deadline:
                    raise WorkerFailed(
                        f"no worker was ready for {_PATIENCE_SECONDS:.0f} s; {self.workers} were asked for,"
                        f" with one core each, and the cluster has {self._free_cores()} free"
                    )
                for reference in done:
                    if reference in self._starting:
                        self._welcome(reference)
                        continue
                    member, task = busy.pop(reference)
                    results = self._fetch(reference, member, task)
                    if results is None:
                        agenda.put_back(task)
                    else:
                        self._idle.append(member)
                        self.received += count_bytes(results)
                        yield task, results
        finally:
            self._idle += [member for member, _ in busy.values()]
            busy.clear()

    def _hand_out(self, agenda: Agenda, parcel: Parcel, content: Any) -> None:
        for member in list(self._idle):
            task = agenda.next(member.place)
            if task is None:
                return
            self._idle.remove(member)
            calls = [call_of(item, task.state, parcel) for item in task.items]
            self.sent += sum(map(count_bytes, calls))
            reference = member.handle.run.remote(self._round, content, parcel.dtypes, calls)
            self._busy[reference] = member, task

    def _welcome(self, reference: Any) -> None:
        """Take in a worker that is ready, or ask for another if it was lost on the way."""
        member = self._starting.pop(reference)
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._failed_starts += 1
            if self._failed_starts > _MOST_LOSSES * self.workers:
                raise WorkerFailed(f"workers end before they are ready: {_first_line(error)}") from None
            self._start(member.place)
            return
        if isinstance(answer, Failure):
            raise self._refusal(answer, self._share(member))
        member.node, member.process = answer
        self._idle.append(member)

    def _share(self, member: Member) -> str:
        """Name the rows that are a worker's own."""
        n_rows = 0 if self._rows is None else len(self._rows)
        first, stop = (n_rows * place // self.workers for place in (member.place, member.place + 1))
        return f"rows {first} to {stop}"

    def _fetch(self, reference: Any, member: Member, task: Task) -> list[Any] | None:
        """Return the results of a task, or None if its worker was lost."""
        try:
            outcome: list[Any] | Failure = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self._ray.exceptions.RayError as error:
            task.losses.append(f"on node {member.node}: {_first_line(error)}")
            if len(task.losses) >= _MOST_LOSSES:
                raise WorkerFailed(
                    f"{len(task.losses)} workers were lost in {rows_of(task)} of {self._name}, the"
                    f" last {task.losses[-1]}"
                ) from None
            self._ray.kill(member.handle)
            self._start(member.place)
            return None
        if isinstance(outcome, Failure):
            raise self._refusal(outcome, rows_of(task))
        return outcome

    def _refusal(self, failure: Failure, rows: str) -> InvalidInput | WorkerFailed:
        name = self._name
        if failure.kind == "memory":
            return WorkerFailed(
                f"the worker on node {failure.node} ran out of memory in {rows} of {name}"
                f" ({failure.reason}); use fewer workers per node"
            )
        if failure.kind == "unreadable":
            return InvalidInput(
                f"node {failure.node} cannot read {rows} of {name}: {failure.reason}; every node must see the"
                " same files under the same path"
            )
        return InvalidInput(
            f"node {failure.node} sees other rows than this machine in {name}: {failure.reason}"
        )

    def _free_cores(self) -> float:
        return float(self._ray.available_resources().get("CPU", 0.0))


@contextmanager
def ray_engine(
    source: Dataset | None, address: str | None = None, workers: int | None = None
) -> Iterator[RayEngine]:
    """Open an engine for the rows of a source, on a running cluster or on one of this machine's cores.

    `source`: rows that are mapped from files; None for functions that open what they read by themselves.
    `address`: a running cluster to join, `auto` for the one that this machine is part of. None: the one that
    this process has joined already, or a new one that ends with the engine. `workers`: how many worker
    processes to use; as many as the cluster has cores by default.

    Raises `MissingExtra`: Ray is not installed. Raises `InvalidInput`: the rows are held in memory, a node
    cannot read them, or there is no such cluster.
    """
    if source is not None:
        by_path(source.rows, source.name)  # refuses rows in memory before a cluster is started
    with joined(address, workers) as ray:
        engine = RayEngine(ray, source, workers or max(1, int(ray.cluster_resources().get("CPU", 1))))
        try:
            yield engine
        finally:
            engine.close()


@contextmanager
def joined(address: str | None, cores: int | None = None) -> Iterator[Any]:
    """Join a cluster, or start one; leave it, or end it, as it was found. Yields the module `ray`."""
    ray = _import_ray()
    if ray.is_initialized():
        yield ray
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        own = {"num_cpus": cores, "include_dashboard": False, "object_store_memory": _OBJECT_STORE_BYTES}
        options |= own | {"address": "local"}
    else:
        options["address"] = address
    try:
        with _no_statistics():
            _check_reachable(address)
            ray.init(**options)
    except (OSError, ValueError, RuntimeError) as error:
        raise InvalidInput(f"cannot join a Ray cluster at {address!r}: {_first_line(error)}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Raise an error at once where nobody listens, for which Ray itself would wait for minutes."""
    host, colon, port = (address or "").rpartition(":")
    if colon and port.isdigit() and "//" not in host:
        socket.create_connection((host, int(port)), _REACH_SECONDS).close()


def _import_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise MissingExtra("ray", "cluster") from None


@contextmanager
def _no_statistics() -> Iterator[None]:
    """Let processes that start here send no usage statistics, whatever the environment says afterwards."""
    name = "RAY_USAGE_STATS_ENABLED"
    before = os.environ.get(name)
    os.environ[name] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _name_node() -> str:
    """Return the address of the node that this is called on, and the beginning of its id."""
    ray = _import_ray()
    return f"{ray.util.get_node_ip_address()} ({ray.get_runtime_context().get_node_id()[:8]})"


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
