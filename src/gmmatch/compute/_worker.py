"""What is sent to a worker, in place of the rows and beside them, and what the worker does with it."""

import dataclasses
import io
import mmap
import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..arrays import DType
from ..data import ForwardRows, StackedRows
from ..data.formats.arrays import unheld
from ..data.spill import Shard
from ..errors import GmmatchError, InvalidInput
from ..validation import glance
from .blocks import limit_threads
from .runner import NO_ROWS, PerRow, announced

Where = slice | npt.NDArray[np.int64] | None

_ROWS = "rows"
_WORKER_BYTES = 1 << 30  # a quarter of which is for rows that are read before they are asked for


@dataclass(frozen=True)
class MappedFile:
    """An array in a file."""

    path: str  # the file, absolute
    # Type and shape of the array, and the byte of the file where it begins.
    dtype: str
    shape: tuple[int, ...]
    offset: int

    def open(self) -> npt.NDArray[Any]:
        """Map the array into memory."""
        try:
            return np.memmap(self.path, np.dtype(self.dtype), "r", self.offset, self.shape)
        except FileNotFoundError:
            raise InvalidInput(f"there is no file {self.path}") from None
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{self.path} cannot be read: {error}") from None


@dataclass(frozen=True)
class MappedFiles:
    """Arrays in files, stacked on top of each other."""

    parts: tuple[MappedFile, ...]

    def open(self) -> StackedRows:
        """Map the arrays into memory, without a file held open for each."""
        return StackedRows([unheld(part.open()) for part in self.parts], [part.path for part in self.parts])


@dataclass(frozen=True)
class Forward:
    """Rows that can only be read forward: whoever needs some of them decodes these for itself, once."""

    shards: tuple[Shard, ...]
    width: int
    dtype: DType

    def open(self) -> ForwardRows:
        """Return the rows, once the first and the last shard were seen to be what they should be."""
        for shard in {self.shards[0], self.shards[-1]}:
            shard.check()
        return ForwardRows(self.shards, self.width, self.dtype)


Place = MappedFile | MappedFiles | Forward


def by_path(rows: Any, name: str) -> Place:
    """Return where rows are that are mapped from files.

    `rows`: a memory map, a `StackedRows` of some, or `ForwardRows`.

    Raises `InvalidInput`: the rows are held in memory.
    """
    if isinstance(rows, ForwardRows) and rows.can_travel:
        return Forward(tuple(rows.shards), rows.shape[1], rows.dtype)
    if isinstance(rows, StackedRows):
        return MappedFiles(tuple(_locate(part, name) for part in rows.parts))
    return _locate(rows, name)


def glimpse(rows: Any) -> str:
    """Return what rows that a worker opens must look like; nothing of those that it checks by itself."""
    return "" if isinstance(rows, ForwardRows) else glance(rows)


def _locate(array: Any, name: str) -> MappedFile:
    filename, mapping = getattr(array, "filename", None), getattr(array, "_mmap", None)
    if filename is None or mapping is None or not array.flags.c_contiguous:
        raise InvalidInput(
            f"the rows of {name} are held in memory, and the engine 'ray' reads rows by path: give it a file:"
            " .npy, safetensors, Parquet or Arrow (small files of columns are opened with mapped=True)"
        )
    # A slice of a memory map has the offset of the whole: its own follows from where it is in memory.
    begin = np.frombuffer(mapping, np.uint8).ctypes.data
    first = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    return MappedFile(
        os.path.abspath(filename), array.dtype.str, array.shape, int(first + array.ctypes.data - begin)
    )


