"""The commands by name; a command is imported when it is run, so that help is there at once."""

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from ..version import __version__
from .friendly import friendly
from .options import RUN

# In the order of the help; each is the first line of the command's own.
COMMANDS = {
    "select": "Choose the rows of INPUT worth keeping and write them, in pick order.",
    "report": "Show what was kept, what was dropped and why, in one page that needs nothing else.",
    "suspects": "List the rows of INPUT by how wrong they seem, and say why.",
    "leaks": "Find rows of TRAIN that are near-duplicates of rows of TEST.",
    "export": "Write all rows with what is known of them, suspects first, for a labelling tool.",
    "embed": "Turn images or texts into vectors, ready for `gmmatch select`.",
    "train": "Train a network on IMAGES and write its weights; `torch:FILE` then names it as an encoder.",
    "corrupt": "Make a dataset wrong on purpose, exactly and repeatably, and write down where.",
    "cache": "Show what is kept of encoded images and texts, or clear it.",
    "demo": "Damage real handwritten digits on purpose, keep 10 % by methods that need no training, and"
    " compare.",
    "methods": "List the selection methods: what each keeps, needs and costs, and where it comes from.",
    "compare": "Try several methods on DATA: keep some rows by each, learn them, and measure on held-out"
    " rows.",
    "reproduce": "Reproduce a table or a figure of the paper: every method, under every kind of damage.",
}

# Those of the laboratory.
_LAB = ("train", "corrupt", "demo", "compare", "reproduce")

_SETTINGS: dict[str, Any] = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "markdown",
    "context_settings": {"help_option_names": ["-h", "--help"]},
}

# What the help shows for the value of an option that has no word of its own; a flag has no value.
_VALUES = {bool: "", int: "N", float: "NUMBER", Path: "FILE"}


class _Commands(TyperGroup):
    """Commands that are known by a line of help, and imported when they are run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, known, rest = super().resolve_command(ctx, args)
        return name, known and load_command(str(name)), rest

    def get_params(self, ctx: Any) -> Any:
        found = super().get_params(ctx)
        for option in found:  # all of them flags, which have no value
            option.metavar = ""
        return found


class _Command(TyperCommand):
    """A command whose `--guard` may stand alone, for `--guard auto`, and has an opposite."""

    def get_help_option(self, ctx: Any) -> Any:
        found = super().get_help_option(ctx)
        if found is not None:
            found.metavar, found.rich_help_panel = "", RUN
        return found

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = []
        for at, word in enumerate(args):
            alone = word == "--guard" and args[at + 1 : at + 2] not in (["auto"], ["off"], ["on"])
            words += ["--guard", "auto"] if alone else ["--guard", "off"] if word == "--no-guard" else [word]
        return super().parse_args(ctx, words)


def find_function(name: str) -> Any:
    """Import the function behind a command."""
    return getattr(import_module(f".lab.{name}" if name in _LAB else f".{name}", __package__), name)


def load_command(name: str) -> Any:
    """Import a command."""
    single = typer.Typer(add_completion=False, **_SETTINGS)
    function = find_function(name)
    single.command(name, cls=_Command)(friendly(function))
    command = get_command(single)
    kinds = get_type_hints(function)
    for option in command.params:
        if option.param_type_name == "option" and option.metavar is None:
            kind = next(iter(get_args(kinds[str(option.name)])), kinds[str(option.name)])
            option.metavar = _VALUES.get(kind, "NAME")
    return command


def _not_loaded() -> None:
    """Stand for a command in the help."""


app = typer.Typer(
    name="gmmatch",
    cls=_Commands,
    help="Pick the rows worth training on from a dataset that is partly wrong.",
    no_args_is_help=True,
    **_SETTINGS,
)

for _name, _help in COMMANDS.items():
    app.command(_name, help=_help)(_not_loaded)


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
