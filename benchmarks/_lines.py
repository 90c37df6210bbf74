"""The lines of the table of `benchmarks.performance`: what is measured, on what, and beside what."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

SCALES = ("small", "full")
_BATCH, _WHOLE = 256, 8192  # rows of a batch, and of the largest class that is matched whole
_RIGHT = 0.8  # share of right labels
Size = tuple[int, int, int]  # rows, features, classes


@dataclass(frozen=True)
class Column:
    """Who does the work of a line: `ours` first, then others of ours, peers, and yardsticks."""

    title: str
    work: str
    kind: str = "peer"
    options: dict[str, Any] = field(default_factory=dict)
    size: Size | None = None  # where it is not the line's
    quick: bool = False  # whether the short form of CI has it


@dataclass(frozen=True)
class Line:
    """One work, and all who do it by turns."""

    name: str
    title: str
    size: Size
    columns: tuple[Column, ...]
    growth: str | None = None  # the columns are sizes, and this is what grows
    before: bool = True  # whether version 0.2.0 does it as well


def lines(scale: str) -> list[Line]:
    """Return all lines in the order of the table; their names are the same for both scales."""
    full = scale == "full"
    million = (1_000_000, 512) if full else (20_000, 64)
    ten, fifty = (*million, 10), ((600_000, 256, 50) if full else (10_000, 64, 50))
    many = (*million, 1000 if full else 100)
    return [
        Line("labels-10", "select, defaults", ten, (
            _ours(), _own("the same, guard off", quick=True, guard="off"), *_yardsticks(ten, quick=True))),
        Line("labels-50", "select, defaults", fifty, (
            _ours(), _own("the same, guard off", guard="off"), *_yardsticks(fifty))),
        Line("labels-1000", "select, defaults", many, (
            _ours(), _own("the same, 10 classes", size=ten), *_yardsticks(many))),
        Line("unlabelled", "select, defaults without labels", ten, (
            _ours(labelled=False), _own("the same, guard off", labelled=False, guard="off"),
            *_yardsticks(ten, right=1.0, quick=True))),
        Line("wide", "select, defaults", (wide := (50_000, 4096, 10) if full else (1_000, 512, 10)), (
            _ours(), *_yardsticks(wide))),
        _in_memory((50_000, 1280, 10) if full else (5_000, 256, 10)),
        _small_selection((10_000, 128, 10) if full else (1_000, 64, 10)),
        _medians((200_000, 256, 1) if full else (20_000, 64, 1)),
        _suspects((50_000, 256, 10) if full else (2_000, 64, 10)),
        Line("report", "the report of a selection", ten, (
            Column("gmmatch", "report", "ours"), _own("the selection itself"))),
        _start("import", "import gmmatch", ["-c", "import gmmatch"]),
        _start("help", "gmmatch --help", ["-m", "gmmatch", "--help"]),
        *_growths(full),
        *([_methods((50_000, 512, 10))] if full else []),
    ]  # fmt: skip


def short(line: Line) -> Line | None:
    """Return the line as the short form of CI measures it: ours beside what is always installed."""
    columns = line.columns[:1] + tuple(column for column in line.columns[1:] if column.quick)
    return replace(line, columns=columns, before=False) if len(columns) > 1 else None


def _ours(size: Size | None = None, title: str = "gmmatch", kind: str = "ours", **options: Any) -> Column:
    return Column(title, "select", kind, options, size)


def _own(title: str, size: Size | None = None, quick: bool = False, **options: Any) -> Column:
    return Column(title, "select", "own", options, size, quick)


def _limit(moved: int, flops: float = 0) -> Column:
    return Column("the machine's limit", "limit", "yardstick", {"moved": moved, "flops": round(flops)})


def _yardsticks(size: Size, right: float = _RIGHT, quick: bool = False) -> tuple[Column, ...]:
    limit = _matching_limit(size, 0.1, right)
    return Column("a read pass", "read_pass", "yardstick"), replace(limit, quick=quick)


def _matching_limit(size: Size, keep: float, right: float = _RIGHT) -> Column:
    """Every value is read once, and every pick multiplied with the good rows that it was chosen from."""
    rows, features, classes = size
    others = right * (_BATCH if rows > classes * _WHOLE else rows / classes)
    return _limit(4 * rows * features, 2 * keep * rows * others * features)


def _in_memory(size: Size) -> Line:
    return Line("in-memory", "select, defaults, keep 30 %, in memory", size, (
        _ours(keep=0.3, loaded=True), _own("the same, guard off", keep=0.3, loaded=True, guard="off"),
        Column("BLAS, a product per pick, no judging", "blas_loop", "peer",
               {"keep": 0.3, "table": False}, quick=True),
        Column("BLAS, a table of products, no judging", "blas_loop", "peer", {"keep": 0.3, "table": True}),
        _matching_limit(size, 0.3)))  # fmt: skip


def _small_selection(size: Size) -> Line:
    keep = {"keep": 0.1}
    return Line("peers", "select, defaults without labels, in memory", size, (
        _ours(labelled=False, loaded=True),
        _own("gmmatch, facility location", labelled=False, loaded=True, method="facility-location"),
        Column("coreax, kernel herding", "coreax", "peer", keep),
        Column("apricot-select, facility location", "apricot", "peer", keep),
        Column("submodlib, facility location", "submodlib", "peer", keep),
        Column("scikit-learn, k-means and the nearest rows", "k_means", "peer", keep)))  # fmt: skip


def _medians(size: Size) -> Line:
    return Line("median", "geometric median, in memory", size, (
        Column("gmmatch, proven to 1e-6", "median", "ours"),
        Column("Weiszfeld's steps in NumPy, unproven", "weiszfeld", quick=True),
        Column("geom_median", "geom_median"),
        _limit(4 * size[0] * size[1])))  # fmt: skip


def _suspects(size: Size) -> Line:
    rows, features, classes = size
    return Line("suspects", "suspects, in memory", size, (
        Column("gmmatch", "suspects", "ours"),
        Column("cleanlab after scikit-learn's LogisticRegression, 5 folds", "cleanlab"),
        _limit(4 * rows * features, 2 * rows * features * classes)))  # fmt: skip


def _start(name: str, title: str, arguments: list[str]) -> Line:
    return Line(name, title, (0, 0, 0), (
        Column("gmmatch", "python", "ours", {"arguments": arguments}),
        Column("import numpy", "python", "yardstick", {"arguments": ["-c", "import numpy"]}, quick=True),
    ))  # fmt: skip


def _growths(full: bool) -> list[Line]:
    thousands = (100, 200, 400, 800) if full else (5, 10, 20)
    width = 128 if full else 64
    middle = 1000 * thousands[1]
    grown = {
        "rows": {1000 * rows: (1000 * rows, width, 10) for rows in thousands},
        "classes": {count: (middle, width, count) for count in ((10, 100, 1000) if full else (5, 10, 20))},
        "features": {
            wide: (middle, wide, 10) for wide in ((128, 256, 512, 1024) if full else (64, 128, 256))
        },
    }
    found = []
    for name, sizes in grown.items():
        (most, largest), *smaller = reversed(sizes.items())
        columns = (
            _ours(largest, f"gmmatch, {most:,} {name}"),
            *(_own(f"{count:,} {name}", size) for count, size in smaller),
        )
        found.append(
            Line(f"growth-{name}", f"growth with {name}", largest, columns, name, before=name == "rows")
        )
    return found


def _methods(size: Size) -> Line:
    names = ("gm-matching-paper", "herding", "random", "easy", "moderate", "self-supervised", "k-center",
             "facility-location", "stratified", "small-loss")  # fmt: skip
    columns = [_own(f"method {name}", loaded=True, method=name) for name in names]
    return Line("methods", "other methods, in memory", size, (_ours(loaded=True), *columns), before=False)
