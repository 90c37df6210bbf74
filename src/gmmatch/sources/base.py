"""What every kind of source gives: rows that can be sliced, and ids and labels beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, InvalidInputType
from ..records import IntArray


class RowView:
    """Arrays stacked on top of each other and read as floats, without a copy of the whole.

    It is read like an array: `view[10:20]` and `view[sorted_row_numbers]` give float rows. Nothing is
    loaded before that, so that the parts may be memory maps larger than memory.

    Parameters
    ----------
    parts
        Two-dimensional arrays of one width.
    names
        What to call each part in messages.

    Examples
    --------
    >>> view = RowView([np.zeros((2, 3), "float16"), np.ones((1, 3), "float16")], ["a", "b"])
    >>> view.shape, view.dtype, view[1:3].tolist()
    ((3, 3), dtype('float32'), [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    """

    reads_like_rows = True

    def __init__(self, parts: Sequence[npt.NDArray[Any]], names: Sequence[str]) -> None:
        for part, name in zip(parts, names, strict=True):
            _check_part(part, name)
            if part.shape[1] != parts[0].shape[1]:
                raise InvalidInput(
                    f"{name} has rows of {part.shape[1]} numbers, but {names[0]} has rows of"
                    f" {parts[0].shape[1]}; expected one width"
                )
        wide = any(part.dtype.kind != "f" or part.dtype.itemsize > 4 for part in parts)
        self.parts = list(parts)
        self.dtype = np.dtype(np.float64 if wide else np.float32)
        self.ends = np.cumsum([len(part) for part in parts])
        self.shape = (int(self.ends[-1]), parts[0].shape[1])
        self.ndim = 2
        self.itemsize = self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self._between(start, stop)
            key = np.arange(start, stop, step)
        if np.ndim(key) == 0:
            key = [int(key)]
            return self._take(np.asarray(key))[0]  # type: ignore[no-any-return]
        return self._take(np.asarray(key))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self[:].astype(dtype or self.dtype, copy=False)

    def _between(self, start: int, stop: int) -> npt.NDArray[Any]:
        begins = self.ends - [len(part) for part in self.parts]
        pieces = [
            part[max(start - begin, 0) : stop - begin]
            for part, begin, end in zip(self.parts, begins, self.ends, strict=True)
            if begin < stop and start < end
        ]
        if len(pieces) == 1:
            return np.asarray(pieces[0], dtype=self.dtype)
        rows = np.empty((max(stop - start, 0), self.shape[1]), self.dtype)
        return np.concatenate(pieces, out=rows, casting="unsafe") if pieces else rows

    def _take(self, chosen: npt.NDArray[Any]) -> npt.NDArray[Any]:
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        if len(self.parts) == 1:
            return np.asarray(self.parts[0][chosen], dtype=self.dtype)
        rows = np.empty((len(chosen), self.shape[1]), self.dtype)
        home = np.searchsorted(self.ends, chosen, side="right")
        for number in np.unique(home):
            here = home == number
            begin = self.ends[number] - len(self.parts[number])
            rows[here] = self.parts[number][chosen[here] - begin]
        return rows


class ChosenRows:
    """Some of the rows of an array or a view, read when they are asked for.

    Parameters
    ----------
    rows
        What to read.
    chosen
        Row numbers, ascending.

    Examples
    --------
    >>> view = ChosenRows(np.array([[1.0], [np.nan], [3.0]]), np.array([0, 2]))
    >>> view.shape, view[1:].tolist()
    ((2, 1), [[3.0]])
    """

    reads_like_rows = True

    def __init__(self, rows: Any, chosen: npt.NDArray[np.int64]) -> None:
        self.rows, self.chosen = rows, chosen
        self.shape, self.dtype, self.ndim = (len(chosen), rows.shape[1]), rows.dtype, 2
        self.itemsize = rows.dtype.itemsize

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        return np.asarray(self.rows[self.chosen[key]])


def _check_part(part: npt.NDArray[Any], name: str) -> None:
    if part.dtype.kind not in "fiub":
        raise InvalidInputType(f"{name} holds values of type {part.dtype}; expected numbers")
    if part.ndim != 2:
        raise InvalidInput(f"{name} has shape {part.shape}; expected two dimensions (rows, features)")
    if part.shape[1] == 0:
        raise InvalidInput(f"{name} has rows without any numbers")


@dataclass(frozen=True, eq=False)
class Source:
    """Rows to choose from, wherever they are.

    Attributes
    ----------
    rows
        Embeddings: an array, a memory map or a view of several.
    name
        What to call it in messages.
    kind
        The kind of file.
    ids, labels
        One per row, where the source has them.
    files
        The files behind it, in the order of their rows.
    content
        The images or texts that the rows were made of, where they were.
    """

    rows: npt.NDArray[Any] | RowView
    name: str
    kind: str
    ids: npt.NDArray[Any] | None = None
    labels: npt.NDArray[Any] | None = None
    files: tuple[str, ...] = ()
    content: Any = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.rows.shape[0], self.rows.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of all rows as floats."""
        return self.shape[0] * self.shape[1] * self.rows.dtype.itemsize

    def take(self, rows: IntArray) -> npt.NDArray[Any]:
        """Return some rows, in the order asked for."""
        order = np.argsort(rows, kind="stable")
        taken = self.rows[rows[order]]
        back = np.empty_like(taken)
        back[order] = taken
        return back
