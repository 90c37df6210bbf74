"""What make would hand to the shell is whole: a comma in the wrong place cuts a command in two."""

import shutil
import subprocess

import pytest

from tests.docs.pages import ROOT


@pytest.mark.parametrize("target", ["demo", "test", "docs", "bench", "test-lowest", "wheel"])
def test_commands_are_whole(target: str, tmp_path) -> None:
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    asked = ["make", "--dry-run", "--always-make", "-C", str(ROOT), target, f"VENV={tmp_path / 'venv'}"]
    script = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    lines = "\n".join(line for line in script.splitlines() if not line.startswith("make"))
    checked = subprocess.run(["sh", "-n"], input=lines, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
