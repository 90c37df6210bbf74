"""One run: everything is done once, in an order in which nothing finished is lost."""

import errno
import html
import json
import re
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

import gmmatch
from gmmatch import run as runs
from gmmatch import trust, validation
from gmmatch.cli import app
from gmmatch.data import open_dataset


def run(words):
    return CliRunner().invoke(app, words.split())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with rows, labels, and photos of two kinds."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    codes = np.arange(120) % 2
    np.save("rows.npy", rng.normal(size=(120, 6)) + 3.0 * codes[:, None])
    np.save("labels.npy", codes)
    for row, code in enumerate(codes):
        pixels = rng.integers(0, 128, (6, 6, 3)) + 100 * code
        Path("photos").mkdir(exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(f"photos/{row:03}.png")
    Path("l.csv").write_text("label\n" + "\n".join("dark" if code == 0 else "light" for code in codes))
    return tmp_path


def calls(functions, work):
    """Return how often each function is called while `work` is done."""
    names = {function.__code__: name for name, function in functions.items()}
    found = Counter()

    def look(frame, event, _):
        if event == "call" and frame.f_code in names:
            found[names[frame.f_code]] += 1

    sys.setprofile(look)
    try:
        result = work()
    finally:
        sys.setprofile(None)
    return found, result


def data_of(page):
    """Return what a page shows."""
    text = Path(page).read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)[1])


WATCHED = {
    "judge": trust.judge,
    "open": open_dataset,
    "as_rows": validation.as_rows,
    "as_labels": validation.as_labels,
    "fingerprint": validation.fingerprint,
}


@pytest.mark.parametrize("more", ["", " --suspects wrong.csv", " --no-guard --suspects w.csv"])
def test_everything_is_done_once(folder, more):
    words = f"select photos/ --encoder pixels --labels l.csv --keep 10% --report r.html --json{more}"
    found, done = calls(WATCHED, lambda: run(words))
    assert done.exit_code == 0, done.output
    assert found == dict.fromkeys(WATCHED, 1)
    page = Path("r.html").read_text(encoding="utf-8")
    assert page.count('":"data:image/png;base64,') == 120


def test_the_report_of_a_saved_selection_judges_nothing(folder):
    select = "select rows.npy --labels labels.npy --keep 10% --report r.html"
    assert run(select).exit_code == 0
    found, done = calls(WATCHED, lambda: run("report kept.parquet rows.npy --labels labels.npy -o s.html"))
    assert done.exit_code == 0, done.output
    assert found == {"open": 1, "as_rows": 1, "as_labels": 1, "fingerprint": 1}
    here, saved = data_of("r.html"), data_of("s.html")
    for part in ("map", "galleries", "classes", "curve", "notes"):
        assert here[part] == saved[part]


def test_the_facts_are_the_same_everywhere(folder):
    done = run("select rows.npy --labels labels.npy --keep 10% --suspects s.parquet --json")
    printed = json.loads(done.stdout)
    stored = json.loads(pq.read_schema("kept.parquet").metadata[b"gmmatch"])
    loaded = gmmatch.load_selection("kept.parquet").info.as_dict()
    for name, value in printed.items():
        # The same rows give the same bytes, so that a file does not tell who wrote it, where and how fast.
        expected = None if name in ("seconds", "output") else value
        assert (stored[name], loaded[name]) == (expected, expected)
    assert printed["tiers"] == printed["guard"]["tiers"]
    known = "rows kept classes method objective epsilon seconds reads batches center engine versions bad_rows"
    assert {*known.split(), "output", "fingerprint"} <= set(printed)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--materialize there", "cannot write there: it exists already"),
        ("-o old.parquet", "cannot write old.parquet: it exists already; --overwrite replaces it"),
        ("--report old.html", "cannot write old.html: it exists already; --overwrite replaces it"),
        ("--suspects old.csv", "cannot write old.csv: it exists already; --overwrite replaces it"),
        ("-o rows.npy --overwrite", "rows.npy is the input"),
        ("-o x.csv --suspects x.csv", "two outputs have the same name"),
        ("--suspects none/x.csv", "there is no folder none"),
        ("--suspects x.txt", "must end in .parquet, .csv, .jsonl"),
    ],
)
def test_outputs_are_checked_before_any_work(folder, monkeypatch, words, sentence):
    Path("there").mkdir()
    for name in ("old.parquet", "old.html", "old.csv"):
        Path(name).write_text("mine")
    monkeypatch.setattr(runs, "look_at_all", None)
    started = time.perf_counter()
    done = run(f"select rows.npy --labels labels.npy --keep 10% {words}")
    assert done.exit_code in (2, 3)
    assert sentence in done.stderr
    assert time.perf_counter() - started < 1.0
    assert {Path(name).read_text() for name in ("old.parquet", "old.html", "old.csv")} == {"mine"}


