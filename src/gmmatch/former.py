"""Calls as version 0.2 took them: they work, with a warning, until 0.4; mistaken names get the right call."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from .errors import UnknownParameter
from .validation import is_number, parse_amount

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")

# What people try, and what it is called here.
_MISTAKEN = {
    "label": "labels", "target": "labels", "targets": "labels", "seed": "random_state", "rng": "random_state",
    "k": "keep", "n": "keep", "fraction": "keep", "ratio": "keep", "budget": "keep", "size": "keep",
    "ref": "reference", "proba": "probabilities", "pred_probs": "probabilities",
    "stratify": "strata", "embeddings": "data", "features": "data", "dataset": "data",
}  # fmt: skip


def is_amount(value: object) -> bool:
    """Return True if a value can only mean how much to keep.

    >>> is_amount(0.1), is_amount("10%"), is_amount("+500"), is_amount("topic"), is_amount([1, 2])
    (True, True, True, False, False)
    """
    if isinstance(value, str):
        return value == "auto" or is_number(parse_amount(value))
    return is_number(value)


def warn_former(change: str, stacklevel: int = 3) -> None:
    """Warn that a form of version 0.2 goes with 0.4."""
    warnings.warn(f"{change}; the former way goes with 0.4", DeprecationWarning, stacklevel=stacklevel)


def called_like(
    other: Callable[Parameters, object],
) -> Callable[[Callable[..., Result]], Callable[Parameters, Result]]:
    """Return a decorator: a function shows the parameters of another one, which its own take in."""

    def decorate(function: Callable[..., Result]) -> Callable[Parameters, Result]:
        own = inspect.signature(other).replace(return_annotation=function.__annotations__["return"])
        vars(function)["__signature__"] = own
        return function

    return decorate


def takes_former(
    right: str, positions: Sequence[str] = (), names: Mapping[str, str] | None = None
) -> Callable[[Function], Function]:
    """Return a decorator: a function of `(data, labels=None, *, ...)` takes the calls of version 0.2, too.

    The function says itself which other words it does not know. `right`: the call to show. `positions`: what
    version 0.2 took by position after the data. `names`: former names, and what they are called now.
    """
    former = {"X": "data", "y": "labels", **(names or {})}

    def decorate(function: Function) -> Function:
        known = inspect.signature(function).parameters
        name = function.__name__

        @functools.wraps(function)
        def call(*given: object, **named: object) -> Any:
            for old, new in former.items():
                if old in named and old not in known and new not in named:
                    warn_former(f"{name}({old}=...) is called {new} now")
                    named[new] = named.pop(old)
            if len(given) > 1 and positions and (positions[0] != "keep" or is_amount(given[1])):
                if positions[0] == "keep" or len(given) > 2:
                    warn_former(f"{name} takes (data, labels) first and the rest by name: {right}")
                named = dict(zip(positions, given[1:], strict=False)) | named
                given = given[:1]
            if len(given) > 2:
                raise UnknownParameter(f"{name} takes data and labels, and the rest by name: {right}")
            for word in named:
                if word not in known and _MISTAKEN.get(word) in known:
                    raise UnknownParameter(f"{name} has no {word}; it is called {_MISTAKEN[word]}: {right}")
            if not given and "data" not in named:
                raise UnknownParameter(f"{name} needs data: {right}")
            return function(*given, **named)

        return call  # type: ignore[return-value]

    return decorate
