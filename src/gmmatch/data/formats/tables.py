"""Tables with named columns, whatever they are kept in, as rows of numbers, texts or images.

Numbers are a column of lists (embeddings), or all columns beside labels and ids; columns of categories become
zeros and ones. The text of a row is a column, a template over columns, or a conversation as chat data has it.
"""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import Rows, Vector
from ...errors import InvalidInput, InvalidParameter, brief
from ..dataset import Dataset, Entries, Items, Kind, Unreadable
from ..request import Request, check_column, listed
from .base import check_room, is_instance

LINES = "line"  # what the only column of lines of text is called
IMAGE_ROOT = "GMMATCH_IMAGE_ROOT"
# Names that image columns go by, most usual first.
IMAGE_COLUMNS = ("image", "img", "image_path", "path", "file_name", "filename", "file", "bytes", "jpg", "png")
# Columns of turns: `role` and `content`, or `from` and `value`.
CHATS = ("messages", "conversations", "conversation")
ALPACA = ("instruction", "input", "output")
TURNS = ("all", "user", "assistant", "system")
_ROLES = {"human": "user", **dict.fromkeys(("gpt", "bot", "model", "chatgpt"), "assistant")}
MOST_CATEGORIES = 50  # different values of a column of categories
_NEARLY = 0.9  # of the cells, from which on a column is taken to hold numbers and some slips
_COMMA = re.compile(r"[-+]?\d+,\d+")
_FIELD = re.compile(r"\{(\w[^{}]*)\}")
_LOOKED_AT, _FEWEST_IDS = 1000, 20  # rows by which columns are taken to be ids
_MOST_UNITS = 64  # columns up to which each may have a unit of its own
_FAR_UNITS = 100.0  # how many times as wide one spreads as another where units differ
_WORDS = 3  # on average, from which on a column is taken to hold texts

Text = Callable[[Sequence[object]], object]
"""A function of the values of some columns that returns the text of a row."""


class Table(ABC):
    """Rows with named columns."""

    name: str
    names: tuple[str, ...]  # the columns there are
    n_rows: int  # how many rows, the broken ones included
    broken: Mapping[int, str] = {}  # reason for each row that could not be parsed
    base: Path | None = None  # the folder that relative paths of images begin at
    notes: tuple[str, ...] = ()  # sentences the user should see
    # The columns that hold lists of numbers, and those that hold numbers.
    lists: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()

    @abstractmethod
    def values(self, name: str, start: int = 0, stop: int | None = None) -> Entries:
        """Return values of a column: None where there is none, an `Unreadable` where a row is broken."""

    @abstractmethod
    def rows(self, names: Sequence[str], request: Request) -> tuple[Rows, dict[int, str]]:
        """Return a column of lists, or columns of numbers, as rows of floats, and why rows are bad."""


def table_dataset(table: Table, request: Request, kind: str, files: Sequence[str]) -> Dataset:
    """Return the rows, or the texts or images, that a table holds."""
    if table.n_rows == 0:
        raise InvalidInput(f"{table.name} has no rows")
    request.check_columns(table.names, table.name)
    wanted: Kind | None = request.wanted
    chats = request.embedding is None and not table.lists and is_chat(table)
    if wanted is None and (table.names == (LINES,) or chats):
        wanted = "text"
    found = Dataset(
        None, table.name, kind, files=tuple(files), bad=dict(table.broken), columns=table.names,
        read_column=table.values, notes=table.notes,
        scalars=tuple(name for name in table.names if name not in table.lists),
    )  # fmt: skip
    if wanted in ("text", "image"):
        return found.replace(content=(_texts if wanted == "text" else _images)(table, request))
    rows, bad, notes = _numbers(table, request)
    return found.replace(rows=rows, bad={**bad, **table.broken}, notes=(*table.notes, *notes))


def is_chat(table: Table) -> bool:
    """Return True for conversations, in one of the ways that chat data has them."""
    turns = any(name in CHATS and name not in table.numbers for name in table.names)
    return turns or ({"instruction", "output"} <= set(table.names) and "instruction" not in table.numbers)


# ---- numbers ----


