"""What a caller asks for: where the data is (:class:`Place`), and what to take from it (:class:`Request`)."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from ..errors import InvalidInput, InvalidParameter, brief
from ..files import SHARDS, file_and_column, os_errors
from ..validation import nearest
from .dataset import Kind
from .remote import find_files, is_remote, path_of, read_in_parts, shown

_MOST_LISTED = 50  # names in a sentence
REMOTE_ENDINGS = tuple(ending for ending, kind in SHARDS.items() if kind in ("parquet", "arrow", "npy"))


@dataclass(frozen=True)
class Place:
    """Where data is."""

    name: str  # as the user named it
    files: tuple[str, ...]  # the files, in natural order of their names; of a folder those right in it
    folder: Path | None = None  # the folder, where the user named one

    @property
    def path(self) -> Path:
        """The folder or the first file."""
        return self.folder or Path(self.files[0])

    @property
    def base(self) -> Path | None:
        """The folder that relative paths in it begin at; None behind an address."""
        return None if is_remote(self.name) else self.folder or self.path.parent

    @property
    def endings(self) -> frozenset[str]:
        """How the files' names end, in lower case."""
        return frozenset(ending_of(file) for file in self.files)

    def of_kind(self, kind: str) -> Place:
        """Return the same place with only the files of this kind."""
        files = tuple(file for file in self.files if SHARDS.get(ending_of(file)) == kind)
        return Place(self.name, files, self.folder)

    def only_file(self, kind: str) -> Path:
        """Return the file where there must be one."""
        if len(self.files) != 1:
            raise InvalidInput(f"{self.name} names {len(self.files)} {kind} files; expected one")
        return Path(self.files[0])


def natural_order(files: Iterable[str]) -> list[str]:
    """Return files in the order of their names, in which numbers count as numbers.

    >>> natural_order(["part10", "part2", "part1"])
    ['part1', 'part2', 'part10']
    """

    def key(file: str) -> tuple[list[str | int], str]:
        parts = re.split(r"([0-9]+)", file)
        return [int(part) if place % 2 else part for place, part in enumerate(parts)], file

    return sorted(files, key=key)


def order_notes(files: Sequence[str]) -> Iterator[str]:
    """Report in which order files are read where their names could be put in another."""
    pair = next(((one, other) for one, other in pairwise(files) if one > other), None)
    if pair is not None:
        first, then = map(os.path.basename, pair)
        first, then = pair if first == then else (first, then)  # in folders that have numbers
        yield f"the {len(files):,} files are read in the order of their numbers: {first} before {then}"


def kind_of_entry(entry: os.DirEntry[str]) -> Literal["file", "folder", "special", "nothing"]:
    """Return what an entry of a folder is, or what it leads to: nothing, where a link is broken or a loop.

    What is special (a pipe, a socket, a device) is not to be read: that could take for ever.
    """
    try:
        if entry.is_file(follow_symlinks=False):  # as the folder itself says, without another look
            return "file"
        if entry.is_dir():
            return "folder"
        if entry.is_file():
            return "file"
    except OSError:
        pass
    return "special" if os.path.exists(entry.path) else "nothing"


def ending_of(file: str) -> str:
    """Return how the name of a file ends, in lower case; of an address, its path."""
    return Path(path_of(file)).suffix.lower()


def find_place(path: str | os.PathLike[str], most: int | None = None) -> Place:
    """Return what a path, a glob or an address names.

    `most`: bytes that may be fetched of a file whose server does not send parts of it. Raises `InvalidInput`:
    nothing is there, or neither a file nor a folder.
    """
    name = os.fspath(path)
    if is_remote(name):
        return Place(shown(name), read_in_parts(natural_order(find_files(name, REMOTE_ENDINGS)), most))
    if os.path.isdir(name):
        files = []
        with os_errors(f"cannot read the folder {name}"):
            for entry in list(os.scandir(name)):
                kind = kind_of_entry(entry)
                if kind == "special" and ending_of(entry.path) in SHARDS:
                    raise InvalidInput(f"{entry.path} is a pipe, a socket or a device; expected files")
                if kind in ("file", "nothing") and not entry.name.startswith((".", "_")):
                    files.append(entry.path)
        return Place(name, tuple(natural_order(files)), Path(name))
    files = natural_order(glob.glob(name)) if glob.has_magic(name) and not os.path.exists(name) else [name]
    if not files:
        raise InvalidInput(f"no file matches {name}")
    for file in files:
        if not os.path.exists(file):
            raise InvalidInput(f"there is no file {file}")
        if os.path.isdir(file):
            raise InvalidInput(f"{name} matches the folder {file}; expected files, as in {name}/*")
        if not os.path.isfile(file):
            raise InvalidInput(f"{file} is neither a file nor a folder; expected one of them")
    return Place(name, tuple(files))


