"""Every public name has an entry in the reference, with an example that is run."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gmmatch
from tests.docs.pages import ROOT

REFERENCE = (ROOT / "docs" / "reference" / "python.md").read_text("utf-8")


@pytest.mark.parametrize("public", gmmatch.__all__)
def test_public_names_are_explained_by_an_example(public: str) -> None:
    if public == "__version__":
        entry = REFERENCE.partition("## Version")[2]
    else:
        found = re.search(
            rf"^::: gmmatch\.{public}$(.*?)(?=^:::|^## |\Z)", REFERENCE, re.DOTALL | re.MULTILINE
        )
        assert found, f"no entry for {public}"
        entry = found[1] + (inspect.getdoc(getattr(gmmatch, public)) or "")
    assert ">>> " in entry


def test_commands_and_their_options_are_in_the_reference() -> None:
    pytest.importorskip("mkdocs")
    from gmmatch.cli.commands import COMMANDS, load_command
    from tools.site import commands_page

    page = commands_page()
    for command in COMMANDS:
        section = page.partition(f"## gmmatch {command}\n")[2].partition("\n## ")[0]
        options = [each for each in load_command(command).params if each.param_type_name == "option"]
        assert all(f"`{each.opts[0]}`" in section for each in options)


@pytest.mark.slow
def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    fetched = re.compile(r'(?:src|href)="(https?:)?//[^"]+\.(?:js|css|woff2?)"|fonts\.g')
    pages = list((tmp_path / "site").rglob("*.html"))
    assert pages
    assert not [page.name for page in pages if fetched.search(page.read_text("utf-8"))]
