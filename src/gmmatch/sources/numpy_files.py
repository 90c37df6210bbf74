"""`.npy` files, one or many, and `.npz` archives. Nothing is ever unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from .base import RowView, Source


def map_npy(path: Path) -> npt.NDArray[Any]:
    """Map a `.npy` file into memory."""
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    except PermissionError:
        raise InvalidInput(f"{path} may not be read: permission denied") from None
    except (OSError, ValueError, EOFError) as error:
        raise InvalidInput(f"{path} is not a readable .npy file of numbers: {error}") from None
    if not isinstance(array, np.ndarray):
        raise InvalidInput(f"{path} holds several arrays; expected one")
    return array


def open_npy(paths: Sequence[Path], name: str) -> Source:
    """Open `.npy` files as one source, in the order given."""
    if len(paths) == 1:
        rows = _as_floats(map_npy(paths[0]), name)
    else:
        rows = RowView([map_npy(path) for path in paths], [str(path) for path in paths])
    return Source(rows, name, "npy", files=tuple(map(str, paths)))


def open_npz(path: Path, embedding: str | None, labels: str | None, ids: str | None) -> Source:
    """Open the arrays of a `.npz` archive by name; the rows are the only matrix unless named."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            names = list(archive.files)
            loaded = {
                name: archive[name] for name in names if name in (embedding, labels, ids) or embedding is None
            }
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"{path} is not a readable .npz archive of numbers: {error}") from None
    for wanted in (embedding, labels, ids):
        if wanted is not None and wanted not in loaded:
            raise InvalidInput(f"{path} has no array {wanted!r}; it has: {', '.join(names)}")
    if embedding is None:
        embedding = only_matrix({name: array.shape for name, array in loaded.items()}, str(path))
    return Source(
        _as_floats(loaded[embedding], f"{path}:{embedding}"),
        str(path),
        "npz",
        ids=None if ids is None else loaded[ids],
        labels=None if labels is None else loaded[labels],
        files=(str(path),),
    )


def only_matrix(shapes: dict[str, tuple[int, ...]], where: str) -> str:
    """Return the name of the only two-dimensional array, or raise an error that lists what there is."""
    matrices = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(matrices) != 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
        found = "no matrix" if not matrices else f"{len(matrices)} matrices"
        raise InvalidInput(f"{where} has {found} to take as embeddings (it has: {listed}); name one")
    return matrices[0]


def _as_floats(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any] | RowView:
    """Return the array itself where it holds native floats, else a view that reads it as floats."""
    if array.ndim == 2 and array.dtype in (np.float32, np.float64) and array.dtype.isnative:
        return array
    return RowView([array], [name])
