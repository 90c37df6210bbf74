"""What starts at once stays so: no heavy import before it is needed, and an interrupt ends the same way."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import gmmatch
from gmmatch.cli.commands import COMMANDS, find_function

HEAVY = ("sklearn", "scipy", "pandas", "matplotlib", "pyarrow", "torch", "ray", "bokeh", "jinja2")


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "code",
    [
        "import sys, gmmatch; gmmatch.__version__; dir(gmmatch)",
        "import sys; sys.argv = ['gmmatch', '--help']\n"
        "from gmmatch.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert end.code == 0, end.code",
    ],
    ids=["import", "help"],
)
def test_nothing_heavy_is_imported_at_the_start(code: str) -> None:
    done = python(f"{code}\nprint('modules:', *sys.modules)")
    assert done.returncode == 0, done.stderr
    imported = {name.partition(".")[0] for name in done.stdout.rpartition("modules:")[2].split()}
    assert "gmmatch" in imported
    assert imported.isdisjoint(HEAVY)


def test_importing_the_estimators_does_not_import_scikit_learn() -> None:
    done = python(
        "import sys, gmmatch; gmmatch.GMMatching(keep=3).get_params(); print('sklearn' in sys.modules)"
    )
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize("module", ["typer", "numpy"])
def test_an_interrupt_while_a_command_is_imported_ends_with_130(module: str) -> None:
    done = python(
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "sys.argv = ['gmmatch', 'select', 'rows.npy', '--keep', '10%']\n"
        "from gmmatch.cli import main; main()"
    )
    assert done.returncode == 130
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_all_commands_is_the_first_line_of_each(name: str) -> None:
    paragraph = inspect.cleandoc(find_function(name).__doc__).split("\n\n")[0]
    assert " ".join(paragraph.split()) == COMMANDS[name]


@pytest.mark.parametrize("name", gmmatch.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert name in dir(gmmatch)
    assert getattr(gmmatch, name) is getattr(gmmatch, name)


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = gmmatch.colour
