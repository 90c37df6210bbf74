from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from gmmatch.errors import InvalidInput, InvalidInputType, InvalidParameter
from gmmatch.lab import signals, training


@pytest.fixture(scope="module")
def pictures() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.arange(36) % 3
    images = rng.integers(0, 80, (36, 12, 12))
    images[labels == 0, ::2] += 150
    images[labels == 1, :, ::2] += 150
    return images.astype(np.uint8), labels


CONFIG = training.TrainConfig(recipe="cpu-plain", epochs=4, batch_size=12, seeds=2, score_at=2, device="cpu")


def _slightly_trained(name: str, images: np.ndarray, labels: np.ndarray) -> training.Network:
    network = training.build_network(name, classes=3, channels=1)
    training.train(network, images, labels, CONFIG.resolved(), device="cpu", stop_after=1)
    return network


def _gradients_one_by_one(network: training.Network, images: np.ndarray, labels: np.ndarray):
    """Yield each row's error vector, whole gradient and head gradient by plain autograd."""
    network.eval()
    for image, label in zip(images, labels, strict=True):
        logits = network(torch.from_numpy(image)[None, None].float() / 255)
        network.zero_grad()
        F.cross_entropy(logits, torch.tensor([int(label)])).backward()
        error = torch.softmax(logits.detach()[0].double(), 0) - F.one_hot(torch.tensor(int(label)), 3)
        whole = torch.cat([weights.grad.flatten() for weights in network.parameters()])
        head = torch.cat([weights.grad.flatten() for weights in network.head.parameters()])
        yield [float(torch.linalg.norm(vector.double())) for vector in (error, whole, head)]


@pytest.mark.parametrize("name", ["resnet8", pytest.param("shufflenetv2", marks=pytest.mark.slow)])
def test_el2n_and_grand_agree_with_autograd_row_by_row(pictures, name: str) -> None:
    images, labels = pictures
    network = _slightly_trained(name, images, labels)
    error, whole, head = np.array(list(_gradients_one_by_one(network, images, labels))).T
    logits = training.predict(network, images, device="cpu")
    np.testing.assert_allclose(signals.el2n_scores(logits, labels), error, rtol=1e-5, atol=1e-6)
    found = signals.grand_scores(network, images, labels, device="cpu")
    np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-5 * whole.max())
    last = signals.grand_scores(network, images, labels, layers="last", device="cpu")
    np.testing.assert_allclose(last, head, rtol=1e-5, atol=1e-5 * head.max())


def test_grand_does_not_depend_on_the_rows_beside_a_row(pictures) -> None:
    images, labels = pictures
    network = _slightly_trained("resnet8", images, labels)
    whole = signals.grand_scores(network, images, labels, device="cpu")
    np.testing.assert_allclose(
        signals.grand_scores(network, images[5:9], labels[5:9], device="cpu"), whole[5:9], rtol=1e-5
    )


def test_forgetting_counts_a_hand_made_history() -> None:
    history = {
        "111111": 0,  # learned at once, never forgotten
        "011111": 0,  # learned later
        "110111": 1,
        "101010": 3,
        "010101": 2,
        "000001": 0,  # learned at the very end
        "100000": 1,  # forgotten for good
        "000000": 6,  # never learned: above every possible count
    }
    correct = np.array([[mark == "1" for mark in word] for word in history]).T
    np.testing.assert_array_equal(signals.forgetting_scores(correct), list(history.values()))


def test_never_learned_is_above_any_count_for_every_number_of_epochs() -> None:
    for epochs in range(1, 8):
        flickering = np.arange(epochs) % 2 == 0
        scores = signals.forgetting_scores(np.stack([flickering, np.zeros(epochs, bool)], axis=1))
        assert scores[1] > scores[0]


