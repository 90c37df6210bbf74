"""`gmmatch demo`: the main job on built-in data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ...data import Dataset, open_dataset
from ...errors import MissingExtra
from ...reporting import Content, check_report, summarise, write_report
from .. import options
from ..friendly import print_table, show_progress

if TYPE_CHECKING:
    from ...lab.experiments.demo import DemoResult


def demo(
    output: options.Folder = Path("out/demo"),
    seed: options.Seed = 0,
) -> None:
    """Damage real handwritten digits on purpose, keep 10 % by methods that need no training, and compare.

    Example: gmmatch demo
    """
    from ...lab.experiments.demo import draw, run_demo

    with show_progress(quiet=False):
        result = run_demo(output, seed)
    typer.echo(result.introduction)
    header = ("method", "test accuracy", "corrupted picks", "distance to clean mean", "seconds")
    print_table(
        header,
        (
            (
                row.method,
                f"{row.accuracy:.1%}",
                f"{row.corrupted:.1%}",
                f"{row.distance:.3f}",
                f"{row.seconds:.2f}",
            )
            for row in result.rows
        ),
        width=100,
    )
    typer.echo(
        "Corrupted picks: share of the kept rows that are wrong. Distance: from the mean of the kept rows to"
        " that of\nthe undamaged ones. gm-matching judges the rows first; the other methods believe them all"
        " (guard=auto\nmakes them judge, too)."
    )
    typer.echo(f"wrote {result.kept}")
    picture, page = output / "kept.png", output / "report.html"
    try:
        draw(result.digits, result.selection, picture)
        typer.echo(f"wrote {picture}")
    except MissingExtra as error:
        typer.echo(f"gmmatch: no picture, because {error}", err=True)
    try:
        write_demo_report(result, page)
        typer.echo(f"wrote {page}: open it in a browser")
    except MissingExtra as error:
        typer.echo(f"gmmatch: no report, because {error}", err=True)


def write_demo_report(result: DemoResult, path: Path) -> None:
    """Write the page about the demo's selection, with the digits as pictures."""
    check_report(path)
    digits = result.digits
    source = Dataset(digits.rows, "handwritten digits, damaged on purpose", "array", labels=digits.labels)
    content = Content(open_dataset(digits.images))
    command = f"gmmatch demo --seed {result.selection.random_state}"
    page = summarise(result.selection, source, content=content, seconds=result.seconds, command=command)
    write_report(page, path)
