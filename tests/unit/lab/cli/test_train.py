from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from gmmatch.cli.lab.train import train
from gmmatch.errors import InvalidInput, InvalidParameter
from gmmatch.lab import training
from gmmatch.records import Selection


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    images = rng.integers(0, 80, (60, 12, 12))
    images[labels == 1, ::2] += 150
    np.save("images.npy", images[:40].astype(np.uint8))
    np.save("labels.npy", np.array(["dull", "striped"])[labels[:40]])
    np.savez(
        "test.npz", images=images[40:].astype(np.uint8), labels=np.array(["dull", "striped"])[labels[40:]]
    )
    return tmp_path


COMMON = ["--epochs", "6", "--batch-size", "10", "--recipe", "cpu-plain", "--device", "cpu"]


def _run(*arguments: str):
    app = typer.Typer()
    app.command()(train)
    return CliRunner().invoke(app, [*arguments])


def _facts(*arguments: str) -> dict:
    shown = _run(*arguments, "--json")
    assert shown.exit_code == 0, shown.output or shown.exception
    return json.loads(shown.stdout)


def test_train_writes_a_network_and_tells_its_accuracy(files: Path) -> None:
    facts = _facts("images.npy", "--labels", "labels.npy", "--test", "test.npz", "-o", "net.pt", *COMMON)
    assert (facts["rows"], facts["classes"], facts["epochs"], facts["test_rows"]) == (40, 2, 6, 20)
    assert facts["test_accuracy"] >= 0.9
    loaded = training.load_checkpoint("net.pt")
    assert loaded.labels == ("dull", "striped")
    test_images, test_labels = training.read_images("test.npz")
    answers = np.array(loaded.labels)[training.predict(loaded.network, test_images, device="cpu").argmax(1)]
    assert (answers == test_labels).mean() == facts["test_accuracy"]


def test_resume_reads_a_finished_run(files: Path) -> None:
    first = _facts("images.npy", "--labels", "labels.npy", *COMMON)
    second = _facts("images.npy", "--labels", "labels.npy", "--resume", *COMMON)
    assert first == second


def test_a_selection_limits_the_rows_and_a_checkpoint_can_be_fine_tuned(files: Path) -> None:
    kept = np.arange(0, 40, 3)
    Selection(
        indices=kept,
        scores=np.zeros(14),
        distances=np.zeros(14),
        objective=0.0,
        method="random",
        params={},
        n_rows=40,
    ).save("kept.parquet")
    facts = _facts("images.npy", "--labels", "labels.npy", "--rows", "kept.parquet", "-o", "a.pt", *COMMON)
    assert facts["rows"] == 14
    tuned = _facts(
        "images.npy",
        "--labels",
        "labels.npy",
        "--from",
        "a.pt",
        "-o",
        "b.pt",
        "--epochs",
        "1",
        "--device",
        "cpu",
    )
    assert tuned["recipe"] == "fine-tune"
    before, after = training.load_checkpoint("a.pt").network, training.load_checkpoint("b.pt").network
    assert np.allclose(before.mean, after.mean)
    shown = _run("images.npy", "--labels", "labels.npy", "--device", "cpu", "--epochs", "1")
    assert "trained resnet8 on 40 images in 2 classes for 1 epoch " in shown.output


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["images.npy"], InvalidInput, "images.npy holds no labels; name them with --labels"),
        (
            ["images.npy", "--labels", "labels.npy", "--network", "vgg"],
            InvalidParameter,
            "did you mean 'vgg16'",
        ),
        (["test.npz", "--test", "images.npy"], InvalidInput, "holds no labels; name them with --test-labels"),
        (["test.npz", "--rows", "small.parquet"], InvalidInput, "selection from 3 rows; there are 20 images"),
        (["test.npz", "--from", "net.pt", "--network", "vgg16"], InvalidParameter, "net.pt holds a resnet8"),
        (["test.npz", "--test", "other.npz"], InvalidInput, "test labels have a class 'odd'"),
    ],
)
def test_wrong_usage_is_explained(files: Path, arguments: list[str], error: type, message: str) -> None:
    Selection(
        indices=np.array([0]),
        scores=np.zeros(1),
        distances=np.zeros(1),
        objective=0.0,
        method="random",
        params={},
        n_rows=3,
    ).save("small.parquet")
    training.save_checkpoint("net.pt", training.build_network("resnet8", classes=2, channels=1))
    np.savez("other.npz", images=np.zeros((1, 12, 12), np.uint8), labels=np.array(["odd"]))
    shown = _run(*arguments)
    assert isinstance(shown.exception, error)
    assert message in str(shown.exception)
