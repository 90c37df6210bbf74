"""Tables with named columns, whatever they are kept in, and what their columns hold."""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidInput
from ..validation import nearest
from .dataset import Dataset
from .delimited import find_header, is_number, read_delimited, readable
from .items import Items, Kind, Unreadable
from .memory import check_room
from .mixed import categories_of, is_category, numbers_of
from .request import Request, all_bad, listed
from .wording import text_of

LINES = "line"
_LOOKED_AT, _FEWEST_IDS = 1000, 20  # rows by which columns are taken to be ids
IMAGE_ROOT = "GMMATCH_IMAGE_ROOT"
# Names that image columns go by, most usual first.
IMAGE_COLUMNS = ("image", "img", "image_path", "path", "file_name", "filename", "file", "bytes", "jpg", "png")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows with named columns."""

    name: str
    names: tuple[str, ...]  # the columns there are
    n_rows: int  # how many rows, the broken ones included
    # Function of a column's name, a first and a last row (exclusive) that returns the values between; None
    # where there is no value, an :class:`Unreadable` where it is not text.
    read: Callable[[str, int, int], Any]
    broken: Mapping[int, str] = field(default_factory=dict)  # reason for each row that could not be parsed
    base: Path | None = None  # the folder that relative paths of images begin at
    # The columns that hold lists of numbers, and those that hold numbers.
    lists: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    # Function of a column of lists that returns its rows as floats, NaN where there are none, and the reasons
    # for those.
    vectors: Callable[[str, Request], tuple[Any, dict[int, str]]] | None = None
    notes: tuple[str, ...] = ()  # sentences the user should see
    # The same of columns of numbers, one per feature.
    features: Callable[[Sequence[str], Request], tuple[Any, dict[int, str]]] | None = None

    def values(self, name: str, start: int = 0, stop: int | None = None) -> Any:
        """Return values of a column, with the reason in place of a broken row's."""
        stop = self.n_rows if stop is None else stop
        found = self.read(name, start, stop)
        for row in range(start, stop) if self.broken else ():
            if row in self.broken:
                found[row - start] = Unreadable(self.broken[row])
        return found


def table_dataset(table: Table, request: Request, kind: str, files: Sequence[str]) -> Dataset:
    """Return the rows, or the texts or images, that a table holds."""
    if table.n_rows == 0:
        raise InvalidInput(f"{table.name} has no rows")
    request.check_columns(table.names, table.name)
    wanted: Kind | None = request.wanted
    if wanted is None and table.names == (LINES,):
        wanted = "text"
    found = Dataset(
        None,
        table.name,
        kind,
        files=tuple(files),
        bad=dict(table.broken),
        columns=table.names,
        read_column=table.values,
        notes=table.notes,
    )
    if wanted in ("text", "image"):
        return found.replace(content=_items(table, wanted, request))
    rows, bad, names, told = _numbers(table, request)
    notes = (*table.notes, *told, *_like_ids(rows, names))
    return found.replace(rows=rows, bad={**bad, **table.broken}, notes=notes)


def check_column(name: str, names: Sequence[str], where: str, option: str) -> str:
    """Return the name of a column that exists."""
    if name not in names:
        raise InvalidInput(
            f"{where} has no column {name!r} ({option}=...){nearest(name, names)}; it has: {listed(names)}"
        )
    return name


def _items(table: Table, kind: Kind, request: Request) -> Items:
    made = text_of(request.text, table.names, table.name) if kind == "text" else None
    if made is not None:
        own, text = made

        def texts(start: int, stop: int) -> list[Any]:
            columns = [list(table.values(name, start, stop)) for name in own]
            found = (text(values) for values in zip(*columns, strict=True))
            return [Unreadable("no text") if value is None else value for value in found]

        return Items(kind, table.n_rows, texts, None)
    name = _content_column(table, kind, request.text if kind == "text" else request.image)

    def content(value: Any) -> Any:
        if value is None:
            return Unreadable(f"no {kind} in column {name!r}" if name != LINES else f"an empty {kind}")
        return _image(value, table.base) if kind == "image" else value

    def read(start: int, stop: int) -> list[Any]:
        return [content(value) for value in table.values(name, start, stop)]

    return Items(kind, table.n_rows, read, _paths(table, name) if kind == "image" else None)


def _content_column(table: Table, kind: Kind, column: str | None) -> str:
    if column is not None:
        return check_column(column, table.names, table.name, kind)
    if table.names == (LINES,):
        return LINES
    usual = [name for name in IMAGE_COLUMNS if name in table.names] if kind == "image" else []
    if not usual:
        raise InvalidInput(
            f"name the column of {table.name} that holds the {kind}s with {kind}=..."
            f"{' (or texts: text=...)' if kind == 'image' else ''}; it has: {listed(table.names)}"
        )
    return usual[0]


