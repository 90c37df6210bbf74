"""What every command shares: one clear sentence for an error, an exit code, and progress."""

import functools
import inspect
import mmap
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import typer

from .. import progress
from ..errors import GmmatchError, InvalidInput, InvalidParameter
from . import exit_code, explain, interruption

Command = TypeVar("Command", bound=Callable[..., None])

_COMMON = ("on_bad_rows", "unlabelled", "overwrite", "embedding")  # of one command or the other
# Parameters that are no option of the command that names them.
_ELSEWHERE = {
    "random_state": "--seed",
    "by_class": "--param by_class",
    "size": "gmmatch embed --size",
    "scores": "--scores",
    "ids": "--ids",
}
_IN_NOTES = ("encoder", "header", "on_bad_rows", "unlabelled")
_NOT_OPTIONS = ("source", "labels", "texts")  # an argument; and words that begin sentences about data
_NARROW = 4 << 30  # bytes of addresses, of which a machine's threads and libraries take a good part
_LIBRARIES = 512 << 20  # bytes of addresses that the libraries of a small job take, and some more


def friendly(command: Command) -> Command:
    """Turn the errors that gmmatch raises on purpose into a sentence and an exit code."""
    names = (*inspect.signature(command).parameters, *_COMMON)

    @functools.wraps(command)
    def wrapped(*args: object, **kwargs: object) -> None:
        try:
            with in_little_room():
                command(*args, **kwargs)
        except GmmatchError as error:
            say(f"gmmatch: {as_options(str(error), names)}")
            raise typer.Exit(error.exit_code) from error
        except typer.Exit:
            raise
        except Exception as error:
            if (interrupt := interruption()) is not None:  # a library turned it into an error of its own
                say("gmmatch: interrupted")
                raise typer.Exit(exit_code(interrupt)) from error
            sentence = explain(error)
            if sentence is None:
                raise
            say(sentence)
            raise typer.Exit(InvalidInput.exit_code) from error
        except KeyboardInterrupt as interrupt:
            say(f"gmmatch: {'; '.join(['interrupted', *remarks(interrupt)])}")
            raise typer.Exit(exit_code(interrupt)) from None

    return wrapped  # type: ignore[return-value]


def as_options(message: str, names: Iterable[str]) -> str:
    """Spell the parameters that a message names as options of a command.

    >>> as_options("keep must be a count; on_bad_rows='drop' leaves it out", ["keep", "on_bad_rows"])
    '--keep must be a count; --on-bad-rows drop leaves it out'
    >>> as_options("it exists already; overwrite=True replaces it", ["overwrite"])
    'it exists already; --overwrite replaces it'
    """
    own = {name: f"--{name.replace('_', '-')}" for name in names}
    known = _ELSEWHERE | own

    def spelled(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        if name not in known:
            return found[0]
        if known[name].startswith("--param"):
            return f"{known[name]}={value.lower()}"
        shown = value.strip("\"'")
        return known[name] if value in ("True", "...") else f"{known[name]} {shown}"

    value = r"'[^']*'|\"[^\"]*\"|True|\.\.\.|[\w.]+"
    said = re.sub(rf"(?P<name>\b[a-z_]+)=(?P<value>{value})", spelled, message)
    first = said.partition(" ")[0]
    return own[first] + said[len(first) :] if first in own and first not in _NOT_OPTIONS else said


def notes(found: Iterable[str]) -> list[str]:
    """Return notes on a result as lines, with the parameters that they name spelled as options.

    >>> notes(["the first line was taken as a row (header='yes': as names)"])
    ['note: the first line was taken as a row (--header yes: as names)']
    """
    return [f"note: {as_options(note, _IN_NOTES)}" for note in found]


def remarks(interrupt: BaseException) -> list[str]:
    """Return what an interruption leaves behind, as whoever was interrupted noted it."""
    return list(getattr(interrupt, "__notes__", ()))


def in_little_room() -> AbstractContextManager[None]:
    """Under a narrow limit on address space, run one thread, whose buffers of BLAS are taken at once.

    OpenBLAS takes a buffer when it is loaded and when a thread first needs one, and where it is refused it
    asks for ever. There is room for all of them, or nothing begins.
    """
    try:
        import resource
    except ImportError:  # Windows
        return nullcontext()
    room = resource.getrlimit(resource.RLIMIT_AS)[0]
    if room == resource.RLIM_INFINITY or room > _NARROW:
        return nullcontext()
    mmap.mmap(-1, _LIBRARIES).close()  # raises what the libraries would not
    import numpy as np
    from scipy.linalg import cho_factor

    from ..compute.blocks import limit_threads

    square = np.eye(256)  # small products do without a buffer
    cho_factor(square @ square)
    return limit_threads(1)


def say(*lines: str, err: bool = True) -> None:
    """Print sentences, a line each, whose names of files, columns and rows cannot command the terminal."""
    for line in lines:
        typer.echo(printable(line), err=err)


def printable(text: str) -> str:
    r"""Return text in which line ends, escape sequences and the like are spelled out.

    >>> print(printable("kept\x1b[2J\n"))
    kept\x1b[2J\n
    """
    spelled = (one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return "".join(spelled)


@contextmanager
def show_progress(quiet: bool) -> Iterator[None]:
    """Show bars with rate and time left on a terminal's standard error, nothing anywhere else."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich import progress as rich
    from rich.console import Console
    from rich.markup import escape

    columns = (*rich.Progress.get_default_columns(), rich.MofNCompleteColumn())
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bars:

        @contextmanager
        def listener(what: str, total: int | None) -> Iterator[progress.Advance]:
            bar = bars.add_task(escape(printable(what)), total=total)
            try:
                yield lambda done: bars.advance(bar, done)
            finally:
                bars.remove_task(bar)

        with progress.listen(listener):
            yield


def print_table(
    header: Iterable[str],
    lines: Iterable[Iterable[str]],
    width: int,
    title: str | None = None,
    words: int = 1,
) -> None:
    """Print a table: off a terminal `width` letters wide, numbers behind the first columns of words."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False, title=title, title_justify="left")
    for place, name in enumerate(header):
        table.add_column(
            name, justify="left" if place < words else "right", overflow="fold", no_wrap=place == 0
        )
    for line in lines:
        table.add_row(*line)
    console = Console()
    (console if console.is_terminal else Console(width=width)).print(table)


def parse_params(pairs: list[str]) -> dict[str, Any]:
    """Read `KEY=VALUE` words; values are numbers, true, false, none or text.

    >>> parse_params(["step=projection", "batch_size=512", "by_class=false"])
    {'step': 'projection', 'batch_size': 512, 'by_class': False}
    """
    params = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InvalidParameter(f"--param takes KEY=VALUE; got {pair!r}")
        params[name.strip().replace("-", "_")] = _parse_value(value.strip())
    return params


def _parse_value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
