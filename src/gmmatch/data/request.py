"""What a caller asks of data before it is opened."""

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidInput, InvalidParameter, brief
from ..files import file_and_column
from ..validation import nearest
from .items import Kind
from .remote import is_remote

_MOST_LISTED = 50  # names in a sentence


@dataclass(frozen=True)
class Request:
    """What to take from data, as :func:`gmmatch.data.open_dataset` was asked for it."""

    # Columns, arrays or tensors that hold the embeddings, the texts or the images.
    embedding: str | None = None
    text: str | None = None
    image: str | None = None
    # As they were given: a column or a file, where they are text.
    labels: Any = None
    ids: Any = None
    # What to look for: images, texts or rows of numbers; None for whatever is there.
    holds: Kind | None = None
    split: str = "train"  # `train` or `test`, where the data has both
    memory: int = 1 << 30  # bytes that columns may take
    most: int = 1 << 40  # bytes that an array of an archive may unpack to
    drop: bool = False  # whether bad rows are to be left out
    header: str = "auto"  # whether the first line of a table names its columns: `auto`, `yes` or `no`

    @property
    def wanted(self) -> Kind | None:
        """What to look for: what was asked for, or what a named column of texts or images implies."""
        if self.holds is not None:
            return self.holds
        return "text" if self.text is not None else "image" if self.image is not None else None

    def check_split(self) -> str:
        """Return `train` or `test`."""
        if self.split not in ("train", "test"):
            raise InvalidParameter(f"split must be 'train' or 'test'; got {brief(self.split)}")
        return self.split

    def check_columns(self, names: Sequence[str], where: str) -> None:
        """Refuse labels or ids that are neither a column nor a file, before anything is read."""
        for what, given in (("labels", self.labels), ("ids", self.ids)):
            if isinstance(given, str) and given not in names and not names_file(given):
                raise no_column(given, what, names, where)

    def refuse_columns(self, where: str) -> None:
        """Refuse names of columns for data that has none."""
        for option, value in (("text", self.text), ("image", self.image), ("embedding", self.embedding)):
            if value is not None:
                raise InvalidParameter(f"{option}={value!r} does not fit {where}: it has no columns")
        self.check_columns((), where)


def names_file(given: str) -> bool:
    """Return True if a text names a file that exists, a column of one (`FILE:COLUMN`), or files in shards."""
    return (
        is_remote(given)
        or os.path.isfile(given)
        or file_and_column(given)[1] is not None
        or names_shards(given)
    )


def names_shards(given: str) -> bool:
    """Return True if a text is no file, and names the files of a folder or those that match a pattern."""
    if os.path.exists(given):
        return os.path.isdir(given)
    return glob.has_magic(given) and bool(glob.glob(given))


def no_column(given: str, what: str, names: Sequence[str], where: str) -> InvalidInput:
    """Return the sentence for labels, ids or scores that are nowhere, or no file."""
    if os.path.exists(given):
        return no_file(given)
    there = f"has the columns {listed(names)}" if names else "has no columns"
    return InvalidInput(
        f"there is no column and no file {given!r} to take as {what} ({what}=...){nearest(given, names)};"
        f" {where} {there}"
    )


def no_file(name: str) -> InvalidInput:
    """Return the sentence for what cannot be read as a file is: more than once, and from any place on."""
    return InvalidInput(f"{name} is a pipe, a socket or a device; expected a file: write it to one first")


def refuse_bad(
    bad: Mapping[int, str],
    n_rows: int,
    name: str,
    unlabelled: bool = False,
    notes: Sequence[str] = (),
    ids: Any = None,
) -> InvalidInput:
    """Return the sentence that names bad rows, by their ids where they have some, and the way out."""

    def called(row: int) -> str:
        known = str(row) if ids is None else str(ids[row])
        return f"row {row}" if not known or known in f"{row} {bad[row]}" else f"row {row} ({known})"

    first = "; ".join(f"{called(row)}: {bad[row]}" for row in sorted(bad)[:10])
    more = " (first ten)" if len(bad) > 10 else ""
    advice = "; on_bad_rows='drop' leaves them out"
    if unlabelled:
        advice += (
            ", unlabelled='class' makes them a class of their own, unlabelled='pick' picks some to label"
        )
    also = "".join(f"; {note}" for note in notes)
    return InvalidInput(f"{len(bad)} of {n_rows} rows of {name} cannot be used{more}: {first}{also}{advice}")


def all_bad(bad: Mapping[int, str], n_rows: int, name: str) -> InvalidInput:
    """Return the sentence for data of which no row can be used."""
    return InvalidInput(
        f"all {n_rows} rows of {name} are bad (row 0: {bad[0]}); nothing is left to choose from"
    )


def listed(names: Sequence[str]) -> str:
    """Return names with commas between them, and how many more there are than can be read.

    >>> listed(["a", "b"])
    'a, b'
    """
    more = f" and {len(names) - _MOST_LISTED:,} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(names[:_MOST_LISTED]) + more
