"""What make would hand to the shell is whole: a comma in the wrong place cuts a command in two."""

import importlib.util
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


def test_lines_of_code_stay_lines_on_the_site() -> None:
    spec = importlib.util.spec_from_file_location("site_hook", ROOT / "tools" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    site = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(site)
    lines = "<pre><span></span><code>gmmatch --keep 10%\ngmmatch --keep 5%\n</code></pre>"
    assert site.on_page_content(lines, None, None, None) == lines
    words = site.on_page_content("<p><code>--keep 10%</code></p>", None, None, None)
    assert words == '<p><code><span class="whole">--keep</span> <span class="whole">10%</span></code></p>'
