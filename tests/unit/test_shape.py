"""The check of functions and private modules finds what it is for, and lines of code are counted right."""

import pytest

from tools.check_shape import check, code_lines, measure, other_lines

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
    assert check(package, frozenset()) == 0
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
    assert check(package, frozenset()) == 1
    assert capsys.readouterr().out.startswith("pack/two/user.py:1: pack.one._own")


def test_long_functions_and_exceptions(package, capsys):
    (package / "pack/one/long.py").write_text("def f():\n" + LINES * 60)
    assert check(package, frozenset()) == 1
    assert capsys.readouterr().out.startswith("pack/one/long.py: f: 61 lines")
    assert check(package, frozenset({"pack/one/long.py: f"})) == 0
    (package / "pack/one/long.py").write_text("def f():\n" + LINES * 59)
    assert check(package, frozenset({"pack/one/long.py: f"})) == 1
    assert capsys.readouterr().out == "pack/one/long.py: f: an exception that is no longer needed\n"


def test_the_parameters_of_a_command_are_its_help(package):
    given = "    a: Annotated[int, Option(\n" + "        help='x',\n" * 70 + "    )] = 1,\n"
    (package / "pack/one/command.py").write_text(f"def f(\n{given}) -> None:\n{LINES * 50}")
    assert check(package, frozenset()) == 0


def test_lines_of_code_are_those_without_blanks_comments_and_docstrings():
    text = '"""One.\n\nTwo.\n"""\n\n# three\nx = 1  # four\n"""Five."""\ny = """six\n\nseven"""\n'
    text += "z = (\n    1\n)\n"
    assert code_lines(text) == 1 + 3 + 3
    assert other_lines("/* one\n two */\nint x; // three\n\n// four\nint y; /* five */\n") == 2


def test_the_core_is_counted_without_the_laboratory(tmp_path):
    files = {
        "__init__.py": '_HOMES = {"pick": "run"}\n',
        "run.py": "def pick(x, *, keep=1, **more: Any):\n    return hasattr(x, 'y')\n",
        "lab/signals/runs.py": "x: Any = cast(int, 1)\n",
        "cli/lab/train.py": "x = 1\n",
        "report/page.js": "let x = 1\n",
    }
    for name, text in files.items():
        file = tmp_path / "gmmatch" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    found = measure(tmp_path)
    assert (found["lines in the core"], found["lines in the laboratory"], found["lines in modules"]) == (
        4,
        2,
        3,
    )
    assert (found["hasattr in the core"], found["cast in the core"], found["Any in the core"]) == (1, 0, 1)
    assert found["parameters of pick"] == 2