@dataclass(frozen=True)
class Request:
    """What to take from data, as :func:`gmmatch.data.open_dataset` was asked for it."""

    # Columns, arrays or tensors that hold the embeddings, the texts or the images.
    embedding: str | None = None
    text: str | None = None
    image: str | None = None
    # As they were given: a column or a file, where they are text.
    labels: object = None
    ids: object = None
    # What to look for: images, texts or rows of numbers; None for whatever is there.
    holds: Kind | None = None
    split: str = "train"  # `train` or `test`, where the data has both
    memory: int = 1 << 30  # bytes that columns may take
    most: int = 1 << 40  # bytes that an array of an archive may unpack to
    drop: bool = False  # whether bad rows are to be left out
    header: str = "auto"  # whether the first line of a table names its columns: `auto`, `yes` or `no`
    without: tuple[str, ...] = ()  # columns that are no numbers to compare rows by

    @property
    def wanted(self) -> Kind | None:
        """What to look for: what was requested, or what a named column of texts or images implies."""
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

    def refuse_texts(self, where: str) -> None:
        """Refuse to look for texts in data that can have none."""
        if self.wanted == "text":
            raise InvalidInput(f"{where} holds no texts; expected a table or lines of text")

    def refuse_columns(self, where: str) -> None:
        """Refuse names of columns for data that has none."""
        for option, value in (("text", self.text), ("image", self.image), ("embedding", self.embedding)):
            if value is not None:
                raise InvalidParameter(f"{option}={value!r} does not fit {where}: it has no columns")
        self.check_columns((), where)


def names_file(given: str) -> bool:
    """Return True if a text names a file that exists, a column of one (`FILE:COLUMN`), or files in shards."""
    in_file = os.path.isfile(given) or file_and_column(given)[1] is not None
    return is_remote(given) or in_file or names_shards(given)


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


def check_column(name: str, names: Collection[str], where: str, option: str, kind: str = "column") -> str:
    """Return the name of a column, or of an array, that exists."""
    if name not in names:
        there = f"{nearest(name, names)}; it has: {listed(list(names))}"
        raise InvalidInput(f"{where} has no {kind} {name!r} ({option}=...){there}")
    return name


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

    more = ", unlabelled='class' makes them a class of their own, unlabelled='pick' picks some to label"
    advice = f"on_bad_rows='drop' leaves them out{more if unlabelled else ''}"
    reasons = "; ".join([first_reasons(bad, called), *notes, advice])
    return InvalidInput(f"{len(bad):,} of {n_rows:,} rows of {name} cannot be used{reasons}")


def first_reasons(bad: Mapping[int, str], called: Callable[[int], object]) -> str:
    """Return what is wrong with the first ten of some rows; `called`: what to call one.

    >>> first_reasons({3: "no label", 1: "no id"}, "row {}".format)
    ': row 1: no id; row 3: no label'
    """
    more = " (first ten)" if len(bad) > 10 else ""
    return f"{more}: " + "; ".join(f"{called(row)}: {bad[row]}" for row in sorted(bad)[:10])


def all_bad(bad: Mapping[int, str], n_rows: int, name: str) -> InvalidInput:
    """Return the sentence for data of which no row can be used."""
    first = f"(row 0: {bad[0]})"
    return InvalidInput(f"all {n_rows} rows of {name} are bad {first}; nothing is left to choose from")


def listed(names: Sequence[str]) -> str:
    """Return names with commas between them, and how many more there are than can be read.

    >>> listed(["a", "b"])
    'a, b'
    """
    more = f" and {len(names) - _MOST_LISTED:,} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(names[:_MOST_LISTED]) + more
