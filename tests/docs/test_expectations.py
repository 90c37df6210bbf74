"""The table of what users can expect: every command does what its line says."""

import csv
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gmmatch.cli import app
from gmmatch.cli.commands import COMMANDS, load_command
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "howto" / "expectations.md"
LINE = re.compile(r"^\| ([^|]+) \| `gmmatch ([^`]+)` \| ([^|]+) \|$", re.MULTILINE)
LINES = LINE.findall(PAGE.read_text("utf-8"))


def picks(file: str) -> list[str]:
    """Return the rows of a selection, in their order."""
    with open(file, newline="", encoding="utf-8") as lines:
        return [line["row"] for line in csv.DictReader(lines)]


def test_there_are_thirty_and_all_can_be_typed() -> None:
    assert len({expected for expected, *_ in LINES}) == len(LINES) >= 30
    for _, command, _ in LINES:
        name, *words = shlex.split(command)
        assert name in COMMANDS
        load_command(name).make_context(name, words)


@pytest.mark.slow
def test_every_expectation_is_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GMMATCH_CACHE", str(tmp_path / "cache"))
    (script,) = [text for language, text in blocks(PAGE) if language == "sh"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run(["sh", "-c", f"set -e\n{script}"], check=True, env=os.environ | {"PATH": path})
    missed = {}
    for expected, command, seen in LINES:
        done = CliRunner().invoke(app, shlex.split(command))
        output = shlex.split(command.partition(" -o ")[2])
        if done.exit_code or seen not in done.output or (output and not Path(output[0]).exists()):
            missed[expected] = f"{done.exit_code}: {done.output}"
        elif "the same rows" in expected and output and output != ["seed.csv"]:
            assert picks(output[0]) == picks("picks.csv"), expected
    assert missed == {}
    assert picks("thirty.csv") == picks("picks.csv")[:30]
    assert picks("seed.csv") != picks("random.csv")
    with open("picks.csv", newline="", encoding="utf-8") as lines:
        assert "weight" in next(csv.reader(lines))
