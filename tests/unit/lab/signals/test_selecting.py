"""Selecting by a training run: `gmmatch.select` against the signals' own functions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import gmmatch
from gmmatch.cli import app
from gmmatch.errors import InvalidInput, InvalidParameter, MissingExtra
from gmmatch.lab import signals, training
from gmmatch.lab.signals import selecting
from gmmatch.lab.training.config import as_config
from gmmatch.matching.budgets import class_budgets

N_ROWS = 60
LABELS = np.array(["down", "none", "across"])[np.arange(N_ROWS) % 3]
CONFIG = training.TrainConfig(recipe="cpu-plain", epochs=2, batch_size=30, device="cpu")


def _embeddings() -> np.ndarray:
    rng = np.random.default_rng(3)
    centers = np.unique(LABELS, return_inverse=True)[1][:, None]
    return rng.normal(size=(N_ROWS, 7)) + 2.0 * centers


def _images() -> np.ndarray:
    images = np.random.default_rng(4).integers(0, 80, (N_ROWS, 12, 12))
    images[LABELS == "across", ::2] += 150
    images[LABELS == "down", :, ::2] += 150
    return images.astype(np.uint8)


ROWS, IMAGES = _embeddings(), _images()


@pytest.mark.parametrize(
    ("method", "images"),
    [("forgetting", None), ("el2n", None), ("grand", None), ("forgetting", IMAGES), ("el2n", IMAGES)],
)
def test_picks_are_the_top_scores_of_the_signal(method: str, images: np.ndarray | None) -> None:
    config = None if images is None else CONFIG
    found = gmmatch.select(
        ROWS, keep=0.3, labels=LABELS, method=method, random_state=11, images=images, train_config=config
    )
    scores = signals.score_rows(method, ROWS if images is None else images, LABELS, config, seed=11)
    expected = gmmatch.select(ROWS, keep=0.3, labels=LABELS, method="top-scores", scores=scores)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.scores, scores[found.indices])
    np.testing.assert_array_equal(found.params["scores"], scores)
    assert found.info.training["network"] == ("linear" if images is None else "resnet8")


@pytest.mark.parametrize("images", [None, IMAGES], ids=["embeddings", "images"])
def test_optimization_solves_the_program_in_each_class(images: np.ndarray | None) -> None:
    config = None if images is None else CONFIG
    found = gmmatch.select(
        ROWS,
        keep=20,
        labels=LABELS,
        method="optimization",
        random_state=11,
        images=images,
        train_config=config,
    )
    influence = signals.influence_of_rows(ROWS if images is None else images, LABELS, config, seed=11)
    names, sizes = np.unique(LABELS, return_counts=True)
    for name, budget in zip(names, class_budgets(sizes, 20), strict=True):
        members = np.flatnonzero(name == LABELS)
        expected = signals.keep_least_change(influence.vectors[members], int(budget)).indices
        np.testing.assert_array_equal(found.indices[found.labels == name], members[expected])
    np.testing.assert_allclose(found.scores, influence.scores[found.indices])


def test_without_classes_the_program_is_solved_for_all_rows_together() -> None:
    found = gmmatch.select(ROWS, keep=20, labels=LABELS, method="optimization", by_class=False)
    vectors = signals.influence_of_rows(ROWS, LABELS).vectors
    np.testing.assert_array_equal(found.indices, signals.keep_least_change(vectors, 20).indices)


def test_a_given_signal_needs_neither_labels_nor_a_training_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "score_rows", None)
    scores = np.arange(N_ROWS, dtype=float)
    kept = gmmatch.select(ROWS, keep=2, method="el2n", scores=scores)
    assert kept.indices.tolist() == [N_ROWS - 1, N_ROWS - 2]
    with pytest.raises(InvalidInput, match=r"influence has 3 vectors for 60 rows"):
        gmmatch.select(ROWS, keep=2, method="optimization", influence=np.ones((3, 2)))


def test_el2n_of_embeddings_finds_the_wrong_label() -> None:
    labels = LABELS.copy()
    labels[4], labels[9] = "across", "none"
    kept = gmmatch.select(ROWS, keep=2, labels=labels, method="el2n", by_class=False)
    assert set(kept.indices) == {4, 9}


def test_the_seed_of_the_training_run_is_the_random_state() -> None:
    first, again, other = (
        gmmatch.select(ROWS, keep=0.3, labels=LABELS, method="el2n", random_state=seed).params["scores"]
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_bad_rows_are_left_out_of_the_training_run() -> None:
    rows = np.insert(ROWS, 5, np.nan, axis=0)
    labels = np.insert(LABELS, 5, "none")
    good = np.arange(len(rows)) != 5
    for method, name in (("el2n", "scores"), ("optimization", "influence")):
        found = gmmatch.select(rows, keep=12, labels=labels, method=method, on_bad_rows="drop")
        expected = gmmatch.select(ROWS, keep=12, labels=LABELS, method=method)
        np.testing.assert_array_equal(found.indices, np.flatnonzero(good)[expected.indices])
        np.testing.assert_array_equal(found.params[name][good], expected.params[name])
        assert not found.params[name][5].any()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"images": IMAGES[1:]}, InvalidInput, "59 images for 60 rows"),
        ({"train_config": CONFIG}, InvalidInput, "the network 'resnet8' takes images"),
        ({"images": IMAGES, "train_config": {"network": "linear"}}, InvalidInput, "takes embeddings"),
        ({"train_config": {"recipe": "cpu"}}, InvalidParameter, "recipe 'cpu' crops or flips"),
        ({"train_config": {"epoch": 3}}, InvalidParameter, "did you mean 'epochs'"),
        ({"train_config": 3}, InvalidParameter, "a TrainConfig, a dictionary or a file; got 3"),
        ({"train_config": "train.yaml"}, InvalidInput, "cannot read the training configuration train.yaml"),
        ({"keep": 2}, InvalidInput, "2 rows for 3 classes"),
        ({"method": "random", "images": IMAGES}, InvalidParameter, "and random makes none here"),
        ({"scores": np.ones(60), "train_config": {}}, InvalidParameter, "and el2n makes none here"),
        ({"prefer": "lowest"}, InvalidParameter, "no parameter 'prefer'"),
    ],
)
def test_mistakes_get_a_sentence(arguments: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        gmmatch.select(**{"X": ROWS, "labels": LABELS, "method": "el2n"} | arguments)


def test_numbers_that_single_precision_cannot_hold_are_refused() -> None:
    rows = ROWS.copy()
    rows[7, 1] = -1e60
    with pytest.raises(InvalidInput, match=r"beyond 1e\+30 in 1 rows \(first: 7\)"):
        gmmatch.select(rows, keep=0.3, labels=LABELS, method="el2n")


def test_a_configuration_comes_in_every_form(tmp_path: Path) -> None:
    settings = {"epochs": 4, "seeds": 2}
    (tmp_path / "train.json").write_text(json.dumps(settings))
    expected = training.TrainConfig("linear", "linear", epochs=4, seeds=2, device="cpu")
    for form in (settings, tmp_path / "train.json", str(tmp_path / "train.json"), expected):
        assert as_config(form, embeddings=True) == expected
    assert as_config(settings) == training.TrainConfig(epochs=4, seeds=2)
    assert as_config(None) == training.TrainConfig()


def test_the_linear_network_is_a_softmax_regression_on_standardised_rows() -> None:
    rows = (ROWS * 40 - 1000).astype(np.float32)
    network = training.build_network("linear", classes=3, channels=7)
    codes = np.unique(LABELS, return_inverse=True)[1]
    run = training.train(network, rows, codes, "linear", device="cpu")
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    expected = centred / np.sqrt((centred**2).sum(axis=1).mean())
    features = training.features(network, rows, device="cpu")
    np.testing.assert_allclose(features, expected, atol=1e-5)
    logits = expected @ network.head.weight.detach().numpy().T + network.head.bias.detach().numpy()
    np.testing.assert_allclose(training.predict(network, rows, device="cpu"), logits, atol=1e-4)
    assert run.correct.shape == (20, N_ROWS)
    assert training.evaluate(network, rows, codes, device="cpu").accuracy > 0.9
    whole, last = (
        signals.grand_scores(network, rows, codes, layers=layers, device="cpu") for layers in ("all", "last")
    )
    np.testing.assert_allclose(whole, last, rtol=1e-4, atol=1e-6)


def test_the_linear_network_comes_back_from_a_checkpoint(tmp_path: Path) -> None:
    network = training.build_network("linear", classes=3, channels=7)
    network.standardise(ROWS.astype(np.float32))
    training.save_checkpoint(tmp_path / "linear.pt", network)
    loaded = training.load_checkpoint(tmp_path / "linear.pt").network
    inputs = torch.from_numpy(ROWS.astype(np.float32))
    torch.testing.assert_close(loaded(inputs), network.eval()(inputs))
    with pytest.raises(InvalidInput, match=r"takes rows of 7 numbers; got images with 1 channel"):
        training.predict(loaded, IMAGES)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", ROWS)
    np.save("labels.npy", LABELS)
    np.savez("pictures.npz", images=IMAGES, labels=LABELS)
    Path("train.toml").write_text(
        "".join(
            f"{key} = {json.dumps(value)}\n" for key, value in CONFIG.as_dict().items() if value is not None
        )
    )
    return tmp_path


SELECT = ["select", "rows.npy", "--labels", "labels.npy", "--keep", "30%"]
TRAIN = ["--images", "pictures.npz", "--train-config", "train.toml"]


def _picks(words: list[str]) -> list[int]:
    done = CliRunner().invoke(app, [*SELECT, *words, "--overwrite"])
    assert done.exit_code == 0, done.stderr
    return gmmatch.load_selection("kept.parquet").indices.tolist()


def test_the_command_trains_selects_and_saves_scores_in_one_go(files: Path) -> None:
    picks = _picks(["--method", "el2n", "--seed", "3", "--save-scores", "scores.npy", *TRAIN])
    expected = gmmatch.select(
        ROWS, keep=0.3, labels=LABELS, method="el2n", random_state=3, images=IMAGES, train_config="train.toml"
    )
    assert picks == expected.indices.tolist()
    np.testing.assert_array_equal(signals.load_scores("scores.npy", N_ROWS), expected.params["scores"])
    assert _picks(["--method", "top-scores", "--scores", "scores.npy"]) == picks


def test_the_scores_that_optimization_saves_are_the_lengths_of_the_influence(files: Path) -> None:
    picks = _picks(["--method", "optimization", "--save-scores", "scores.npy"])
    assert picks == gmmatch.select(ROWS, keep=0.3, labels=LABELS, method="optimization").indices.tolist()
    scores = signals.load_scores("scores.npy", N_ROWS)
    np.testing.assert_allclose(scores, signals.score_rows("optimization", ROWS, LABELS))


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--method", "el2n", "--train-config", "none.toml"], 3, "cannot read the training configuration"),
        (["--method", "el2n", "--images", "none.npy"], 3, "there is no file none.npy"),
        (["--method", "el2n", "--save-scores", "none/s.npy"], 3, "there is no folder none"),
        (["--method", "el2n", "--save-scores", "s.csv"], 2, "ends in .npy"),
        (["--method", "random", "--save-scores", "s.npy"], 2, "random has none"),
        (["--method", "random", "--train-config", "train.toml"], 2, "random makes none here"),
    ],
)
def test_mistakes_at_the_command_line(files: Path, words: list[str], code: int, message: str) -> None:
    before = sorted(files.iterdir())
    done = CliRunner().invoke(app, [*SELECT, *words, "--overwrite"])
    assert (done.exit_code, message in done.stderr) == (code, True), done.stderr
    assert sorted(files.iterdir()) == before


def test_a_dry_run_says_that_there_is_a_training_run(files: Path) -> None:
    done = CliRunner().invoke(app, [*SELECT, "--method", "el2n", "--dry-run"])
    assert done.exit_code == 0, done.stderr
    assert "beside the training run; nothing was written" in done.stdout


def test_without_torch_the_extra_is_named(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name == "torch" or name.startswith(("torch.", "gmmatch.lab.training.networks")):
            monkeypatch.delitem(sys.modules, name)
    for name in ("loop", "inference", "checkpoint"):
        monkeypatch.delitem(sys.modules, f"gmmatch.lab.training.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"pip install torch \(the extra gmmatch\[torch\]\)"):
        gmmatch.select(ROWS, keep=0.3, labels=LABELS, method="el2n")
    done = CliRunner().invoke(app, [*SELECT, "--method", "el2n"])
    assert done.exit_code == 4
    assert (
        done.stderr
        == "gmmatch: torch is not installed; install it with: pip install torch (the extra gmmatch[torch])\n"
    )
