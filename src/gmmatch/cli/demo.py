"""`gmmatch demo`: the main job on built-in data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ._friendly import show_progress


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path(
        "out/demo"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the damage and the methods.", min=0)] = 0,
) -> None:
    """Damage real handwritten digits on purpose, keep 10 % by every method, and compare.

    Example: gmmatch demo
    """
    from ..experiments.demo import run_demo

    with show_progress(quiet=False):
        result = run_demo(output, seed)
    typer.echo(result.introduction)
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("method")
    for title in ("test accuracy", "corrupted picks", "distance to clean mean", "seconds"):
        table.add_column(title, justify="right")
    for row in result.rows:
        table.add_row(
            row.method,
            f"{row.accuracy:.1%}",
            f"{row.corrupted:.1%}",
            f"{row.distance:.3f}",
            f"{row.seconds:.2f}",
        )
    Console(width=None if Console().is_terminal else 100).print(table)
    for path in result.files:
        typer.echo(f"wrote {path}")
