"""Change the code in small ways, one at a time, and tell which changes no test notices.

Run as `python tools/mutants.py --sample 150 --seed 1 location`. The tests that should notice are quick ones:
the package's unit tests and doctests, and those of what calls it (`WIDER`), frozen picks among them; or those
named after the package. They are collected once. Each change is made in a forked process, which runs the
tests that reach the changed line, those that noticed most for their time first, until one fails or takes far
longer than it should. Prints one line for each change that survives, then the score.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from itertools import accumulate
from types import CodeType, FunctionType, ModuleType
from typing import Any

import hypothesis
import pytest
from changes import SRC, Mutant, mutants

# Quick tests that should notice beside a package's own: the frozen picks, and those of what calls it.
WIDER = {
    "matching": [
        "tests/unit/selectors/test_gm_matching.py",
        "tests/unit/selectors/test_sampled_median.py",
        "tests/unit/trust/test_guard.py",
        "tests/unit/trust/test_fourier_features.py",
    ],
}
FROZEN = "tests/contract/test_frozen.py"
# Networks are slow, and use little of what is changed.
NO_TRAINING = "not (forgetting or el2n or grand or optimization or torch)"
PATIENCE = 10.0  # seconds of tests for one change: one that these do not notice has survived


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
    parts = given.package.split(".")
    package = "/".join(parts[:2] if parts[0] == "lab" else parts[:1])
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
            "-p",
            "no:faulthandler",
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
