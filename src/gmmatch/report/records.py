"""What a report says, as plain data: frozen dataclasses of numbers, texts, lists and dictionaries."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Glance:
    """The facts at the top.

    Attributes
    ----------
    source
        Name of the input.
    rows, usable, features, classes, kept
        Rows of the input, those without NaN or infinite values, numbers in each, classes, rows kept.
    method, params, seed, guard
        What chose the rows. `guard` is what it found, or None where it was off.
    seconds
        Time of the selection; None where it is not known.
    center
        What was matched, by name; None where nothing was.
    epsilon
        Certified accuracy of the centre; 0 for a mean; None where there is none.
    objective, random_objective, times_closer
        Distance of the picks' mean to the centre; what random subsets of that size have in root mean
        square; and their ratio.
    suspects, judged
        Rows that seem wrong, among how many that were judged; None where none were.
    command, python
        How to repeat it, in the shell and in Python.
    versions, fingerprint
        Versions of the libraries, and a fingerprint of the input.
    """

    source: str
    rows: int
    usable: int
    features: int
    classes: int | None
    kept: int
    method: str
    params: dict[str, Any]
    seed: int | None
    guard: dict[str, Any] | None
    seconds: float | None
    center: str | None
    epsilon: float | None
    objective: float
    random_objective: float
    times_closer: float | None
    suspects: int | None
    judged: int
    command: str
    python: str
    versions: dict[str, str]
    fingerprint: str


@dataclass(frozen=True)
class Curve:
    """The objective of prefixes of the picks.

    Attributes
    ----------
    budgets
        Numbers of picks, ascending; the last is all of them.
    objective, random, inverse
        At each of them: the distance of the picks' mean to the centre, the root mean square of random
        subsets, and the line that falls like 1/k.
    """

    budgets: list[int]
    objective: list[float]
    random: list[float]
    inverse: list[float]


@dataclass(frozen=True)
class MapRows:
    """The rows on the map, one entry each in all lists, in the order in which they are drawn.

    Attributes
    ----------
    row, id
        Number and name in the input; `id` is None where the names are the numbers.
    x, y
        Place, as whole numbers from 0 to `GRID`.
    code
        Class, as a position in `ClassTable.names`.
    rank
        Place among the picks from 0; -1: dropped.
    distance
        Distance to the centre of the class.
    suspicion, suggested, reason
        From 0 to 1, the class that fits better (-1: none) and words; suspicion is None where a row was
        not judged.
    projection
        What the map shows, in words.
    window
        The part of the map that most rows are in: left, right, bottom, top.
    shown_kept
        How many of the kept rows are on the map.
    """

    row: list[int]
    id: list[str] | None
    x: list[int]
    y: list[int]
    code: list[int]
    rank: list[int]
    distance: list[float]
    suspicion: list[float | None]
    suggested: list[int]
    reason: dict[int, str]
    projection: str
    window: tuple[int, int, int, int]
    shown_kept: int


@dataclass(frozen=True)
class ClassTable:
    """The classes, in the order of their labels.

    Attributes
    ----------
    names, sizes, kept
        Label, rows and kept rows.
    suspects, judged
        Rows that seem wrong, among how many that were judged.
    median
        Median distance to the centre.
    edges
        Borders of the bins of the histograms, the same for all classes; the last bin has no end.
    histogram, kept_histogram
        Rows and kept rows by distance.
    steps
        By entry of `Curve.budgets`, how many picks each class gains over the entry before.
    left_out
        Classes that the table leaves out, the smallest ones.
    """

    names: list[str]
    sizes: list[int]
    kept: list[int]
    suspects: list[int]
    judged: list[int]
    median: list[float]
    edges: list[float]
    histogram: list[list[int]]
    kept_histogram: list[list[int]]
    steps: list[list[int]]
    left_out: int


@dataclass(frozen=True)
class Gallery:
    """Rows to look at, as positions on the map."""

    name: str
    title: str
    about: str
    rows: list[int]


@dataclass(frozen=True)
class Report:
    """Everything that the page shows.

    Attributes
    ----------
    title
        Heading of the page.
    labelled
        Whether rows have labels; without them there is one class that is not named.
    glance, curve, map, classes, galleries
        Its parts.
    content_kind, content
        `image` or `text`, and by position on the map a data URI or the beginning of a text.
    notes
        What a reader must know about how the numbers came about.
    """

    title: str
    labelled: bool
    glance: Glance
    curve: Curve
    map: MapRows
    classes: ClassTable
    galleries: list[Gallery]
    content_kind: str | None
    content: dict[int, str]
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return it as dictionaries and lists."""
        return asdict(self)
