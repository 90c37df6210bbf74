import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gmmatch.cli import app
from gmmatch.lab.experiments.grid_cells import groups_of
from gmmatch.lab.experiments.specs import PAPER_METHODS, load_spec, spec_names


def command(*words):
    return [sys.executable, "-m", "gmmatch", "reproduce", *map(str, words)]


def run(*words):
    done = subprocess.run(command(*words, "--json"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def invoke(*words):
    return CliRunner().invoke(app, ["reproduce", *map(str, words)])


def without_time(folder):
    """Return the results of a run by file name, without what differs from run to run."""
    found = {}
    for file in (folder / "cells").iterdir():
        record = json.loads(file.read_text())
        found[file.name] = {name: value for name, value in record.items() if name not in ("seconds", "date")}
    return found


def alive(pid):
    """Tell whether a process runs; a dead one that nobody has waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.slow
def test_killed_and_run_again_it_finishes_only_what_was_missing(tmp_path):
    cells = tmp_path / "label-noise-smoke" / "cells"
    words = ("label-noise", "--scale", "smoke", "-o", tmp_path, "--workers", 1)
    with subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 300
        while not cells.is_dir() or len(list(cells.glob("*.json"))) < 5:
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    before = {file: file.read_bytes() for file in cells.glob("*.json")}
    total = sum(grid.size for grid in load_spec("label-noise").grids["smoke"])
    assert 5 <= len(before) < total

    facts = run(*words)
    assert facts["cells"] == total
    assert facts["new"] == total - len(before)
    assert {file: file.read_bytes() for file in before} == before
    assert {entry["method"] for entry in facts["results"]} == set(PAPER_METHODS)
    assert {entry["seeds"] for entry in facts["results"]} == {2}

    mean = {
        (entry["scenario"], entry["method"], entry["keep"]): entry["accuracy"] for entry in facts["results"]
    }
    for scenario in ("labels-20", "labels-35"):
        assert mean[scenario, "gm-matching", 0.05] > mean[scenario, "random", 0.05] + 8
    endings = {os.path.splitext(file)[1] for file in facts["files"]}
    assert endings >= {".md", ".csv", ".tex", ".png"}
    assert all(os.path.getsize(file) for file in facts["files"])
    with open(next(file for file in facts["files"] if file.endswith("label-noise.csv"))) as stream:
        assert {line["method"] for line in csv.DictReader(stream)} == set(PAPER_METHODS)


@pytest.mark.slow
def test_parallel_and_serial_runs_give_the_same_records(tmp_path):
    for workers in (1, 2):
        facts = run("cifar10", "-o", tmp_path / str(workers), "--workers", workers)
        assert facts["new"] == facts["cells"]
    serial, parallel = (without_time(tmp_path / str(workers) / "cifar10-smoke") for workers in (1, 2))
    assert serial == parallel
    assert run("cifar10", "-o", tmp_path / "1", "--tables-only")["new"] == 0
    grids = load_spec("cifar10").grids["smoke"]
    assert len(serial) == sum(len(list(group.cells())) for group in groups_of(grids))
    record = next(iter(serial.values()))
    assert {"gmmatch", "numpy", "python"} <= set(record["versions"])
    assert record["recipe"]["settings"]["proxy"] == "pixels"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes in /proc")
@pytest.mark.slow
def test_workers_end_with_a_killed_parent(tmp_path):
    words = ("label-noise", "-o", tmp_path, "--workers", 2)
    cells = tmp_path / "label-noise-smoke" / "cells"
    with subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 300
        while not cells.is_dir() or not any(cells.glob("*.json")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(signal.SIGKILL)
    assert len(children) >= 2
    deadline = time.monotonic() + 60
    while any(alive(child) for child in children):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.05)


@pytest.mark.slow
def test_attacks_and_networks_run_at_smoke_scale(tmp_path):
    pytest.importorskip("torch")
    facts = run("network-transfer", "-o", tmp_path, "--workers", 1)
    assert facts["cells"] == 4
    assert {entry["target"] for entry in facts["results"]} == {"shufflenetv2"}


def test_the_list_names_every_table_with_its_scales():
    listed = json.loads(invoke("--list", "--json").stdout)
    names = [entry["name"] for entry in listed]
    assert names[:4] == ["clean", "image-corruption", "label-noise", "attacks"]
    assert {"toy", "convergence", "network-transfer", "domain-transfer", "linear-probe"} <= set(names)
    assert all(entry["about"] for entry in listed)
    assert "label-noise" in invoke("--list").stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "name a table or figure"),
        (("label-nose",), 2, "did you mean 'label-noise'"),
        (("label-noise", "--scale", "huge"), 2, "--scale must be"),
        (("cifar10", "--scale", "paper"), 2, "has the scales smoke, cpu"),
        (("clean", "--scale", "paper", "--data", "{tmp}"), 3, "cifar100 is missing"),
        (("clean", "--scale", "paper", "--data", "{tmp}/none"), 3, "there is no folder"),
        (("cifar10", "-o", "{tmp}/file/x"), 3, "cannot write to"),
        (("cifar10", "--tables-only"), 3, "there are no results"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(words, code, message, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    given = [word.replace("{tmp}", str(tmp_path)) for word in words]
    if "-o" not in given:
        given += ["-o", str(tmp_path / "out")]
    done = invoke(*given, "--workers", 1)
    assert done.exit_code == code, done.output
    assert message in done.output
    assert "Traceback" not in done.output


@pytest.mark.slow
@pytest.mark.parametrize("name", spec_names())
def test_every_table_and_figure_is_made_at_smoke_scale(name, tmp_path):
    pytest.importorskip("torch")
    facts = run(name, "-o", tmp_path, "--workers", 1, "--device", "cpu")
    assert facts["cells"] == sum(grid.size for grid in load_spec(name).grids.get("smoke", ()))
    assert all(os.path.getsize(file) for file in facts["files"])
    page = next(file for file in facts["files"] if file.endswith(".md"))
    text = Path(page).read_text()
    assert f"gmmatch reproduce {name} --scale smoke" in text
    assert "commit" in text
    assert "(../deviations.md)" in text


def test_a_part_of_a_table_is_run_and_the_rest_is_left(tmp_path):
    words = ("cifar10", "-o", tmp_path, "--workers", 1, "--keep", "5%", "--methods", "random,easy")
    facts = json.loads(invoke(*words, "--json").stdout)
    assert {(entry["method"], entry["keep"]) for entry in facts["results"]} == {
        ("random", 0.05),
        ("easy", 0.05),
    }
    left = json.loads(invoke("cifar10", "-o", tmp_path, "--dry-run", "--json").stdout)
    total = sum(grid.size for grid in load_spec("cifar10").grids["smoke"])
    assert left == {"cells": total - facts["cells"], "trainings": 0, "hours": 0.0}
    assert "has the methods random, easy" in invoke("cifar10", "--methods", "esay").output
    assert "has the datasets digits" in invoke("cifar10", "--datasets", "cifar10").output


def test_a_dry_run_counts_trainings_once_and_times_a_step(tmp_path):
    pytest.importorskip("torch")
    words = (
        "clean",
        "--scale",
        "cpu",
        "--seeds",
        1,
        "--keep",
        "5%,100%",
        "--methods",
        "random,easy,moderate",
    )
    found = json.loads(invoke(*words, "-o", tmp_path, "--workers", 1, "--dry-run", "--json").stdout)
    # A proxy, three subsets, and all rows once.
    assert (found["cells"], found["trainings"]) == (6, 5)
    assert 1e-4 < found["hours"] < 1
    assert not (tmp_path / "clean-cpu").exists()
    assert "hours of training" in invoke(*words, "-o", tmp_path, "--workers", 1, "--dry-run").stdout


@pytest.mark.slow
def test_two_pretended_devices_give_what_one_gives(tmp_path):
    pytest.importorskip("torch")
    words = ("fashion-mnist", "--methods", "random,gm-matching")
    run(*words, "-o", tmp_path / "two", "--device", "cpu:0,cpu:1")
    run(*words, "-o", tmp_path / "one", "--device", "cpu", "--workers", 1)
    two, one = (without_time(tmp_path / name / "fashion-mnist-smoke") for name in ("two", "one"))
    assert two == one


def tiny_cifar100(folder, rows):
    """Write a few random images in CIFAR-100's official binary format."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in ("train.bin", "test.bin"):
        labels = 99 * (np.arange(rows)[:, None] % 2)
        records = np.hstack([labels // 5, labels, rng.integers(0, 256, (rows, 3072), dtype=np.uint8)])
        (folder / name).write_bytes(records.astype(np.uint8).tobytes())


@pytest.mark.slow
def test_a_killed_run_at_paper_scale_goes_on_inside_a_training(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    from gmmatch.lab.training import load_checkpoint, loop

    tiny_cifar100(tmp_path / "data" / "cifar-100-binary", 10)
    out = tmp_path / "out"
    words = (
        "clean", "--scale", "paper", "--data", tmp_path / "data", "-o", out, "--datasets", "cifar100",
        "--methods", "random", "--keep", "20%", "--seeds", 1, "--epochs", 6, "--workers", 1,
        "--device", "cpu",
    )  # fmt: skip

    def kill_after_an_epoch(pattern):
        with subprocess.Popen(
            command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            deadline = time.monotonic() + 900
            while not list(out.glob(pattern)):
                assert process.poll() is None, "it ended before it could be killed"
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
        return len(load_checkpoint(next(out.glob(pattern))).metadata["losses"])

    assert 1 <= kill_after_an_epoch("cache/proxies/*.pt") < 6
    done = kill_after_an_epoch("cache/trained/*.pt")
    assert 1 <= done < 6

    epochs = []
    run_epoch = loop._State.run_epoch
    monkeypatch.setattr(
        loop._State, "run_epoch", lambda self, *rest: (epochs.append(1), run_epoch(self, *rest))
    )
    finished = invoke(*words, "--json")
    assert finished.exit_code == 0, finished.output
    assert len(epochs) == 6 - done
    assert not list(out.glob("cache/trained/*.pt"))
    assert json.loads(finished.stdout)["cells"] == 1
