"""`gmmatch suspects`: files, the summary in words and as JSON, and labels with suggestions in place."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli import app


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with rows of two classes, six labels wrong, and two copies of a row."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = np.repeat(["cat", "dog, big"], 100)
    rows = rng.normal(size=(200, 8)) + 3.0 * (labels == "dog, big")[:, None]
    rows[[150, 151]] = rows[152]
    labels[:6] = "dog, big"
    np.save("rows.npy", rows)
    np.save("labels.npy", labels)
    return tmp_path


def run(words):
    return CliRunner().invoke(app, ["suspects", "rows.npy", "--labels", "labels.npy", *words.split()])


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_labels_are_fixed_and_fed_back(folder, ending):
    done = run(f"-o wrong.{ending} --fix better.{ending} --above 0.9 --json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert {change["row"] for change in told["fixed"]["changes"]} == set(range(6))
    assert {(change["from"], change["to"]) for change in told["fixed"]["changes"]} == {("dog, big", "cat")}
    given = np.load("labels.npy")
    again = gmmatch.open("rows.npy", labels=f"better.{ending}")
    assert np.flatnonzero(again.labels != given).tolist() == list(range(6))
    assert told["duplicates"] == {"rows": 2, "share": 0.01, "groups": 1}
    low, high = told["wrong_labels"]["interval"]
    assert low <= 6 / 198 + 1e-9  # copies count once
    assert high >= 6 / 198 - 1e-9
    assert set(told["wrong_labels"]["by_class"]) == {"cat", "dog, big"}


def test_what_was_changed_is_said_in_words(folder):
    done = run("-o wrong.parquet --fix better.csv --above 0.9")
    assert "6 by their label" in done.stdout
    assert "2 are near-duplicates of others" in done.stdout
    assert "of the labels are wrong (" in done.stdout
    assert len(done.stdout.splitlines()) == 4  # a line for each thing told
    assert "\\n" not in done.stdout
    assert "Changed 6 labels, by suggestions of 0.9 or more ('dog, big' to 'cat': 6)" in done.stdout
    assert len(done.stdout.splitlines()) == 4
    table = pq.read_table("wrong.parquet").to_pydict()
    assert set(table["row"][:6]) == set(range(6))
    assert table["suggested"][:7] == ["cat"] * 6 + [None]
    assert table["keep"][table["row"].index(152)] == 150


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("-o w.csv --fix better.npy", 2, "the fixed labels must end in .parquet, .csv, .jsonl"),
        ("-o w.csv --fix rows.npy", 2, "rows.npy is the input; name another file"),
        ("-o w.csv --fix b.csv --above 1.5", 2, "above must be a probability from 0 to 1; got 1.5"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(folder, words, status, said):
    done = run(words)
    assert done.exit_code == status
    assert said in done.stderr
    assert not (folder / "w.csv").exists()


def test_labels_that_were_not_judged_are_no_right_labels(folder):
    np.save("labels.npy", np.arange(len(np.load("rows.npy"))) // 2)
    done = run("-o wrong.parquet")
    assert (
        done.stdout.splitlines()[1]
        == "How many labels are wrong cannot be told: the rows say little about them"
    )
