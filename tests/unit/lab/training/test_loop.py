from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from gmmatch import progress
from gmmatch.errors import InvalidInput, InvalidInputType, InvalidParameter
from gmmatch.lab import training
from gmmatch.lab.training.networks import Network

RECIPE = replace(training.RECIPES["cpu"], epochs=4, batch_size=16, crop=2)
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")


def _same_weights(one: Network, other: Network) -> bool:
    return all(torch.equal(value, other.state_dict()[key]) for key, value in one.state_dict().items())


@pytest.mark.slow
def test_resnet8_learns_handwritten_digits(digits28) -> None:
    images, labels = digits28
    network = training.build_network("resnet8", classes=10, channels=1)
    recipe = replace(training.RECIPES["cpu-plain"], epochs=6, batch_size=64)
    run = training.train(network, images[:1300], labels[:1300], recipe, device="cpu")
    result = training.evaluate(network, images[1300:], labels[1300:], device="cpu")
    assert run.finished
    assert result.rows == 497
    assert result.accuracy >= 0.93


@pytest.mark.skipif(not FASHION_MNIST.is_dir(), reason="needs the Debian package dataset-fashion-mnist")
@pytest.mark.slow
def test_resnet8_learns_fashion_mnist() -> None:
    def read(name: str, offset: int) -> np.ndarray:
        return np.frombuffer(gzip.decompress((FASHION_MNIST / name).read_bytes()), np.uint8, offset=offset)

    images = read("train-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)[:6000]
    labels = read("train-labels-idx1-ubyte.gz", 8).astype(np.int64)[:6000]
    network = training.build_network("resnet8", classes=10, channels=1)
    recipe = replace(training.RECIPES["cpu-plain"], epochs=2, batch_size=32, learning_rate=0.1)
    training.train(network, images, labels, recipe, device="cpu")
    held_out = read("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)[:2000]
    answers = read("t10k-labels-idx1-ubyte.gz", 8).astype(np.int64)[:2000]
    assert training.evaluate(network, held_out, answers, device="cpu").accuracy >= 0.75


@pytest.mark.parametrize("name", ["resnet8", pytest.param("efficientnet-b0", marks=pytest.mark.slow)])
def test_an_interrupted_run_ends_with_the_same_weights(small, tmp_path: Path, name: str) -> None:
    images, labels = small
    whole = training.build_network(name, classes=3, channels=1)
    undisturbed = training.train(whole, images, labels, RECIPE, seed=3, device="cpu")

    class Interrupted(Exception):
        pass

    def interrupt(epoch: int, network: Network) -> None:
        if epoch == 3:
            raise Interrupted

    file = tmp_path / "run.pt"
    broken = training.build_network(name, classes=3, channels=1)
    with pytest.raises(Interrupted):
        training.train(
            broken, images, labels, RECIPE, seed=3, device="cpu", checkpoint=file, on_epoch=interrupt
        )
    assert training.load_checkpoint(file).metadata["losses"] == list(undisturbed.losses[:2])
    torch.manual_seed(99)
    resumed = training.build_network(name, classes=3, channels=1)
    run = training.train(resumed, images, labels, RECIPE, seed=3, device="cpu", checkpoint=file)
    assert _same_weights(whole, resumed)
    assert run.losses == undisturbed.losses
    np.testing.assert_array_equal(run.correct, undisturbed.correct)
    assert _same_weights(whole, training.load_checkpoint(file).network)


def test_a_finished_run_is_read_and_not_repeated(small, tmp_path: Path) -> None:
    images, labels = small
    file = tmp_path / "run.pt"
    first = training.build_network("resnet8", classes=3, channels=1)
    training.train(first, images, labels, RECIPE, device="cpu", checkpoint=file)
    again = training.build_network("resnet8", classes=3, channels=1)

    def refuse(epoch: int, network: Network) -> None:
        raise AssertionError("an epoch was run")

    run = training.train(again, images, labels, RECIPE, device="cpu", checkpoint=file, on_epoch=refuse)
    assert run.finished
    assert _same_weights(first, again)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"seed": 1}, "seed"),
        ({"recipe": replace(RECIPE, epochs=9)}, "recipe"),
        ({"start": 1}, "initial weights"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(small, tmp_path: Path, changed: dict, word: str) -> None:
    images, labels = small
    file = tmp_path / "run.pt"
    common = {"device": "cpu", "checkpoint": file, "stop_after": 1}
    network = training.build_network("resnet8", classes=3, channels=1)
    training.train(network, images, labels, RECIPE, **common)
    other = training.build_network("resnet8", classes=3, channels=1, seed=changed.pop("start", 0))
    recipe = changed.pop("recipe", RECIPE)
    with pytest.raises(InvalidInput, match=rf"another training run \(its {word} differ"):
        training.train(other, images, labels, recipe, **common, **changed)
    training.train(other, images, labels, recipe, **common, **changed, resume=False)


def test_one_step_is_the_textbooks(small) -> None:
    images, labels = small
    recipe = replace(RECIPE, epochs=1, batch_size=42, crop=0, flip=False, schedule="steps", momentum=0.0)
    recipe = replace(recipe, nesterov=False, learning_rate=0.05, weight_decay=0.01)
    trained = training.build_network("resnet8", classes=3, channels=1)
    training.train(trained, images, labels, recipe, device="cpu")
    by_hand = training.build_network("resnet8", classes=3, channels=1)
    by_hand.standardise(images[..., None])
    by_hand.train()
    pixels = torch.from_numpy(images)[:, None].float() / 255
    F.cross_entropy(by_hand(pixels), torch.from_numpy(labels)).backward()
    for name, weights in by_hand.named_parameters():
        step = (trained.get_parameter(name) - weights).detach()
        expected = -0.05 * (weights.grad + 0.01 * weights).detach()
        assert torch.linalg.norm(step - expected) < 1e-2 * torch.linalg.norm(expected), name


def test_every_row_comes_up_once_an_epoch_in_batches_of_nearly_one_size(small) -> None:
    images, labels = small
    network = training.build_network("resnet8", classes=3, channels=1)
    sizes: list[int] = []
    network.register_forward_pre_hook(lambda module, inputs: sizes.append(len(inputs[0])))
    run = training.train(
        network, images[:41], labels[:41], replace(RECIPE, epochs=1, batch_size=20), device="cpu"
    )
    assert sizes == [14, 14, 13]
    assert run.correct.shape == (1, 41)
    assert run.accuracies[0] == pytest.approx(run.correct.mean())


def test_same_seed_same_run_and_torchs_generator_is_left_alone(small) -> None:
    images, labels = small
    networks = [training.build_network("resnet8", classes=3, channels=1) for _ in range(3)]
    before = torch.random.get_rng_state()
    for network, seed in zip(networks, (0, 0, 1), strict=True):
        training.train(network, images, labels, RECIPE, seed=seed, device="cpu", stop_after=2)
    assert torch.equal(before, torch.random.get_rng_state())
    assert _same_weights(networks[0], networks[1])
    assert not _same_weights(networks[0], networks[2])


def test_a_memory_map_trains_like_the_array(small, tmp_path: Path) -> None:
    images, labels = small
    np.save(tmp_path / "images.npy", images)
    mapped, _ = training.read_images(tmp_path / "images.npy")
    networks = [training.build_network("resnet8", classes=3, channels=1) for _ in range(2)]
    for network, pictures in zip(networks, (images, mapped), strict=True):
        training.train(network, pictures, labels, RECIPE, device="cpu", stop_after=1)
    assert _same_weights(*networks)


def test_mixed_precision_trains_too(small) -> None:
    images, labels = small
    network = training.build_network("resnet8", classes=3, channels=1)
    run = training.train(
        network, images, labels, replace(RECIPE, flip=False), device="cpu", precision="mixed"
    )
    assert run.losses[-1] < run.losses[0]
    assert next(network.parameters()).dtype == torch.float32


def test_progress_tells_epoch_accuracy_and_time_left(small) -> None:
    from contextlib import contextmanager

    images, labels = small
    told: list[tuple[str, int | None]] = []
    done: list[int] = []

    @contextmanager
    def listener(what: str, total: int | None):
        told.append((what, total))
        yield done.append

    network = training.build_network("resnet8", classes=3, channels=1)
    with progress.listen(listener):
        run = training.train(network, images, labels, RECIPE, device="cpu", stop_after=2)
    assert told[0] == ("epoch 1 of 4", 42)
    assert told[1][0].startswith(f"epoch 2 of 4, {run.accuracies[0]:.1%} right in the last one, ")
    assert told[1][0].endswith(" s left")
    assert sum(done) == 84


@pytest.mark.slow
def test_fine_tuning_starts_from_what_was_learned(digits28) -> None:
    images, labels = digits28
    low, high = labels < 5, labels >= 5
    base = training.build_network("resnet8", classes=5, channels=1)
    recipe = replace(training.RECIPES["cpu-plain"], epochs=3, batch_size=64)
    training.train(base, images[low][:600], labels[low][:600], recipe, device="cpu")
    few, many = slice(0, 150), slice(150, None)
    images, labels = images[high], labels[high] - 5
    tuned = training.replace_head(base, classes=5)
    recipe = replace(training.RECIPES["fine-tune"], batch_size=20)
    training.train(tuned, images[few], labels[few], recipe, device="cpu")
    torch.testing.assert_close(tuned.mean, base.mean)
    probe = training.linear_probe(training.features(base, images[few], device="cpu"), labels[few])
    frozen = probe.accuracy(training.features(base, images[many], device="cpu"), labels[many])
    assert frozen >= 0.7
    assert training.evaluate(tuned, images[many], labels[many], device="cpu").accuracy >= 0.7


def test_evaluate_agrees_with_a_single_pass(small) -> None:
    images, labels = small
    network = training.build_network("resnet8", classes=3, channels=1).eval()
    with torch.no_grad():
        logits = network(torch.from_numpy(images)[:, None].float() / 255)
    found = training.evaluate(network, images, labels, batch_size=5, device="cpu")
    assert found.accuracy == pytest.approx((logits.argmax(1).numpy() == labels).mean())
    assert found.loss == pytest.approx(F.cross_entropy(logits, torch.from_numpy(labels)).item(), rel=1e-4)
    np.testing.assert_allclose(
        training.predict(network, images, batch_size=7, device="cpu"), logits.numpy(), rtol=1e-4, atol=1e-5
    )


def _train(images, labels, recipe=RECIPE, **options):
    network = training.build_network("resnet8", classes=3, channels=1)
    return training.train(network, images, labels, recipe, **{"device": "cpu", **options})


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"images": np.zeros((42, 12, 12))}, InvalidInputType, "images must be of type uint8 .* got float64"),
        ({"images": np.zeros((42, 12, 12, 2), np.uint8)}, InvalidInput, r"1 or 3\); got \(42, 12, 12, 2\)"),
        (
            {"images": np.zeros((42, 12, 12, 3), np.uint8)},
            InvalidInput,
            r"takes images with 1 channel\(s\); got images with 3",
        ),
        ({"images": np.zeros((42, 4, 12), np.uint8)}, InvalidInput, "at least 8 x 8 pixels"),
        ({"labels": np.full(42, 3)}, InvalidInput, "class numbers from 0 to 2; got 3 at row 0"),
        ({"labels": np.zeros(41, int)}, InvalidInput, r"shape \(41,\) for 42 images"),
        ({"labels": np.full(42, "cat")}, InvalidInputType, "whole class numbers from 0 to 2"),
        ({"recipe": "fast"}, InvalidParameter, "recipe must be 'cifar'"),
        ({"device": "tpu"}, InvalidParameter, "device must be 'auto'"),
        ({"precision": "half"}, InvalidParameter, "precision must be 'auto', 'full' or 'mixed'"),
        ({"stop_after": 0}, InvalidParameter, "stop_after must be a whole number of at least 1"),
        ({"checkpoint": "/dev/null/run.pt"}, InvalidInput, "its folder does not exist"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(
    small, change: dict, error: type[Exception], message: str
) -> None:
    images, labels = small
    with pytest.raises(error, match=message):
        _train(**({"images": images, "labels": labels} | change))


def test_a_rate_that_is_too_high_is_reported(small) -> None:
    with pytest.raises(InvalidInput, match="learning rate 1e\\+30 is too high"):
        _train(*small, recipe=replace(RECIPE, learning_rate=1e30))


@pytest.mark.skipif(torch.cuda.is_available(), reason="the machine has CUDA")
def test_a_device_that_is_absent_is_named() -> None:
    with pytest.raises(InvalidParameter, match="device 'cuda' is not present"):
        training.resolve_device("cuda")
