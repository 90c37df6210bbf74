"""A softmax regression as a network: for rows that are embeddings already."""

import numpy as np
import torch
from torch import Tensor, nn

from ..images import Inputs
from .base import Network

_CHUNK_VALUES = 1 << 22


class Linear(Network):
    """A classifier of rows of numbers whose features are the rows themselves, standardised.

    Rows are centred and divided by their root mean square length. One learning rate then suits
    embeddings of every width and scale, because no direction has a curvature above 1.

    `width`: numbers in a row; they take the place of an image's channels.
    """

    input_dimensions = 2

    def __init__(self, classes: int, width: int) -> None:
        super().__init__("linear", nn.Identity(), feature_size=width, classes=classes, channels=width)

    def features(self, images: Tensor) -> Tensor:
        """Return the standardised rows, shape (rows, width)."""
        return (images - self.mean.flatten()) / self.std.flatten()

    def standardise(self, images: Inputs) -> None:
        """Take the mean and the root mean square length from rows, in float64 and chunk by chunk."""
        step = max(1, _CHUNK_VALUES // self.channels)
        chunks = [slice(start, start + step) for start in range(0, len(images), step)]
        mean = sum(images[chunk].sum(axis=0, dtype=np.float64) for chunk in chunks) / len(images)
        squares = sum(float(np.square(images[chunk] - mean).sum()) for chunk in chunks)
        self.mean.copy_(torch.from_numpy(mean)[:, None, None])
        self.std.fill_((squares / len(images)) ** 0.5 or 1.0)
        self.standardised.fill_(True)
