"""Runners with workers in other processes: what is to be done next, by whom, and again where one was lost.

Every call is a pure function of what it is sent, so that one whose worker was lost is made again by another,
with the same result.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..data import Dataset
from ..errors import InvalidInput, WorkerFailed
from ._worker import Failure, Parcel, Place, call_of, glimpse
from .runner import NO_ROWS, Runner, bundles

_MOST_LOSSES = 4  # of one task: it is then the task that ends workers
_SHARDS, _BUNDLES = 4, 8  # per worker, so that none waits long for the last


@dataclass(eq=False)
class Task:
    """Calls that one worker makes in a row."""

    number: int  # of the task, or of the sequence it belongs to
    # What the function is called with, one after the other, and the places of these among all items.
    items: Sequence[Any]
    places: Sequence[int] = ()
    size: int = 0  # how much work there is, with what follows it
    home: int | None = None  # the worker whose share it is
    state: Any = None  # what the first call starts from; None where there is no state
    losses: list[str] = field(default_factory=list)  # what became of the workers that had it before

    @property
    def rows(self) -> str:
        """The rows that it looks at, in words."""
        if isinstance(self.items[0], slice):
            return f"rows {self.items[0].start} to {self.items[-1].stop}"
        least, most = (pick(pick(item.rows) for item in self.items) for pick in (min, max))
        return f"{sum(map(size_of, self.items))} rows between {least} and {most}"


def size_of(item: Any) -> int:
    """Return how many rows an item is about."""
    return int(item.stop - item.start) if isinstance(item, slice) else len(item)


def take(tasks: list[Task], worker: int) -> Task | None:
    """Take the first task of a worker's own share, or else the largest, the last of equal ones."""
    own = [place for place, task in enumerate(tasks) if task.home == worker]
    sizes = [(task.size, place) for place, task in enumerate(tasks)]
    return tasks.pop(own[0] if own else max(sizes)[1]) if tasks else None


