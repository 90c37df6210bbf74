"""Arrays that are kept in files, and made again where a file is damaged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile
from zlib import error as PackedWrongly

import numpy as np
import numpy.typing as npt

from ...arrays import Arrays
from ...errors import DAMAGED
from ...files import whole_file


def read_arrays(file: Path, names: Sequence[str] = ("array",)) -> Arrays | None:
    """Return arrays of a `.npz` file, by their checksums; None: it is damaged, foreign, or not there."""
    if not file.is_file():
        return None
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as kept:
            return {name: kept[name] for name in names}
    except (*DAMAGED, BadZipFile, PackedWrongly, KeyError, AttributeError, RuntimeError):
        return None


def cached_arrays(file: Path, make: Callable[[], Mapping[str, Any]], names: Sequence[str]) -> Arrays:
    """Return the arrays of these names in `file`, made and written first if it does not hold them whole.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "kept.npz"
    >>> _ = file.write_bytes(b"half of i")
    >>> cached_arrays(file, lambda: {"order": [2, 0]}, ["order"])["order"].tolist()
    [2, 0]
    """
    found = read_arrays(file, names)
    if found is not None:
        return found
    file.parent.mkdir(parents=True, exist_ok=True)
    made: dict[str, Any] = {name: np.asarray(value) for name, value in make().items()}
    with whole_file(file) as unfinished, unfinished.open("wb") as stream:
        np.savez(stream, **made)
    return made


def cached_array(file: Path, make: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the one array in `file`, made and written first if it is not there or damaged."""
    return cached_arrays(file, lambda: {"array": make()}, ["array"])["array"]
