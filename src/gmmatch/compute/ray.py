"""The reads on a Ray cluster: workers open the rows by path, and only sums, states and picks travel.

Lost workers are replaced as long as the cluster has room for them.
"""

import importlib
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from ..data import Dataset
from ..errors import InvalidInput, MissingExtra, WorkerFailed
from ._crew import Crew, Lost
from ._worker import Call, Failure, Parcel, Worker, by_path, count_bytes

_OBJECT_STORE_BYTES = 512 << 20  # picks of all workers wait there for their turn
_MOST_FAILED_STARTS = 4  # of a worker
_PATIENCE_SECONDS = 120.0  # without any worker
_REACH_SECONDS = 10.0


@dataclass(eq=False)
class Member:
    """A worker: its place among the workers, its handle, the node and process that it runs in, its answer."""

    place: int
    handle: Any
    node: str = "an unknown node"
    process: int = 0
    answer: Any = None


class RayEngine(Crew):
    """Runs functions on the workers of a Ray cluster, which map the rows from files that every node can read.

    `sent`, `received`: bytes of arrays that went through the driver so far. `members`: the workers that are
    ready.
    """

    name = "ray"

    def __init__(self, ray: Any, source: Dataset | None, workers: int) -> None:
        place = None if source is None else by_path(source.rows, source.name)
        super().__init__(source, place, workers, importlib.import_module("ray.cloudpickle").Pickler)
        self.sent = self.received = 0
        self._ray = ray
        options = {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
        self._actor = ray.remote(Worker).options(**options)
        self._starting: dict[Any, Member] = {}
        self._failed_starts = 0
        for number in range(workers):
            self._start(number)

    @property
    def members(self) -> list[Member]:
        """The workers that are ready, those at work last."""
        return [*self._idle, *self._busy]

    def close(self) -> None:
        """End the workers."""
        for member in [*self.members, *self._starting.values()]:
            self._ray.kill(member.handle)
        self._idle, self._starting = [], {}

    def _start(self, place: int) -> None:
        """Ask for a worker; it joins in when it is ready."""
        handle = self._actor.remote(self._place, self._expected, _name_node)
        self._starting[handle.hello.remote()] = Member(place, handle)

    def _begin(self, parcel: Parcel) -> None:
        self._content = self._ray.put(parcel.content)
        self.sent += parcel.content.nbytes * self.workers
        self._deadline = time.monotonic() + _PATIENCE_SECONDS

    def _number(self, worker: Member) -> int:
        return worker.place

    def _send(self, worker: Member, parcel: Parcel, calls: list[Call]) -> None:
        self.sent += sum(map(count_bytes, calls))
        worker.answer = worker.handle.run.remote(self._round, self._content, parcel.dtypes, calls)

    def _answers(self) -> Iterator[tuple[Member, Any]]:
        busy = {member.answer: member for member in self._busy}
        done, _ = self._ray.wait([*busy, *self._starting], num_returns=1, timeout=1.0)
        if busy:
            self._deadline = time.monotonic() + _PATIENCE_SECONDS
        elif time.monotonic() > self._deadline:
            free = float(self._ray.available_resources().get("CPU", 0.0))
            raise WorkerFailed(
                f"no worker was ready for {_PATIENCE_SECONDS:.0f} s; {self.workers} were asked for,"
                f" with one core each, and the cluster has {free} free"
            )
        for reference in done:
            if reference in self._starting:
                self._welcome(reference)
            else:
                yield busy[reference], self._fetch(busy[reference])

    def _abandon(self, worker: Member) -> None:
        self._idle.append(worker)

    def _welcome(self, reference: Any) -> None:
        """Take in a worker that is ready, or ask for another if it was lost on the way."""
        member = self._starting.pop(reference)
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._failed_starts += 1
            if self._failed_starts > _MOST_FAILED_STARTS * self.workers:
                raise WorkerFailed(f"workers end before they are ready: {_first_line(error)}") from None
            self._start(member.place)
            return
        if isinstance(answer, Failure):
            share = (len(self.rows) * place // self.workers for place in (member.place, member.place + 1))
            raise self._refusal(answer, "rows {} to {}".format(*share))
        member.node, member.process = answer
        self._idle.append(member)

    def _fetch(self, member: Member) -> Any:
        """Return what a worker answers; another is started where it was lost."""
        try:
            outcome = self._ray.get(member.answer)
        except self._ray.exceptions.RayTaskError as error:
            return error.cause
        except self._ray.exceptions.RayError as error:
            self._ray.kill(member.handle)
            self._start(member.place)
            return Lost(f"on {member.node}: {_first_line(error)}")
        self.received += count_bytes(outcome)
        return outcome


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
        # Processes that start here send no usage statistics, whatever the environment says afterwards.
        with patch.dict(os.environ, RAY_USAGE_STATS_ENABLED="0"):
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


def _name_node() -> str:
    """Name the node that this is called on: its address, and the beginning of its id."""
    ray = _import_ray()
    return f"node {ray.util.get_node_ip_address()} ({ray.get_runtime_context().get_node_id()[:8]})"


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
