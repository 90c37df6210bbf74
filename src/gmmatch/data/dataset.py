"""A dataset: rows to choose from, wherever they are, and the images or texts that they stand for."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..arrays import AnyArray, FloatArray, IntArray, Labels, kinds_of
from ..errors import InvalidInput, InvalidInputType, brief
from ..records import verb
from ..validation import as_labels, fingerprint
from .remote import shown, stamps_of

Kind = Literal["image", "text", "rows"]
Entries = Sequence[Any] | AnyArray
"""One value per row."""

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
    read: Callable[[int, int], list[object]]
    paths: Sequence[str] | None = None  # one path per row, where there are some
    array: AnyArray | None = None  # all of them as one array, where they are held so

    def __len__(self) -> int:
        return self.n_items

    def chosen(self, rows: Sequence[int]) -> Items:
        """Return the images or texts of some rows, in the order requested."""

        def read(start: int, stop: int) -> list[object]:
            return [self.read(row, row + 1)[0] for row in rows[start:stop]]

        paths = None if self.paths is None else [self.paths[row] for row in rows]
        return Items(self.kind, len(rows), read, paths)

    def all(self) -> list[object]:
        """Return all of them."""
        return self.read(0, self.n_items)


def list_items(
    kind: Kind,
    values: Entries,
    content: Callable[[Any], object] = lambda value: value,
    paths: Sequence[str] | None = None,
    array: AnyArray | None = None,
) -> Items:
    """Return what a sequence holds, each value as the function `content` returns it.

    >>> list_items("text", ["a", "b"], str.upper).all()
    ['A', 'B']
    """

    def read(start: int, stop: int) -> list[object]:
        return [content(value) for value in values[start:stop]]

    return Items(kind, len(values), read, paths, array)


def array_items(images: AnyArray, name: str) -> Items:
    """Return images held in an array (rows, height, width[, channels])."""
    is_image = images.ndim == 3 or (images.ndim == 4 and images.shape[3] in (1, 3, 4))
    if images.dtype != np.uint8 or not is_image:
        expected = "uint8 images of shape (rows, height, width) or (rows, height, width, 1, 3 or 4)"
        raise InvalidInputType(f"{name} holds {images.dtype} of shape {images.shape}; expected {expected}")
    return list_items("image", images, array=images)


def file_items(paths: Sequence[Path]) -> Items:
    """Return images that are whole files."""

    def content(path: Path) -> bytes | Unreadable:
        try:
            if path.exists() and not path.is_file():  # reading a pipe would wait for ever
                return Unreadable("is a pipe, a socket, a device or a folder; expected a file")
            return path.read_bytes()
        except OSError as error:
            return Unreadable(f"cannot be read: {error.strerror or error}")

    return list_items("image", paths, content, [spelled(str(path)) for path in paths])


def spelled(name: str) -> str:
    r"""Return the name of a file with the bytes that are not UTF-8 spelled out.

    >>> print(spelled("caf\udce9.png"))
    caf\xe9.png
    """
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def joined_items(parts: Sequence[Items]) -> Items:
    """Return several lists of one kind end to end."""
    starts = np.cumsum([0, *(len(part) for part in parts)]).tolist()

    def read(start: int, stop: int) -> list[object]:
        content: list[object] = []
        for part, first in zip(parts, starts, strict=False):
            low, high = max(start - first, 0), min(stop - first, len(part))
            if low < high:
                content += part.read(low, high)
        return content

    return Items(parts[0].kind, starts[-1], read)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows to choose from, wherever they are, and what belongs to them.

    Attributes
    ----------
    rows
        Embeddings: an array, a memory map or a view (:class:`gmmatch.data.Rows`); None where the data
        holds images or texts that are not encoded yet.
    name
        What to call it in messages.
    kind
        The format it came in.
    ids, labels
        One per row, where there are some. The label of a bad row means nothing.
    files, sizes
        The files behind it, in the order of their rows, and how many rows each has, where they are shards.
    content
        What rows look like, images or texts, opened when they are read; None where there is nothing to
        see.
    bad
        Why rows of the input take no part, by row number. Rows that hold NaN or infinite numbers are
        found when they are read, and are not among them.
    notes
        Sentences the user should see.
    columns, read_column
        Names of further columns, and what reads one: all of it, or of a table from a first to a last row.
    scalars
        Of a table, the columns that hold no lists.
    original
        The object that was opened, where it was none that files are behind.
    stamps
        Size and modification time of the files when they were opened.
    groups
        What rows belong together (patient, user, video), one value per row, where it was told.
    beside
        The files that labels, ids and groups came from.
    drop
        Whether it was opened to leave bad rows out.
    unlabelled
        Rows without a label that may be picked, to be labelled; they bear a label that no other row has.

    Examples
    --------
    >>> data = Dataset(np.eye(3), "X", "array", labels=np.array(["a", "b", "a"]))
    >>> len(data), data.shape, data.take(np.array([2, 0])).tolist()
    (3, (3, 3), [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    """

    rows: Any
    name: str
    kind: str
    ids: Labels | None = None
    labels: Labels | None = None
    files: tuple[str, ...] = ()
    content: Items | None = None
    bad: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    read_column: Callable[..., Entries] | None = None
    scalars: tuple[str, ...] = ()
    original: Any = None
    stamps: Mapping[str, str] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()
    groups: Labels | None = None
    beside: tuple[str, ...] = ()
    drop: bool = False
    unlabelled: IntArray = field(default_factory=lambda: np.empty(0, np.int64))

    def __repr__(self) -> str:
        numbers = "" if self.rows is None else f" of {self.shape[1]} numbers"
        return f"Dataset({self.name}: {len(self)} rows{numbers}{', labelled' * (self.labels is not None)})"

    def _repr_html_(self) -> str:
        return verb("html")(self)  # type: ignore[no-any-return]

    def __len__(self) -> int:
        if self.rows is not None:
            return len(self.rows)
        return 0 if self.content is None else len(self.content)

    @property
    def bad_rows(self) -> IntArray:
        """Numbers of the rows that take no part, ascending."""
        return np.array(sorted(self.bad), dtype=np.int64)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        rows = self.numbers()
        return rows.shape[0], rows.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of all rows as floats."""
        return int(self.shape[0] * self.shape[1] * self.rows.dtype.itemsize)

    def numbers(self) -> Any:
        """Return the rows, or say that they must be encoded first."""
        if self.rows is None:
            kind = None if self.content is None else self.content.kind
            held = "nothing" if kind is None else PLURALS[kind]
            usual = {"image": "'efficientnet-lite0'", "text": "'wordllama'"}.get(kind or "", "...")
            raise InvalidInput(f"{self.name} holds {held}; name an encoder for them: encoder={usual}")
        return self.rows

    def take(self, rows: IntArray) -> FloatArray:
        """Return some rows, in the order requested."""
        order = np.argsort(rows, kind="stable")
        taken: FloatArray = self.numbers()[rows[order]]
        return taken[np.argsort(order)]

    def labelled(self) -> Dataset:
        """Return the dataset of which rows without a label take no part.

        >>> data = Dataset(np.eye(2), "X", "array", labels=np.array([5, -1]), unlabelled=np.array([1]))
        >>> data.labelled().bad, data.labelled().labels.tolist()
        ({1: 'no label'}, [5, 5])
        """
        if not len(self.unlabelled) or self.labels is None:
            return self
        labels = self.labels.copy()
        labels[self.unlabelled] = np.delete(labels, self.unlabelled)[0]
        bad = {**dict.fromkeys(self.unlabelled.tolist(), "no label"), **self.bad}
        return self.replace(labels=labels, bad=bad, drop=True, unlabelled=np.empty(0, np.int64))

    def chosen(self, rows: IntArray) -> Dataset:
        """Return a dataset of some rows, in the order requested; numbers are in memory, no files behind it.

        >>> data = Dataset(np.eye(3), "X", "array", labels=np.array(["a", "b", "a"]))
        >>> data.chosen(np.array([1, 0])).labels.tolist()
        ['b', 'a']
        """
        numbers = rows.tolist()
        return Dataset(
            None if self.rows is None else self.take(rows),
            f"{len(rows)} rows of {self.name}",
            "list" if self.rows is None else "array",
            ids=None if self.ids is None else self.ids[rows],
            labels=None if self.labels is None else self.labels[rows],
            content=None if self.content is None else self.content.chosen(numbers),
            bad={place: self.bad[row] for place, row in enumerate(numbers) if row in self.bad},
        )

    def fingerprint(self) -> str:
        """Return a short digest that tells these rows and labels from others."""
        codes = None if self.labels is None else as_labels(self.labels, len(self))[1]
        return fingerprint(self.numbers(), codes)

    def check_index(self, given: Any, name: str) -> None:
        """Refuse a column of pandas of another index than the table's: by position it might be of other rows.

        Rows of other data than a table have their ids as an index: one that has these, or some of them, on
        other rows is refused. What is an array, or of another length, has no index to compare.
        """
        if not kinds_of(given) & {("pandas", "Series"), ("pandas", "DataFrame")} or len(given) != len(self):
            return
        if ("pandas", "DataFrame") in kinds_of(self.original):
            own, index = self.original.index, given.index
            differ, table, of = not index.equals(own), "table", "index"
        elif self.ids is not None:
            own, index = ([str(key) for key in keys.tolist()] for keys in (self.ids, given.index))
            numbers = list(map(str, range(len(own))))
            differ = index not in (own, numbers) and not set(index).isdisjoint(own)
            table, of = "data", "ids"
        else:
            return
        if differ:
            raise InvalidInput(
                f"{name} has another index than the {table} (it begins {brief(index[0])}, the {table}'s"
                f" {brief(own[0])}, and they differ); pass {name}.loc[{table}.{of}] to"
                f" join them by index, or {name}.to_numpy() by position"
            )

    def check_unchanged(self) -> None:
        """Refuse to go on with what was read if a file is not what it was when it was opened."""
        check_stamps(self.stamps)

    def replace(self, **changes: Any) -> Dataset:
        """Return the same dataset with other attributes."""
        return dataclasses.replace(self, **changes)


def check_stamps(stamps: Mapping[str, str]) -> None:
    """Refuse to go on with files that are not what they were when `stamps_of` looked at them."""
    for file, stamp in stamps_of(stamps).items():
        if stamp != stamps[file]:
            what = "changed while it was in use: its size or modification time is not what it was"
            raise InvalidInput(f"{shown(file)} {what}; start again when nothing writes to it")
