"""The memory of this machine: how much there is, and what may be unpacked."""

import os

from ..errors import InvalidInput


def machine_memory() -> int:
    """Return the bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_room(size: int, name: str, most: int | None = None) -> None:
    """Refuse what would unpack to more than the memory that may be used, before it is unpacked."""
    room = machine_memory() if most is None else most
    if size > room:
        told = f"{size / 1e6:,.0f} MB" if size < 1 << 63 else "more than any machine holds"
        raise InvalidInput(
            f"{name} unpacks to {told}; expected at most the {room / 1e6:,.0f} MB of memory"
            " that there are (memory=...)"
        )
