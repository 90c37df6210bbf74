from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from gmmatch.errors import InvalidParameter
from gmmatch.lab import training
from gmmatch.lab.training.networks import BUILDERS
from gmmatch.lab.training.networks.efficientnet import InvertedResidual

# Published totals with 1,000 classes, where a network is given for ImageNet:
# torchvision's documentation (num_params) for resnet18, resnet50, vgg16_bn, shufflenet_v2_x1_0 and
# efficientnet_b0; the table of the package `glasses` (cse_resnet18) for SE-ResNet-18.
IMAGENET_TOTALS = {
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "vgg16": 138_365_992,
    "shufflenetv2": 2_278_604,
    "efficientnet-b0": 5_288_548,
    "senet18": 11_778_592,
}


def _linear(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


STEM_7_TO_3 = 64 * 3 * (3 * 3 - 7 * 7)
VGG_HEAD = _linear(25_088, 4096) + _linear(4096, 4096) + _linear(4096, 1000)

# What the small form changes, with 10 classes: the stem's kernel (residual networks) and the head.
CHANGES = {
    "resnet18": STEM_7_TO_3 - _linear(512, 1000) + _linear(512, 10),
    "resnet50": STEM_7_TO_3 - _linear(2048, 1000) + _linear(2048, 10),
    "vgg16": -VGG_HEAD + _linear(512, 10),
    "shufflenetv2": -_linear(1024, 1000) + _linear(1024, 10),
    "efficientnet-b0": -_linear(1280, 1000) + _linear(1280, 10),
    "senet18": STEM_7_TO_3 - _linear(512, 1000) + _linear(512, 10),
}


def _parameters(network: nn.Module) -> int:
    return sum(weights.numel() for weights in network.parameters())


@pytest.mark.parametrize("name", IMAGENET_TOTALS)
def test_parameter_count_is_the_published_one_with_another_stem_and_head(name: str) -> None:
    network = training.build_network(name, classes=10, channels=3)
    assert _parameters(network) == IMAGENET_TOTALS[name] + CHANGES[name]


def test_resnet8_has_the_weights_of_mlperf_tinys_resnet8() -> None:
    # The benchmark's Keras network counts 78,666: with biases in 9 convolutions (336) and the moving
    # statistics of 7 batch normalisations (480), which ours does not count, and without batch
    # normalisation on the 2 projections (192), which ours has.
    network = training.build_network("resnet8", classes=10, channels=3)
    assert _parameters(network) == 78_666 - 336 - 480 + 192


# Published multiply-adds at 224 pixels, in millions. The ImageNet stems shrink an image by 4 (residual
# networks, ShuffleNetV2) or 2 (EfficientNet) before the first block; ours do not, so images of 56 or
# 112 pixels give the blocks the same work.
@pytest.mark.parametrize(
    ("name", "pixels", "published", "their_stem"),
    [
        ("resnet18", 56, 1_814, 112**2 * 64 * 3 * 49 / 1e6),
        ("resnet50", 56, 4_089, 112**2 * 64 * 3 * 49 / 1e6),
        ("senet18", 56, 1_814, 112**2 * 64 * 3 * 49 / 1e6),
        ("shufflenetv2", 56, 146, 112**2 * 24 * 3 * 9 / 1e6),
        ("efficientnet-b0", 112, 390, 112**2 * 32 * 3 * 9 / 1e6),
        ("vgg16", 224, 15_470, 224**2 * 64 * 3 * 9 / 1e6),
    ],
)
def test_a_forward_pass_takes_the_published_number_of_multiply_adds(
    name: str, pixels: int, published: float, their_stem: float
) -> None:
    with torch.device("meta"):
        network = BUILDERS[name](1000, 3).eval()
        layers: list[float] = []

        def count(module: nn.Module, inputs: object, output: torch.Tensor) -> None:
            layers.append(module.weight[0].numel() * output.numel() / 1e6)

        for module in network.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                module.register_forward_hook(count)
        network(torch.empty(1, 3, pixels, pixels))
    fully_connected = VGG_HEAD / 1e6 if name == "vgg16" else layers[-1]
    ours = sum(layers[1:-1])
    assert ours == pytest.approx(published - their_stem - fully_connected, rel=0.025)


@pytest.mark.parametrize("name", training.NETWORKS)
@pytest.mark.parametrize(("pixels", "channels"), [(28, 1), (64, 3)])
def test_features_then_classify_is_the_forward_pass(name: str, pixels: int, channels: int) -> None:
    network = training.build_network(name, classes=7, channels=channels).eval()
    images = torch.rand(2, channels, pixels, pixels, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        features = network.features(images)
        assert features.shape == (2, network.feature_size)
        torch.testing.assert_close(network.classify(features), network(images))
    assert network(images).shape == (2, 7)


# Full-batch steps and the highest rate, as each depth needs them.
OVERFIT = {
    "resnet8": (14, 0.1),
    "resnet18": (5, 0.02),
    "resnet50": (11, 0.01),
    "vgg16": (8, 0.02),
    "shufflenetv2": (16, 0.1),
    "senet18": (5, 0.02),
    "efficientnet-b0": (18, 0.1),
}


@pytest.mark.parametrize(
    "name", [name if name == "resnet8" else pytest.param(name, marks=pytest.mark.slow) for name in OVERFIT]
)
def test_every_network_overfits_64_images(name: str) -> None:
    digits = load_digits()
    images = (digits.images[:64] * 15.9).astype(np.uint8)
    epochs, rate = OVERFIT[name]
    recipe = replace(
        training.RECIPES["cpu-plain"],
        epochs=epochs,
        batch_size=64,
        learning_rate=rate,
        weight_decay=0.0,
    )
    network = training.build_network(name, classes=10, channels=1)
    network.dropout = 0.0
    for module in network.modules():
        if isinstance(module, InvertedResidual):
            module.dropped = 0.0
    run = training.train(network, images, digits.target[:64], recipe, device="cpu")
    assert run.accuracies[0] < 0.4
    assert max(run.accuracies) >= 0.9


def test_names_without_torch_are_the_networks_there_are() -> None:
    assert tuple(OVERFIT) == training.NETWORKS
    assert tuple(BUILDERS) == (*training.NETWORKS, "linear")


def test_weights_depend_on_the_seed_alone_and_torchs_generator_is_left_alone() -> None:
    before = torch.random.get_rng_state()
    first = training.build_network("resnet8", classes=3, seed=5)
    torch.rand(3)
    torch.random.set_rng_state(before)
    second = training.build_network("resnet8", classes=3, seed=5)
    other = training.build_network("resnet8", classes=3, seed=6)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first.head.weight, second.head.weight)
    assert not torch.equal(first.head.weight, other.head.weight)


def test_a_new_head_leaves_the_encoder_as_it_was() -> None:
    network = training.build_network("resnet8", classes=3, channels=1)
    network.standardise(np.random.default_rng(0).integers(0, 90, (5, 28, 28, 1)).astype(np.uint8))
    renewed = training.replace_head(network, classes=5, seed=9).eval()
    images = torch.rand(2, 1, 28, 28)
    with torch.no_grad():
        torch.testing.assert_close(renewed.features(images), network.eval().features(images))
        assert renewed(images).shape == (2, 5)


def test_standardise_takes_the_pixels_mean_and_spread() -> None:
    images = np.random.default_rng(0).integers(0, 256, (5000, 9, 8, 3)).astype(np.uint8)
    images[..., 1] //= 3
    network = training.build_network("resnet8", classes=2)
    network.standardise(images)
    np.testing.assert_allclose(network.mean.flatten(), images.mean((0, 1, 2)) / 255, rtol=1e-6)
    np.testing.assert_allclose(network.std.flatten(), images.std((0, 1, 2)) / 255, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "resnet-18", "classes": 2}, "did you mean 'resnet18'"),
        ({"name": "resnet8", "classes": 0}, "classes must be a whole number of at least 1; got 0"),
        ({"name": "resnet8", "classes": 2, "channels": 4}, "channels must be 1 .* got 4"),
    ],
)
def test_wrong_networks_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        training.build_network(**arguments)
