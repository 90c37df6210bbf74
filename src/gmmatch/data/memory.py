"""The memory of this machine: how much there is, what may be unpacked, and giving back what is freed."""

import ctypes
import os
import sys

import pyarrow as pa

from ..errors import InvalidInput

# M_MMAP_THRESHOLD, M_TRIM_THRESHOLD and M_ARENA_MAX of malloc.h. Blocks of some megabytes come and go all the
# time: fresh pages for each would cost more than the work on them.
_HAND_BACK = ((-3, 8 << 20), (-1, 32 << 20), (-8, 2))


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
