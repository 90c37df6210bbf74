"""What rows look like: images or texts, one per row, read when they are asked for."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, InvalidInputType

Kind = Literal["image", "text", "rows"]
PLURALS: dict[Kind, str] = {"image": "images", "text": "texts", "rows": "rows of numbers"}


class Unreadable(InvalidInput):
    """One image, text or row that cannot be used; the message says why."""


@dataclass(frozen=True, eq=False)
class Items:
    """Images, texts or vectors, one per row.

    >>> Items("text", 2, lambda start, stop: ["one", "two"][start:stop]).read(1, 2)
    ['two']
    """

    kind: Kind  # what they are
    n_items: int
    # Function of a first and a last row (exclusive) that returns what is between: the bytes of an image file,
    # a uint8 array, a text or a vector; or an :class:`Unreadable` that says why there is none.
    read: Callable[[int, int], list[Any]]
    paths: Sequence[str] | None = None  # one path per row, where there are some
    array: npt.NDArray[Any] | None = None  # all of them as one array, where they are held so

    def __len__(self) -> int:
        return self.n_items

    def chosen(self, rows: Sequence[int]) -> Items:
        """Return the images or texts of some rows, in the order asked for."""

        def read(start: int, stop: int) -> list[Any]:
            return [self.read(row, row + 1)[0] for row in rows[start:stop]]

        paths = None if self.paths is None else [self.paths[row] for row in rows]
        return Items(self.kind, len(rows), read, paths)

    def all(self) -> list[Any]:
        """Return all of them."""
        return self.read(0, self.n_items)


def array_items(images: npt.NDArray[Any], name: str) -> Items:
    """Return images held in an array (rows, height, width[, channels])."""
    if images.dtype != np.uint8 or not (
        images.ndim == 3 or (images.ndim == 4 and images.shape[3] in (1, 3, 4))
    ):
        raise InvalidInputType(
            f"{name} holds {images.dtype} of shape {images.shape}; expected uint8 images of shape"
            " (rows, height, width) or (rows, height, width, 1, 3 or 4)"
        )
    return Items("image", len(images), lambda start, stop: list(images[start:stop]), array=images)


def file_items(paths: Sequence[Path]) -> Items:
    """Return images that are whole files."""

    def content(path: Path) -> Any:
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):  # reading a pipe would wait for ever
                return Unreadable("is a pipe, a socket, a device or a folder; expected a file")
            return path.read_bytes()
        except OSError as error:
            return Unreadable(f"cannot be read: {error.strerror or error}")

    def read(start: int, stop: int) -> list[Any]:
        return [content(path) for path in paths[start:stop]]

    return Items("image", len(paths), read, [spelled(str(path)) for path in paths])


def spelled(name: str) -> str:
    r"""Return the name of a file with the bytes that are not UTF-8 spelled out.

    >>> print(spelled("caf\udce9.png"))
    caf\xe9.png
    """
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def joined_items(parts: Sequence[Items]) -> Items:
    """Return several lists of one kind end to end."""
    starts = np.cumsum([0, *(len(part) for part in parts)]).tolist()

    def read(start: int, stop: int) -> list[Any]:
        content: list[Any] = []
        for part, first in zip(parts, starts, strict=False):
            low, high = max(start - first, 0), min(stop - first, len(part))
            if low < high:
                content += part.read(low, high)
        return content

    return Items(parts[0].kind, starts[-1], read)