def test_overwriting_has_to_be_asked_for(folder):
    assert run("select rows.npy --keep 10").exit_code == 0
    assert run("select rows.npy --keep 20").exit_code == 3
    assert len(gmmatch.load_selection("kept.parquet")) == 10
    assert run("select rows.npy --keep 20 --overwrite").exit_code == 0
    assert len(gmmatch.load_selection("kept.parquet")) == 20


def test_a_disk_that_fills_up_leaves_the_selection(folder, monkeypatch):
    write = Path.write_bytes

    def full(path, data):
        if ".html" in path.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    done = run("select rows.npy --labels labels.npy --keep 10% --report r.html --suspects s.csv")
    assert done.exit_code == 3
    assert "cannot write r.html: No space left on device; the selection is in kept.parquet" in done.stderr
    assert len(gmmatch.load_selection("kept.parquet")) == 12
    assert Path("s.csv").exists()
    assert not Path("r.html").exists()


def test_the_selection_is_written_first_and_the_state_removed_last(folder, monkeypatch):
    seen = []
    for name in ("write_selection", "write_suspects", "materialize_rows", "write_report_of"):
        monkeypatch.setattr(runs, name, lambda *given, name=name: seen.append(name))
    monkeypatch.setattr(runs.FileCheckpoint, "discard", lambda self: seen.append("discard"))
    words = "--report r.html --suspects s.csv --materialize kept"
    assert run(f"select rows.npy --labels labels.npy --keep 10% {words}").exit_code == 0
    assert seen == ["write_selection", "write_suspects", "materialize_rows", "write_report_of", "discard"]


