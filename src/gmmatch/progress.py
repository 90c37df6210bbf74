"""How long work tells how far it is, without knowing who listens.

Library code wraps a loop in :func:`task` and calls the function it yields. Nothing happens unless a
caller has installed a listener with :func:`listen`, as the command line does.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

Advance = Callable[[int], None]
Listener = Callable[[str, int | None], AbstractContextManager[Advance]]

ENCODED_IS_KEPT = "what was encoded is kept: the same command goes on from there"  # of an interrupted run

_listener: ContextVar[Listener | None] = ContextVar("gmmatch_progress_listener", default=None)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Send the progress of everything inside the ``with`` block to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def task(what: str, total: int | None) -> Iterator[Advance]:
    """Announce `total` units of work under the name `what`; call the result with units done."""
    listener = _listener.get()
    if listener is None:
        yield lambda done: None
    else:
        with listener(what, total) as advance:
            yield advance