class Entries:
    """Some entries of an array, in place of the whole."""

    def bind(self, where: Where, values: npt.NDArray[Any], dtype: np.dtype[Any]) -> None:
        """Hold the entries of the rows `where`, of which `values` is a smaller spelling."""
        self.numbers = np.arange(where.start, where.stop) if isinstance(where, slice) else where
        self.values = values.astype(dtype, copy=False)

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        assert self.numbers is not None
        wanted = np.arange(key.start, key.stop) if isinstance(key, slice) else np.asarray(key)
        place = np.minimum(np.searchsorted(self.numbers, wanted), len(self.numbers) - 1)
        if (self.numbers[place] != wanted).any():
            raise IndexError("a call looked at rows that it had not named")
        found: npt.NDArray[Any] = self.values[place]
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class Parcel:
    """A function that is ready to be sent."""

    content: npt.NDArray[np.uint8]  # the pickle, as bytes in an array
    # The arrays with one entry per row that it looks at, in as few bytes as their values allow.
    beside: list[npt.NDArray[Any]]
    dtypes: list[np.dtype[Any]]

    @classmethod
    def of(cls, function: Callable[..., Any], rows: Any, pickler: type[pickle.Pickler]) -> Self:
        """Make a function ready to be sent; `pickler` is one that can pickle functions in functions."""
        beside: list[PerRow] = []

        class WithoutRows(pickler):  # type: ignore[misc, valid-type]
            def persistent_id(self, thing: Any) -> Any:
                if thing is rows:
                    return _ROWS
                if isinstance(thing, PerRow) and thing.values is not None:
                    if not any(thing is known for known in beside):
                        beside.append(thing)
                    return next(place for place, known in enumerate(beside) if thing is known)
                return None

        stream = io.BytesIO()
        WithoutRows(stream, pickle.HIGHEST_PROTOCOL).dump(function)
        values = [np.asarray(thing.values) for thing in beside]
        content = np.frombuffer(stream.getbuffer(), np.uint8)
        return cls(content, [_small(array) for array in values], [array.dtype for array in values])

    def entries(self, where: Where) -> list[npt.NDArray[Any]]:
        """Return what a call that looks at the rows `where` must be sent."""
        return [values[where] for values in self.beside] if where is not None else []


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, rows: Any) -> None:
        super().__init__(stream)
        self.rows = rows
        self.found: dict[int, Entries] = {}

    def persistent_load(self, pid: Any) -> Any:
        if pid == _ROWS:
            return self.rows
        return PerRow(self.found.setdefault(pid, Entries()))


def unpack(content: npt.NDArray[np.uint8], rows: Any) -> tuple[Callable[..., Any], list[Entries]]:
    """Return the function that was sent, and what each call must bind its entries to."""
    unpickler = _Unpickler(io.BytesIO(content.tobytes()), rows)
    function = unpickler.load()
    return function, [unpickler.found[place] for place in sorted(unpickler.found)]


def _small(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return whole numbers in the smallest type that holds them."""
    if values.dtype.kind != "i" or values.size == 0:
        return values
    low, high = int(values.min()), int(values.max())
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind)
    return values


def count_bytes(thing: Any) -> int:
    """Return how many bytes of arrays a message holds."""
    if isinstance(thing, np.ndarray):
        return int(thing.nbytes)
    if isinstance(thing, (list, tuple)):
        return sum(map(count_bytes, thing))
    if dataclasses.is_dataclass(thing):
        return sum(count_bytes(getattr(thing, field.name)) for field in dataclasses.fields(thing))
    return 0


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

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The numbers of the rows that it looks at, where it names them."""
        item = self.arguments[-1]
        return np.empty(0, np.int64) if isinstance(item, slice) else item.rows


def call_of(item: Any, state: Any, parcel: Parcel) -> Call:
    """Return the call of a function with an item, after the state of the call before it, if there is one."""
    where: Where = None
    if parcel.beside:
        where = item if isinstance(item, slice) else item.rows
    return Call((item,) if state is None else (state, item), where, parcel.entries(where))


class Worker:
    """One process with one core's share of the work.

    `place`: where the rows are, if there are any. `expected`: a glance at them. `name_node`: function
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
        self.rows: Any = NO_ROWS
        if place is None:
            return
        try:
            self.rows = place.open()
            found = glimpse(self.rows)
        except (GmmatchError, OSError) as error:
            self.failure = Failure("unreadable", self.node, str(error))
            return
        if found != expected:
            self.failure = Failure("other rows", self.node, f"digest {found} in place of {expected}")

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
            return [self._call(call, dtypes) for call in announced(self.rows, calls, _WORKER_BYTES)]
        except MemoryError as error:
            return Failure("memory", self.node, str(error))
        except (GmmatchError, OSError) as error:
            return Failure("unreadable", self.node, str(error))

    def _call(self, call: Call, dtypes: Sequence[np.dtype[Any]]) -> Any:
        for entries, values, dtype in zip(self._entries, call.entries, dtypes, strict=False):
            entries.bind(call.where, values, dtype)
        with limit_threads(1):
            return self._function(*call.arguments)
