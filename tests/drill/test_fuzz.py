"""Arguments of every kind and files of every kind with some bytes wrong: a result, or one of our errors."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from . import calls, files
from .commands import ROOT, environment

PIECE = 3_000  # cases in one process
# Cases in full: 100,000 and more over all kinds, most of those that run a method.
FILES, CALLS = 3_000, 9_000
# Everything that ever failed: kinds of files and their numbers. What failed among the calls is in the tests
# of the functions.
CORPUS = json.loads((Path(__file__).parent / "corpus.json").read_text())


def fuzz(sort, kind, first, count, tmp_path):
    """Run some cases in a process of their own; return how many, and what was wrong with which."""
    mark = tmp_path / "mark"
    words = [sys.executable, "-m", "tests.drill.fuzz", sort, kind, str(first), str(count), str(mark)]
    done = subprocess.run(
        words, cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, timeout=3600
    )
    if done.returncode != 0:  # what ended the process was the case that is marked
        last = mark.read_text() if mark.exists() else "0"
        return int(last), [f"{kind} {first} + {last}: ended by {done.returncode}: {done.stderr[-2000:]}"]
    found = json.loads(done.stdout.splitlines()[-1])
    return found["cases"], found["wrong"]


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.slow] if kind in files.SLOW else []) for kind in files.KINDS],
)
def test_some_damaged_files(kind, tmp_path):
    from .fuzz import Limits, run_files

    limits = Limits(kind, tmp_path / "mark")
    assert run_files(kind, 0, 12, limits) == []
    for number in CORPUS.get(kind, []):
        assert run_files(kind, number, 1, limits) == []


@pytest.mark.parametrize("kind", calls.KINDS)
def test_some_calls(kind, tmp_path):
    from .fuzz import Limits, run_calls

    assert run_calls(kind, 0, 25, Limits(kind, tmp_path / "mark")) == []


@pytest.mark.drill
@pytest.mark.parametrize("kind", files.KINDS)
def test_damaged_files(kind, tmp_path, told):
    cases, wrong = 0, []
    for first in range(0, FILES, PIECE):
        ran, found = fuzz("files", kind, first, PIECE, tmp_path)
        cases, wrong = cases + ran, wrong + found
    assert wrong == []
    told("bytes changed, cut off, doubled, inserted", f"{kind} files", cases, "a result, or one sentence")


@pytest.mark.drill
@pytest.mark.parametrize("kind", calls.KINDS)
def test_calls(kind, tmp_path, told):
    cases, wrong = 0, []
    for first in range(1, CALLS // PIECE + 1):
        ran, found = fuzz("calls", kind, first, PIECE, tmp_path)
        cases, wrong = cases + ran, wrong + found
    assert wrong == []
    told("arguments of every kind", f"`{kind}`", cases, "a valid result, or one sentence")
