"""What `--help` says: every option under a heading, values by name, examples that can be typed."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest
from typer.testing import CliRunner

from gmmatch.cli.commands import COMMANDS, app, load_command


def examples(name: str) -> list[str]:
    """Return the lines of a command's help that show how it is typed."""
    said = inspect.cleandoc(load_command(name).help or "")
    joined = re.sub(r"\n +(?=--)", " ", said)
    return [line.strip() for line in joined.splitlines() if re.match(r"\s*(Example: )?gmmatch ", line)]


def notes(callback: Any) -> Iterator[tuple[str, Any]]:
    """Yield what the annotations of a command say of its parameters."""
    for word, hint in get_type_hints(inspect.unwrap(callback), include_extras=True).items():
        for note in getattr(hint, "__metadata__", ()):
            yield word, note


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained_under_a_heading(name: str) -> None:
    command = load_command(name)
    # Old versions of typer give the help of arguments to nobody but the page that they print.
    said = {word: note.help for word, note in notes(command.callback)}
    for option in command.params:
        assert getattr(option, "help", None) or said.get(option.name), option.name
        if option.param_type_name == "option":
            assert option.rich_help_panel, option.name
            assert (option.metavar == "") == bool(option.is_flag), option.name


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_the_help_has_no_words_of_the_machine(name: str) -> None:
    words = [name] if name else []
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "100", "NO_COLOR": "1"}).output
    assert "Usage: " in shown
    assert not re.search(r"-\w.* <(bool|str|path|float|int|list)", shown)
    assert ("─ Options ─" in shown) == (name == "")


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_can_be_typed(name: str) -> None:
    found = examples(name)
    assert found
    for line in found:
        words = shlex.split(line.removeprefix("Example: "))
        assert words[:2] == ["gmmatch", name]
        load_command(name).make_context(name, words[2:])
