"""VGG-16 (Simonyan and Zisserman, 2015) with batch normalisation and one linear layer."""

from torch import nn

from .base import Network

_STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def vgg16(classes: int, channels: int) -> Network:
    """Return VGG-16; pooling rounds up, so that images of 28 pixels survive all five halvings.

    The convolutions keep their biases, as in the published network, though batch normalisation
    makes them idle.
    """
    body = nn.Sequential()
    inputs = channels
    for stage in _STAGES:
        for width in stage:
            body.extend([nn.Conv2d(inputs, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()])
            inputs = width
        body.append(nn.MaxPool2d(2, ceil_mode=True))
    return Network("vgg16", body, feature_size=inputs, classes=classes, channels=channels)