def _image(value: Any, base: Path | None) -> Any:
    """Return the bytes of an image given as bytes, as a path, or as a pair of both."""
    if isinstance(value, dict):
        inner = value.get("bytes") or value.get("path")
        return Unreadable("neither bytes nor a path") if inner is None else _image(inner, base)
    if not isinstance(value, str):
        known = isinstance(value, (bytes, Unreadable, np.ndarray)) or hasattr(value, "convert")
        return value if known else Unreadable(f"expected a path or bytes; got {value!r}"[:200])
    if not value.strip():
        return Unreadable(f"expected a path or bytes; got {value!r}")
    root = Path(os.environ.get(IMAGE_ROOT) or base or Path())
    path = os.path.normpath(root / value.strip())
    if Path(os.path.abspath(root)) not in Path(os.path.abspath(path)).parents:
        return Unreadable(f"{value.strip()} lies outside {root}; {IMAGE_ROOT} names the folder of the images")
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            return Unreadable(f"{value.strip()} is no file")
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return Unreadable(f"cannot read {value.strip()}: {reason}")


def _paths(table: Table, name: str) -> list[str] | None:
    """Return the images' paths where the column holds paths."""
    first = next(
        (value for value in table.values(name, 0, min(table.n_rows, 100)) if value is not None), None
    )
    if not isinstance(first, str):
        return None
    base = table.base or Path()
    values = table.values(name)
    return [str(base / value.strip()) if isinstance(value, str) else "" for value in values]


def _like_ids(rows: Any, names: Sequence[str]) -> Iterator[str]:
    """Say which columns of numbers count rows, as ids do: they would be compared like any other."""
    if len(names) < 2 or len(rows) < _FEWEST_IDS:
        return
    try:
        first = np.asarray(rows[:_LOOKED_AT])
    except InvalidInput:  # bad rows, which whoever reads them will hear of
        return
    with np.errstate(invalid="ignore"):
        found = (np.diff(first, axis=0) > 0).all(axis=0) & (first == np.floor(first)).all(axis=0)
    for place in np.flatnonzero(found).tolist():
        yield (
            f"column {names[place]!r} counts up row by row, as ids do, and is compared like any number;"
            f" ids={names[place]!r} takes it for ids"
        )


def _numbers(table: Table, request: Request) -> tuple[Any, dict[int, str], list[str], list[str]]:
    """Return the embeddings, a column of lists, or all columns beside labels and ids; these; notes."""
    embedding = request.embedding
    if embedding is not None:
        check_column(embedding, table.names, table.name, "embedding")
    elif len(table.lists) > 1:
        raise InvalidInput(
            f"{table.name} has several columns of lists of numbers to take as embeddings; name one with"
            f" embedding=... (it has: {listed(table.names)})"
        )
    elif table.lists:
        embedding = table.lists[0]
    if embedding is not None:
        if table.vectors is None or embedding not in table.lists:
            sample = next((value for value in table.values(embedding) if value is not None), None)
            raise InvalidInput(
                f"column {embedding!r} of {table.name} holds {sample!r}; expected lists of numbers"[:300]
            )
        return *table.vectors(embedding, request), [], []
    # Labels and ids may be given as values, which are not to be compared with names.
    taken = [given for given in (request.labels, request.ids) if isinstance(given, str)]
    rest, numbers = [name for name in table.names if name not in taken], set(table.numbers)
    wrong = [name for name in rest if name not in numbers]
    # Without labels, one of them may be the labels that nobody named.
    named = request.labels is not None
    if wrong and named and all(is_category(list(table.values(name))) for name in wrong):
        rows = _mixed(table, rest, wrong, request)
        told = (
            f"columns {listed(wrong)} were taken as categories; numbers are in units of their spread, and"
            " gaps have a column of their own"
        )
        return rows, {}, [], [told]
    if wrong or not rest or table.features is None:
        raise InvalidInput(
            f"{table.name} has no column of lists of numbers to take as embeddings (embedding=...), and"
            " otherwise its columns beside labels and ids must be numbers; got"
            f" {listed(wrong) or 'none'} (texts are named with text=..., images with image=...)"
        )
    return *table.features(rest, request), rest, []


def _mixed(table: Table, names: Sequence[str], categories: Sequence[str], request: Request) -> Any:
    """Return columns of numbers and of categories as rows of numbers."""
    columns = []
    for name in names:
        values = [None if isinstance(value, Unreadable) else value for value in table.values(name)]
        columns.append(categories_of(values) if name in categories else numbers_of(values))
    check_room(8 * table.n_rows * sum(column.shape[1] for column in columns), table.name, request.most)
    return np.concatenate(columns, axis=1)


