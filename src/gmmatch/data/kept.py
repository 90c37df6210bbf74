"""Where rows in pieces are put: memory that is used again, and files for those that wait for long.

`Slots` has room for the rows that are being matched and those that are read meanwhile; `Buffers` for the
blocks of a pass; `spill` and `KeptRows` put rows into files without a name, which are in nobody's memory.
`Expected` knows which rows are where, and hands them out.
"""

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

from ..arrays import FloatArray, IntArray

_MOST_SHARE = 1 / 4  # of what is free on the disk
_PATIENCE_SECONDS = 2.0  # without a row given back


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


class Slots:
    """Memory for rows, given out and taken back row by row.

    Pages that were never written are not there: what counts is how many rows were in use at once. So whoever
    reads ahead waits for rows to be given back, unless somebody waits for what is being read.

    `most`: rows that there is room for. `enough`: rows in use beyond which readers wait.
    """

    def __init__(self, width: int, dtype: np.dtype[Any], most: int, enough: int) -> None:
        self.values = np.empty((most, width), dtype)
        self.enough = enough
        self.promised = 0  # rows that are in use, or for which somebody will ask
        self._free = np.arange(most)[::-1].copy()  # the last one is the next to be used
        self._n_free = most
        self._changed = threading.Condition()

    def promise(self, count: int) -> bool:
        """Say that so many rows will be asked for; tell whether there is room."""
        with self._changed:
            if self.promised + count > len(self._free):
                return False
            self.promised += count
            return True

    def take(self, count: int, waits: Callable[[], bool]) -> IntArray:
        """Return the places of some rows that were promised, where `waits` says so once others are back."""
        with self._changed:
            while len(self._free) - self._n_free + count > self.enough and waits():
                if not self._changed.wait(_PATIENCE_SECONDS):
                    self.enough = len(self._free)  # nobody gives anything back: the run is about to end
            self._n_free -= count
            return self._free[self._n_free : self._n_free + count].copy()

    def give_back(self, places: IntArray) -> None:
        """Let rows be used again."""
        with self._changed:
            self._free[self._n_free : self._n_free + len(places)] = places
            self._n_free += len(places)
            self.promised -= len(places)
            self._changed.notify_all()

    def hurry(self) -> None:
        """Let those who wait look again whether they should."""
        with self._changed:
            self._changed.notify_all()


def spill(values: FloatArray) -> FloatArray:
    """Return rows as mapped from a file without a name; the rows themselves, where the disk has no room."""
    try:
        with tempfile.TemporaryFile(prefix="gmmatch-") as file:
            if (
                values.nbytes == 0
                or values.nbytes > shutil.disk_usage(tempfile.gettempdir()).free * _MOST_SHARE
            ):
                return values
            file.write(np.ascontiguousarray(values).data)
            file.flush()
            return np.asarray(np.memmap(file, values.dtype, "r", shape=values.shape))
    except OSError:
        return values


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

    def release(self) -> "Expected | None":
        """Return all rows, to be asked for once; None where there are none."""
        numbers, file = self._numbers, self._file
        self._numbers, self._file = [], None
        if not numbers or file is None:
            return None
        together = np.concatenate(numbers)
        values = np.memmap(file, self.dtype, "r", shape=(len(together), self.width))
        with suppress(OSError):  # what a full disk did not take is not among the numbers
            file.close()
        places = np.argsort(together, kind="stable")
        return Expected(together[places], np.asarray(values), places)


class Expected:
    """Rows that are read in the order of the file, to be taken in any order.

    `numbers`: which rows, ascending. `values`: what they are. `places`: where the values of each are; None:
    in the order of the numbers. `often`: whether they may be taken more than once, until they are given up;
    else once each.
    """

    def __init__(
        self, numbers: IntArray, values: FloatArray, places: IntArray | None = None, often: bool = False
    ) -> None:
        self.numbers, self.values, self.places, self.often = numbers, values, places, often
        self.left = np.ones(len(numbers), dtype=bool)
        self.reading: list[Future[None]] = []
        self.awaited = False  # whether somebody waits for what is being read
        self.lock = threading.Lock()

    def take(self, chosen: IntArray, rows: FloatArray) -> npt.NDArray[np.bool_]:
        """Write the chosen rows that are here to their places, once they have been read; tell which."""
        self.wait_for(chosen)
        with self.lock:
            here, found = self._find(chosen)
            values, places = self.values, found if self.places is None else self.places[found]
            if not self.often:
                self._release(found)
        if len(found) == len(chosen):
            np.take(values, places, axis=0, out=rows, mode="clip")  # other modes go through a copy
        elif len(found):
            rows[here] = values[places]
        return here

    def wait_for(self, chosen: IntArray) -> None:
        """Wait until all is read, if any of the chosen rows is here."""
        if self.reading and (all(part.done() for part in self.reading) or self.holds(chosen).any()):
            self.wait()

    def wait(self) -> None:
        """Wait until all is read."""
        self.stop_waiting()
        for part in self.reading:
            part.result()
        self.reading = []

    def room(self, own: slice) -> slice | IntArray:
        """Return where among the values to put some of the rows."""
        return own

    def stop_waiting(self) -> None:
        """Let those who read the rows wait for nobody."""
        self.awaited = True

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
        found = np.searchsorted(self.numbers, chosen)
        found[found == len(self.numbers)] = 0
        here = (self.numbers[found] == chosen) & self.left[found]
        return here, found if here.all() else found[here]

    def _release(self, found: IntArray) -> None:
        self.left[found] = False
        n_left = int(np.count_nonzero(self.left))
        if 4 * n_left >= len(self.left) or not all(part.done() for part in self.reading):
            return
        self.numbers = self.numbers[self.left]
        if self.places is not None:
            self.places = self.places[self.left]
        else:
            self.values = self.values[self.left]
        self.left = np.ones(n_left, dtype=bool)

    def __len__(self) -> int:
        return int(np.count_nonzero(self.left))


class Window(Expected):
    """Rows that are being matched, or will be next: in slots, each until it is given up."""

    def __init__(self, numbers: IntArray, slots: Slots) -> None:
        super().__init__(numbers, slots.values, np.empty(len(numbers), np.int64), often=True)
        self.slots = slots

    def room(self, own: slice) -> IntArray:
        """Return where to put some of the rows; where memory is short, once there is room."""
        assert self.places is not None
        self.places[own] = self.slots.take(own.stop - own.start, lambda: not self.awaited)
        return self.places[own]

    def stop_waiting(self) -> None:
        """Let those who read the rows wait for nobody."""
        super().stop_waiting()
        self.slots.hurry()

    def release(self, numbers: IntArray) -> None:
        """Give rows up, and back the memory that they are in."""
        self.wait_for(numbers)
        super().release(numbers)

    def _release(self, found: IntArray) -> None:
        if len(found):
            assert self.places is not None
            self.slots.give_back(self.places[found])
        super()._release(found)
