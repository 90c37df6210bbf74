import json
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli import app
from gmmatch.selectors import METHODS


def run(*words, cwd):
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "gmmatch", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(300, 8)).astype(np.float32), rng.integers(0, 3, 300)
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "labels.npy", labels)
    return tmp_path, rows, labels


def test_select_writes_what_python_selects(files):
    folder, rows, labels = files
    words = "select rows.npy --keep 10% --labels labels.npy -o kept.parquet --json"
    done = run(*words.split(), cwd=folder)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert set(facts) >= {
        "rows",
        "kept",
        "classes",
        "method",
        "objective",
        "epsilon",
        "seconds",
        "output",
    }
    assert (facts["rows"], facts["kept"], facts["classes"]) == (300, 30, 3)
    assert done.stderr == ""
    kept = gmmatch.load_selection(folder / "kept.parquet")
    expected = gmmatch.select(rows, keep=0.1, labels=labels)
    assert kept.indices.tolist() == expected.indices.tolist()
    assert facts["objective"] == expected.objective


def test_select_speaks_in_words_without_json(files):
    folder, *_ = files
    done = run("select", "rows.npy", "--keep", "7", "--method", "random", "--seed", "4", cwd=folder)
    assert done.returncode == 0
    assert "kept 7 of 300 rows by random" in done.stdout
    assert (folder / "kept.parquet").exists()


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["missing.npy", "--keep", "10%"], 3, "there is no file missing.npy"),
        (["text.npy", "--keep", "10%"], 3, "text.npy is not a readable .npy file"),
        (["pickle.npy", "--keep", "10%"], 3, "pickle.npy is not a readable .npy file"),
        (["nan.npy", "--keep", "10%"], 3, "in 2 rows (first: 0, 5)"),
        (["rows.npy", "--keep", "301"], 3, "keep asks for 301 rows, but there are only 300"),
        (["rows.npy", "--keep", "10%", "--labels", "short.npy"], 3, "2 entries for 300 rows"),
        (["rows.npy", "--keep", "2", "--labels", "labels.npy"], 3, "2 rows for 3 classes"),
        (["rows.npy", "--keep", "150%"], 2, "got 1.5"),
        (["rows.npy", "--keep", "0"], 2, "got 0"),
        (["rows.npy", "--keep=-3"], 2, "got -3"),
        (["rows.npy", "--keep", "many"], 2, "got 'many'"),
        (["rows.npy", "--keep", "10%", "--method", "rnadom"], 2, "did you mean 'random'?"),
        (["rows.npy", "--keep", "10%", "--param", "stp=residual"], 2, "did you mean 'step'?"),
        (["rows.npy", "--keep", "10%", "--param", "step"], 2, "--param takes KEY=VALUE"),
        (["rows.npy"], 2, "--keep"),
        (["rows.npy", "--keep", "10%", "-o", "none/kept.parquet"], 3, "cannot write none/kept.parquet"),
    ],
)
def test_mistakes_get_a_sentence_an_exit_code_and_no_file(files, words, code, sentence, monkeypatch):
    folder, rows, _ = files
    (folder / "text.npy").write_text("hello")
    np.save(folder / "pickle.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    bad = rows.copy()
    bad[[0, 5], 1] = np.nan
    np.save(folder / "nan.npy", bad)
    np.save(folder / "short.npy", np.array([0, 1]))
    before = sorted(folder.iterdir())
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, ["select", *words])
    assert done.exit_code == code, done.stderr
    assert sentence in done.stderr
    assert done.stdout == ""
    assert sorted(folder.iterdir()) == before


def test_a_mistake_shows_no_traceback(tmp_path):
    done = run("select", "missing.npy", "--keep", "10%", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (3, "gmmatch: there is no file missing.npy\n")


def test_methods_lists_every_method():
    done = CliRunner().invoke(app, ["methods"])
    assert done.exit_code == 0
    for name in gmmatch.methods():
        assert name in done.stdout


def test_help_shows_examples():
    assert "gmmatch select embeddings.npy" in CliRunner().invoke(app, ["select", "--help"]).stdout
    assert gmmatch.__version__ in CliRunner().invoke(app, ["--version"]).stdout


def test_the_demo_does_the_main_job(tmp_path):
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = {
        line.split()[0]: [float(entry.rstrip("%")) for entry in line.split()[1:3]]
        for line in done.stdout.splitlines()
        if line.split() and line.split()[0] in gmmatch.methods()
    }
    on_rows_alone = {name for name, method in METHODS.items() if method.needs_rows_only}
    assert set(table) == on_rows_alone
    assert set(gmmatch.methods()) - on_rows_alone == {
        "top-scores",
        "forgetting",
        "el2n",
        "grand",
        "optimization",
    }
    assert max(table, key=lambda name: table[name][0]) == "gm-matching"
    # Damaged images under a right label are hard to tell from good ones; wrong labels hardly come through.
    assert table["gm-matching"][1] < 0.4 * table["random"][1]
    assert len(gmmatch.load_selection(tmp_path / "out/demo/kept.parquet")) == 135
    assert (tmp_path / "out/demo/kept.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert done.stdout.splitlines()[-1] == "wrote out/demo/report.html: open it in a browser"
    page = (tmp_path / "out/demo/report.html").read_text(encoding="utf-8")
    assert page.count('":"data:image/png;base64,') == 1347


def test_suspects_are_written_with_reasons(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = np.repeat(["cat", "dog"], 200)
    rows = rng.normal(size=(400, 16)) + 3.0 * (labels == "dog")[:, None]
    labels[:20] = "dog"
    np.save("rows.npy", rows)
    np.save("labels.npy", labels)
    words = "select rows.npy --labels labels.npy --keep 10% --suspects wrong.csv --all-rows --json"
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert 15 <= facts["suspects"]["suspect"] <= 40
    lines = (tmp_path / "wrong.csv").read_text().splitlines()
    assert len(lines) == 401
    first = {line.split(",")[1] for line in lines[1:21]}
    assert len(first & {str(row) for row in range(20)}) >= 18
    table = pq.read_table("kept.parquet")
    tiers = table["tier"].to_numpy()
    assert (tiers[:20] > 0).mean() >= 0.9
    kept = np.flatnonzero(table["kept"].to_numpy())
    assert (tiers[kept] == 0).all()
    refused = CliRunner().invoke(
        app, ["select", "rows.npy", "--keep", "10%", "-o", "k.csv", "--suspects", "w.csv"]
    )
    assert refused.exit_code == 3
    assert "suspects need labels" in refused.stderr


def test_suspects_leave_out_the_rows_that_were_dropped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(400, 16)), np.repeat(["cat", "dog"], 200)
    rows[5, 3] = np.nan
    np.save("rows.npy", rows)
    np.save("labels.npy", labels)
    words = "select rows.npy --labels labels.npy --keep 10% --suspects wrong.parquet --on-bad-rows drop"
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 0, done.stderr
    judged = np.sort(pq.read_table("wrong.parquet")["row"].to_numpy())
    np.testing.assert_array_equal(judged, np.delete(np.arange(400), 5))