def spread_rows(
    rows: Sequence[Sequence[Any] | str], n_columns: int, name: str, request: Request
) -> tuple[npt.NDArray[Any], dict[int, str]]:
    """Return rows of values as floats, NaN where a reason is in place of the values, and the reasons."""
    bad = {row: values for row, values in enumerate(rows) if isinstance(values, str)}
    if len(bad) == len(rows):
        raise all_bad(bad, len(rows), name)
    check_room(len(rows) * n_columns * 8, name, request.most)
    floats = np.full((len(rows), n_columns), np.nan)
    for row, values in enumerate(rows):
        if row not in bad:
            floats[row] = [as_float(value) for value in values]
    return floats, bad


def as_float(value: Any) -> float:
    """Return a number as a float; one that is too large becomes infinite, and a row that has it is bad.

    >>> as_float(10**400), as_float("1.5")
    (inf, 1.5)
    """
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf


def delimited_table(path: Path, header: str = "auto", most: int | None = None) -> Table:
    """Open a CSV or TSV file, or the lines of a text.

    The first row names the columns (see `find_header`); where it does not, they are counted from 0.
    """
    found = read_delimited(path, most)
    base = path.parent
    if found.delimiter is None:
        lines = [readable(record.cells[0]) for record in found.records]
        return Table(
            str(path), (LINES,), len(lines), lambda name, start, stop: list(lines[start:stop]), base=base
        )
    if not found.records:
        raise InvalidInput(f"{path} is empty")
    first = found.records[0].cells
    has_header, notes = find_header(found, header)
    names = [readable(cell) for cell in first] if has_header else [str(n) for n in range(found.width)]
    for name in names:
        if isinstance(name, Unreadable):
            raise InvalidInput(f"the first line of {path}, which names the columns, is {name}")
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    if twice:
        raise InvalidInput(f"{path} has several columns called {twice[0]!r}; expected a name for each")
    rows = [record.cells for record in found.records[has_header:]]
    broken = {
        row: f"{len(cells)} values for {len(names)} columns"
        for row, cells in enumerate(rows)
        if len(cells) != len(names)
    }
    places = {str(name): place for place, name in enumerate(names)}

    def read(name: str, start: int, stop: int) -> list[Any]:
        place = places[name]
        cells = (row[place] if place < len(row) else "" for row in rows[start:stop])
        return [readable(cell) if cell else None for cell in cells]

    def features(names: Sequence[str], request: Request) -> tuple[npt.NDArray[Any], dict[int, str]]:
        wanted = [places[name] for name in names]

        def values(row: int) -> list[str] | str:
            if row in broken:
                return broken[row]
            cells = [rows[row][place] for place in wanted]
            if all(cells):
                return cells
            return f"no number in column {names[cells.index('')]!r}"

        return spread_rows([values(row) for row in range(len(rows))], len(wanted), str(path), request)

    numbers = tuple(name for name in places if _all_numbers(read(name, 0, len(rows)), broken))
    return Table(
        str(path),
        tuple(places),
        len(rows),
        read,
        broken,
        base,
        numbers=numbers,
        features=features,
        notes=notes,
    )


def _all_numbers(values: Sequence[Any], broken: Mapping[int, str]) -> bool:
    present = [value for row, value in enumerate(values) if value is not None and row not in broken]
    return bool(present) and all(isinstance(value, str) and is_number(value) for value in present)


def plain_numbers(column: pa.Array) -> npt.NDArray[Any]:
    """Return numbers without gaps as they lie in memory; `to_numpy` imports pandas, where that is there."""
    kind = np.dtype(column.type.to_pandas_dtype())
    buffer = column.buffers()[1]
    if buffer is None:
        return np.empty(0, kind)
    return np.frombuffer(buffer, kind, len(column), column.offset * kind.itemsize)


def list_matrix(column: pa.Array, width: int, name: str, start: int, bad: dict[int, str]) -> npt.NDArray[Any]:
    """Return a list column as a matrix, NaN where a row has no list, another length or a missing number."""
    if pa.types.is_fixed_size_list(column.type) and column.type.list_size == width and not column.null_count:
        values = column.values.slice(column.offset * width, len(column) * width)  # flatten() would copy
        if not values.null_count:
            return plain_numbers(values).reshape(len(column), width)
    lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(lengths != width).tolist():
        found = f"{lengths[row]} numbers in column {name!r}, expected {width}"
        bad[start + row] = f"no value in column {name!r}" if lengths[row] < 0 else found
    whole = lengths == width
    good = column if whole.all() else column.filter(pa.array(whole))
    values = good.flatten()
    gaps = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)) // width
    numbers = np.flatnonzero(whole)
    for row in np.unique(gaps).tolist():
        bad[start + int(numbers[row])] = f"a missing number in column {name!r}"
    matrix = np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(good), width)
    if whole.all():
        return matrix
    spread = np.full((len(column), width), np.nan)
    spread[whole] = matrix
    return spread
