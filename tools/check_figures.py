"""Check that figures agree: tables of results with their CSV files, README's table with teach.md.

Run as `python tools/check_figures.py`; it prints one line for each find and ends with 1 if there are any.
Pages must also say which command made them and name the digest of the picks that their figures are of
(**Picks** `0123abcd`); those of `gmmatch reproduce` link the deviations. Pages of other picks than today's
are printed, and no find. `--write` writes README's table, and the list of pages and digests in
docs/results/index.md.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
FROZEN = ROOT / "tests" / "contract" / "frozen.json"
# README's words for the scenarios of teach.md.
SCENARIOS = {
    "digits, 20 % wrong": "digits/symmetric-20",
    "letters, 20 % wrong": "letters/symmetric-20",
    "CIFAR-10, labels by people": "cifar10_train/human",
    "CIFAR-10, 30 % wrong in pairs": "cifar10_train/pair-30",
    "requests, 20 % wrong": "clinc_train/symmetric-20",
    "digits in 4 dimensions, 20 % wrong": "digits4/symmetric-20",
    "breast cancer, 20 % wrong": "breast_cancer/symmetric-20",
    "requests, all right": "clinc_train/none",
    "letters, all right": "letters/none",
}
METHODS = ("gmmatch", "herding+guard", "cleanlab+matching", "cleanlab+facility-location")
_DEFAULT, _UNGUARDED = r"gm-matching[ ,]|suspects", r"gm-matching, (batches, )?guard off"
_CASES = {  # frozen cases of rows that do not go by the name of a method
    "gm-matching": _DEFAULT,
    "gm-matching-unguarded": _UNGUARDED,
    "cleanlab+gm-matching": _UNGUARDED,
    "small-loss": "small-loss, out of fold",
}
_COMMAND = re.compile(r"`(gmmatch reproduce|python -m benchmarks)")
_PICKS = re.compile(r"\*\*Picks\*\* `([0-9a-f]{8})`")
_LIST = "## Which picks the pages are of"


def digest(labelled: bool | None = None) -> str:
    """Return a digest of what the default picks and doubts: the cases of `frozen.json` that are of it.

    A page of results names the digest that its figures are of; see `tests/contract/test_frozen.py`.
    `labelled`: of the cases with labels alone, or of those without.
    """
    return _digest(_DEFAULT, labelled)


def digest_of_row(method: str) -> str:
    """Return the digest of the frozen cases that a row of a table of `gmmatch reproduce` stands on."""
    name, guard, _ = method.removeprefix("cleanlab+").partition("+guard")
    found = _CASES.get(method) or rf"{name} (labelled|unlabelled|tail)$"
    return _digest(rf"{name} guarded|suspects" if guard else found)


def _digest(cases: str, labelled: bool | None = None) -> str:
    frozen = json.loads(FROZEN.read_text(encoding="utf-8"))
    own = {name: picks for name, picks in frozen.items() if re.match(cases, name)}
    if labelled is not None:
        own = {name: picks for name, picks in own.items() if labelled != ("unlabelled" in name)}
    return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()[:8]


def tables(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the tables of a Markdown page, each with the heading above it."""
    heading, rows = "", []
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip().strip("|").split(" | ")])
        elif rows:
            yield heading, [row for row in rows if not set("".join(row)) <= set("-:| ")]
            rows = []


def number(cell: str) -> float | None:
    """Return the first number of a cell."""
    found = re.search(r"-?\d+(?:\.\d+)?", cell.replace("**", ""))
    return float(found[0]) if found else None


