"""The scripts and notebooks of examples/ run, and do what they say."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
import pytest

from tests.docs.pages import ROOT

EXAMPLES = ROOT / "examples"
NEEDS = {
    "torch_dataloader": ["torch"],
    "huggingface_trainer": ["datasets", "transformers", "accelerate"],
    "sklearn_pipeline": ["imblearn"],
    "ray_data": ["ray"],
    "finetuning_texts": ["wordllama"],
}
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
# The scripts that the tutorials run.
TUTORIALS = {
    "make_photos", "make_texts", "make_instructions", "make_embeddings", "check_truth", "contact_sheet",
}  # fmt: skip


def run(script: str, folder: Path) -> str:
    """Run a script in a folder, as a user would, and return what it printed."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{script}.py")],
        cwd=folder,
        env=os.environ | {"GMMATCH_CACHE": str(folder / "cache"), "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_script_is_known_here_and_on_its_page() -> None:
    scripts = {path.stem for path in EXAMPLES.glob("*.py")}
    assert scripts == NEEDS.keys() | TUTORIALS
    page = (ROOT / "docs" / "start" / "examples.md").read_text("utf-8")
    assert all(path.name in page for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("script", NEEDS)
def test_scripts_run(script: str, tmp_path: Path) -> None:
    for module in NEEDS[script]:
        pytest.importorskip(module)
    said = run(script, tmp_path)
    shares = [float(found) for found in re.findall(r"accuracy ([\d.]+)%", said)]
    if script in ("torch_dataloader", "sklearn_pipeline"):
        assert shares[1] > shares[0]
    elif script == "huggingface_trainer":
        assert shares[0] > 80
    elif script == "ray_data":
        assert "100 rows of the Ray dataset, 100 picks" in said
    else:
        assert re.search(r"of the copied line: [0-2], nonsense: \d+\n", said)


def assert_alike(printed: str, saved: str) -> None:
    """Two texts have the same words, and numbers that differ by no more than a version may make them."""
    number = r"\d[\d,]*(?:\.\d+)?"
    assert re.sub(number, "#", printed) == re.sub(number, "#", saved)
    found, held = (re.findall(number, text.replace(",", "")) for text in (printed, saved))
    assert [*map(float, found)] == pytest.approx([*map(float, held)], abs=2)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_and_print_what_they_hold(
    notebook: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    if notebook.stem == "texts":
        pytest.importorskip("wordllama")
    monkeypatch.chdir(ROOT)  # and back, at the end
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    names: dict[str, Any] = {"__name__": "__main__"}
    read = json.loads(notebook.read_text("utf-8"))
    assert (read["nbformat"], read["metadata"]["kernelspec"]["language"]) == (4, "python")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plt, "show", lambda: None)
        for cell in read["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), f"{notebook.name}: {cell['id']}", "exec"), names)
                saved = [output for output in cell["outputs"] if output["output_type"] == "stream"]
                assert_alike(capsys.readouterr().out, "".join(saved[0]["text"]) if saved else "")
    outputs = [output for cell in read["cells"] for output in cell.get("outputs", ())]
    shown = {kind for output in outputs for kind in output.get("data", ())}
    assert {"text/html", "image/png"} <= shown
    plt.close("all")


@pytest.mark.slow
def test_figures_are_made_by_their_command(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "docs" / "figures.py"), str(tmp_path)]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": str(ROOT / "src")})
    made = {path.name for path in tmp_path.iterdir()}
    shown = {path.name for path in (ROOT / "docs" / "img").iterdir()}
    assert "architecture.png" in made
    assert made <= shown
