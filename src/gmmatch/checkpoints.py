"""The state of a long run on disk: whole or not at all, and only for the run and the version it is of."""

import dataclasses
import hashlib
import json
import sys
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .arrays import AnyArray, Arrays
from .errors import DAMAGED, InvalidInput, first_line
from .facts import digest_of_arrays, plain
from .files import remove_partials, whole_file
from .version import __version__

Result = TypeVar("Result")

# At least so long between saves, and so many times as long as a save takes: it never costs much.
_SECONDS_BETWEEN_SAVES = 0.5
_TIMES_AS_LONG = 30
_FINISHED = ("learned", "verdict")  # what is saved once, each in a file of its own
_SKELETON, _ORIGIN, _DIGEST = "skeleton", "origin", "digest"


class FileCheckpoint:
    """Saves arrays to one file, seldom enough not to be felt, and what is finished to files beside it.

    `params`: what else determines the result. `resume`: whether to go on from what is there; otherwise it is
    removed. `outputs`: what the run writes, which a run that goes on may replace.
    """

    def __init__(
        self,
        path: Path,
        fingerprint: str,
        params: Mapping[str, object],
        resume: bool = False,
        outputs: Iterable[str] = (),
    ) -> None:
        self.path = path
        recipe = json.dumps(plain(params), sort_keys=True)
        self.identity = f"{fingerprint}-{hashlib.blake2b(recipe.encode(), digest_size=8).hexdigest()}"
        self._next_save = 0.0
        self._outputs = sorted({*outputs, *(outputs_of(path) if resume else ())})
        files = state_files(path)
        for file in filter(Path.exists, files):
            members: list[str] = []
            with suppress(*DAMAGED), zipfile.ZipFile(_regular(file)) as archive:
                members = archive.namelist()
            if not {f"{_ORIGIN}.npy", "identity.npy"}.intersection(members):
                raise InvalidInput(
                    f"{file} is not the saved state of a run; move it away, or name another file"
                )
        for file in () if resume else files:
            file.unlink(missing_ok=True)

    def load(self) -> Mapping[str, AnyArray] | None:
        """Return what was saved, or None; refuse what belongs to another run."""
        if not self.path.exists():
            return None
        try:
            state, origin = _read(self.path)
        except DAMAGED as error:
            raise InvalidInput(
                f"the saved state {self.path} cannot be read: {first_line(error)}; remove it"
            ) from None
        self._check(origin, self.path)
        return state

    def save(self, state: Arrays) -> None:
        """Replace the saved state by this one, unless the last save was only a moment ago."""
        started = time.monotonic()
        if started < self._next_save:
            return
        self._write(self.path, state)
        ended = time.monotonic()
        self._next_save = ended + max(_SECONDS_BETWEEN_SAVES, _TIMES_AS_LONG * (ended - started))

    def recall(self, name: str, make: Callable[[], Result]) -> Result:
        """Return what a run before this one finished under this name; else make it, and keep what took long.

        What is damaged is made again; what belongs to another run is refused.
        """
        path = self.path.with_name(f"{self.path.name}.{name}")
        if path.exists():
            try:
                state, origin = _read(path)
                found = unpack(state)
            except DAMAGED:
                path.unlink(missing_ok=True)
            else:
                self._check(origin, path)
                return found  # type: ignore[no-any-return]
        started = time.monotonic()
        made = make()
        if time.monotonic() - started > _SECONDS_BETWEEN_SAVES:
            with suppress(TypeError):  # what is no record of arrays is made again
                self._write(path, pack(made))
        return made

    def discard(self) -> None:
        """Remove the files, and what kills left half written: the run is finished."""
        for path in state_files(self.path):
            remove_partials(path)
            path.unlink(missing_ok=True)

    def _write(self, path: Path, state: Arrays) -> None:
        origin = {"identity": self.identity, "version": __version__, "outputs": self._outputs}
        stored = state | {_ORIGIN: np.array(json.dumps(origin))}
        with whole_file(path) as partial, partial.open("wb") as file:
            np.savez(file, **stored, **{_DIGEST: np.array(digest_of_arrays(stored))})  # type: ignore[arg-type]

    def _check(self, origin: Mapping[str, object], path: Path) -> None:
        if (version := origin["version"]) != __version__:
            raise InvalidInput(
                f"the saved state {path} was written by gmmatch {version}, and this is {__version__};"
                " remove it to start anew"
            )
        if (identity := origin["identity"]) != self.identity:
            raise InvalidInput(
                f"the saved state {path} belongs to another input or other parameters: it has the"
                f" fingerprint {identity}, this run has {self.identity}; remove it to start anew"
            )


