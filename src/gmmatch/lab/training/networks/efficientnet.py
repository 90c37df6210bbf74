"""EfficientNet-B0 (Tan and Le, 2019) with a stem of stride 1 for small images."""

import torch
from torch import Tensor, nn

from .base import Network, SqueezeExcite, conv_bn

# expansion, channels, blocks, stride, kernel: table 1 of the paper
_STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
_STEM = 32
_FEATURES = 1280
_DROPOUT = 0.2
_DROPPED_BRANCHES = 0.2


class InvertedResidual(nn.Module):
    """Widens, filters each channel on its own, weights the channels, narrows (MBConv)."""

    def __init__(
        self, inputs: int, outputs: int, expansion: int, stride: int, kernel: int, dropped: float
    ) -> None:
        super().__init__()
        wide = inputs * expansion
        self.branch = nn.Sequential()
        if expansion != 1:
            self.branch.append(conv_bn(inputs, wide, 1, activation=nn.SiLU))
        self.branch.extend(
            [
                conv_bn(wide, wide, kernel, stride=stride, groups=wide, activation=nn.SiLU),
                SqueezeExcite(wide, inputs // 4, nn.SiLU),
                conv_bn(wide, outputs, 1, activation=None),
            ]
        )
        self.adds_input = stride == 1 and inputs == outputs
        self.dropped = dropped

    def forward(self, maps: Tensor) -> Tensor:
        """Return the branch, plus the input where shapes agree; drop whole branches in training."""
        branch: Tensor = self.branch(maps)
        if not self.adds_input:
            return branch
        if self.training and self.dropped:
            kept = torch.rand(len(maps), 1, 1, 1, device=maps.device) >= self.dropped
            branch = branch * kept / (1 - self.dropped)
        return maps + branch


def efficientnet_b0(classes: int, channels: int) -> Network:
    """Return EfficientNet-B0; deeper blocks are dropped more often in training, as in the paper's code."""
    body = nn.Sequential(conv_bn(channels, _STEM, activation=nn.SiLU))
    inputs = _STEM
    total = sum(stage[2] for stage in _STAGES)
    for expansion, width, depth, stride, kernel in _STAGES:
        for block in range(depth):
            dropped = _DROPPED_BRANCHES * (len(body) - 1) / total
            body.append(
                InvertedResidual(inputs, width, expansion, stride if block == 0 else 1, kernel, dropped)
            )
            inputs = width
    body.append(conv_bn(inputs, _FEATURES, 1, activation=nn.SiLU))
    return Network(
        "efficientnet-b0", body, feature_size=_FEATURES, classes=classes, channels=channels, dropout=_DROPOUT
    )
