"""The README's shell lines are run; its Python lines are doctests."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.slow
def test_shell_lines_work(tmp_path):
    blocks = re.findall(r"```sh\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert blocks
    launcher = tmp_path / "bin" / "gmmatch"
    launcher.parent.mkdir()
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gmmatch "$@"\n')
    launcher.chmod(0o755)
    path = os.pathsep.join([str(launcher.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    script = "set -e\n" + "\n".join(blocks)
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "kept 200 of 2,000 rows" in done.stdout
