"""What the image encoders share."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Float32Array, UInt8Array
from ..data.images import as_pixels
from ..errors import InvalidInput, InvalidParameter, brief
from ..validation import is_whole
from .base import Kind


def check_size(size: Any, name: str = "size") -> int:
    """Return the side of the encoder's input in pixels."""
    if not is_whole(size) or not 1 <= size <= 4096:
        raise InvalidParameter(f"{name} must be a whole number of pixels from 1 to 4096; got {brief(size)}")
    return int(size)


def check_one_shape(pixels: Sequence[UInt8Array], name: str) -> None:
    """Refuse images of several shapes where no size was asked for."""
    shapes = sorted({image.shape for image in pixels})
    if len(shapes) > 1:
        raise InvalidInput(
            f"{name} got images of the shapes {shapes[0]} and {shapes[1]};"
            " expected one shape, or a size that they are resampled to (size=...)"
        )


class ImageEncoder(ABC):
    """Common part of the image encoders; a family adds its names and ``_forward``."""

    name: str
    dimension: int | None
    revision: str | None
    kind: Kind = "image"
    batch_size = 64
    size: int | None = None

    def prepare(self, item: Any) -> UInt8Array:
        """Return an image as the bytes the network reads."""
        return as_pixels(item, self.size)

    def encode(self, batch: Sequence[Any]) -> Float32Array:
        """Return one vector per image; images as :func:`as_pixels` takes them."""
        pixels = [self.prepare(item) for item in batch]
        if not pixels:
            return np.empty((0, self.dimension or 0), dtype=np.float32)
        check_one_shape(pixels, self.name)
        return self._forward(np.stack(pixels))

    @abstractmethod
    def _forward(self, pixels: UInt8Array) -> Float32Array:
        """Return one vector per image of a stack of pixels."""