def _numbers(table: Table, request: Request) -> tuple[Rows, dict[int, str], list[str]]:
    """Return the embeddings, a column of lists, or all columns beside labels and ids; bad rows; notes."""
    if request.embedding is not None:
        name = check_column(request.embedding, table.names, table.name, "embedding")
        if name not in table.lists:
            sample = next((value for value in table.values(name) if value is not None), None)
            said = f"column {name!r} of {table.name} holds {sample!r}; expected lists of numbers"
            raise InvalidInput(said[:300])
        return *table.rows([name], request), []
    if len(table.lists) > 1:
        raise InvalidInput(
            f"{table.name} has several columns of lists of numbers to take as embeddings; name one with"
            f" embedding=... (it has: {listed(table.names)})"
        )
    if table.lists:
        return *table.rows(table.lists, request), []
    # Labels and ids may be given as values, which are not to be compared with names.
    taken = [given for given in (request.labels, request.ids, *request.without) if isinstance(given, str)]
    rest, numbers = [name for name in table.names if name not in taken], set(table.numbers)
    wrong = [name for name in rest if name not in numbers]
    # Without labels, one of them may be the labels that nobody named.
    named = request.labels is not None
    categories = [name for name in wrong if named and is_category(table.values(name))]
    if wrong and categories == wrong:
        note = "numbers are in units of their spread, and gaps have a column of their own"
        note = f"taken as categories: {listed(wrong)}; {note}"
        return _mixed(table, rest, wrong, request), {}, [note]
    if wrong or not rest:
        others = [name for name in wrong if name not in categories]
        what = f"numbers or have at most {MOST_CATEGORIES} categories" if categories else "numbers"
        raise InvalidInput(
            f"{table.name} holds no embeddings (embedding=...), and its other columns beside labels and ids"
            f" must be {what}; got {listed(others) or 'none'}; {_what_columns_are(table, others, request)}"
        )
    rows, bad = table.rows(rest, request)
    return rows, bad, list(_remarks(rows, rest))


def _what_columns_are(table: Table, names: Sequence[str], request: Request) -> str:
    """Return advice how to name columns that are no numbers, by what their first values look like."""
    found: dict[str, str] = {}
    nearly: list[str] = []
    for name in names:
        first = table.values(name, 0, min(table.n_rows, _LOOKED_AT))
        values = [value for value in first if value is not None]
        texts = [value for value in values if isinstance(value, str)]
        if odd := _odd_number(texts, table.values(name)):
            nearly.append(f"{name} {odd}")
        elif len(texts) < len(values) or not texts:
            found.setdefault("text", name) if name in CHATS else None
        elif np.mean([len(text.split()) for text in texts]) >= _WORDS:
            found.setdefault("text", name)
        elif is_category(texts) and request.labels is None:
            found.setdefault("labels", name)
        elif len(set(texts)) == len(texts) and request.ids is None:
            found.setdefault("ids", name)
    named = [f"{what}={name!r}" for what, name in found.items()]
    others = "name texts with text=..., images with image=..., and remove what is neither, such as dates"
    others = "" if "text" in found or len(nearly) == len(names) else others
    advice = " or ".join(filter(None, [f"try {' '.join(named)}" if named else "", others]))
    return "; ".join(filter(None, [*nearly, advice]))


def _odd_number(texts: Sequence[str], values: Entries) -> str:
    """Say why a column that is nearly one of numbers is none; empty if it is of other things.

    >>> _odd_number(["3,5", "1,25"], ["3,5", "1,25"]), _odd_number(["a", "b"], ["a", "b"])
    ("has decimal commas, as '3,5'; write 3.5", '')
    >>> _odd_number(["1", "2", "?"] + ["3"] * 7, ["1", "2", "?"])
    "holds numbers, but '?' in row 2; leave such cells empty"
    """
    if 2 * sum(bool(_COMMA.fullmatch(text.strip())) for text in texts) > len(texts):
        first = next(text for text in texts if _COMMA.fullmatch(text.strip()))
        return f"has decimal commas, as {first!r}; write {first.strip().replace(',', '.')}"
    if not texts or sum(_is_number(text) for text in texts) < _NEARLY * len(texts):
        return ""
    for row, cell in enumerate(values):
        if isinstance(cell, str) and not _is_number(cell):
            return f"holds numbers, but {brief(cell)} in row {row}; leave such cells empty"
    return ""  # numbers as Python writes them, that the reader of files does not take as such


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _remarks(rows: Rows, names: Sequence[str]) -> Iterator[str]:
    """Report columns that would be compared like any other: those that count rows, and of far other units."""
    if len(names) < 2 or len(rows) < _FEWEST_IDS:
        return
    try:
        first = np.asarray(rows[:_LOOKED_AT])
    except InvalidInput:  # bad rows, which whoever reads them will hear of
        return
    with np.errstate(invalid="ignore"):
        counting = (np.diff(first, axis=0) > 0).all(axis=0) & (first == np.floor(first)).all(axis=0)
    for place in np.flatnonzero(counting).tolist():
        yield (
            f"column {names[place]!r} counts up row by row, as ids do, and is compared like any number;"
            f" ids={names[place]!r} takes it for ids"
        )
    with np.errstate(invalid="ignore", over="ignore"):
        spread = np.where(counting, 0.0, first.std(axis=0, dtype=np.float64))
    narrow, wide = int(np.argmin(np.where(spread > 0, spread, np.inf))), int(np.argmax(spread))
    of_far_units = np.isfinite(spread).all() and spread[wide] > _FAR_UNITS * spread[narrow] > 0
    if len(names) <= _MOST_UNITS and of_far_units:
        yield (
            f"column {names[wide]!r} spreads {spread[wide] / spread[narrow]:,.0f} times as wide as"
            f" {names[narrow]!r} and decides which rows are alike; where units differ, divide each column by"
            " its spread first"
        )


