"""What a report says, as plain data: frozen dataclasses of numbers, texts, lists and dictionaries."""

from dataclasses import asdict, dataclass
from typing import Any

from ..arrays import Vector

_MOST_LETTERS = 200  # of a name


@dataclass(frozen=True)
class Glance:
    """The facts at the top."""

    source: str  # name of the input
    # Rows of the input, those without NaN or infinite values, numbers in each, classes, rows kept.
    rows: int
    usable: int
    features: int
    classes: int | None
    kept: int
    # What chose the rows. `guard` is what it found, or None where it was off.
    method: str
    guard: dict[str, Any] | None
    seconds: float | None  # time of the selection; None where it is not known
    center: str | None  # what was matched, by name; None where nothing was
    epsilon: float | None  # certified accuracy of the centre; 0 for a mean; None where there is none
    # Distance of the picks' mean to the centre; what random subsets of that size have in root mean square;
    # and their ratio.
    objective: float
    random_objective: float
    times_closer: float | None
    # Rows that seem wrong, among how many that were judged; None where none were.
    suspects: int | None
    judged: int
    kept_suspects: int  # of the rows that seem wrong, how many were kept
    learned: str | None  # what models learn from such picks and from random ones, in a sentence
    prefixes: bool  # whether the first k picks are what a budget of k keeps
    aims: list[str]  # what else was wanted of the picks, by the names of the parameters
    # How to repeat it, in the shell and in Python.
    command: str
    python: str
    # Versions of the libraries, and a fingerprint of the input.
    versions: dict[str, str]
    fingerprint: str


@dataclass(frozen=True)
class Curve:
    """The objective of prefixes of the picks."""

    budgets: list[int]  # numbers of picks, ascending; the last is all of them
    # At each of them: the distance of the picks' mean to the centre, the root mean square of random subsets,
    # and the line that falls like 1/k.
    objective: list[float]
    random: list[float]
    inverse: list[float]


@dataclass(frozen=True)
class MapRows:
    """The rows on the map, one entry each in all lists, in the order in which they are drawn."""

    # Number and name in the input; `id` is None where the names are the numbers.
    row: list[int]
    id: list[str] | None
    # Place, as whole numbers from 0 to `GRID`.
    x: list[int]
    y: list[int]
    code: list[int]  # class, as a position in `ClassTable.names`
    rank: list[int]  # place among the picks from 0; -1: dropped
    distance: list[float]  # distance to the centre of the class
    reach: list[float]  # the distances that colours end at: nearly the least, and nearly the most
    # From 0 to 1, the class that fits better (-1: none) and words; suspicion is None where a row was not
    # judged.
    suspicion: list[float | None]
    suggested: list[int]
    tier: list[int]  # 0: believed, 1: its label is likely wrong, 2: outside its class, -1: not judged
    reason: dict[int, str]
    projection: str  # what the map shows, in words
    window: tuple[int, int, int, int]  # the part of the map that most rows are in: left, right, bottom, top


@dataclass(frozen=True)
class ClassTable:
    """The classes, in the order of their labels."""

    # Label, rows and kept rows.
    names: list[str]
    sizes: list[int]
    kept: list[int]
    # Rows that seem wrong, among how many that were judged.
    suspects: list[int]
    judged: list[int]
    wrong: list[float] | None  # estimated share of wrong labels; None where labels were not judged
    median: list[float]  # median distance to the centre
    # By entry of `Curve.budgets`, how many picks each class gains over the entry before.
    steps: list[list[int]]
    left_out: int  # classes that the table leaves out, the smallest ones


@dataclass(frozen=True)
class Gallery:
    """Rows to look at, as positions on the map."""

    name: str
    title: str
    about: str
    rows: list[int]


@dataclass(frozen=True)
class Tab:
    """Rows of one kind of evidence, to decide about."""

    name: str
    title: str
    about: str
    total: int  # rows of this kind, of which the first ones are listed
    rows: list[int]  # positions on the map
    beside: list[int]  # for each the row to compare it with, as a position on the map; -1: none
    score: list[float]


@dataclass(frozen=True)
class AllLabels:
    """The label of every row, so that they can be saved with what was decided."""

    names: list[str]
    codes: list[int]  # class of each row; -1: none
    listed: list[int]  # for each class of `ClassTable.names`, its place in `names`
    ids: list[str] | None = None  # of all rows; None: there are none, they repeat, or they are too many


@dataclass(frozen=True)
class Review:
    """Rows to decide about, kind by kind."""

    tabs: list[Tab]
    estimate: list[float] | None  # estimated share of wrong labels, its least and its most
    labels: AllLabels | None  # None where there are none, or too many


@dataclass(frozen=True)
class Report:
    """Everything that the page shows."""

    title: str  # heading of the page
    labelled: bool  # whether rows have labels; without them there is one class that is not named
    # Its parts.
    glance: Glance
    curve: Curve
    map: MapRows
    classes: ClassTable
    galleries: list[Gallery]
    review: Review
    # `image` or `text`, and by position on the map a data URI or the beginning of a text.
    content_kind: str | None
    content: dict[int, str]
    notes: list[str]  # what a reader must know about how the numbers came about

    def __repr__(self) -> str:
        return f"Report({self.title})"

    def as_dict(self) -> dict[str, Any]:
        """Return it as dictionaries and lists."""
        return asdict(self)


def significant(values: Vector, digits: int = 5) -> list[float]:
    """Return numbers with a few significant digits, which take less room.

    >>> import numpy as np
    >>> significant(np.array([0.0012345678, 12345.678]))
    [0.0012346, 12346.0]
    """
    return [float(f"{value:.{digits}g}") for value in values.tolist()]


def short(name: object) -> str:
    """Return a name as text, its middle left out where it is very long."""
    text = str(name)
    half = _MOST_LETTERS // 2
    return text if len(text) <= _MOST_LETTERS else f"{text[: half - 1]}…{text[-half:]}"