def read(name: str) -> dict[tuple[str, str], dict[float, list[tuple[float, float | None]]]]:
    """Return accuracy and corrupted picks of a table by scenario and method, then by budget."""
    found: dict[tuple[str, str], dict[float, list[tuple[float, float | None]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    with (RESULTS / f"{name}.csv").open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            picks = float(line["corrupted_picks"]) if line["corrupted_picks"] else None
            found[line["scenario"], line["method"]][float(line["keep"])].append(
                (float(line["accuracy"]), picks)
            )
    return found


def near(value: float, known: list[float]) -> bool:
    """Tell whether a number of two decimals is among others."""
    return any(abs(value - other) <= 0.00501 for other in known)


def check_page(name: str) -> Iterator[str]:
    """Compare the accuracies of a page with its CSV file: each row of a block must be in the file."""
    known = read(name)
    rows: dict[str, list[list[float]]] = defaultdict(list)
    for (_, method), by_keep in known.items():
        rows[method].append([value for found in by_keep.values() for value, _ in found])
    text = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    part = text.partition("## Test accuracy")[2].partition("## Corrupted share")[0]
    part = part.partition("## The paper's figures")[0]
    for heading, lines in tables(part):
        for line in lines[1:]:
            values = [value for cell in line[1:-1] if (value := number(cell)) is not None]
            if not any(all(near(value, row) for value in values) for row in rows[line[0]]):
                yield f"docs/results/{name}.md: {heading}: the row of {line[0]} is not that of {name}.csv"


def learners_table() -> str:
    """Return README's table of learners, by the cells of docs/results/teach.md."""
    known = dict(tables((RESULTS / "teach.md").read_text(encoding="utf-8")))
    lines = ["| data | " + " | ".join(METHODS) + " |", "|---" * (1 + len(METHODS)) + "|"]
    for data, scenario in SCENARIOS.items():
        budgets, *rows = known[scenario]
        cells = {method: values[budgets.index("10%") - 1] for method, *values in rows}
        shown = [cells.get("default" if name == "gmmatch" else name, "-") for name in METHODS]
        lines.append(f"| {data} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def write_readme() -> None:
    """Write README's table of learners."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    table = re.compile(r"\| data \| gmmatch \|.*?\n(?=\n)", re.DOTALL)
    readme.write_text(table.sub(lambda _: learners_table() + "\n", text, count=1), encoding="utf-8")


def check_readme() -> Iterator[str]:
    """Find out whether README's table of learners is that of docs/results/teach.md."""
    if learners_table() not in (ROOT / "README.md").read_text(encoding="utf-8"):
        yield "README.md: its table of learners is not that of teach.md; run tools/check_figures.py --write"


def check_sentences() -> Iterator[str]:
    """Find figures of README's paragraphs that the page which they link does not have."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## How good it is")[2]
    for paragraph in section.partition("\n## ")[0].split("\n\n"):
        linked = re.findall(r"\(docs/results/(\w+\.md)\)", paragraph)
        known = "".join((RESULTS / page).read_text(encoding="utf-8") for page in linked if page != "index.md")
        for figure in re.findall(r"\d+\.\d+", re.sub(r"[Vv]ersion 0\.\d\.\d", "", paragraph)):
            if known and not re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", known):
                yield f"README.md: {figure} is not in {', '.join(linked)}"


def pages() -> list[Path]:
    """Return all pages of results but their index."""
    return sorted(set(RESULTS.glob("*.md")) - {RESULTS / "index.md"})


def digest_of(page: Path) -> str | None:
    """Return the digest of the picks that a page says its figures are of."""
    found = _PICKS.search(page.read_text(encoding="utf-8"))
    return found[1] if found else None


def index_table() -> str:
    """Return the list of pages for index.md: the digest of each, in the order of their names."""
    lines = [f"| [{page.stem}]({page.name}) | `{digest_of(page)}` |" for page in pages()]
    return "\n".join([_LIST, "", "| page | picks |", "|---|---|", *lines, ""])


def write_index() -> None:
    """Write the list of pages and their digests at the end of index.md."""
    index = RESULTS / "index.md"
    index.write_text(index.read_text(encoding="utf-8").partition(_LIST)[0] + index_table(), encoding="utf-8")


def check_origins() -> Iterator[str]:
    """Every page says what made it, of which picks it is, and where its runs differ from the paper's."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if not _COMMAND.search(text):
            yield f"docs/results/{page.name} names no command that made it"
        if digest_of(page) is None:
            yield f"docs/results/{page.name} names no digest of picks; today's is **Picks** `{digest()}`"
        if "`gmmatch reproduce" in text and "(../deviations.md)" not in text:
            yield f"docs/results/{page.name} does not link deviations.md"
    if not (RESULTS / "index.md").read_text(encoding="utf-8").endswith(index_table()):
        yield "docs/results/index.md lists other digests than the pages; run tools/check_figures.py --write"


def older() -> list[str]:
    """Return the pages whose figures are of other picks than today's."""
    return [f"{page.stem} ({digest_of(page)})" for page in pages() if digest_of(page) != digest()]


def finds() -> list[str]:
    """Return everything that does not agree."""
    names = [file.name.removesuffix("-standings.csv") for file in sorted(RESULTS.glob("*-standings.csv"))]
    found = [find for name in names for find in check_page(name)]
    return [*found, *check_readme(), *check_sentences(), *check_origins()]


if __name__ == "__main__":
    if "--write" in sys.argv:
        write_index()
        write_readme()
    everything = finds()
    for find in everything:
        print(find)
    if older():
        print(f"of other picks than those of this code ({digest()}): {', '.join(older())}")
    sys.exit(bool(everything))
