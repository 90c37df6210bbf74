"""Tell what in src is longer than the house allows, and who imports what is private to another package.

Run as `python tools/check_shape.py`; it prints one line for each find and ends with 1 if there are any.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

LONGEST_FUNCTION, LONGEST_MODULE = 60, 400
SRC = Path(__file__).parents[1] / "src"
# What is longer all the same, as `file` or `file: function`; an entry that is not needed is a find as well.
KNOWN: frozenset[str] = frozenset()


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines of a function without what documents it.

    Its docstring does, and the parameters of a command, whose annotations are the help that users read.
    """
    counted = set(range(function.lineno, function.end_lineno + 1))
    if ast.get_docstring(function) is not None:
        counted -= set(range(function.body[0].lineno, function.body[0].end_lineno + 1))
    for given in (*function.args.args, *function.args.kwonlyargs):
        if isinstance(given.annotation, ast.Subscript) and ast.unparse(given.annotation.value) == "Annotated":
            counted -= set(range(given.lineno, given.end_lineno + 1))
    return len(counted)


def imported(tree: ast.Module, package: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the line and the full name of all that a module of this package imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, tuple(name.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            start += tuple((node.module or "").split(".")) if node.module else ()
            for name in node.names:
                yield node.lineno, (*start, name.name)


def is_private(name: str) -> bool:
    """Tell whether a name starts with one underscore."""
    return name.startswith("_") and not name.startswith("__")


def findings(file: Path, src: Path) -> Iterator[tuple[str, str]]:
    """Yield the place and a sentence for each thing in a file that breaks the rules."""
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text)
    path = file.relative_to(src)
    lines = len(text.splitlines())
    if lines > LONGEST_MODULE:
        yield path.as_posix(), f"{lines} lines; at most {LONGEST_MODULE} are allowed"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and length(node) > LONGEST_FUNCTION:
            said = (
                f"{length(node)} lines without its documentation; a function has at most {LONGEST_FUNCTION}"
            )
            yield f"{path.as_posix()}: {node.name}", said
    package = path.parent.parts
    for line, parts in imported(tree, package):
        owner = next((parts[:place] for place, part in enumerate(parts) if is_private(part)), ())
        if parts[0] == package[0] and package[: len(owner)] != owner:
            yield f"{path.as_posix()}:{line}", f"{'.'.join(parts)} is private to {'.'.join(owner)}"


def main(src: Path = SRC, known: frozenset[str] = KNOWN) -> int:
    """Print all findings that are not known and return how the process ends."""
    found = dict(find for file in sorted(src.rglob("*.py")) for find in findings(file, src))
    said = [f"{place}: {sentence}" for place, sentence in found.items() if place not in known]
    said += [f"{place}: an exception that is no longer needed" for place in sorted(known - found.keys())]
    for line in said:
        print(line)
    return bool(said)


if __name__ == "__main__":
    sys.exit(main())
