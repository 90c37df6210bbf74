"""Names of a package whose modules need torch, imported when they are first used."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from ..errors import MissingExtra


def needing_torch(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__`` for names whose modules need torch, imported when asked for."""

    def find(name: str) -> Any:
        home = next((module for module, names in homes.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f"{package}.{home}"), name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise MissingExtra("torch", "torch") from None

    return find
