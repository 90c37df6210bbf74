"""What a caller asks of data before it is opened."""

import ctypes
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..errors import InvalidInput, InvalidParameter
from ..validation import nearest
from .items import Kind
from .remote import is_remote

# M_MMAP_THRESHOLD, M_TRIM_THRESHOLD and M_ARENA_MAX of malloc.h. Blocks of some megabytes come and go all the
# time: fresh pages for each would cost more than the work on them.
_HAND_BACK = ((-3, 8 << 20), (-1, 32 << 20), (-8, 2))


@dataclass(frozen=True)
class Request:
    """What to take from data, as :func:`gmmatch.data.open_dataset` was asked for it."""

    # Columns, arrays or tensors that hold the embeddings, the texts or the images.
    embedding: str | None = None
    text: str | None = None
    image: str | None = None
    # As they were given: a column or a file, where they are text.
    labels: Any = None
    ids: Any = None
    # What to look for: images, texts or rows of numbers; None for whatever is there.
    holds: Kind | None = None
    split: str = "train"  # `train` or `test`, where the data has both
    memory: int = 1 << 30  # bytes that columns may take
    most: int = 1 << 40  # bytes that an array of an archive may unpack to
    drop: bool = False  # whether bad rows are to be left out

    @property
    def wanted(self) -> Kind | None:
        """What to look for, by what is named."""
        if self.holds is not None:
            return self.holds
        return "text" if self.text is not None else "image" if self.image is not None else None

    def check_split(self) -> str:
        """Return `train` or `test`."""
        if self.split not in ("train", "test"):
            raise InvalidParameter(f"split must be 'train' or 'test'; got {self.split!r}")
        return self.split

    def check_columns(self, names: Sequence[str], where: str) -> None:
        """Refuse labels or ids that are neither a column nor a file, before anything is read."""
        for what, given in (("labels", self.labels), ("ids", self.ids)):
            if isinstance(given, str) and given not in names and not names_file(given):
                raise no_column(given, what, names, where)

    def refuse_columns(self, where: str) -> None:
        """Refuse names of columns for data that has none."""
        for option, value in (("text", self.text), ("image", self.image), ("embedding", self.embedding)):
            if value is not None:
                raise InvalidParameter(f"--{option} {value} does not fit {where}: it has no columns")
        self.check_columns((), where)


def machine_memory() -> int:
    """Return the bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def hand_back_memory() -> None:
    """Let what is freed go back to the system at once, where the C library can be told to (glibc).

    By itself it keeps freed blocks of up to 32 MB for each thread, which a cap on memory would count. It is
    told once for the process, and changes no result.
    """
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        for option, value in _HAND_BACK if hasattr(library, "mallopt") else ():
            library.mallopt(option, value)


def trim_memory() -> None:
    """Give back what was freed between blocks that are still in use."""
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)


def check_room(size: int, name: str, most: int | None = None) -> None:
    """Refuse what would unpack to more than the memory that may be used, before it is unpacked."""
    room = machine_memory() if most is None else most
    if size > room:
        told = f"{size / 1e6:,.0f} MB" if size < 1 << 63 else "more than any machine holds"
        raise InvalidInput(
            f"{name} unpacks to {told}; expected at most the {room / 1e6:,.0f} MB of memory"
            " that there are (memory, --memory)"
        )


def names_file(given: str) -> bool:
    """Tell whether a text names a file that exists, or a column of one (`FILE:COLUMN`)."""
    return is_remote(given) or os.path.isfile(given) or os.path.isfile(given.rpartition(":")[0])


def no_column(given: str, what: str, names: Sequence[str], where: str) -> InvalidInput:
    """Return the sentence for labels, ids or scores that are nowhere."""
    there = f"has the columns {', '.join(names)}" if names else "has no columns"
    return InvalidInput(
        f"there is no column and no file {given!r} to take as {what} (--{what}){nearest(given, names)};"
        f" {where} {there}"
    )
