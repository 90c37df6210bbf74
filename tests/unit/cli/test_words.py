"""The command line has the words of Python."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli.commands import app, load_command

ELSEWHERE = {"data", "random_state", "state", "method_params", "options", "former"}


def run(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.output


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    codes = np.arange(120) % 3
    np.save("x.npy", rng.normal(size=(120, 4)) + 3.0 * np.eye(3, 4)[codes])
    np.save("y.npy", np.array(["a", "b", "c"])[codes])
    for name in ("month", "source", "user"):
        np.save(f"{name}.npy", np.arange(120) // (7 if name == "user" else 3) % (40 if name == "user" else 2))
    return tmp_path


@pytest.mark.parametrize(
    ("command", "functions"),
    [("select", (gmmatch.select, gmmatch.open)), ("suspects", (gmmatch.suspects, gmmatch.open))],
)
def test_every_parameter_is_an_option_of_the_same_name(command, functions):
    told = {option.name for option in load_command(command).params}
    asked = {name for function in functions for name in inspect.signature(function).parameters}
    assert asked - ELSEWHERE <= told


def test_rows_that_belong_together_are_read_from_a_file(files):
    names = "select", "x.npy", "--labels", "y.npy", "--keep", 30, "--groups", "user.npy"
    assert run(*names, "-o", "kept.parquet")[0] == 0
    data = gmmatch.open("x.npy", "y.npy", groups="user.npy")
    found = gmmatch.load_selection("kept.parquet")
    assert found.indices.tolist() == gmmatch.select(data, keep=30).indices.tolist()
    words = "suspects", "x.npy", "--labels", "y.npy", "--groups", "user.npy", "-o", "found.jsonl"
    assert run(*words, "--engine", "processes", "--workers", 2)[0] == 0
    rows = [json.loads(line)["row"] for line in (files / "found.jsonl").read_text().splitlines()]
    assert rows == gmmatch.suspects(data).rows.tolist()


def test_columns_of_strata_may_be_named_one_by_one(files):
    words = "select", "x.npy", "--labels", "y.npy", "--keep", 30
    table = "source.npy", "month.npy"
    assert run(*words, "--strata", table[0], "--strata", table[1], "-o", "one.parquet")[0] == 0
    assert run(*words, "--strata", ",".join(table), "-o", "two.parquet")[0] == 0
    one, two = (gmmatch.load_selection(f"{name}.parquet") for name in ("one", "two"))
    assert one.info.aims["strata"]["columns"] == list(table)
    assert one.indices.tolist() == two.indices.tolist()


def test_a_task_that_is_not_done_says_what_to_do(files):
    code, said = run("select", "x.npy", "--labels", "y.npy", "--keep", 30, "--task", "regression")
    assert code == 2
    assert "pandas.qcut" in said
    assert run("select", "x.npy", "--labels", "y.npy", "--keep", 30, "--task", "classification")[0] == 0


def test_a_folder_that_is_missing_is_told_by_the_output(files):
    code, said = run("select", "x.npy", "--labels", "y.npy", "--keep", 30, "-o", "nowhere/kept.csv")
    assert (code, said) == (3, "gmmatch: cannot write nowhere/kept.csv: there is no folder nowhere\n")


def test_labels_are_corrected_for_every_method_and_need_to_be_there(files):
    labels = np.load("y.npy")
    labels[:12] = "c"
    for asked in ({"method": "random"}, {"guard": "off"}, {}):
        found = gmmatch.select("x.npy", labels, keep=1.0, fix=0.9, **asked)
        assert np.count_nonzero(found.labels != found.given_labels) >= 6
    code, said = run("select", "x.npy", "--keep", 30, "--fix", "0.9")
    assert code == 3
    assert "--fix is about labels, and x.npy has none; name them: --labels" in said
    with pytest.raises(gmmatch.errors.InvalidParameter, match="fix must be a probability"):
        gmmatch.select("x.npy", labels, fix=True)
