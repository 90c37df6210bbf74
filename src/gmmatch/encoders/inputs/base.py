"""What every reader gives: rows that can be read in order, with ids, labels and paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput, InvalidParameter
from ...validation import nearest
from ..base import Kind, UInt8Array, Unreadable

Labels = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Input:
    """Images, texts or rows to encode.

    Attributes
    ----------
    kind
        What the rows are.
    ids
        One id per row.
    read
        Function of a first and a last row (exclusive) that returns the content of the rows between:
        the bytes of an image file, a uint8 array, a text or a vector; or an :class:`Unreadable`
        that says why there is none.
    labels
        One label per row, or None.
    paths
        One path per row, or None.
    notes
        Sentences the user should see.
    """

    kind: Kind
    ids: npt.NDArray[Any]
    read: Callable[[int, int], list[Any]]
    labels: Labels | None = None
    paths: Sequence[str] | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def with_labels(self, labels: Any, name: str) -> Input:
        """Return the same rows with other labels."""
        array = np.asarray(labels)
        if array.shape != (len(self),):
            raise InvalidInput(f"{name} has shape {array.shape} for {len(self)} rows; expected one per row")
        return replace(self, labels=array)


def images_input(images: UInt8Array, labels: Labels | None, name: str) -> Input:
    """Return images held in an array (rows, height, width[, channels])."""
    if images.dtype != np.uint8 or not (
        images.ndim == 3 or (images.ndim == 4 and images.shape[3] in (1, 3, 4))
    ):
        raise InvalidInput(
            f"{name} holds {images.dtype} of shape {images.shape}; expected uint8 images of shape"
            " (rows, height, width) or (rows, height, width, 1, 3 or 4)"
        )
    found = Input("image", np.arange(len(images)), lambda start, stop: list(images[start:stop]))
    return found if labels is None else found.with_labels(labels, f"the labels of {name}")


def joined(parts: Sequence[Input]) -> Input:
    """Return the rows of several inputs of one kind, end to end, under new numbers."""
    starts = np.cumsum([0, *(len(part) for part in parts)])

    def read(start: int, stop: int) -> list[Any]:
        content: list[Any] = []
        for part, first in zip(parts, starts.tolist(), strict=False):
            low, high = max(start - first, 0), min(stop - first, len(part))
            if low < high:
                content += part.read(low, high)
        return content

    labels = [part.labels for part in parts if part.labels is not None]
    return Input(
        parts[0].kind,
        np.arange(int(starts[-1])),
        read,
        labels=np.concatenate(labels) if len(labels) == len(parts) else None,
    )


def read_files(paths: Sequence[Path]) -> Callable[[int, int], list[Any]]:
    """Return a reader of whole files."""

    def content(path: Path) -> Any:
        try:
            return path.read_bytes()
        except OSError as error:
            return Unreadable(f"cannot be read: {error.strerror or error}")

    return lambda start, stop: [content(path) for path in paths[start:stop]]


def check_column(name: str, columns: Iterable[str], path: Path, option: str) -> str:
    """Return the name of a column that exists."""
    known = list(columns)
    if name not in known:
        raise InvalidInput(
            f"{path} has no column {name!r} ({option}){nearest(name, known)}; it has: {', '.join(known)}"
        )
    return name


def refuse_option(option: str, value: Any, path: Path, why: str) -> None:
    """Refuse an option that this kind of input cannot obey."""
    if value is not None:
        raise InvalidParameter(f"{option} {value} does not fit {path}: {why}")


def check_split(split: str) -> str:
    """Return `train` or `test`."""
    if split not in ("train", "test"):
        raise InvalidParameter(f"split must be 'train' or 'test'; got {split!r}")
    return split
