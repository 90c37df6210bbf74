"""Read pickles as data: numbers, text, lists, dictionaries and arrays; nothing in them is ever called.

``pickle.load`` imports and calls whatever a file names. This reader walks the instructions instead and
knows a dozen of them; a file that names anything outside a given table is refused.
"""

import pickletools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from ..arrays import AnyArray
from ..errors import InvalidInput

Symbols = Mapping[str, object]

_NUMBERS = frozenset(["INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"])
_BYTES = frozenset(["STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"])
_TEXTS = frozenset(["UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"])
_PUSH = _NUMBERS | _BYTES | _TEXTS
_CONSTANTS: Mapping[str, object] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES: Mapping[str, int] = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_SKIP = frozenset(["PROTO", "FRAME", "STOP"])
_MARK = object()
# What instructions raise that are not what they should be.
_DAMAGED = (
    ValueError, LookupError, TypeError, AttributeError, OverflowError, MemoryError, RecursionError, Warning,
)  # fmt: skip


@dataclass(frozen=True)
class Symbol:
    """What stands in the place of a name that the pickle would have imported."""

    stand_in: object


class _Array:
    """An array under construction: its shape, type and bytes come in the BUILD instruction."""

    def __init__(self, *_: object) -> None:
        self.value: AnyArray | None = None

    def build(self, _: object, shape: Any, kind: Any, fortran: object, content: Any) -> None:
        raw = content.encode("latin-1") if isinstance(content, str) else content  # Python 2 wrote text
        self.value = np.frombuffer(raw, kind.value).reshape(shape, order="F" if fortran else "C")


class _Type:
    """A NumPy type under construction: its byte order comes in the BUILD instruction."""

    def __init__(self, code: object, *_: object) -> None:
        self.value = np.dtype(as_text(code))
        if self.value.hasobject:
            raise InvalidInput("an array of Python objects; expected numbers")

    def build(self, _: object, order: object, *__: object) -> None:
        if as_text(order) == ">":
            self.value = self.value.newbyteorder(">")


def as_text(value: object) -> str:
    """Return text, or what Python 2 wrote as bytes, as text."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


NUMPY: Symbols = {
    "numpy.core.multiarray _reconstruct": _Array,
    "numpy._core.multiarray _reconstruct": _Array,
    "numpy ndarray": lambda *_: None,
    "numpy dtype": _Type,
    "_codecs encode": lambda text, code: as_text(text).encode("latin-1"),
}


def read_pickle(
    stream: IO[bytes], symbols: Symbols = NUMPY, persistent: Callable[[object], object] | None = None
) -> Any:
    """Return the data of one pickle, leaving `stream` behind it.

    Parameters
    ----------
    stream
        Binary file positioned at the pickle.
    symbols
        What stands in for each name (``"module name"``) that may occur; where the pickle would call
        the name, the stand-in is called.
    persistent
        What stands in for references to data outside the pickle.

    Raises
    ------
    InvalidInput
        Damaged, or with a name or an instruction that is not allowed.

    Examples
    --------
    >>> import io, pickle
    >>> read_pickle(io.BytesIO(pickle.dumps({"labels": [3, 1]}, protocol=2)))
    {'labels': [3, 1]}
    >>> read_pickle(io.BytesIO(pickle.dumps(len)))
    Traceback (most recent call last):
    gmmatch.errors.InvalidInput: the pickle names builtins.len, which is not data and is not run
    """
    machine = _Machine(symbols, persistent)
    try:
        # The reader only warns of an escape that no pickle writes, such as '\\u' in a string of bytes.
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)
            for instruction, argument, _ in pickletools.genops(stream):
                machine.step(instruction.name, argument)
        return _finished(machine.stack.pop())
    except InvalidInput:
        raise
    except _DAMAGED as error:
        raise InvalidInput(f"the pickle is damaged: {error}") from error


class _Machine:
    """The pickle machine's stack and memo, without its powers."""

    def __init__(self, symbols: Symbols, persistent: Callable[[object], object] | None) -> None:
        self.symbols = symbols
        self.persistent = persistent
        self.stack: list[Any] = []
        self.memo: dict[int, object] = {}

    def step(self, name: str, argument: Any) -> None:
        """Carry out one instruction: those that only add to the stack, then those that take off it."""
        stack = self.stack
        if name in _PUSH:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in ("EMPTY_DICT", "EMPTY_LIST"):
            stack.append({} if name == "EMPTY_DICT" else [])
        elif name == "MARK":
            stack.append(_MARK)
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self.memo[int(argument)] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self.memo[int(argument)])
        elif name in _TUPLES:
            start = len(stack) - _TUPLES[name]
            stack[start:] = [tuple(stack[start:])]
        elif name in ("TUPLE", "LIST"):
            stack.append((tuple if name == "TUPLE" else list)(self.to_mark()))
        elif name == "DICT":
            items = tuple(self.to_mark())
            stack.append(dict(zip(items[::2], items[1::2], strict=True)))
        elif name in ("APPEND", "APPENDS"):
            values = [stack.pop()] if name == "APPEND" else self.to_mark()
            stack[-1].extend(_finished(value) for value in values)
        elif name in ("SETITEM", "SETITEMS"):
            pairs = [stack.pop(-2), stack.pop()] if name == "SETITEM" else self.to_mark()
            stack[-1].update(
                (key, _finished(value)) for key, value in zip(pairs[::2], pairs[1::2], strict=True)
            )
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            where = argument if name == "GLOBAL" else " ".join([stack.pop(-2), stack.pop()])
            if where not in self.symbols:
                called = where.replace(" ", ".")
                raise InvalidInput(f"the pickle names {called}, which is not data and is not run")
            stack.append(Symbol(self.symbols[where]))
        elif name == "BINPERSID" and self.persistent is not None:
            stack.append(self.persistent(stack.pop()))
        elif name == "REDUCE":
            arguments, symbol = stack.pop(), stack.pop()
            stack.append(symbol.stand_in(*arguments))
        elif name == "BUILD":
            state = stack.pop()
            if isinstance(stack[-1], (_Array, _Type)):  # what others have (torch's metadata) is left out
                stack[-1].build(*state)
        elif name not in _SKIP:
            raise InvalidInput(f"the pickle holds the instruction {name}, which is not data and is not run")

    def to_mark(self) -> list[Any]:
        items: list[object] = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]


def _finished(value: object) -> object:
    """Return an array in place of its construction site."""
    if isinstance(value, (_Array, _Type)):
        if value.value is None:
            raise InvalidInput("the pickle is damaged: an array without content")
        return value.value
    return value
