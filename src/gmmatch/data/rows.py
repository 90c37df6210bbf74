"""Views of rows, which are read when they are asked for."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import AnyArray, DType, FloatArray, IntArray, Rows
from ..errors import InvalidInput, InvalidInputType


class View(ABC):
    """What the views share: they say of themselves what an array would."""

    reads_like_rows = True
    ndim = 2

    def __init__(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        self.shape = shape
        self.dtype: DType = np.dtype(dtype)
        self.itemsize = self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def __getitem__(self, key: Any, /) -> FloatArray: ...

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        return self[:].astype(dtype or self.dtype, copy=False)


class JoinedRows(View):
    """Rows of several parts that follow each other; they are asked for by slices, numbers or masks."""

    def __getitem__(self, key: Any, /) -> FloatArray:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self._between(start, stop)
            key = np.arange(start, stop, step)
        chosen = np.asarray(key)
        if chosen.ndim == 0:
            place = range(len(self))[int(chosen)]
            return self._between(place, place + 1)[0]  # type: ignore[no-any-return]
        return self._take(np.flatnonzero(chosen) if chosen.dtype == bool else chosen)

    @abstractmethod
    def _between(self, start: int, stop: int) -> FloatArray:
        """Return the rows from `start` to before `stop`."""

    @abstractmethod
    def _take(self, chosen: IntArray) -> FloatArray:
        """Return rows by their numbers."""


class StackedRows(JoinedRows):
    """Arrays stacked on top of each other and read as floats, without a copy of the whole.

    Nothing is loaded before rows are asked for, so that the parts may be memory maps larger than memory.

    `parts`: two-dimensional arrays of one width. `names`: what to call each part in messages.

    >>> view = StackedRows([np.zeros((2, 3), "float16"), np.ones((1, 3), "float16")], ["a", "b"])
    >>> view.shape, view.dtype, view[1:3].tolist()
    ((3, 3), dtype('float32'), [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    """

    def __init__(self, parts: Sequence[Rows], names: Sequence[str]) -> None:
        for part, name in zip(parts, names, strict=True):
            if part.dtype.kind not in "fiub":
                raise InvalidInputType(f"{name} holds values of type {part.dtype}; expected numbers")
            if part.ndim != 2:
                raise InvalidInput(f"{name} has shape {part.shape}; expected two dimensions (rows, features)")
            if part.shape[1] == 0:
                raise InvalidInput(f"{name} has rows without any numbers")
            if part.shape[1] != parts[0].shape[1]:
                raise InvalidInput(
                    f"{name} has rows of {part.shape[1]} numbers, but {names[0]} has rows of"
                    f" {parts[0].shape[1]}; expected one width"
                )
        wide = any(part.dtype.kind != "f" or part.dtype.itemsize > 4 for part in parts)
        self.parts = list(parts)
        self.ends = np.cumsum([len(part) for part in parts])
        super().__init__((int(self.ends[-1]), parts[0].shape[1]), np.float64 if wide else np.float32)

    def _between(self, start: int, stop: int) -> FloatArray:
        pieces = []
        for part, end in zip(self.parts, self.ends.tolist(), strict=True):
            begin = end - len(part)
            if begin < stop and start < end:
                pieces.append(part[max(start - begin, 0) : stop - begin])
        if len(pieces) == 1:
            return np.asarray(pieces[0], dtype=self.dtype)
        rows = np.empty((max(stop - start, 0), self.shape[1]), self.dtype)
        return np.concatenate(pieces, out=rows, casting="unsafe") if pieces else rows

    def _take(self, chosen: IntArray) -> FloatArray:
        if len(self.parts) == 1:
            return np.asarray(self.parts[0][chosen], dtype=self.dtype)
        rows = np.empty((len(chosen), self.shape[1]), self.dtype)
        home = np.searchsorted(self.ends, chosen, side="right")
        for number in np.unique(home):
            here = home == number
            begin = self.ends[number] - len(self.parts[number])
            rows[here] = self.parts[number][chosen[here] - begin]
        return rows


class LazyRows(StackedRows):
    """What is read like an array by others' code, perhaps only in ascending order, each row once.

    `part`: an object of h5py, zarr or a user's own; see `gmmatch.arrays.is_lazy`.
    """

    def __init__(self, part: Rows, name: str) -> None:
        super().__init__([part], [name])

    def _between(self, start: int, stop: int) -> FloatArray:
        return np.asarray(self.parts[0][start:stop], dtype=self.dtype)

    def _take(self, chosen: IntArray) -> FloatArray:
        rows, places = np.unique(chosen, return_inverse=True)
        return np.asarray(self.parts[0][rows], dtype=self.dtype)[places]


class ViewOf(View):
    """A view that reads other rows, `rows`, when it is read; as many and as wide unless said otherwise."""

    def __init__(
        self, rows: Rows, shape: tuple[int, ...] | None = None, dtype: npt.DTypeLike | None = None
    ) -> None:
        super().__init__(shape or rows.shape, dtype or rows.dtype)
        self.rows = rows


class MappedRows(ViewOf):
    """Rows that go through a function when they are read.

    `function`: function of a block of rows that gives as many rows of the same width.

    >>> MappedRows(np.array([[1.0], [3.0]]), np.negative)[1:].tolist()
    [[-3.0]]
    """

    def __init__(self, rows: Rows, function: Callable[[FloatArray], FloatArray]) -> None:
        super().__init__(rows)
        self.function = function

    def __getitem__(self, key: Any, /) -> FloatArray:
        return self.function(self.rows[key])


def as_floats(array: AnyArray, name: str) -> Rows:
    """Return the array itself where it holds native floats, else a view that reads it as floats."""
    floats = array.dtype in (np.float32, np.float64) and array.dtype.isnative
    return array if floats and array.ndim == 2 and array.shape[1] else StackedRows([array], [name])
