"""Where rows in pieces are put: memory that is used again, and a file for those asked for once more."""

import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ..records import FloatArray, IntArray

_MOST_SHARE = 1 / 4  # of what is free on the disk


def _references(arrays: list[FloatArray]) -> list[int]:
    """Count who refers to each array; views of it do."""
    return [sys.getrefcount(array) for array in arrays]


_UNUSED = _references([np.empty(0)])[0]


class Buffers:
    """Memory for rows of one width, used again once nobody refers to it: fresh pages take time."""

    def __init__(self, width: int, dtype: np.dtype[Any], most: int) -> None:
        self.width, self.dtype, self.most = width, dtype, most
        self._held: list[FloatArray] = []
        self._lock = threading.Lock()

    def empty(self, n_rows: int) -> FloatArray:
        """Return an array with any content."""
        with self._lock:
            for held, users in zip(self._held, _references(self._held), strict=True):
                if n_rows <= len(held) <= 2 * n_rows and users == _UNUSED:
                    return held[:n_rows]
            # Some more rows than are wanted now: pages that are not used are not there.
            made = np.empty((n_rows + n_rows // 8, self.width), self.dtype)
            self._held = [*self._held[len(self._held) - self.most + 1 :], made]
            return made[:n_rows]

    def clear(self) -> None:
        """Let go of all memory."""
        with self._lock:
            self._held = []


class KeptRows:
    """Rows of one width, kept in the order in which they come, as long as the disk has room.

    In a file without a name, and so in nobody's memory.
    """

    def __init__(self, width: int, dtype: np.dtype[Any]) -> None:
        self.width, self.dtype = width, dtype
        self._numbers: list[IntArray] = []
        self._file: IO[bytes] | None = None
        self._room = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def __del__(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # what a full disk did not take
                self._file.close()

    def add(self, numbers: IntArray, read: Callable[[IntArray], FloatArray]) -> None:
        """Keep rows; those that there is no room for will be read again by whoever asks for them."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="gmmatch-")  # noqa: SIM115
                self._room = int(shutil.disk_usage(tempfile.gettempdir()).free * _MOST_SHARE)
            size = len(numbers) * self.width * self.dtype.itemsize
            if size <= self._room:
                self._file.write(read(numbers).data)
                self._file.flush()
                self._room -= size
                self._numbers.append(numbers)
        except OSError:
            self._room = 0

    def release(self) -> tuple[IntArray, FloatArray, bool, IntArray]:
        """Return the row numbers, ascending, the values, False, and the place of each among the values."""
        numbers, file = self._numbers, self._file
        self._numbers, self._file = [], None
        if not numbers or file is None:
            return np.empty(0, np.int64), np.empty((0, self.width), self.dtype), False, np.empty(0, np.int64)
        together = np.concatenate(numbers)
        values = np.memmap(file, self.dtype, "r", shape=(len(together), self.width))
        with suppress(OSError):  # what a full disk did not take is not among the numbers
            file.close()
        slots = np.argsort(together, kind="stable")
        return together[slots], np.asarray(values), False, slots


class Expected:
    """Rows that are read in the order of the file, to be taken in any order, once each."""

    def __init__(
        self, numbers: IntArray, values: FloatArray, settled: bool = False, slots: IntArray | None = None
    ) -> None:
        self.numbers, self.values = numbers, values
        self.settled = settled  # whether they are held until they are settled
        self.slots = slots  # where the values of each are; None: in the order of the numbers
        self.left = np.ones(len(numbers), dtype=bool)
        self.reading: list[Future[None]] = []
        self.lock = threading.Lock()

    def take(self, chosen: IntArray, rows: FloatArray) -> npt.NDArray[np.bool_]:
        """Write the chosen rows that are here to their places, once they have been read; tell which."""
        if self.reading and self.holds(chosen).any():
            for part in self.reading:
                part.result()
            self.reading = []
        with self.lock:
            here, places = self._find(chosen)
            values, slots = self.values, places if self.slots is None else self.slots[places]
            if not self.settled:
                self._release(places)
        if len(places) == len(chosen):
            np.take(values, slots, axis=0, out=rows, mode="clip")  # other modes go through a copy
        elif len(places):
            rows[here] = values[slots]
        return here

    def holds(self, chosen: IntArray) -> npt.NDArray[np.bool_]:
        """Tell which of the chosen rows are here."""
        with self.lock:
            return self._find(chosen)[0]

    def release(self, numbers: IntArray) -> None:
        """Give rows up."""
        with self.lock:
            self._release(self._find(numbers)[1])

    def _find(self, chosen: IntArray) -> tuple[npt.NDArray[np.bool_], IntArray]:
        if not len(self.numbers):
            return np.zeros(len(chosen), dtype=bool), np.empty(0, np.int64)
        places = np.searchsorted(self.numbers, chosen)
        places[places == len(self.numbers)] = 0
        here = (self.numbers[places] == chosen) & self.left[places]
        return here, places[here]

    def _release(self, places: IntArray) -> None:
        self.left[places] = False
        n_left = int(np.count_nonzero(self.left))
        if 4 * n_left >= len(self.left) or not all(part.done() for part in self.reading):
            return
        self.numbers = self.numbers[self.left]
        if self.slots is not None:
            self.slots = self.slots[self.left]
        else:
            self.values = self.values[self.left]
        self.left = np.ones(n_left, dtype=bool)

    def __len__(self) -> int:
        return int(np.count_nonzero(self.left))
