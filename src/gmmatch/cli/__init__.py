"""The command `gmmatch`: one file per command, each calls one function of the layers above."""

from __future__ import annotations

from typing import Annotated

import typer

from ..version import __version__
from ._friendly import friendly
from .compare import compare
from .corrupt import corrupt
from .demo import demo
from .embed import embed
from .methods import methods
from .report import report
from .reproduce import reproduce
from .select import select
from .train import train

app = typer.Typer(
    name="gmmatch",
    help="Pick the rows worth training on from a dataset that is partly wrong.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _command in (select, report, embed, train, corrupt, demo, methods, compare, reproduce):
    app.command()(friendly(_command))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gmmatch {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Pick the rows worth training on from a dataset that is partly wrong."""


def main() -> None:
    """Run the command line."""
    app()
