"""What the drill saw, for the table in docs/drill.md.

A drill that was ended goes on with what is left of it (`make drill RESUME=1`), as long as the code is the
same to the byte; the table is written once all of it has passed.
"""

import datetime
import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from .commands import ROOT, make_inputs

PAGE = ROOT / "docs" / "drill.md"
BEGIN, END = "<!-- The drill writes from here -->", "<!-- to here. -->"
_SEEN = Path(os.environ.get("GMMATCH_DRILL", ROOT / "out" / "drill"))

Told = Callable[[str, str, int, str], None]


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    return folder


@pytest.fixture
def told(request: pytest.FixtureRequest) -> Told:
    """Return what notes a fault, where it struck, how many cases there were, and how they ended.

    Only what the drill in full has seen is noted.
    """

    def note(fault: str, where: str, cases: int, ended: str) -> None:
        if "drill" not in request.keywords:
            return
        _SEEN.mkdir(parents=True, exist_ok=True)
        name = "".join(letter if letter.isalnum() else "-" for letter in f"{fault} {where}")
        line = {"fault": fault, "where": where, "cases": cases, "ended": ended}
        (_SEEN / f"{name}.json").write_text(json.dumps(line))

    return note


def in_full(config: pytest.Config) -> bool:
    """Tell whether this is the whole drill, and not a part of it."""
    named = [Path(name).resolve() for name in config.args]
    return (
        config.option.markexpr == "drill" and not config.option.keyword and named == [Path(__file__).parent]
    )


def is_worker(config: pytest.Config) -> bool:
    """Tell whether this process is one of several that share the tests."""
    return hasattr(config, "workerinput")


def code_digest() -> str:
    """Return a digest of the code and the drill."""
    digest = hashlib.sha256()
    for folder in (ROOT / "src" / "gmmatch", Path(__file__).parent):
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def passed_before() -> dict[str, float]:
    """Return the tests that have passed, and the seconds that each took."""
    file = _SEEN / "passed.jsonl"
    return dict(map(json.loads, file.read_text().splitlines())) if file.is_file() else {}


def pytest_configure(config: pytest.Config) -> None:
    # A shell's background jobs ignore interrupts, and so would all that is interrupted here.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not in_full(config) or is_worker(config):
        return
    stamp, digest = _SEEN / "code", code_digest()
    if not stamp.is_file() or stamp.read_text() != digest:
        shutil.rmtree(_SEEN, ignore_errors=True)
        _SEEN.mkdir(parents=True)
        stamp.write_text(digest)
    config.pluginmanager.register(Noting(), "drill")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has passed already with the same code."""
    before = passed_before() if in_full(config) else {}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in before])
    items[:] = [item for item in items if item.nodeid not in before]


class Noting:
    """Notes which tests have passed."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            with (_SEEN / "passed.jsonl").open("a") as file:
                file.write(json.dumps([report.nodeid, report.duration]) + "\n")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the table of all that was noted, after a drill in full that found nothing."""
    before = passed_before()
    if not in_full(session.config) or is_worker(session.config) or exitstatus not in (0, 5) or not before:
        return
    lines = ["| fault | where | cases | how they ended |", "|---|---|---:|---|"]
    seen = [json.loads(file.read_text()) for file in sorted(_SEEN.glob("*.json"))]
    lines += [f"| {each['fault']} | {each['where']} | {each['cases']:,} | {each['ended']} |" for each in seen]
    cases = sum(each["cases"] for each in seen)
    lines.append(f"| all | | {cases:,} | |")
    told = (
        f"Written by one `make drill` on {datetime.date.today():%d %B %Y}: {len(before)} tests with"
        f" {cases:,} cases, all of which passed. Their times add up to"
        f" {sum(before.values()) / 60:.0f} minutes."
    )
    page = PAGE.read_text(encoding="utf-8")
    start, after = page.split(BEGIN)[0], page.split(END)[1]
    PAGE.write_text(
        f"{start}{BEGIN}\n\n{told}\n\n" + "\n".join(lines) + f"\n\n{END}{after}", encoding="utf-8"
    )
