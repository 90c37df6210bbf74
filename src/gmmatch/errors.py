"""The exceptions users can catch.

Each one is also the built-in exception that a Python programmer would expect (``ValueError``,
``TypeError``, ``ImportError``), and carries the exit code that the command line ends with.
"""

import importlib
import struct
import zipfile
import zlib
from tokenize import TokenError
from typing import Any

DAMAGED = (
    OSError, ValueError, LookupError, TypeError, SyntaxError, EOFError, RuntimeError, MemoryError,
    OverflowError, AttributeError, zipfile.BadZipFile, zlib.error, struct.error, TokenError,
)  # fmt: skip
"""What Python and NumPy raise for files that are not what they should be."""
_MOST_BITS = 256  # of a whole number that is shown


class GmmatchError(Exception):
    """Base of every error that gmmatch raises on purpose."""

    exit_code = 1


class InvalidParameter(GmmatchError, ValueError):
    """A parameter has a value that no data could make right."""

    exit_code = 2


class UnknownParameter(InvalidParameter, TypeError):
    """A method was given a parameter that it does not have."""


class InvalidInput(GmmatchError, ValueError):
    """The data, or a parameter in view of the data, cannot be used."""

    exit_code = 3


class InvalidInputType(InvalidInput, TypeError):
    """The data is of a kind that cannot hold rows or labels."""


class WorkerFailed(GmmatchError, RuntimeError):
    """A worker of a cluster could not do its work, and no other could in its place."""

    exit_code = 3


class MissingExtra(GmmatchError, ImportError):
    """An optional dependency is not installed.

    `package`: the package that could not be imported. `extra`: the extra of gmmatch that needs it.
    """

    exit_code = 4

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed; install it with: pip install {package} (the extra gmmatch[{extra}])"
        )


def brief(value: object) -> str:
    """Return what was given, to be shown in a message: itself if it is short, else what it is; never data.

    >>> brief("aut"), brief([1, 2]), brief(list(range(100)))
    ("'aut'", '[1, 2]', 'list of 100 entries')
    >>> import numpy as np
    >>> brief(np.int64(6))
    '6'
    """
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"{type(value).__name__} of shape {shape}"
    if isinstance(value, (list, tuple, set, dict)) and len(value) > 8:
        return f"{type(value).__name__} of {len(value)} entries"
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:  # Python writes no number of any length
        return f"a number of {value.bit_length():,} bits"
    said = repr(value.item() if shape == () else value)  # type: ignore[attr-defined]
    return said if len(said) <= 80 and "\n" not in said else type(value).__name__


def first_line(error: BaseException) -> str:
    """Return what a library says of a failure, in one line."""
    if "set_int_max_str_digits" in str(error):  # advice for programmers
        return "it has a number of more than 4,300 digits"
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def require(module: str, package: str, extra: str) -> Any:
    """Import an optional module, or say which extra installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(package, extra) from error
