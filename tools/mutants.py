"""Change the code in small ways, one at a time, and tell which changes no test notices.

Run as `python tools/mutants.py --sample 300 location tests/unit/location`: the package, then the tests that
should notice. Tests are collected once; each change is made in a forked process, which runs the tests that
call the changed function, the quickest first, until one fails. Prints one line for each change that survives,
then the score.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import hypothesis
import pytest

SRC = Path(__file__).parents[1] / "src"
COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATE = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.MatMult: ast.Add,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitXor: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One changed module."""

    module: str
    line: int
    owner: str  # the outermost function or method that is changed, or nothing
    change: str
    tree: ast.Module


def places(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield the nodes of a module that run, each with the name of its function or method."""

    def below(node: ast.AST, owner: str, depth: int) -> Iterator[tuple[ast.AST, str]]:
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST) or _idle(child):
                    continue
                inner, deeper = owner, depth
                if isinstance(child, ast.FunctionDef | ast.ClassDef) and depth < 2 and _open(owner, tree):
                    inner, deeper = f"{owner}.{child.name}".lstrip("."), depth + 1
                yield child, inner
                yield from below(child, inner, deeper)

    return below(tree, "", 0)


def _open(owner: str, tree: ast.Module) -> bool:
    """Tell whether a name is no function: what is inside a function belongs to it."""
    return (
        all(not (isinstance(n, ast.FunctionDef) and n.name == owner) for n in tree.body) and "." not in owner
    )


def _idle(node: ast.AST) -> bool:
    """Tell whether a node does nothing that a test should notice: imports, names for types, docstrings."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Raise | ast.Assert):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    return isinstance(node, ast.Assign) and ast.unparse(node.value).split("[")[0] in (
        "npt.NDArray", "tuple", "list", "dict", "Callable", "Literal",
    )  # fmt: skip


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield what a node could be instead, with a word that says so."""
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            other = copy.deepcopy(node)
            other.ops[at] = COMPARE[type(operator)]()
            yield "compare", other
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATE:
        other = copy.deepcopy(node)
        other.op = OPERATE[type(node.op)]()
        yield "operate", other
    elif isinstance(node, ast.BoolOp):
        other = copy.deepcopy(node)
        other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and-or", other
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield "sign", node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        yield "constant", ast.Constant(_other(node.value))
    elif isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(
        node.test, ast.Compare | ast.BoolOp
    ):
        other = copy.deepcopy(node)
        other.test = ast.UnaryOp(ast.Not(), other.test)
        yield "condition", other
    elif (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)) or isinstance(
        node, ast.Break | ast.Continue
    ):
        yield "left out", ast.Pass()
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield "return nothing", ast.Return(ast.Constant(None))


def _other(value: float) -> float:
    if isinstance(value, bool):
        return not value
    return 2 * value or 1.0 if isinstance(value, float) else value + 1


class _Swap(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else super().generic_visit(node)


def mutants(module: str) -> Iterator[Mutant]:
    """Yield every changed version of a module."""
    text = (SRC / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")
    count = len(list(places(ast.parse(text))))
    for number in range(count):
        turn = 0
        while True:
            tree = ast.parse(text)
            node, owner = list(places(tree))[number]
            found = list(changes(node))
            if turn >= len(found):
                break
            word, new = found[turn]
            before = ast.unparse(node)
            ast.copy_location(new, node)
            changed = ast.fix_missing_locations(_Swap(node, new).visit(tree))
            said = f"{word}: {before.splitlines()[0]} -> {ast.unparse(new).splitlines()[0]}"
            yield Mutant(module, node.lineno, owner, said, changed)
            turn += 1


def functions(namespace: dict[str, Any], module: str) -> Iterator[tuple[str, FunctionType]]:
    """Yield the functions and methods that a module defines, by name."""
    for name, value in namespace.items():
        if isinstance(value, type) and value.__module__ == module:
            for inner, method in vars(value).items():
                if isinstance(plain := _plain(method), FunctionType):
                    yield f"{name}.{inner}", plain
        elif isinstance(plain := _plain(value), FunctionType) and plain.__module__ == module:
            yield name, plain


def _plain(value: Any) -> Any:
    value = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
    return getattr(value, "__wrapped__", value)


def apply(mutant: Mutant) -> None:
    """Put the changed code in the place of the module's own, for everyone who has imported it."""
    module = sys.modules[mutant.module]
    changed = dict.fromkeys(("__name__",), mutant.module) | {"__package__": module.__package__}
    exec(compile(mutant.tree, str(module.__file__), "exec"), changed)
    own = dict(functions(vars(module), mutant.module))
    for name, function in functions(changed, mutant.module):
        if name in own and function.__code__.co_freevars == own[name].__code__.co_freevars:
            own[name].__code__ = function.__code__
            own[name].__defaults__, own[name].__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    for name, value in changed.items():
        before = vars(module).get(name)
        if name.startswith("__") or isinstance(value, type | FunctionType | ModuleType) or before is value:
            continue
        if isinstance(before, dict):
            before.update(value)
        elif isinstance(value, bool | int | float | tuple) and before != value:
            for user in [user for key, user in sys.modules.items() if key.startswith("gmmatch")]:
                if vars(user).get(name) is before:
                    setattr(user, name, value)


class Tester:
    """A pytest plugin that runs the collected tests once as they are, then once for each change."""

    def __init__(self, modules: list[str], sample: int | None, seed: int, pattern: str) -> None:
        self.modules, self.sample, self.seed, self.pattern = modules, sample, seed, pattern
        self.survivors: list[Mutant] = []
        self.total = 0
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of a test that fails."""
        if report.failed:
            self.failed.append(f"{report.nodeid}\n{report.longreprtext}\n")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run everything."""
        reporter = session.config.pluginmanager.getplugin("terminalreporter")
        session.config.pluginmanager.unregister(reporter)
        # A doctest can be run once only.
        session.items = [item for item in session.items if not isinstance(item, pytest.DoctestItem)]
        for module in self.modules:
            import_module(module)
        files = {str(sys.modules[module].__file__): module for module in self.modules}
        seconds, callers = self._measure(session, files)
        chosen = [
            m for module in self.modules for m in mutants(module) if self.pattern in f"{m.module} {m.change}"
        ]
        if self.sample is not None and self.sample < len(chosen):
            chosen = random.Random(self.seed).sample(chosen, self.sample)
        chosen.sort(key=lambda mutant: (mutant.module, mutant.line))
        self.total = len(chosen)
        for mutant in chosen:
            items = callers.get((mutant.module, mutant.owner)) or session.items
            items = sorted(items, key=lambda item: seconds[item.nodeid])
            if not self._killed(session, mutant, items, sum(seconds[item.nodeid] for item in items)):
                self.survivors.append(mutant)
                print(f"\n{mutant.module}:{mutant.line}: {mutant.owner}: {mutant.change}", end="", flush=True)
            else:
                print(".", end="", flush=True)
        return True

    def _measure(
        self, session: pytest.Session, files: dict[str, str]
    ) -> tuple[dict[str, float], dict[Any, Any]]:
        """Return the seconds of each test, and the tests that call each function."""
        outer: dict[CodeType, tuple[str, str]] = {}
        for module in self.modules:
            for name, function in functions(vars(sys.modules[module]), module):
                for code in _codes(function.__code__):
                    outer[code] = module, name
        seen: set[tuple[str, str]] = set()

        def tracer(frame: Any, event: str, argument: Any) -> None:
            if frame.f_code in outer:
                seen.add(outer[frame.f_code])

        seconds, callers = {}, {}
        # A first round without a tracer compiles what is compiled on first use, and tells the seconds.
        for traced in (False, True):
            for item in session.items:
                seen.clear()
                started = time.perf_counter()
                if traced:
                    sys.settrace(tracer)
                    threading.settrace(tracer)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                sys.settrace(None)
                threading.settrace(None)  # type: ignore[arg-type]
                if not traced:
                    seconds[item.nodeid] = time.perf_counter() - started
                for key in seen:
                    callers.setdefault(key, []).append(item)
        if self.failed:
            raise SystemExit(f"tests fail before anything is changed: {' '.join(self.failed)}")
        return seconds, callers

    def _killed(self, session: pytest.Session, mutant: Mutant, items: list[Any], seconds: float) -> bool:
        """Tell whether a test fails, in a process of its own, or takes far longer than it should."""
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(10 + int(4 * seconds))
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            try:
                apply(mutant)
                for item in items:
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                    if self.failed:
                        os._exit(1)
            except BaseException:
                os._exit(1)
            os._exit(0)
        return bool(os.waitpid(child, 0)[1])


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def main() -> int:
    """Read the words of the command line, and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "package", help="a package or module below gmmatch, such as location or matching.budgets"
    )
    parser.add_argument("tests", nargs="+", help="files and folders of tests")
    parser.add_argument("--sample", type=int, help="so many changes, drawn at random, not all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only changes whose module and description have this text")
    parser.add_argument("-k", default="", help="pytest's -k")
    given = parser.parse_args()
    path = SRC / "gmmatch" / given.package.replace(".", "/")
    found = sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    modules = [
        ".".join(file.relative_to(SRC).with_suffix("").parts) for file in found if file.stem != "__init__"
    ]
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile(
        "mutants", database=None, derandomize=True, deadline=None, phases=phases,
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    hypothesis.settings.load_profile("mutants")
    tester = Tester(modules, given.sample, given.seed, given.only)
    code = pytest.main(
        [
            "-q",
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "-k",
            given.k,
            *given.tests,
        ],
        plugins=[tester],
    )
    if code not in (0, 1) or not tester.total:
        return int(code) or 1
    killed = tester.total - len(tester.survivors)
    print(f"\n{given.package}: {killed} of {tester.total} changes noticed, {killed / tester.total:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
