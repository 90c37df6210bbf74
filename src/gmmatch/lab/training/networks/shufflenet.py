"""ShuffleNetV2 at width 1 (Ma et al., 2018), with neither stride nor pooling in the stem."""

import torch
from torch import Tensor, nn

from .base import Network, conv_bn

_STAGES = ((116, 4), (232, 8), (464, 4))
_STEM = 24
_FEATURES = 1024


class ShuffleUnit(nn.Module):
    """Transforms half of the channels (all of them where it halves the image), then mixes the halves."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        self.halves_image = stride == 2
        entering = inputs if self.halves_image else half
        self.branch = nn.Sequential(
            conv_bn(entering, half, 1),
            conv_bn(half, half, stride=stride, groups=half, activation=None),
            conv_bn(half, half, 1),
        )
        self.shortcut: nn.Module = nn.Identity()
        if self.halves_image:
            self.shortcut = nn.Sequential(
                conv_bn(inputs, inputs, stride=2, groups=inputs, activation=None), conv_bn(inputs, half, 1)
            )

    def forward(self, maps: Tensor) -> Tensor:
        """Return the two halves, their channels interleaved."""
        kept, moved = (maps, maps) if self.halves_image else maps.chunk(2, dim=1)
        halves = torch.stack((self.shortcut(kept), self.branch(moved)), dim=2)
        return halves.flatten(1, 2)


def shufflenetv2(classes: int, channels: int) -> Network:
    """Return ShuffleNetV2 at width 1."""
    body = nn.Sequential(conv_bn(channels, _STEM))
    inputs = _STEM
    for width, depth in _STAGES:
        for unit in range(depth):
            body.append(ShuffleUnit(inputs, width, stride=2 if unit == 0 else 1))
            inputs = width
    body.append(conv_bn(inputs, _FEATURES, 1))
    return Network("shufflenetv2", body, feature_size=_FEATURES, classes=classes, channels=channels)
