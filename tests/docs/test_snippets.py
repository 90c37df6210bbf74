"""What the pages tell readers to type is run, or, where it needs a cluster or a hub, at least understood.

Lines of Python that start with ``>>>`` are doctests, which pytest runs. Blocks of ``sh`` are run here, all
those of a page as one script in a folder that has the examples. Commands in other blocks are parsed.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, blocks, name

SCRIPTS = [page for page in PAGES if any(language == "sh" for language, _ in blocks(page))]
# Pages with Python that needs a running cluster; the tests of the cluster do the same.
ELSEWHERE = {"docs/scale.md"}
# What a page says is enough for ten million rows is run with few.
SMALL = {"ROWS": "20000", "GMMATCH_SMALL": "1"}


def commands() -> list[tuple[str, str]]:
    """Return the page and the text of every command line of gmmatch that a page shows."""
    found = []
    for page in PAGES:
        for language, text in blocks(page):
            if language in ("", "sh", "console"):
                lines = text.replace("\\\n", " ").splitlines()
                found += [(name(page), line.strip()) for line in lines if re.match(r"\s*gmmatch [a-z]", line)]
    return sorted(set(found))


@pytest.mark.parametrize(("page", "line"), commands())
def test_commands_are_understood(page: str, line: str) -> None:
    from gmmatch.cli.commands import COMMANDS, load_command

    words = shlex.split(line.partition(">")[0], comments=True)
    assert words[1] in COMMANDS
    if "COMMAND" not in words and "--help" not in words:
        load_command(words[1]).make_context(words[1], words[2:])


@pytest.mark.slow
@pytest.mark.parametrize("page", SCRIPTS, ids=name)
def test_shell_lines_work(page: Path, tmp_path: Path) -> None:
    script = "\n".join(text for language, text in blocks(page) if language == "sh")
    launcher = tmp_path / "bin" / "gmmatch"
    launcher.parent.mkdir()
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gmmatch "$@"\n')
    launcher.chmod(0o755)
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    path = os.pathsep.join([str(launcher.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", "-c", f"set -e\n{script}"],
        cwd=folder,
        env=os.environ | SMALL | {"PATH": path, "GMMATCH_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for expected in re.findall(r"^# prints: (.*)$", script, flags=re.MULTILINE):
        assert expected in done.stdout


WRITTEN = re.compile(r"(?:-o|--output|--report|--suspects|--materialize|--fix) (\S+)")


def test_pages_that_are_typed_one_after_the_other_write_different_files() -> None:
    """A file that exists is not replaced: who goes from page to page would be stopped."""
    writers: dict[str, set[str]] = {}
    for page in SCRIPTS:
        if page.parent.name in ("start", "howto"):
            for language, text in blocks(page):
                for file in WRITTEN.findall(text) if language == "sh" else []:
                    writers.setdefault(file, set()).add(name(page))
    assert writers
    assert {file: pages for file, pages in writers.items() if len(pages) > 1} == {}


def test_python_is_run_as_doctests() -> None:
    """A block of Python without ``>>>`` would be run by nobody."""
    unrun = [
        name(page)
        for page in PAGES
        for language, text in blocks(page)
        if language in ("python", "py") and ">>>" not in text
    ]
    assert set(unrun) <= ELSEWHERE