def state_files(path: Path) -> list[Path]:
    """Return all files that a run with this state may write beside its outputs."""
    return [path, *(path.with_name(f"{path.name}.{name}") for name in _FINISHED)]


def is_there(path: Path) -> bool:
    """Return True if there is anything to go on from."""
    return any(file.exists() for file in state_files(path))


def outputs_of(path: Path) -> set[str]:
    """Return the outputs that the saved state of a run lists; none where there is no readable state."""
    found: set[str] = set()
    for file in state_files(path):
        with suppress(*DAMAGED):
            found.update(_read(file)[1]["outputs"])
    return found


def _regular(path: Path) -> Path:
    """Return the path of a file; refuse what is none, such as a pipe: whoever reads it waits for ever."""
    if path.exists() and not path.is_file():
        raise ValueError("it is no file")
    return path


def _read(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Return what a file holds, and which run, version and outputs it belongs to; refuse what is damaged."""
    # Warnings are of what a damaged byte seems to mean.
    with (
        warnings.catch_warnings(action="ignore"),
        _regular(path).open("rb") as file,
        np.load(file, allow_pickle=False) as archive,
    ):
        state = {name: archive[name] for name in archive.files}
    if _ORIGIN not in state and "identity" in state:
        return state, {"identity": "", "version": "0.2 or earlier", "outputs": []}
    if str(state.pop(_DIGEST)) != digest_of_arrays(state):
        raise ValueError("its content is not what was written")
    origin: dict[str, Any] = json.loads(str(state.pop(_ORIGIN)))
    return state, origin


def pack(value: object) -> Arrays:
    """Return records of arrays, numbers and texts as plain arrays.

    >>> unpack(pack({"a": [1, None, np.arange(2)]}))
    {'a': [1, None, array([0, 1])]}
    """
    arrays: Arrays = {}

    def described(part: object) -> Any:
        if isinstance(part, np.ndarray):
            name = f"array{len(arrays)}"
            arrays[name] = np.asarray(part)
            return {"array": name}
        if dataclasses.is_dataclass(part):
            kind = type(part)
            fields = {entry.name: described(getattr(part, entry.name)) for entry in dataclasses.fields(part)}
            return {"record": [kind.__module__, kind.__qualname__], "fields": fields}
        if isinstance(part, (list, tuple)):
            return {"tuple" if isinstance(part, tuple) else "list": [described(entry) for entry in part]}
        if isinstance(part, Mapping):
            return {"map": [[described(key), described(entry)] for key, entry in part.items()]}
        return part.item() if isinstance(part, np.generic) else part

    skeleton = json.dumps(described(value))
    return arrays | {_SKELETON: np.array(skeleton)}


def unpack(arrays: Mapping[str, AnyArray]) -> Any:
    """Return what `pack` packed; the only things that are made are records of this package."""

    def made(part: object) -> Any:
        if not isinstance(part, dict):
            return part
        if "array" in part:
            return arrays[part["array"]]
        if "record" in part:
            module, name = part["record"]
            kind = getattr(sys.modules.get(module), name, None) if module.startswith("gmmatch.") else None
            if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
                raise ValueError(f"{module}.{name} is no record")
            return kind(**{key: made(entry) for key, entry in part["fields"].items()})
        if "map" in part:
            return {made(key): made(entry) for key, entry in part["map"]}
        (name, entries), *_ = part.items()
        return tuple(map(made, entries)) if name == "tuple" else list(map(made, entries))

    return made(json.loads(str(arrays[_SKELETON])))
