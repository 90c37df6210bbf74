"""The check of lengths and private modules finds what it is for, and nothing in a tree that is in order."""

import pytest

from tools.check_shape import main

LINES = "    x = 1\n"


@pytest.fixture
def package(tmp_path):
    for folder in ("pack", "pack/one", "pack/two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "pack/one/_own.py").write_text("x = 1\n")
    return tmp_path


def test_what_is_short_and_at_home_passes(package, capsys):
    (package / "pack/one/user.py").write_text(
        "import os._exit\nfrom ._own import x\nfrom pack.one import _own\n"
    )
    (package / "pack/two/long.py").write_text('def f():\n    """' + "One.\n" * 50 + '"""\n' + LINES * 59)
    assert main(package, frozenset()) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "line",
    [
        "from ..one._own import x",
        "from ..one import _own",
        "from pack.one._own import x",
        "import pack.one._own",
    ],
)
def test_a_private_module_of_another_package(line, package, capsys):
    (package / "pack/two/user.py").write_text(f"{line}\n")
    assert main(package, frozenset()) == 1
    assert capsys.readouterr().out.startswith("pack/two/user.py:1: pack.one._own")


def test_long_functions_and_modules_and_exceptions(package, capsys):
    (package / "pack/one/long.py").write_text("def f():\n" + LINES * 60)
    (package / "pack/two/much.py").write_text("x = 1\n" * 401)
    assert main(package, frozenset({"pack/one/long.py: f"})) == 1
    assert capsys.readouterr().out == "pack/two/much.py: 401 lines; at most 400 are allowed\n"
    assert main(package, frozenset({"pack/one/long.py: f", "pack/two/much.py"})) == 0
    (package / "pack/one/long.py").write_text("def f():\n" + LINES * 59)
    assert main(package, frozenset({"pack/one/long.py: f", "pack/two/much.py"})) == 1
    assert capsys.readouterr().out == "pack/one/long.py: f: an exception that is no longer needed\n"


def test_the_parameters_of_a_command_are_its_help(package):
    given = "    a: Annotated[int, Option(\n" + "        help='x',\n" * 70 + "    )] = 1,\n"
    (package / "pack/one/command.py").write_text(f"def f(\n{given}) -> None:\n{LINES * 50}")
    assert main(package, frozenset()) == 0
