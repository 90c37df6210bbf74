"""Residual networks (He et al., 2016) with a 3 x 3 stem for small images, plain or squeeze-and-excite."""

from torch import Tensor, nn
from torch.nn import functional as F

from .base import Network, SqueezeExcite, conv_bn

_SQUEEZE = 16  # reduction ratio of Hu et al. (2018)


class Residual(nn.Module):
    """Adds a branch to its input; the input is projected where the shape changes."""

    def __init__(self, branch: nn.Sequential, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.branch = branch
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = conv_bn(inputs, outputs, 1, stride=stride, activation=None)

    def forward(self, maps: Tensor) -> Tensor:
        """Return relu(branch + shortcut)."""
        return F.relu(self.branch(maps) + self.shortcut(maps))


def _basic(inputs: int, width: int, stride: int, squeeze: bool) -> Residual:
    """Return two 3 x 3 convolutions with a shortcut."""
    branch = nn.Sequential(conv_bn(inputs, width, stride=stride), conv_bn(width, width, activation=None))
    if squeeze:
        branch.append(SqueezeExcite(width, width // _SQUEEZE, nn.ReLU))
    return Residual(branch, inputs, width, stride)


def _bottleneck(inputs: int, width: int, stride: int) -> Residual:
    """Return a 1 x 1, a 3 x 3 (which takes the stride) and a widening 1 x 1 convolution with a shortcut."""
    branch = nn.Sequential(
        conv_bn(inputs, width, 1),
        conv_bn(width, width, stride=stride),
        conv_bn(width, 4 * width, 1, activation=None),
    )
    return Residual(branch, inputs, 4 * width, stride)


def _resnet(
    name: str,
    classes: int,
    channels: int,
    *,
    widths: tuple[int, ...],
    blocks: tuple[int, ...],
    bottleneck: bool = False,
    squeeze: bool = False,
) -> Network:
    body = nn.Sequential(conv_bn(channels, widths[0]))
    inputs = widths[0]
    for stage, (width, depth) in enumerate(zip(widths, blocks, strict=True)):
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            if bottleneck:
                body.append(_bottleneck(inputs, width, stride))
                inputs = 4 * width
            else:
                body.append(_basic(inputs, width, stride, squeeze))
                inputs = width
    return Network(name, body, feature_size=inputs, classes=classes, channels=channels)


def resnet8(classes: int, channels: int) -> Network:
    """Return the residual network of depth 6n + 2 with n = 1: three stages of 16, 32, 64 channels."""
    return _resnet("resnet8", classes, channels, widths=(16, 32, 64), blocks=(1, 1, 1))


def resnet18(classes: int, channels: int) -> Network:
    """Return ResNet-18."""
    return _resnet("resnet18", classes, channels, widths=(64, 128, 256, 512), blocks=(2, 2, 2, 2))


def resnet50(classes: int, channels: int) -> Network:
    """Return ResNet-50, the stride in the 3 x 3 convolution of each bottleneck."""
    return _resnet(
        "resnet50", classes, channels, widths=(64, 128, 256, 512), blocks=(3, 4, 6, 3), bottleneck=True
    )


def senet18(classes: int, channels: int) -> Network:
    """Return SE-ResNet-18: ResNet-18 with squeeze-and-excite at the end of every branch."""
    return _resnet(
        "senet18", classes, channels, widths=(64, 128, 256, 512), blocks=(2, 2, 2, 2), squeeze=True
    )
