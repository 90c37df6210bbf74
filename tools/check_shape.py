"""Measure the code, and report functions that are too long and imports of what is private to another package.

`python tools/check_shape.py` prints what there is of each package beside the last release
(`tools/shape.json`), then one line for each finding; it ends with 1 if there are any. `--json` prints the
measures alone: write them to `tools/shape.json` with each release.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

LONGEST_FUNCTION = 60
SRC = Path(__file__).parents[1] / "src"
LAST = Path(__file__).with_name("shape.json")
# What is longer all the same, as `file: function`; an entry that is not needed is a finding as well.
KNOWN: frozenset[str] = frozenset(
    {
        # Mostly options.
        "gmmatch/cli/lab/compare.py: compare",
    }
)


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


def code_lines(text: str) -> int:
    """Return how many lines of a Python file hold code: neither blank, nor a comment, nor a docstring."""
    silent = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT}
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in silent and token.type != tokenize.ENDMARKER
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if alone and isinstance(node.value.value, str):  # a docstring, or the text below a constant
            lines -= set(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def other_lines(text: str) -> int:
    """Return how many lines of a C or JavaScript file hold code."""
    bare = re.sub(r"/\*.*?\*/", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
    return sum(bool(re.sub(r"//.*", "", line).strip()) for line in bare.splitlines())


def room(path: Path) -> str:
    """Return the package that a file belongs to, as the table names it."""
    parts = path.parts[1:-1]
    if parts[:1] == ("lab",):
        return "/".join(parts[:2])
    return "cli/lab" if parts[:2] == ("cli", "lab") else (parts[0] if parts else "modules")


def is_lab(name: str) -> bool:
    """Return True if a package is the laboratory's."""
    return name.partition("/")[0] == "lab" or name == "cli/lab"


def measure(src: Path) -> dict[str, int]:
    """Return lines of code by package, and what else is counted in the core."""
    lines: Counter[str] = Counter()
    counted: Counter[str] = Counter({"hasattr": 0, "cast": 0, "Any": 0})
    for file in sorted(path for ending in ("py", "c", "h", "js") for path in src.rglob(f"*.{ending}")):
        name, text = room(file.relative_to(src)), file.read_text(encoding="utf-8")
        lines[name] += code_lines(text) if file.suffix == ".py" else other_lines(text)
        if file.suffix != ".py" or is_lab(name):
            continue
        counted["files"] += 1
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                counted[node.func.id] += node.func.id in ("hasattr", "cast")
            counted["Any"] += isinstance(node, ast.Name) and node.id == "Any"
            counted["functions"] += isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    core = sum(number for name, number in lines.items() if not is_lab(name))
    kinds = ("files", "functions", "hasattr", "cast", "Any")
    return {
        **{f"lines in {name}": lines[name] for name in sorted(lines, key=is_lab)},
        "lines in the core": core,
        "lines in the laboratory": lines.total() - core,
        **{f"{kind} in the core": counted[kind] for kind in kinds},
        **{f"parameters of {name}": number for name, number in parameters(src).items()},
    }


def parameters(src: Path) -> dict[str, int]:
    """Return the number of named parameters of each public function, by its name."""
    tree = ast.parse((src / "gmmatch/__init__.py").read_text(encoding="utf-8"))
    homes = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES"
    )
    found = {}
    for public, home in homes.items():
        module, _, own = home.partition(":")
        path = src / "gmmatch" / module.replace(".", "/")
        files = sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
        for node in (node for file in files for node in ast.parse(file.read_text(encoding="utf-8")).body):
            if isinstance(node, ast.FunctionDef) and node.name == (own or public):
                given = node.args
                found[public] = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)
    return found


def print_measures(found: dict[str, int], last: dict[str, int]) -> None:
    """Print measures beside those of the last release."""
    print(f"{'':32}{'last release':>14}{'now':>10}")
    for name, number in found.items():
        before = f"{last[name]:,}" if name in last else "-"
        print(f"{name:32}{before:>14}{number:>10,}")


def check(src: Path = SRC, known: frozenset[str] = KNOWN) -> int:
    """Print all findings that are not known and return how the process ends."""
    found = dict(find for file in sorted(src.rglob("*.py")) for find in findings(file, src))
    said = [f"{place}: {sentence}" for place, sentence in found.items() if place not in known]
    said += [f"{place}: an exception that is no longer needed" for place in sorted(known - found.keys())]
    for line in said:
        print(line)
    return bool(said)


def main(arguments: list[str]) -> int:
    """Print the measures and the findings, and return how the process ends."""
    found = measure(SRC)
    if "--json" in arguments:
        print(json.dumps(found, indent=1))
        return 0
    print_measures(found, json.loads(LAST.read_text(encoding="utf-8")))
    return check()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
