"""What the drill saw, for the table in docs/reliability.md."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from .commands import ROOT, make_inputs

PAGE = ROOT / "docs" / "reliability.md"
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


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the table of all that was noted, after a drill in full."""
    if (
        session.config.option.markexpr != "drill"
        or session.config.option.keyword  # a part of it
        or [Path(name).resolve() for name in session.config.args] != [Path(__file__).parent]
        or not _SEEN.is_dir()
        or hasattr(session.config, "workerinput")
    ):
        return
    lines = ["| fault | where | cases | how they ended |", "|---|---|---:|---|"]
    seen = [json.loads(file.read_text()) for file in sorted(_SEEN.glob("*.json"))]
    lines += [f"| {each['fault']} | {each['where']} | {each['cases']:,} | {each['ended']} |" for each in seen]
    lines.append(f"| all | | {sum(each['cases'] for each in seen):,} | |")
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{after}", encoding="utf-8")
