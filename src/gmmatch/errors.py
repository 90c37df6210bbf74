"""The exceptions users can catch.

Each one is also the built-in exception that a Python programmer would expect (``ValueError``,
``TypeError``, ``ImportError``), and carries the exit code that the command line ends with.
"""

import importlib
from typing import Any


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


class MissingExtra(GmmatchError, ImportError):
    """An optional dependency is not installed.

    `package`: the package that could not be imported. `extra`: the extra of gmmatch that installs it.
    """

    exit_code = 4

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; install it with: pip install 'gmmatch[{extra}]'")


def first_line(error: BaseException) -> str:
    """Return what a library says of a failure, in one line."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def require(module: str, package: str, extra: str) -> Any:
    """Import an optional module, or say which extra installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(package, extra) from error
