"""The state of a long run on disk: written whole or not at all, and only for the run it belongs to."""

from __future__ import annotations

import hashlib
import json
import os
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import InvalidInput
from .records import plain

_SECONDS_BETWEEN_SAVES = 5.0


class FileCheckpoint:
    """Saves arrays to one file, at most every few seconds.

    Parameters
    ----------
    path
        The state file.
    fingerprint
        Of the input.
    params
        What else determines the result.
    resume
        Whether to go on from what is there; otherwise it is removed.
    """

    def __init__(self, path: Path, fingerprint: str, params: Mapping[str, Any], resume: bool = False) -> None:
        self.path = path
        recipe = json.dumps(plain(params), sort_keys=True)
        self.identity = f"{fingerprint}-{hashlib.blake2b(recipe.encode(), digest_size=8).hexdigest()}"
        self._saved_at = 0.0
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
        now = time.monotonic()
        if self._saved_at and now - self._saved_at < _SECONDS_BETWEEN_SAVES:
            return
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}.partial")
        try:
            with partial.open("wb") as file:
                np.savez(file, identity=np.array(self.identity), **state)  # type: ignore[arg-type]
            os.replace(partial, self.path)
        except OSError as error:
            raise InvalidInput(f"cannot save the state {self.path}: {error.strerror or error}") from error
        finally:
            partial.unlink(missing_ok=True)
        self._saved_at = time.monotonic()

    def discard(self) -> None:
        """Remove the file: the run is finished."""
        self.path.unlink(missing_ok=True)
