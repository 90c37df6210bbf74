"""Networks of `gmmatch train` as encoders: an entry point of the package, ``torch:CHECKPOINT``."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Float32Array, UInt8Array
from ..data.images import PIXELS_VERSION, as_pixels
from ..encoders import Family
from ..encoders.base import ImageEncoder, check_one_shape, check_size
from ..encoders.store import file_digest
from ..encoders.torch_modules import resolve_device
from ..errors import require
from . import training


class CheckpointEncoder(ImageEncoder):
    """Penultimate features of a network saved by ``gmmatch train``; no code in the file is run.

    `size`: side that images are resampled to; by default that of the squares the network was trained on.
    `device`: where it runs, as for `gmmatch train`.
    """

    batch_size = 256

    def __init__(self, path: str | os.PathLike[str], size: int | None = None, device: str = "auto") -> None:
        self._device = resolve_device(device)
        saved = training.load_checkpoint(path)
        self._network, shape = saved.network, saved.metadata.get("shape", ())
        if size is None and len(shape) == 3 and shape[0] == shape[1]:
            size = shape[0]
        self.name = f"torch:{os.fspath(path)}"
        self.size = None if size is None else check_size(size)
        self.dimension: int = self._network.feature_size
        self.revision = f"{file_digest(path)} {self.size} pixels {PIXELS_VERSION}"

    def prepare(self, item: Any) -> UInt8Array:
        """Return an image in the network's number of channels, grey or colour."""
        pixels = as_pixels(item, self.size)
        channels = self._network.channels
        if pixels.shape[2] == channels:
            return pixels
        if channels == 3 and pixels.shape[2] == 1:
            return np.repeat(pixels, 3, axis=2)
        image = require("PIL.Image", "pillow", "photos").fromarray(pixels)
        return np.asarray(image.convert("L" if channels == 1 else "RGB")).reshape(*pixels.shape[:2], channels)

    def encode(self, batch: Sequence[Any]) -> Float32Array:
        """Return one vector per image; without `size`, all images must have one shape."""
        pixels = [self.prepare(item) for item in batch]
        check_one_shape(pixels, self.name)
        if not pixels:
            return np.empty((0, self.dimension), dtype=np.float32)
        return self._forward(np.stack(pixels))

    def _forward(self, pixels: UInt8Array) -> Float32Array:
        return training.features(self._network, pixels, device=self._device)


CHECKPOINT = Family(CheckpointEncoder, "image", "CHECKPOINT", "torch", "a network of `gmmatch train`")
