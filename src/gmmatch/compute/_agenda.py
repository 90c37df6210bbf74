"""What is to be done next, and by whom; nothing here changes a result."""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .bundles import bundles


@dataclass(eq=False)
class Task:
    """Calls that one worker makes in a row."""

    number: int  # of the task, or of the sequence it belongs to
    # What the function is called with, one after the other, and the places of these among all items.
    items: Sequence[Any]
    places: Sequence[int] = ()
    state: Any = None  # what the first call starts from; None where there is no state
    losses: list[str] = field(default_factory=list)  # what became of the workers that had it before


class Agenda(Protocol):
    """Tasks that wait for a worker."""

    def next(self, worker: int) -> Task | None:
        """Return what this worker should do next, or None."""

    def put_back(self, task: Task) -> None:
        """Take a task back whose worker was lost."""

    def __bool__(self) -> bool:
        """Tell whether a task waits."""


class Shards:
    """Pieces of the rows, in order; every worker has a contiguous share and helps others when it is done.

    `items`: what there is to do, in the order of the rows. `pieces`: into how many pieces to cut the share of
    a worker.
    """

    def __init__(self, items: Sequence[Any], workers: int, pieces: int = 4) -> None:
        count = min(len(items), workers * pieces)
        ends = [len(items) * (place + 1) // count for place in range(count)] if count else []
        cuts = zip([0, *ends], ends, strict=False)
        self.shares: list[list[Task]] = [[] for _ in range(workers)]
        for number, (start, stop) in enumerate(cuts):
            task = Task(number, items[start:stop], range(start, stop))
            self.shares[number * workers // count].append(task)

    def next(self, worker: int) -> Task | None:
        """Return the first task of the worker's own share, or the last of the longest other."""
        if self.shares[worker]:
            return self.shares[worker].pop(0)
        longest = max(self.shares, key=len)
        return longest.pop() if longest else None

    def put_back(self, task: Task) -> None:
        """Let whoever is free first do it: the longest share is helped with from its end."""
        max(self.shares, key=len).append(task)

    def __bool__(self) -> bool:
        return any(self.shares)


class Bundles:
    """Items of any size, in bundles of nearly one size; the largest come first.

    `sizes`, `items`: how much work each item is, and the items. `pieces`: how many bundles to make per
    worker.
    """

    def __init__(self, sizes: Sequence[int], items: Sequence[Any], workers: int, pieces: int = 8) -> None:
        together = bundles(sizes, workers * pieces)
        together.sort(key=lambda places: -sum(sizes[place] for place in places))
        self.tasks = [
            Task(number, [items[place] for place in places], places) for number, places in enumerate(together)
        ]

    def next(self, worker: int) -> Task | None:
        """Return the largest bundle that waits."""
        return self.tasks.pop(0) if self.tasks else None

    def put_back(self, task: Task) -> None:
        """Let it be the next."""
        self.tasks.insert(0, task)

    def __bool__(self) -> bool:
        return bool(self.tasks)


class Sequences:
    """Sequences of calls that pass a state on; the one with most left to do goes first.

    `sequences`: what each calls its function with, in order. `states`: what each starts from. `sizes`: how
    much work each item of each sequence is.
    """

    def __init__(
        self, sequences: Sequence[Sequence[Any]], states: Sequence[Any], sizes: Sequence[Sequence[int]]
    ) -> None:
        self.sequences, self.sizes = sequences, sizes
        self.left = [sum(own) for own in sizes]
        self.done = [0] * len(sequences)
        self.heap: list[tuple[int, int]] = []
        self.tasks: dict[int, Task] = {}
        for number, state in enumerate(states):
            self._push(number, state)

    def next(self, worker: int) -> Task | None:
        """Return the next call of the sequence with most left to do."""
        return self.tasks.pop(heapq.heappop(self.heap)[1]) if self.heap else None

    def put_back(self, task: Task) -> None:
        """Let the sequence go on from where it was."""
        self.tasks[task.number] = task
        heapq.heappush(self.heap, (-self.left[task.number], task.number))

    def carry_on(self, task: Task, state: Any) -> None:
        """Note the state after a task, and let the sequence go on with it."""
        number = task.number
        self.left[number] -= self.sizes[number][self.done[number]]
        self.done[number] += 1
        self._push(number, state)

    def _push(self, number: int, state: Any) -> None:
        if self.done[number] < len(self.sequences[number]):
            self.put_back(Task(number, [self.sequences[number][self.done[number]]], state=state))

    def __bool__(self) -> bool:
        return bool(self.heap)


class AgendaEngine(ABC):
    """Runs functions on workers that open the rows by path; see `gmmatch.compute.passes.Engine`.

    `rows`: the rows that calls look at; None for functions that open what they read by themselves.
    `workers`: how many there are, one core each.
    """

    def __init__(self, rows: Any, workers: int) -> None:
        self.workers = workers
        self._rows = rows

    def holds(self, rows: Any) -> bool:
        """Tell whether these are the rows of the source, or a view of them."""
        while hasattr(rows, "rows"):
            rows = rows.rows
        return rows is not None and rows is self._rows

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """Yield `function(item)` for each item, in order."""
        agenda: Agenda
        if items and isinstance(items[0], slice):
            agenda = Shards(items, self.workers)
        else:
            agenda = Bundles([size_of(item) for item in items], items, self.workers)
        waiting: dict[int, Any] = {}
        first = 0
        for task, results in self._run(function, agenda):
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
        """Run sequences of calls, each with the state that the one before it left."""
        sizes = [[size_of(item) for item in items] for items in sequences]
        agenda = Sequences(sequences, states, sizes)
        for task, results in self._run(function, agenda):
            state, result = results[0]
            agenda.carry_on(task, state)
            yield task.number, state, result

    @abstractmethod
    def _run(self, function: Callable[..., Any], agenda: Agenda) -> Iterator[tuple[Task, list[Any]]]:
        """Let the workers do what is on the agenda; yield tasks and their results as they are done."""


def size_of(item: Any) -> int:
    """Return how many rows an item is about."""
    return int(item.stop - item.start) if isinstance(item, slice) else len(item)


def rows_of(task: Task) -> str:
    """Name the rows that a task looks at."""
    if isinstance(task.items[0], slice):
        return f"rows {task.items[0].start} to {task.items[-1].stop}"
    least, most = (pick(pick(item.rows) for item in task.items) for pick in (min, max))
    return f"{sum(map(size_of, task.items))} rows between {least} and {most}"
