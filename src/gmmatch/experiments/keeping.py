"""Arrays that are kept in files, and made again where a file is damaged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile
from zlib import error as PackedWrongly

import numpy as np
import numpy.typing as npt

from ..data.formats.npy import DAMAGED
from ..files import whole_file

Arrays = dict[str, npt.NDArray[Any]]


def read_arrays(file: Path) -> Arrays | None:
    """Return the arrays of a `.npz` file, by their checksums; None: it is not there, or damaged."""
    if not file.is_file():
        return None
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as kept:
            return {name: kept[name] for name in kept.files}
    except (*DAMAGED, BadZipFile, PackedWrongly, KeyError, AttributeError, RuntimeError):
        return None


def kept_arrays(file: Path, make: Callable[[], Mapping[str, Any]]) -> Arrays:
    """Return the arrays in `file`, made and written first if it is not there or damaged.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "kept.npz"
    >>> _ = file.write_bytes(b"half of i")
    >>> kept_arrays(file, lambda: {"order": [2, 0]})["order"].tolist()
    [2, 0]
    """
    found = read_arrays(file)
    if found is not None:
        return found
    file.parent.mkdir(parents=True, exist_ok=True)
    made: dict[str, Any] = {name: np.asarray(value) for name, value in make().items()}
    with whole_file(file) as unfinished, unfinished.open("wb") as stream:
        np.savez(stream, **made)
    return made


def kept_array(file: Path, make: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the one array in `file`, made and written first if it is not there or damaged."""
    return kept_arrays(file, lambda: {"array": make()})["array"]
