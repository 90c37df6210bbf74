"""The one shape that every network has: pixels -> body -> mean over the image -> linear head."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..images import Inputs

_CHUNK_IMAGES = 4096


class Network(nn.Module):
    """An image classifier whose encoder and head can be used apart.

    It takes float images in [0, 1] of shape (rows, channels, height, width) and standardises them
    itself, so that a checkpoint needs no note of how pixels were prepared.

    `name`: name under which :func:`build_network` knows it. `body`: module from standardised images to maps
    of `feature_size` channels. `feature_size`, `classes`, `channels`: width of the features, number of
    classes, channels of the images (1 or 3). `dropout`: share of the features dropped before the head during
    training.
    """

    input_dimensions = 4

    def __init__(
        self,
        name: str,
        body: nn.Module,
        *,
        feature_size: int,
        classes: int,
        channels: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.name = name
        self.feature_size = feature_size
        self.classes = classes
        self.channels = channels
        self.dropout = dropout
        self.body = body
        self.head = nn.Linear(feature_size, classes)
        self.mean: Tensor
        self.std: Tensor
        self.standardised: Tensor
        self.register_buffer("mean", torch.full((channels, 1, 1), 0.5))
        self.register_buffer("std", torch.full((channels, 1, 1), 0.25))
        self.register_buffer("standardised", torch.tensor(False))

    def features(self, images: Tensor) -> Tensor:
        """Return the penultimate activations, shape (rows, feature_size)."""
        maps: Tensor = self.body((images - self.mean) / self.std)
        return maps.mean((2, 3))

    def classify(self, features: Tensor) -> Tensor:
        """Return the logits of features, shape (rows, classes)."""
        logits: Tensor = self.head(F.dropout(features, self.dropout, self.training))
        return logits

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits of images."""
        return self.classify(self.features(images))

    def standardise(self, images: Inputs) -> None:
        """Take the mean and the spread of each channel from uint8 images (rows, height, width, channels).

        Counts of the 256 grey values are summed, so the result does not depend on chunks or order.
        """
        counts = np.zeros((self.channels, 256), dtype=np.int64)
        for start in range(0, len(images), _CHUNK_IMAGES):
            chunk = images[start : start + _CHUNK_IMAGES]
            for channel in range(self.channels):
                counts[channel] += np.bincount(chunk[..., channel].ravel(), minlength=256)
        values = np.arange(256) / 255
        shares = counts / counts.sum(axis=1, keepdims=True)
        mean = shares @ values
        std = np.sqrt((shares * (values - mean[:, None]) ** 2).sum(axis=1))
        self.mean.copy_(torch.from_numpy(mean)[:, None, None])
        self.std.copy_(torch.from_numpy(np.maximum(std, 1 / 255))[:, None, None])
        self.standardised.fill_(True)


def conv_bn(
    inputs: int,
    outputs: int,
    kernel: int = 3,
    *,
    stride: int = 1,
    groups: int = 1,
    activation: type[nn.Module] | None = nn.ReLU,
) -> nn.Sequential:
    """Return a convolution without bias, batch normalisation, and an activation if one is named."""
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    if activation is not None:
        layers.append(activation())
    return nn.Sequential(*layers)


class SqueezeExcite(nn.Module):
    """Weights each channel by what the whole image says of it (Hu et al., 2018)."""

    def __init__(self, channels: int, squeezed: int, activation: type[nn.Module]) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, squeezed, 1)
        self.activation = activation()
        self.excite = nn.Conv2d(squeezed, channels, 1)

    def forward(self, maps: Tensor) -> Tensor:
        """Return the maps, each channel scaled by its weight in (0, 1)."""
        hidden: Any = self.activation(self.squeeze(maps.mean((2, 3), keepdim=True)))
        scaled: Tensor = maps * torch.sigmoid(self.excite(hidden))
        return scaled


def initialise(network: nn.Module) -> None:
    """Draw the convolutions' weights as He et al. (2015) do, from torch's current generator."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


@contextmanager
def seeded(*entropy: int) -> Iterator[None]:
    """Let torch draw from a generator seeded with whole numbers; afterwards it is as it was before."""
    seed = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0])
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield
