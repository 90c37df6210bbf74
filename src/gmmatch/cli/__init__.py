"""The command `gmmatch`: one file per command, each calls one function of the layers above."""

import errno
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .commands import app

__all__ = ["app", "main"]

INTERRUPTED, TERMINATED = 130, 143
_CUT_SHORT = b"gmmatch: a file was cut short, or its disk failed, while it was read; the run ended\n"
NO_MEMORY = "gmmatch: there is not enough memory for this; --memory lets some methods do with less"
# The last is what Python says where it had no memory for the error itself.
_REFUSALS = (
    "failed to map segment", "annot allocate memory", "can't start new thread",
    "error return without exception set",
)  # fmt: skip


class Terminated(KeyboardInterrupt):
    """The system asked the process to end: what is finished is kept, as when a user interrupts."""


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Return what a process ends with that was interrupted."""
    return TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED


def lacks_memory(error: BaseException | None) -> bool:
    """Return whether an error comes of too little memory, if only for a library to be loaded."""
    while error is not None:
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        if any(words in str(error) for words in _REFUSALS):
            return True
        error = error.__cause__ or error.__context__
    return False


def explain(error: Exception) -> str | None:
    """Return what to say of an error that the system made, which is the user's to mend; None: it is a bug."""
    if lacks_memory(error):
        return NO_MEMORY
    if not isinstance(error, OSError) or error.errno == errno.EPIPE or error.strerror is None:
        return None
    if error.filename is None:  # standard output
        # What is left of the output would fail again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    what = "cannot read or write" if error.errno == errno.EIO else "cannot write"
    return f"gmmatch: {error.filename or what}: {error.strerror}"


def main() -> None:
    """Run the command line."""
    _open_closed_streams()
    try:
        signal.signal(signal.SIGTERM, _terminate)
        sys.unraisablehook = _pass_on
        _explain_bus_errors()
        from .commands import app

        app()
    # Typer catches an interrupt of a command; this one came while it was being imported.
    except KeyboardInterrupt as interrupt:
        sys.exit(exit_code(interrupt))
    except SystemExit as end:  # Typer takes every interrupt for one of the keyboard
        told = signal.getsignal(signal.SIGTERM) is signal.SIG_IGN and end.code == INTERRUPTED
        sys.exit(TERMINATED if told else end.code)
    except Exception as error:
        sentence = explain(error)
        if sentence is None:
            raise
        print(sentence, file=sys.stderr)
        sys.exit(3)


def _open_closed_streams() -> None:
    """Open what the shell has closed (`2>&-`): the next file would take its place, and get what is said."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the first number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w", closefd=False))


def _terminate(number: int, frame: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: what is under way is being cleaned up
    raise Terminated


def _pass_on(left: Any) -> None:
    """Send an interrupt again that fell into the end of a generator, where Python would only print it."""
    if not isinstance(left.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(left)
        return
    number = signal.SIGINT
    if isinstance(left.exc_value, Terminated):
        number = signal.SIGTERM
        signal.signal(number, _terminate)
    again = threading.Timer(0.01, os.kill, (os.getpid(), number))  # when that end is over
    again.daemon = True
    again.start()


def _explain_bus_errors() -> None:
    """Say a sentence where a mapped file loses its end; Python has no way to go on, or to raise an error."""
    if not hasattr(signal, "SIGBUS"):
        return
    import ctypes

    told = threading.Lock()  # several threads may read beyond the end at once

    def tell(number: int) -> None:
        told.acquire()
        os.write(2, _CUT_SHORT)
        os._exit(3)

    _explain_bus_errors.kept = ctypes.CFUNCTYPE(None, ctypes.c_int)(tell)  # type: ignore[attr-defined]
    ctypes.CDLL(None).signal(signal.SIGBUS, _explain_bus_errors.kept)  # type: ignore[attr-defined]


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .commands import app

    return app
