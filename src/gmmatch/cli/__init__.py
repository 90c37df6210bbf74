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
# M_MMAP_THRESHOLD, M_TRIM_THRESHOLD and M_ARENA_MAX of malloc.h. Blocks of some megabytes come and go all the
# time: fresh pages for each would cost more than the work on them.
_MALLOC = ((-3, 8 << 20), (-1, 32 << 20), (-8, 2))
NO_MEMORY = "gmmatch: there is not enough memory for this; --memory lets some methods do with less"
# The last is what Python says where it had no memory for the error itself.
_REFUSALS = (
    "failed to map segment", "annot allocate memory", "can't start new thread",
    "error return without exception set",
)  # fmt: skip
_interrupted = threading.Event()  # by the keyboard


_passed_on: list[KeyboardInterrupt] = []


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
    if isinstance(error, RuntimeError) and "home directory" in str(error):  # of the cache, and of libraries
        return "gmmatch: this user has no home folder; name one that may be written to: HOME=FOLDER"
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
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell may have it ignored
            signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _pass_on
        _return_freed_memory()
        from .commands import app

        app()
    # Typer catches an interrupt of a command; this one came while it was being imported.
    except KeyboardInterrupt as interrupt:
        sys.exit(exit_code(interrupt))
    except SystemExit as end:  # Typer takes every interrupt for one of the keyboard
        told = signal.getsignal(signal.SIGTERM) is signal.SIG_IGN and end.code == INTERRUPTED
        # It ends a command with 1 where nobody read what was printed when all of it was done.
        error = end.__context__
        unread = isinstance(error, OSError) and error.errno == errno.EPIPE and error.filename is None
        sys.exit(TERMINATED if told else 0 if unread else end.code)
    except Exception as error:
        if _passed_on:  # what the interrupt left undone has failed before it came again
            sys.exit(exit_code(_passed_on[0]))
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


def _return_freed_memory() -> None:
    """Set the malloc of this process (glibc), the command's own, so that freed memory returns to the system.

    By itself it keeps freed blocks of up to 32 MB for each thread, which a cap on memory would count.
    """
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        for option, value in _MALLOC:
            mallopt(option, value)


def _terminate(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: what is under way is being cleaned up
    raise Terminated


def _interrupt(number: int, frame: object) -> None:
    _interrupted.set()
    raise KeyboardInterrupt


def interruption() -> KeyboardInterrupt | None:
    """Return the interrupt that came, whatever a library has made of it; None: none came."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        return Terminated()
    return KeyboardInterrupt() if _interrupted.is_set() else None


def _pass_on(left: Any) -> None:
    """Send an interrupt again that fell into the end of a generator, where Python would only print it."""
    if not isinstance(left.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(left)
        return
    _passed_on.append(left.exc_value)
    number = signal.SIGINT
    if isinstance(left.exc_value, Terminated):
        number = signal.SIGTERM
        signal.signal(number, _terminate)
    again = threading.Timer(0.01, os.kill, (os.getpid(), number))  # when that end is over
    again.daemon = True
    again.start()


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .commands import app

    return app
