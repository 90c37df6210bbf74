"""The threads of this machine: what the passes run on unless they are told otherwise."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def local_engine() -> Iterator[None]:
    """Run the passes on this machine: no engine at all."""
    yield None
