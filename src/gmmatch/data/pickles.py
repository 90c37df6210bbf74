"""Read pickles as data: numbers, text, lists, dictionaries and arrays; nothing that they name is ever called.

``pickle.load`` imports and calls whatever a file names. Here each name is looked up in a given table, whose
entry is called in its place, and a file that names anything else is refused.
"""

import pickle
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from ..arrays import AnyArray
from ..errors import InvalidInput

Symbols = Mapping[str, Any]


def as_text(value: object) -> str:
    """Return text, or what Python 2 wrote as bytes, as text."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


class _Type:
    """A NumPy type of numbers or text; its byte order comes with its state."""

    def __init__(self, code: object, *_: object) -> None:
        self.value = np.dtype(as_text(code))
        if self.value.hasobject:
            raise InvalidInput("an array of Python objects; expected numbers")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.value = self.value.newbyteorder(">" if as_text(state[1]) == ">" else "=")


class _Array(np.ndarray[Any, Any]):
    """An array that is empty until its shape, type and bytes come with its state."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        version, shape, kind, by_column, content = state
        raw = content.encode("latin-1") if isinstance(content, str) else content  # Python 2 wrote text
        super().__setstate__((version, shape, kind.value, by_column, raw))


def _empty(*_: object) -> AnyArray:
    return np.empty(0).view(_Array)


NUMPY: Symbols = {
    "numpy.core.multiarray _reconstruct": _empty,
    "numpy._core.multiarray _reconstruct": _empty,
    "numpy ndarray": lambda *_: None,
    "numpy dtype": _Type,
    "_codecs encode": lambda text, code: as_text(text).encode("latin-1"),
    "collections OrderedDict": OrderedDict,
}


# Not the one in C, which reserves as much memory as a damaged file asks for.
class _Reader(pickle._Unpickler):
    def __init__(self, stream: IO[bytes], symbols: Symbols) -> None:
        super().__init__(stream, encoding="latin-1")
        self._symbols = symbols

    def find_class(self, module: str, name: str) -> Any:
        found = self._symbols.get(f"{module} {name}")
        if found is None:
            raise InvalidInput(f"the pickle names {module}.{name}, which is not data and is not run")
        # A function of its own, so that no file can change what others are read by.
        return (lambda *arguments: found(*arguments)) if callable(found) else found

    def persistent_load(self, reference: Any) -> Any:
        if "persistent" not in self._symbols:
            raise InvalidInput("the pickle refers to other data, and is not run")
        return self._symbols["persistent"](reference)


def read_pickle(stream: IO[bytes], symbols: Symbols = NUMPY) -> Any:
    """Return the data of one pickle, leaving `stream` behind it.

    Parameters
    ----------
    stream
        Binary file positioned at the pickle.
    symbols
        What stands in for each name (``"module name"``) that may occur; where the pickle would call
        the name, the stand-in is called. That of ``"persistent"`` is called for references to other data.

    Raises
    ------
    InvalidInput
        Damaged, or with a name that is not allowed.

    Examples
    --------
    >>> import io, pickle
    >>> read_pickle(io.BytesIO(pickle.dumps({"labels": [3, 1]}, protocol=2)))
    {'labels': [3, 1]}
    >>> read_pickle(io.BytesIO(pickle.dumps(len)))
    Traceback (most recent call last):
    gmmatch.errors.InvalidInput: the pickle names builtins.len, which is not data and is not run
    """
    try:
        # Python only warns of an escape that no pickle writes, such as '\\u' in a string of bytes.
        with warnings.catch_warnings(action="error"):
            return _Reader(stream, symbols).load()
    except InvalidInput:
        raise
    except Exception as error:  # whatever instructions raise that are not what they should be
        raise InvalidInput(f"the pickle is damaged: {error}") from error
