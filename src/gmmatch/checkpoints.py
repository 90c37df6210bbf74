"""The state of a long run on disk: written whole or not at all, and only for the run it belongs to."""

import hashlib
import json
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import InvalidInput
from .facts import plain
from .files import remove_partials, whole_file

# At least so long between saves, and so many times as long as a save takes: it never costs much.
_SECONDS_BETWEEN_SAVES = 0.5
_TIMES_AS_LONG = 30


class FileCheckpoint:
    """Saves arrays to one file, seldom enough not to be felt.

    `params`: what else determines the result. `resume`: whether to go on from what is there; otherwise it is
    removed.
    """

    def __init__(self, path: Path, fingerprint: str, params: Mapping[str, Any], resume: bool = False) -> None:
        self.path = path
        recipe = json.dumps(plain(params), sort_keys=True)
        self.identity = f"{fingerprint}-{hashlib.blake2b(recipe.encode(), digest_size=8).hexdigest()}"
        self._next_save = 0.0
        if not resume:
            path.unlink(missing_ok=True)

    def load(self) -> Mapping[str, npt.NDArray[Any]] | None:
        """Return what was saved, or None; refuse what belongs to another run."""
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as archive:
                state = {name: archive[name] for name in archive.files}
            identity = str(state.pop("identity"))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise InvalidInput(f"the saved state {self.path} cannot be read: {error}; remove it") from None
        if identity != self.identity:
            raise InvalidInput(
                f"the saved state {self.path} belongs to another input or other parameters: it has the"
                f" fingerprint {identity}, this run has {self.identity}; run without --resume to start anew"
            )
        return state

    def save(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Put `state` in place of what was saved, unless that was a moment ago."""
        started = time.monotonic()
        if started < self._next_save:
            return
        with whole_file(self.path) as partial, partial.open("wb") as file:
            np.savez(file, identity=np.array(self.identity), **state)  # type: ignore[arg-type]
        ended = time.monotonic()
        self._next_save = ended + max(_SECONDS_BETWEEN_SAVES, _TIMES_AS_LONG * (ended - started))

    def discard(self) -> None:
        """Remove the file, and what kills left half written: the run is finished."""
        remove_partials(self.path)
        self.path.unlink(missing_ok=True)