def shards(items: Sequence[Any], workers: int) -> list[Task]:
    """Cut items in the order of the rows into tasks; every worker has a contiguous share."""
    count = min(len(items), workers * _SHARDS)
    ends = [len(items) * (place + 1) // count for place in range(count)]
    return [
        Task(number, items[start:stop], range(start, stop), home=number * workers // count)
        for number, (start, stop) in enumerate(zip([0, *ends], ends, strict=False))
    ]


def bundled(items: Sequence[Any], workers: int) -> list[Task]:
    """Put items of any size together into tasks of nearly one size."""
    sizes = [size_of(item) for item in items]
    return [
        Task(number, [items[place] for place in places], places, sum(sizes[place] for place in places))
        for number, places in enumerate(bundles(sizes, workers * _BUNDLES))
    ]


class Lost(str):
    """What became of a worker."""

    __slots__ = ()


class Crew(Runner):
    """Runs functions on workers that open the rows by path.

    `source`: the rows that calls look at; None for functions that open what they read by themselves. `place`:
    where workers find them. `workers`: how many there are, one core each. `pickler`: pickles functions in
    functions.
    """

    def __init__(self, source: Dataset | None, place: Place | None, workers: int, pickler: Any) -> None:
        super().__init__(NO_ROWS if source is None else source.rows)
        self.source, self.workers = source, workers
        self._name = "the input" if source is None else source.name
        self._place, self._expected = place, "" if source is None else glimpse(source.rows)
        self._pickler = pickler
        self._round = 0  # of which each has one function
        self._idle: list[Any] = []
        self._busy: dict[Any, Task] = {}  # by worker

    def map(
        self,
        function: Callable[[Any], Any],
        items: Sequence[Any],
        at_once: int | None = None,
        memory: int | None = None,
    ) -> Iterator[Any]:
        """Yield `function(item)` for each item, in order."""
        cut = shards if items and isinstance(items[0], slice) else bundled
        waiting: dict[int, Any] = {}
        first = 0
        for task, results in self._run(function, cut(items, self.workers)):
            waiting.update(zip(task.places, results, strict=True))
            while first in waiting:
                yield waiting.pop(first)
                first += 1

    def follow(
        self,
        function: Callable[[Any, Any], tuple[Any, Any]],
        sequences: Sequence[Sequence[Any]],
        states: Sequence[Any],
    ) -> Iterator[tuple[int, Any, Any]]:
        """Run sequences of calls, each with the state that the one before it left; the longest goes first."""
        ahead = [iter(items) for items in sequences]
        left = [sum(map(size_of, items)) for items in sequences]
        waiting: list[Task] = []

        def go_on(number: int, state: Any) -> None:
            item = next(ahead[number], None)
            if item is not None:
                waiting.append(Task(number, [item], size=left[number], state=state))
                left[number] -= size_of(item)

        for number, state in enumerate(states):
            go_on(number, state)
        for task, [(state, result)] in self._run(function, waiting):
            go_on(task.number, state)
            yield task.number, state, result

    def _run(self, function: Callable[..., Any], waiting: list[Task]) -> Iterator[tuple[Task, list[Any]]]:
        """Let the workers do the tasks that wait, and those that join them; yield each with its results."""
        parcel = Parcel.of(function, self.rows, self._pickler)
        self._round += 1
        try:
            self._begin(parcel)
            while waiting or self._busy:
                for worker in list(self._idle):
                    task = take(waiting, self._number(worker))
                    if task is None:
                        break
                    self._idle.remove(worker)
                    self._busy[worker] = task
                    self._send(worker, parcel, [call_of(item, task.state, parcel) for item in task.items])
                for worker, outcome in self._answers():
                    task = self._busy.pop(worker)
                    if isinstance(outcome, Lost):
                        waiting.append(self._lose(task, outcome))
                        continue
                    self._idle.append(worker)
                    if isinstance(outcome, Failure):
                        outcome = self._refusal(outcome, task.rows)
                    if isinstance(outcome, BaseException):
                        raise outcome from None
                    yield task, outcome
        finally:
            for worker in [*self._busy]:
                self._abandon(worker)
            self._busy = {}

    def _lose(self, task: Task, loss: Lost) -> Task:
        """Return a task whose worker was lost, unless that happened to it too often."""
        task.losses.append(loss)
        task.home = None  # whoever is free may do it
        if len(task.losses) >= _MOST_LOSSES:
            raise WorkerFailed(
                f"{len(task.losses)} workers were lost in {task.rows} of {self._name}, the last {loss}"
            )
        return task

    def _refusal(self, failure: Failure, rows: str) -> InvalidInput | WorkerFailed:
        name, node = self._name, failure.node
        if failure.kind == "memory":
            return WorkerFailed(
                f"the worker on {node} ran out of memory in {rows} of {name} ({failure.reason}); use fewer"
                " workers per node"
            )
        if failure.kind == "unreadable":
            return InvalidInput(
                f"{node} cannot read {rows} of {name}: {failure.reason}; every node must see the same files"
                " under the same path"
            )
        return InvalidInput(f"{node} sees other rows than this machine in {name}: {failure.reason}")

    @abstractmethod
    def _number(self, worker: Any) -> int:
        """Return the number of a worker among all."""

    @abstractmethod
    def _begin(self, parcel: Parcel) -> None:
        """Get ready to send a function."""

    @abstractmethod
    def _send(self, worker: Any, parcel: Parcel, calls: list[Any]) -> None:
        """Have a worker make calls of the function of this round."""

    @abstractmethod
    def _answers(self) -> Iterator[tuple[Any, Any]]:
        """Wait; yield workers that were busy, and what each answers.

        That is its results, a `Failure`, an error or, after another was started in its place, `Lost`.
        """

    @abstractmethod
    def _abandon(self, worker: Any) -> None:
        """Let a worker be idle whose answer nobody waits for any more."""