def test_signals_share_runs_and_each_alone_gives_the_same(pictures, tmp_path: Path) -> None:
    images, labels = pictures
    runs = signals.train_runs(images, labels, CONFIG, seed=5)
    assert len(runs) == 2
    assert runs[0].correct.shape == (4, 36)
    for name in ("el2n", "forgetting", "optimization"):
        shared = signals.score_rows(name, images, labels, CONFIG, seed=5, runs=runs)
        alone = signals.score_rows(name, images, labels, CONFIG, seed=5, folder=tmp_path / "runs")
        assert shared.dtype == np.float64
        np.testing.assert_array_equal(shared, alone)
    again = signals.score_rows("el2n", images, labels, CONFIG, seed=5, folder=tmp_path / "runs")
    np.testing.assert_array_equal(
        again, signals.score_rows("el2n", images, labels, CONFIG, seed=5, runs=runs)
    )


def test_scores_are_the_mean_over_networks_with_seeds_of_their_own(pictures) -> None:
    images, labels = pictures
    runs = signals.train_runs(images, labels, CONFIG, whole=False)
    each = [signals.score_rows("grand", images, labels, CONFIG, runs=[run]) for run in runs]
    assert not np.allclose(each[0], each[1])
    both = signals.score_rows("grand", images, labels, CONFIG, runs=runs)
    np.testing.assert_allclose(both, np.mean(each, axis=0))
    last = signals.score_rows("grand", images, labels, CONFIG, runs=runs, layers="last")
    assert (last < both).all()
    assert runs[0].final is None
    assert runs[0].correct.shape == (2, 36)
    with pytest.raises(InvalidParameter, match="these stopped early"):
        signals.score_rows("optimization", images, labels, CONFIG, runs=runs)


def test_labels_of_any_kind_give_the_same_scores(pictures) -> None:
    images, labels = pictures
    named = np.array(["ant", "bee", "cat"])[labels]
    np.testing.assert_array_equal(
        signals.score_rows("el2n", images, labels, CONFIG), signals.score_rows("el2n", images, named, CONFIG)
    )


def test_wrong_labels_stand_out(pictures) -> None:
    images, labels = pictures
    wrong = labels.copy()
    wrong[[4, 11]] = (labels[[4, 11]] + 1) % 3
    config = training.TrainConfig(
        recipe="cpu-plain", epochs=10, batch_size=12, seeds=3, score_at=3, device="cpu"
    )
    runs = signals.train_runs(images, wrong, config)
    for name in signals.SIGNALS:
        scores = signals.score_rows(name, images, wrong, config, runs=runs)
        assert set(np.argsort(-scores)[:2]) == {4, 11}, name


def test_saved_scores_come_back(tmp_path: Path) -> None:
    scores = np.random.default_rng(0).normal(size=10)
    signals.save_scores(tmp_path / "scores.npy", scores)
    np.testing.assert_array_equal(signals.load_scores(tmp_path / "scores.npy", n_rows=10), scores)
    assert [path.name for path in tmp_path.iterdir()] == ["scores.npy"]


def test_wrong_input_is_refused(pictures, tmp_path: Path) -> None:
    images, labels = pictures
    with pytest.raises(InvalidParameter, match="did you mean 'el2n'"):
        signals.score_rows("el2", images, labels)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="at least two classes; got only"):
        signals.score_rows("el2n", images, np.zeros(36, int))
    with pytest.raises(InvalidInputType, match="true or false; got values of type int64"):
        signals.forgetting_scores(np.zeros((3, 4), np.int64))
    with pytest.raises(InvalidInput, match=r"shape \(epochs, rows\); got \(3,\)"):
        signals.forgetting_scores(np.zeros(3, bool))
    with pytest.raises(InvalidInput, match="from 0 to 1; got 2 at row 2"):
        signals.el2n_scores(np.zeros((3, 2)), np.array([0, 1, 2]))
    network = training.build_network("resnet8", classes=3, channels=1)
    with pytest.raises(InvalidParameter, match="layers must be 'all' or 'last'"):
        signals.grand_scores(network, images, labels, layers="first")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="scores must be finite; got nan at row 1"):
        signals.save_scores(tmp_path / "x.npy", [0.0, np.nan])
    np.save(tmp_path / "y.npy", np.zeros(3))
    with pytest.raises(InvalidInput, match="has 3 scores for 4 rows"):
        signals.load_scores(tmp_path / "y.npy", n_rows=4)
    with pytest.raises(InvalidInput, match="cannot read the scores"):
        signals.load_scores(tmp_path / "absent.npy")
