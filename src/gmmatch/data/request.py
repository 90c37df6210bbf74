"""What a caller asks of data before it is opened."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidInput, InvalidParameter
from ..validation import nearest
from .items import Kind
from .remote import is_remote


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

    @property
    def wanted(self) -> Kind | None:
        """What to look for: what was asked for, or what a named column of texts or images implies."""
        if self.holds is not None:
            return self.holds
        return "text" if self.text is not None else "image" if self.image is not None else None

    def check_split(self) -> str:
        """Return `train` or `test`."""
        if self.split not in ("train", "test"):
            raise InvalidParameter(f"split must be 'train' or 'test'; got {self.split!r}")
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
                raise InvalidParameter(f"--{option} {value} does not fit {where}: it has no columns")
        self.check_columns((), where)


def names_file(given: str) -> bool:
    """Tell whether a text names a file that exists, or a column of one (`FILE:COLUMN`)."""
    return is_remote(given) or os.path.isfile(given) or os.path.isfile(given.rpartition(":")[0])


def no_column(given: str, what: str, names: Sequence[str], where: str) -> InvalidInput:
    """Return the sentence for labels, ids or scores that are nowhere."""
    there = f"has the columns {', '.join(names)}" if names else "has no columns"
    return InvalidInput(
        f"there is no column and no file {given!r} to take as {what} (--{what}){nearest(given, names)};"
        f" {where} {there}"
    )
