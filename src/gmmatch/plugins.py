"""Things that go by a name: the project's own, those of installed packages, and those of the user."""

import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from .errors import InvalidParameter, brief
from .validation import nearest

Entry = TypeVar("Entry")


class Registry(MutableMapping[str, Entry], Generic[Entry]):
    """Entries by name, in the order in which they became known.

    Entry points of packages are loaded when all entries, or one that is not the project's own, are first
    requested: importing gmmatch imports none of them, and they can import gmmatch.

    `group`: the group of entry points that add to it. `what`: what an entry is, for messages. `own`: the
    entries that the project brings. `as_entry`: makes an entry of an entry point's name and of what it gives.
    """

    def __init__(
        self, group: str, what: str, own: Mapping[str, Entry], as_entry: Callable[[str, Any], Entry]
    ) -> None:
        self.group, self.what, self._as_entry = group, what, as_entry
        self._entries = dict(own)
        self._complete = False

    def register(self, name: str, entry: Entry) -> Entry:
        """Add an entry under a name that is free, and return it."""
        if not isinstance(name, str) or not name:
            raise InvalidParameter(f"a name must be text; got {brief(name)}")
        if name in self:
            raise InvalidParameter(f"the {self.what} {name!r} is there already; choose another name")
        self._entries[name] = entry
        return entry

    def find(self, name: object) -> Entry:
        """Return an entry, or raise an error that names the nearest known one."""
        if isinstance(name, str) and name in self:
            return self[name]
        known = f"the {self.what}s are: {', '.join(self)}"
        raise InvalidParameter(f"there is no {self.what} {brief(name)}{nearest(name, self)}; {known}")

    def __getitem__(self, name: str) -> Entry:
        return self._entries[name] if name in self._entries else self._known()[name]

    def __setitem__(self, name: str, entry: Entry) -> None:
        self._known()[name] = entry

    def __delitem__(self, name: str) -> None:
        del self._known()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def _known(self) -> dict[str, Entry]:
        """Return all entries; the first time, look for those of installed packages."""
        if not self._complete:
            self._complete = True
            for point in sorted(entry_points(group=self.group), key=lambda point: point.name):
                try:
                    self.register(point.name, self._as_entry(point.name, point.load()))
                # Whatever is wrong with somebody else's package, the rest goes on.
                except Exception as error:
                    called = f"{point.name!r}" + ("" if point.dist is None else f" of {point.dist.name}")
                    warnings.warn(f"the {self.what} {called} is left out: {error}", stacklevel=2)
        return self._entries