def _mixed(table: Table, names: Sequence[str], categories: Sequence[str], request: Request) -> Vector:
    """Return columns of numbers and of categories, with gaps, as rows of numbers."""
    columns = []
    for name in names:
        values = [None if isinstance(value, Unreadable) else value for value in table.values(name)]
        columns.append(categories_of(values) if name in categories else numbers_of(values))
    check_room(8 * table.n_rows * sum(column.shape[1] for column in columns), table.name, request.most)
    return np.concatenate(columns, axis=1)


def is_category(values: Entries) -> bool:
    """Return True if a column can be taken as categories: few values, several rows of each on average."""
    present = {str(value) for value in values if value is not None and not isinstance(value, Unreadable)}
    return 0 < len(present) <= min(MOST_CATEGORIES, max(2, len(values) // 2))


def numbers_of(values: Sequence[Any]) -> Vector:
    """Return a column of numbers in units of its spread around its median, and one that marks gaps, if any.

    >>> numbers_of([1.0, None, 3.0]).tolist()
    [[-1.349, 0.0], [0.0, 1.0], [1.349, 0.0]]
    """
    found = np.array([np.nan if value is None else float(value) for value in values])
    gaps = ~np.isfinite(found)
    present = found[~gaps]
    if not len(present):
        return np.zeros((len(found), 0))
    low, middle, high = np.quantile(present, [0.25, 0.5, 0.75])
    spread = (high - low) / 1.349 or float(present.std()) or 1.0
    scaled = np.where(gaps, 0.0, (found - middle) / spread).round(12)
    return np.stack([scaled, gaps], axis=1) if gaps.any() else scaled[:, None]


def categories_of(values: Sequence[object]) -> Vector:
    """Return a column of categories as one column of zeros and ones for each; a gap has zeros alone.

    >>> categories_of(["b", None, "a"]).tolist()
    [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]
    """
    texts = np.array(["" if value is None else str(value) for value in values])
    present = np.array([value is not None for value in values])
    found: Vector = ((texts[:, None] == np.unique(texts[present])) & present[:, None]).astype(np.float64)
    return found


# ---- images and texts ----


def _images(table: Table, request: Request) -> Items:
    """Return the images of a column: bytes, paths, pairs of both, or pictures in memory."""
    usual = [name for name in IMAGE_COLUMNS if name in table.names]
    name = _content_column(table, "image", request.image or next(iter(usual), None))

    def read(start: int, stop: int) -> list[object]:
        return [_image(value, name, table.base) for value in table.values(name, start, stop)]

    some = table.values(name, 0, min(table.n_rows, 100))
    paths = None
    if isinstance(next((value for value in some if value is not None), None), str):
        base, values = table.base or Path(), table.values(name)
        paths = [str(base / value.strip()) if isinstance(value, str) else "" for value in values]
    return Items("image", table.n_rows, read, paths)


def _content_column(table: Table, kind: Kind, column: str | None) -> str:
    if column is not None:
        return check_column(column, table.names, table.name, kind)
    if table.names == (LINES,):
        return LINES
    raise InvalidInput(
        f"name the column of {table.name} that holds the {kind}s with {kind}=..."
        f"{' (or texts: text=...)' if kind == 'image' else ''}; it has: {listed(table.names)}"
    )


def _image(value: object, name: str, base: Path | None) -> object:
    """Return the bytes of an image given as bytes, as a path, or as a pair of both."""
    if value is None:
        return Unreadable(f"no image in column {name!r}")
    if isinstance(value, dict):
        inner = value.get("bytes") or value.get("path")
        return Unreadable("neither bytes nor a path") if inner is None else _image(inner, name, base)
    if isinstance(value, (bytes, Unreadable, np.ndarray)) or is_instance(value, "PIL.Image:Image"):
        return value
    named = value.strip() if isinstance(value, str) else ""
    if not named:
        return Unreadable(f"expected a path or bytes; got {value!r}"[:200])
    root = Path(os.environ.get(IMAGE_ROOT) or base or Path())
    path = os.path.normpath(root / named)
    if Path(os.path.abspath(root)) not in Path(os.path.abspath(path)).parents:
        return Unreadable(f"{named} lies outside {root}; {IMAGE_ROOT} names the folder of the images")
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            return Unreadable(f"{named} is no file")
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return Unreadable(f"cannot read {named}: {reason}")


def _texts(table: Table, request: Request) -> Items:
    """Return the texts of rows: a column as it is, or what is made of one or several."""
    names, text = text_of(request.text, table.names, table.name) or ([], None)
    if text is None:
        names = [_content_column(table, "text", request.text)]

    missing = f"no text in column {names[0]!r}" if text is None else "no text"

    def made(*values: object) -> object:
        broken = next((value for value in values if isinstance(value, Unreadable)), None)
        found = broken or (values[0] if text is None else text(values))
        return Unreadable(missing) if found is None else found

    def read(start: int, stop: int) -> list[object]:
        return list(map(made, *(table.values(name, start, stop) for name in names)))

    return Items("text", table.n_rows, read)


def text_of(spec: str | None, names: Sequence[str], where: str) -> tuple[list[str], Text] | None:
    """Return the columns that make up the text of a row, and what makes it; None: one column, as it is.

    `spec`: a template such as ``"{title}: {body}"``, a column of turns with those that count
    (``"messages:user"``), a column, or None: conversations are recognised by their columns.
    """
    if spec is None:
        spec = next((name for name in CHATS if name in names), None)
        if spec is None:
            alpaca = "instruction" in names and "output" in names
            return ([name for name in ALPACA if name in names], _joined) if alpaca else None
    if spec in names:
        return ([spec], lambda values: turns_text(values[0], "all")) if spec in CHATS else None
    if _FIELD.search(spec):
        return _template(spec, names, where)
    column, _, turns = spec.rpartition(":")
    if column not in names:
        return None
    if turns not in TURNS:
        raise InvalidParameter(f"text={spec!r}: the turns that count are {', '.join(TURNS)}; got {turns!r}")
    return [column], lambda values: turns_text(values[0], turns)


def _template(spec: str, names: Sequence[str], where: str) -> tuple[list[str], Text]:
    fields = list(dict.fromkeys(_FIELD.findall(spec)))
    missing = [name for name in fields if name not in names]
    if missing:
        raise InvalidInput(f"{where} has no column {missing[0]!r}, which text={spec!r} names")
    pattern = spec.replace("\\n", "\n").replace("\\t", "\t")

    def made(values: Sequence[object]) -> str | None:
        by_name = dict(zip(fields, values, strict=True))
        empty = all(value is None for value in values)
        return None if empty else _FIELD.sub(lambda field: _plain(by_name[field[1]]), pattern)

    return fields, made


def _joined(values: Sequence[object]) -> str | None:
    return "\n".join(_plain(value) for value in values if value not in (None, "")) or None


def turns_text(turns: object, which: str) -> object:
    r"""Return the text of a conversation: of all turns, or of one side.

    >>> turns_text([{"role": "user", "content": "Hi"}, {"from": "gpt", "value": "Hello"}], "all")
    'Hi\nHello'
    >>> turns_text([{"role": "user", "content": "Hi"}, {"from": "gpt", "value": "Hello"}], "assistant")
    'Hello'
    """
    if turns is None or isinstance(turns, str):
        return turns
    if isinstance(turns, Mapping) or not isinstance(turns, Iterable):
        return Unreadable("a conversation that is no list of turns")
    texts = []
    for turn in turns:
        if not isinstance(turn, Mapping):
            return Unreadable("a turn of a conversation that is no object with named values")
        role = str(turn.get("role", turn.get("from", "user"))).lower()
        content = turn.get("content", turn.get("value"))
        if which in ("all", _ROLES.get(role, role)) and content is not None:
            texts.append(_plain(content))
    return "\n".join(texts) or Unreadable(f"no turns of {which!r}" if which != "all" else "no turns")


def _plain(value: object) -> str:
    """Return a value as text; of a list of parts, as some chats have, those that are text."""
    if isinstance(value, list):
        parts = [part.get("text", "") if isinstance(part, Mapping) else part for part in value]
        return "\n".join(str(part) for part in parts if part)
    return "" if value is None else str(value)