def test_a_report_of_other_rows_is_refused_unless_forced(folder):
    rows = np.load("rows.npy")
    rows[0, 0] += 1.0
    np.save("other.npy", rows)
    assert run("select rows.npy --keep 10%").exit_code == 0
    done = run("report kept.parquet other.npy -o r.html")
    assert done.exit_code == 3
    assert "are not what the selection was made from" in done.stderr
    assert not Path("r.html").exists()
    assert run("report kept.parquet other.npy -o r.html --force").exit_code == 0
    assert run("report kept.parquet rows.npy --labels labels.npy -o s.html").exit_code == 0


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_suspects_have_a_command_of_their_own(folder, ending):
    done = run(f"suspects rows.npy --labels labels.npy -o wrong.{ending} --json")
    assert done.exit_code == 0, done.output
    expected = gmmatch.suspects(np.load("rows.npy"), np.load("labels.npy"))
    facts = json.loads(done.stdout)
    assert facts["suspect"] == expected.summary()["suspect"]
    assert expected.to_pandas()["row"].tolist() == expected.rows.tolist()
    if ending == "jsonl":
        lines = [json.loads(line) for line in Path("wrong.jsonl").read_text().splitlines()]
        assert [line["row"] for line in lines] == expected.rows.tolist()
    assert "seem wrong" in run(f"suspects rows.npy --labels labels.npy -o more.{ending}").stdout


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        ("", "auto"),
        ("--guard", "auto"),
        ("--guard auto", "auto"),
        ("--guard off", "off"),
        ("--no-guard", "off"),
        ("--method random", "off"),
        ("--method random --guard", "auto"),
    ],
)
def test_the_guard_is_named_or_stands_alone(folder, words, mode):
    done = run(f"select {words} rows.npy --keep 10% --json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["guard"]["mode"] == mode


@pytest.mark.parametrize(
    "more",
    [
        "",
        "--no-guard",
        "--labels labels.npy --param step=residual",
        "--labels labels.npy --param step=residual --param fourier_features=off --param batch_size=16",
    ],
)
def test_a_dry_run_counts_the_reads_that_happen(folder, more):
    planned = json.loads(run(f"select rows.npy --keep 10% {more} --dry-run --json").stdout)
    assert not Path("kept.parquet").exists()
    done = json.loads(run(f"select rows.npy --keep 10% {more} --json").stdout)
    assert planned["reads"] == done["reads"]
    assert planned["keep"] == done["kept"]


def test_a_dry_run_keeps_nothing_and_says_where_memory_is_short(folder, monkeypatch):
    monkeypatch.setattr("gmmatch.inputs.embed_input", None)
    done = run("select photos/ --encoder pixels --labels l.csv --keep 10% --dry-run")
    assert "would keep 12 of 120 rows of 108 numbers in 2 classes by gm-matching" in done.stdout
    assert "to encode 120 rows; nothing was written" in done.stdout
    short = run("select rows.npy --keep 10% --memory 1MB --param batch_size=16 --dry-run")
    assert "(more than --memory allows)" in short.stdout


def test_python_does_what_the_shell_does(folder):
    kept = gmmatch.select(
        "photos/",
        keep="10%",
        encoder="pixels",
        labels="l.csv",
        output="p.parquet",
        report="r.html",
        memory="1GB",
    )
    assert run("select photos/ --keep 10% --encoder pixels --labels l.csv --memory 1GB").exit_code == 0
    again = gmmatch.load_selection("kept.parquet")
    assert again.indices.tolist() == kept.indices.tolist()
    assert again.ids.tolist() == kept.ids.tolist()
    assert Path("r.html").exists()
    with pytest.raises(gmmatch.errors.InvalidInput, match=r"p\.parquet: it exists already"):
        gmmatch.select("photos/", keep="10%", encoder="pixels", output="p.parquet")


def test_labels_and_ids_of_an_array_may_be_files(folder):
    rows, labels = np.load("rows.npy"), np.load("labels.npy")
    np.save("ids.npy", np.arange(120) + 1000)
    found = gmmatch.select(rows, keep=10, labels="labels.npy", ids=Path("ids.npy"))
    assert found.indices.tolist() == gmmatch.select(rows, keep=10, labels=labels).indices.tolist()
    assert found.ids.tolist() == (found.indices + 1000).tolist()


@pytest.mark.parametrize(
    "more",
    [
        "--holdout test.npy --match-to wanted.npy --exclude out.npy",
        "--match-to wanted.npy=2 --match-to test.npy=1",
        "--probabilities sure.npy --fix 0.9",
        "--quality score.npy=0.5 --duplicates drop",
    ],
)
def test_the_python_on_the_page_names_the_files_of_the_command(folder, more):
    rows, codes = np.load("rows.npy"), np.load("labels.npy")
    np.save("test.npy", rows[:3] + 1e-6)
    np.save("wanted.npy", rows[20:40])
    np.save("score.npy", np.arange(120.0))
    np.save("sure.npy", 0.2 + 0.6 * np.eye(2)[codes])
    np.save("out.npy", [7, 9])
    done = run(f"select rows.npy --labels labels.npy --keep 12 {more} -o kept.parquet --report page.html")
    assert done.exit_code == 0, done.output
    python = html.unescape(re.search(r"gmmatch\.select\(.*?</code>", Path("page.html").read_text())[0])
    again = eval(python.removesuffix("</code>"), {"gmmatch": gmmatch})
    assert again.indices.tolist() == gmmatch.load_selection("kept.parquet").indices.tolist()
