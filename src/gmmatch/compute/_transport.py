"""Functions on their way to other processes, without the rows that they read.

A function is pickled with everything that it holds, but for two kinds of things: the rows, which the
other process has opened for itself, and arrays with one entry per row (`PerRow`), of which each call is
sent the entries that it looks at.
"""

import dataclasses
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .passes import PerRow

Where = slice | npt.NDArray[np.int64] | None

_ROWS = "rows"


class Entries:
    """Some entries of an array, in place of the whole."""

    def bind(self, where: Where, values: npt.NDArray[Any], dtype: np.dtype[Any]) -> None:
        """Hold the entries of the rows `where`, of which `values` is a smaller spelling."""
        self.where, self.values = where, values.astype(dtype, copy=False)

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        where = self.where
        if isinstance(where, slice):
            if isinstance(key, slice):
                key = slice(key.start - where.start, key.stop - where.start)
                inside = key.start >= 0 and key.stop <= len(self.values)
            else:
                key = np.asarray(key) - where.start
                inside = bool(((key >= 0) & (key < len(self.values))).all())
        else:
            assert where is not None
            wanted = np.arange(key.start, key.stop) if isinstance(key, slice) else np.asarray(key)
            key = np.minimum(np.searchsorted(where, wanted), len(where) - 1)
            inside = bool((where[key] == wanted).all())
        if not inside:
            raise IndexError("a call looked at rows that it had not named")
        found: npt.NDArray[Any] = self.values[key]
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class Parcel:
    """A function that is ready to be sent."""

    content: npt.NDArray[np.uint8]  # the pickle, as bytes in an array
    # The arrays with one entry per row that it looks at, in as few bytes as their values allow.
    beside: list[npt.NDArray[Any]]
    dtypes: list[np.dtype[Any]]

    def entries(self, where: Where) -> list[npt.NDArray[Any]]:
        """Return what a call that looks at the rows `where` must be sent."""
        return [values[where] for values in self.beside] if where is not None else []


def pack(function: Callable[..., Any], rows: Any, pickler: type[pickle.Pickler]) -> Parcel:
    """Make a function ready to be sent; `pickler` is one that can pickle functions in functions."""
    beside: list[PerRow] = []

    class WithoutRows(pickler):  # type: ignore[misc, valid-type]
        def persistent_id(self, thing: Any) -> Any:
            if rows is not None and thing is rows:
                return _ROWS
            if isinstance(thing, PerRow):
                if not any(thing is known for known in beside):
                    beside.append(thing)
                return next(place for place, known in enumerate(beside) if thing is known)
            return None

    stream = io.BytesIO()
    WithoutRows(stream, pickle.HIGHEST_PROTOCOL).dump(function)
    values = [np.asarray(thing.values) for thing in beside]
    content = np.frombuffer(stream.getbuffer(), np.uint8)
    return Parcel(content, [_small(array) for array in values], [array.dtype for array in values])


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
