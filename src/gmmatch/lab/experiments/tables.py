"""Tables of results: Markdown to read, CSV to compute with, LaTeX to print, all from the same blocks."""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ...errors import InvalidInput
from ...files import whole_files
from . import latex
from .grid import Block, Record, accuracy_blocks, paper_blocks, picks_blocks, setting_label
from .markdown import DEVIATIONS, GAP, block_table, duels_table, signed, standings_table
from .paper import SOURCE
from .standings import Standing, duels, per_cell_lead, standings

_CAPTION = "Test accuracy in percent"


def write_tables(records: list[Record], folder: Path, title: str) -> list[Path]:
    """Write the tables of one experiment as Markdown, CSV and LaTeX; return the files.

    `records`: one dictionary per cell and seed, of one table and one scale; cells that are missing leave
    gaps. `folder`: where ``TABLE.md``, ``TABLE.csv``, ``TABLE-standings.csv`` and ``TABLE.tex`` are written.
    """
    table = _only(records, "table")
    _only(records, "scale")
    accuracy, picks, paper = accuracy_blocks(records), picks_blocks(records), paper_blocks(records)
    standing = standings(records)
    if table == "compare":  # the user's own data, of which the paper says nothing
        paper, standing = [], [replace(one, paper_lead=None, paper_over_random=None) for one in standing]
    folder.mkdir(parents=True, exist_ok=True)
    files = table_files(table, folder)
    name = files[0].stem
    with whole_files(*files) as (report, cells, stand, printed):
        report.write_text(_report(records, accuracy, picks, paper, standing, title), encoding="utf-8")
        _write_csv(cells, _cells(records, accuracy, picks))
        _write_csv(stand, map(_standing_line, standing))
        printed.write_text(_latex(records, accuracy, picks, paper, name, title), encoding="utf-8")
    return files


def table_files(table: str, folder: Path) -> list[Path]:
    """Return the files that `write_tables` writes."""
    name = re.sub(r"[^\w.-]+", "-", table)
    return [folder / f"{name}{ending}" for ending in (".md", ".csv", "-standings.csv", ".tex")]


def _only(records: Sequence[Record], key: str) -> str:
    """Return the value that all records share."""
    found = sorted({str(record[key]) for record in records})
    if not found:
        raise InvalidInput("a table needs at least one record; got none")
    if len(found) > 1:
        raise InvalidInput(f"the records of a table must have one {key}; got {', '.join(found)}")
    return found[0]


def _report(
    records: Sequence[Record],
    accuracy: Sequence[Block],
    picks: Sequence[Block],
    paper: Sequence[Block],
    standing: Sequence[Standing],
    title: str,
) -> str:
    parts = [f"# {title}", _facts(records)]
    if standing:
        parts += ["## Where gm-matching stands", _standing_text(records), standings_table(standing)]
        rivals = duels(records)
        if rivals:
            parts += ["## Wins and losses", "Cell by cell, the hardest rival first.", duels_table(rivals)]
    parts += ["## Test accuracy", _reading(accuracy), *_sections(accuracy)]
    if picks:
        shares = {record["scenario"]: record["corrupted_rows"] for record in records}
        notes = {name: f" ({100 * share:.1f} % of all rows)" for name, share in shares.items() if share}
        parts += ["## Corrupted share of the picks", "Percent; the lowest in bold.", *_sections(picks, notes)]
    if paper:
        parts += [
            "## The paper's figures",
            f"For the same scenarios, on the paper's data and networks, over five seeds ({SOURCE}). Levels "
            "of accuracy on other data do not compare; the order of the methods and their distances do.",
            *_sections(paper),
        ]
    return "\n\n".join(parts) + "\n"


def _sections(blocks: Iterable[Block], notes: Mapping[str, str] | None = None) -> list[str]:
    """Return each block under its title; `notes` add to the titles of scenarios."""
    return [
        f"### {block.title}{(notes or {}).get(block.scenario, '')}\n\n{block_table(block)}"
        for block in blocks
    ]


def _reading(blocks: Sequence[Block]) -> str:
    """Say how to read the cells."""
    values = [value for block in blocks for row in block.rows.values() for value in row if value is not None]
    seeds = sorted({value.seeds for value in values})
    counted = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    text = [f"Percent; {counted} seed{'s' if seeds[-1] > 1 else ''} per cell"]
    if seeds[-1] > 1:
        text.append("mean ± sample standard deviation over seeds")
    text.append("the best of each column in bold")
    text.append("the mean is over the columns below 100 %")
    if any(value.paper for value in values):
        text.append("in brackets the paper's figure")
    if any(value is None for block in blocks for row in block.rows.values() for value in row):
        text.append(f"{GAP} marks cells that have not been run")
    return "; ".join(text) + "."


