"""Change the code in small ways, one at a time, and tell which changes no test notices.

Run as `python tools/mutants.py --sample 150 --seed 1 location`. The tests that should notice are quick ones:
the package's unit tests and doctests, and those of what calls it (`WIDER`), frozen picks among them; or those
named after the package. They are collected once. Each change is made in a forked process, which runs the
tests that reach the changed line, those that noticed most for their time first, until one fails or takes far
longer than it should. Prints one line for each change that survives, then the score.
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
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

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

# Quick tests that should notice beside a package's own: the frozen picks, and those of what calls it.
WIDER = {
    "matching": [
        "tests/unit/selectors/test_gm_matching.py",
        "tests/unit/selectors/test_sampled_median.py",
        "tests/unit/trust/test_guard.py",
        "tests/unit/trust/test_lift.py",
        "tests/unit/trust/test_many_classes.py",
    ],
}
FROZEN = "tests/contract/test_frozen.py"
# Networks are slow, and use little of what is changed.
NO_TRAINING = "not (forgetting or el2n or grand or optimization or torch)"
PATIENCE = 20.0  # seconds of tests for one change: one that these do not notice has survived

# What follows is left as it is, since no result depends on it: a change there is no fault.
# Progress that is shown; hints to a reader about what comes next; how many threads a library may use.
IDLE_CALLS = ("advance", "task", "read_ahead", "settle", "threadpool_limits", "limit_threads")
# `strict` of zip is an assertion, as `assert` is; the others tell a library what it need not do.
IDLE_KEYWORDS = ("strict", "ahead", "copy", "overwrite_a", "check_finite")
IDLE_COMMENT = "# compiled before threads"  # beside a call for whose result nobody asks
# How much is done at a time, or which of two ways to one result is taken; that the ways agree is tested.
IDLE_NAMES = {
    "GRAM_BYTES": "a Gram matrix, or a product per pick",
    "_GRAM_PAYS_FROM": "the same",
    "_PRODUCTS_PAY_TO": "the same, in a compiled loop",
    "_CACHE_BYTES": "the same",
    "gram_pays": "the same",
    "products_pay": "the same",
    "_CALL_VALUES": "picks between two reports of progress",
    "_TILE_ROWS": "tiles of a matrix of products",
    "_TOGETHER_VALUES": "batches that are read in one go",
    "SEGMENT_ROWS": "batches that are sent to a worker in one go",
    "_AHEAD": "work that waits for a thread; picks that are put in order at a time",
    "_BUNDLES": "chains that a worker is given in one go",
    "_BLOCKS_AT_ONCE": "blocks in one product of matrices",
    "_SORTED_AT_ONCE": "picks in one sort",
    "_HALVINGS": "of a range that is found to its last digit before",
    "_MANY_PROTOTYPES": "all points, or the two beside a number",
    "_CHUNK_BYTES": "columns of which medians are found at a time",
    "_MANY_GROUPS": "quantiles group by group, or of all groups from one order",
    "_compile": "compiles loops before threads need them",
    "make_ready": "the same",
    "_CENTERS_AT_ONCE": "points in one product of matrices",
    "_MOST_KEPT": "probabilities are kept, or found again from the same head",
}


@dataclass(frozen=True)
class Mutant:
    """One change of a module."""

    module: str
    line: int
    lines: range  # of the statement, without what is inside it
    owner: str  # the outermost function or method that is changed, or nothing
    names: tuple[str, ...]  # what the statement assigns to
    change: str
    place: tuple[int, int]  # which node, and which of the changes that it allows

    def tree(self) -> ast.Module:
        """Return the changed module."""
        tree = ast.parse(source(self.module))
        node = list(places(tree))[self.place[0]].node
        new = list(changes(node))[self.place[1]][1]
        ast.copy_location(new, node)
        changed: ast.Module = ast.fix_missing_locations(_Swap(node, new).visit(tree))
        return changed


class Place(NamedTuple):
    """A node of a module that runs."""

    node: ast.AST
    owner: str
    statement: ast.stmt | None


def source(module: str) -> str:
    """Return the text of a module."""
    return (SRC / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")


def places(tree: ast.Module) -> Iterator[Place]:
    """Yield the nodes of a module that run, each with its function or method and its statement."""

    def below(node: ast.AST, owner: str, depth: int, statement: ast.stmt | None) -> Iterator[Place]:
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST) or _idle(child):
                    continue
                inner, deeper = owner, depth
                if isinstance(child, ast.FunctionDef | ast.ClassDef) and depth < 2 and _open(owner, tree):
                    inner, deeper = f"{owner}.{child.name}".lstrip("."), depth + 1
                own = child if isinstance(child, ast.stmt) else statement
                yield Place(child, inner, own)
                yield from below(child, inner, deeper, own)

    return below(tree, "", 0, None)


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
    if isinstance(node, ast.Call) and ast.unparse(node.func) in IDLE_CALLS:
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _idle(node.value):
        return True
    if isinstance(node, ast.keyword) and node.arg in IDLE_KEYWORDS:
        return True
    if isinstance(node, ast.FunctionDef) and node.name in IDLE_NAMES:
        return True
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in IDLE_NAMES:
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
    elif (
        isinstance(node, ast.If | ast.While | ast.IfExp)
        and not isinstance(node.test, ast.Compare | ast.BoolOp)
        and ast.unparse(node.test).split("(")[0] not in IDLE_NAMES
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
    """Yield every change of a module."""
    text = source(module)
    told = text.splitlines()
    for number, (node, owner, statement) in enumerate(places(ast.parse(text))):
        for turn, (word, new) in enumerate(changes(node)):
            assert statement is not None
            body = getattr(statement, "body", None)
            end = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
            lines = range(statement.lineno, max(end, statement.lineno) + 1)
            if any(IDLE_COMMENT in line for line in told[lines.start - 1 : lines.stop - 1]):
                continue
            said = f"{word}: {ast.unparse(node).splitlines()[0]} -> {ast.unparse(new).splitlines()[0]}"
            names = tuple(
                n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            )
            yield Mutant(module, node.lineno, lines, owner, names, said, (number, turn))


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
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    elif isinstance(value, cached_property):
        value = value.func
    return getattr(value, "__wrapped__", value)


def apply(mutant: Mutant) -> None:
    """Put the changed code in the place of the module's own, for everyone who has imported it."""
    module = sys.modules[mutant.module]
    changed = dict.fromkeys(("__name__",), mutant.module) | {"__package__": module.__package__}
    exec(compile(mutant.tree(), str(module.__file__), "exec"), changed)
    own = dict(functions(vars(module), mutant.module))
    for name, function in functions(changed, mutant.module):
        if name in own and function.__code__.co_freevars == own[name].__code__.co_freevars:
            own[name].__code__ = function.__code__
            own[name].__defaults__, own[name].__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    for name, value in changed.items():
        before = vars(module).get(name)
        if isinstance(value, type) and value.__module__ == mutant.module:
            for inner, plain in vars(value).items():  # values that a class gives to all its objects
                if isinstance(plain, bool | int | float) and vars(before).get(inner) != plain:
                    setattr(before, inner, plain)
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
        self.seconds: dict[str, float] = {}
        self.noticed: Counter[str] = Counter()  # how many changes each test noticed
        self.reached: dict[tuple[str, int | str], list[Any]] = {}  # tests by line, and by function
        self.names: dict[str, Any] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of a test that fails."""
        if report.failed:
            self.failed.append(f"{report.nodeid}\n{report.longreprtext}\n")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run everything."""
        reporter = session.config.pluginmanager.getplugin("terminalreporter")
        session.config.pluginmanager.unregister(reporter)
        for module in self.modules:
            import_module(module)
        # A doctest forgets its names when it has run.
        self.names = {
            item.nodeid: item.dtest.globs.copy()
            for item in session.items
            if isinstance(item, pytest.DoctestItem) and item.dtest
        }
        self._measure(session.items)
        chosen = [
            m for module in self.modules for m in mutants(module) if self.pattern in f"{m.module} {m.change}"
        ]
        print(
            f"{len(session.items)} tests, {sum(self.seconds.values()):.0f} s; {len(chosen)} changes",
            flush=True,
        )
        if self.sample is not None and self.sample < len(chosen):
            chosen = random.Random(self.seed).sample(chosen, self.sample)
        chosen.sort(key=lambda mutant: (mutant.module, mutant.line))
        self.total = len(chosen)
        for mutant in chosen:
            if not self._killed(mutant, self._tests(mutant, session.items)):
                self.survivors.append(mutant)
                print(f"\n{mutant.module}:{mutant.line}: {mutant.owner}: {mutant.change}", end="", flush=True)
            else:
                print(".", end="", flush=True)
        return True

    def _run(self, item: Any) -> None:
        if item.nodeid in self.names:
            item.dtest.globs = self.names[item.nodeid].copy()
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)

    def _tests(self, mutant: Mutant, items: list[Any]) -> list[Any]:
        """Return the tests that could notice a change, in the order to run them, until patience ends."""
        keys: list[tuple[str, int | str]] = [(mutant.module, line) for line in mutant.lines]
        if not mutant.owner or mutant.owner not in dict(
            functions(vars(sys.modules[mutant.module]), mutant.module)
        ):
            users = (
                (module, name)
                for module in self.modules
                for name, function in functions(vars(sys.modules[module]), module)
                if any(set(mutant.names) & set(code.co_names) for code in _codes(function.__code__))
            )
            keys = list(users)
        found = {item.nodeid: item for key in keys for item in self.reached.get(key, ())}
        found = found or {
            item.nodeid: item for item in self.reached.get((mutant.module, mutant.owner), items)
        }
        order = sorted(
            found.values(), key=lambda item: self.seconds[item.nodeid] / (1 + self.noticed[item.nodeid])
        )
        spent = accumulate((self.seconds[item.nodeid] for item in order), initial=0.0)
        return [item for item, before in zip(order, spent, strict=False) if before < PATIENCE]

    def _measure(self, items: list[Any]) -> None:
        """Find the seconds of each test, and the tests that reach each line and each function."""
        outer: dict[CodeType, tuple[str, str]] = {}
        for module in self.modules:
            for name, function in functions(vars(sys.modules[module]), module):
                for code in _codes(function.__code__):
                    outer[code] = module, name
        seen: set[tuple[str, int | str]] = set()

        def tracer(frame: Any, event: str, argument: Any) -> Any:
            if frame.f_code not in outer:
                return None
            module, name = outer[frame.f_code]
            seen.update([(module, name), (module, frame.f_lineno)])
            return tracer

        for item in items:
            seen.clear()
            started = time.process_time()
            sys.settrace(tracer)
            threading.settrace(tracer)
            self._run(item)
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            self.seconds[item.nodeid] = time.process_time() - started
            for key in seen:
                self.reached.setdefault(key, []).append(item)
        if self.failed:
            raise SystemExit(f"tests fail before anything is changed: {' '.join(self.failed)}")

    def _killed(self, mutant: Mutant, items: list[Any]) -> bool:
        """Tell whether a test fails, in a process of its own, or takes far longer than it should."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            try:
                apply(mutant)
                for number, item in enumerate(items):
                    os.write(writer, number.to_bytes(4, "big"))
                    # Seconds of the processor, which others may use as well.
                    signal.setitimer(signal.ITIMER_PROF, 5 + 5 * self.seconds[item.nodeid])
                    self._run(item)
                    if self.failed:
                        os._exit(1)
            except BaseException:
                os._exit(1)
            os._exit(0)
        os.close(writer)
        killed = self._wait(child, 60 + 40 * sum(self.seconds[item.nodeid] for item in items))
        with os.fdopen(reader, "rb") as told:
            begun = told.read()
        if killed and begun:
            self.noticed[items[int.from_bytes(begun[-4:], "big")].nodeid] += 1
        return killed

    def _wait(self, child: int, seconds: float) -> bool:
        """Tell whether a child fails; one that does nothing for so long, as if waiting for itself, does."""
        for _ in range(int(seconds / 0.02)):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return bool(status)
            time.sleep(0.02)
        os.kill(child, signal.SIGKILL)
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
    parser.add_argument("tests", nargs="*", help="files and folders of tests, in place of the usual ones")
    parser.add_argument("--sample", type=int, help="so many changes, drawn at random, not all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only changes whose module and description have this text")
    parser.add_argument("-k", default=NO_TRAINING, help="pytest's -k")
    given = parser.parse_args()
    path = SRC / "gmmatch" / given.package.replace(".", "/")
    found = sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    modules = [
        ".".join(file.relative_to(SRC).with_suffix("").parts) for file in found if file.stem != "__init__"
    ]
    package = given.package.split(".")[0]
    tests = given.tests or [
        f"tests/unit/{package}",
        f"src/gmmatch/{package}",
        FROZEN,
        *WIDER.get(package, []),
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
            *tests,
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
