"""The types of arrays, by what they hold, and what all kinds of rows can do."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
"""Numbers in double precision, of any shape."""
FloatArray = npt.NDArray[np.floating[Any]]
"""Numbers in the precision of the data."""
IntArray = npt.NDArray[np.int64]
"""Row numbers, class numbers or counts."""
Mask = npt.NDArray[np.bool_]
"""True for the rows that are meant."""
Keys = npt.NDArray[np.uint64]
"""Hashes of rows, by which rows are ordered whatever order they come in."""
Labels = npt.NDArray[Any]
"""One value per row, of any type."""
Float32Array = npt.NDArray[np.float32]
"""Features from a network."""
UInt8Array = npt.NDArray[np.uint8]
"""Images, or other bytes."""
AnyArray = npt.NDArray[Any]
"""An array of any type."""
DType = np.dtype[Any]
"""The type of the values of any array."""
Arrays = dict[str, AnyArray]
"""Arrays by name, as a file holds them."""


def kinds_of(value: object) -> set[tuple[str, str]]:
    """Return the classes that a value is of, each as its library and its name; no library is imported.

    >>> ("numpy", "ndarray") in kinds_of(np.ones(3))
    True
    """
    return {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__}


def is_lazy(value: object) -> bool:
    """Return True for what is read like an array of rows and is none: of h5py, zarr, dask, or a user's own.

    >>> is_lazy(np.eye(2)), is_lazy([[1.0]])
    (False, False)
    """
    shape, kind = getattr(value, "shape", None), getattr(value, "dtype", None)
    numbers = isinstance(kind, np.dtype) and kind.kind in "fiub"
    own = isinstance(value, np.ndarray) or getattr(value, "reads_like_rows", False)
    return numbers and isinstance(shape, tuple) and len(shape) == 2 and not own


class Rows(Protocol):
    """What every kind of rows can do: an array, a memory map, or a view that reads like one.

    `rows[10:20]` and `rows[row_numbers]`, with sorted row numbers, give float arrays.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and features."""

    @property
    def dtype(self) -> DType:
        """Type of what is read: float32 or float64."""

    @property
    def ndim(self) -> int:
        """Always 2."""

    @property
    def itemsize(self) -> int:
        """Bytes of a number."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> FloatArray: ...