def _standing_text(records: Sequence[Record]) -> str:
    lead = per_cell_lead(records)
    text = (
        "Means over the columns below 100 %. `best in` counts the cells in which no other method is better; "
        "`least over random` is the smallest lead over random in any cell."
    )
    if lead is not None:
        text += (
            " Against the best other method of each single cell with corruption, chosen afterwards, "
            f"gm-matching is ahead by {signed(lead)} points on average."
        )
    return text


def _facts(records: Sequence[Record]) -> str:
    """Say what was run, when, with what and for how long."""
    dates = sorted({str(record["date"])[:10] for record in records if record.get("date")})
    hours = sum(_total(record.get("seconds") or {}) for record in records) / 3600
    versions: dict[str, set[str]] = {}
    for record in records:
        for package, version in (record.get("versions") or {}).items():
            versions.setdefault(package, set()).add(str(version))
    settings = sorted({(record["dataset"], record["proxy"], record["target"]) for record in records})
    table, scale = records[0]["table"], records[0]["scale"]
    facts = [". ".join(map(setting_label, settings)) + f". `gmmatch {_command(table, scale)}`"]
    facts.append(f"{len(records)} runs, {hours:.2f} hours of work in all")
    if dates:
        facts.append(dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}")
    facts += [f"{package} {' and '.join(sorted(found))}" for package, found in sorted(versions.items())]
    return "; ".join(facts) + ("." if table == "compare" else f". {DEVIATIONS}")


def _command(table: str, scale: str) -> str:
    """Return the command that makes a table."""
    return table if table == "compare" else f"reproduce {table} --scale {scale}"


def _total(seconds: Mapping[str, Any]) -> float:
    numbers = {key: float(value) for key, value in seconds.items() if value is not None}
    return numbers["total"] if "total" in numbers else sum(numbers.values())


def _cells(
    records: Sequence[Record], accuracy: Sequence[Block], picks: Sequence[Block]
) -> Iterable[dict[str, Any]]:
    """Yield one line per cell, means over seeds."""
    shares = {
        (block.scenario, column, name): value.mean / 100
        for block in picks
        for name, row in block.rows.items()
        for column, value in zip(block.columns, row, strict=True)
        if value is not None
    }
    corrupted = {record["scenario"]: record["corrupted_rows"] for record in records}
    for block in accuracy:
        best = block.best()
        for name, row in block.rows.items():
            for at, (column, value) in enumerate(zip(block.columns, row, strict=True)):
                if value is None:
                    continue
                dataset, proxy, target = column.setting
                yield {
                    "table": records[0]["table"],
                    "scale": records[0]["scale"],
                    "dataset": dataset,
                    "scenario": block.scenario,
                    "proxy": proxy,
                    "target": target,
                    "method": name,
                    "keep": column.keep,
                    "seeds": value.seeds,
                    "accuracy": _rounded(value.mean),
                    "spread": _rounded(value.spread),
                    "best": at in best[name],
                    "corrupted_picks": _rounded(shares.get((block.scenario, column, name))),
                    "corrupted_rows": _rounded(corrupted[block.scenario]),
                    "paper_accuracy": value.paper.accuracy if value.paper else None,
                    "paper_spread": value.paper.spread if value.paper else None,
                }


def _standing_line(entry: Standing) -> dict[str, Any]:
    line = asdict(entry) | {"behind": "; ".join(entry.behind)}
    line |= {"lead": entry.lead, "over_random": entry.over_random}
    return {key: _rounded(value) if isinstance(value, float) else value for key, value in line.items()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _write_csv(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    rows = list(lines)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _latex(
    records: Sequence[Record],
    accuracy: Sequence[Block],
    picks: Sequence[Block],
    paper: Sequence[Block],
    name: str,
    title: str,
) -> str:
    parts = [
        "% Needs \\usepackage{booktabs}.\n",
        latex.tables(accuracy, f"{title}. {_CAPTION}. {_reading(accuracy)}", name),
    ]
    if picks:
        caption = f"{title}. Corrupted share of the picks in percent; the lowest in bold."
        parts.append(latex.tables(picks, caption, f"{name}-picks"))
    if paper:
        caption = (
            f"{title}. The paper's figures for the same scenarios, on its own data and networks. {SOURCE}."
        )
        parts.append(latex.tables(paper, caption, f"{name}-paper"))
    return "\n".join(parts)
