"""Encoders that only copy: pixels as they are, and vectors that exist already."""

from collections.abc import Sequence

import numpy as np

from ..arrays import Float32Array, UInt8Array
from ..data import Kind, Unreadable
from .base import ImageEncoder, check_one_shape, check_size


class PixelEncoder(ImageEncoder):
    """Every pixel value a feature, scaled to [0, 1].

    `size`: side that images are resampled to, as RGB. With None all must have one shape.
    """

    name = "pixels"
    revision = None
    batch_size = 1024

    def __init__(self, size: int | None = None) -> None:
        self.size = None if size is None else check_size(size)
        self._shape: tuple[int, ...] | None = None if size is None else (size, size, 3)

    @property
    def dimension(self) -> int | None:  # type: ignore[override]
        """Values per image, known after the first one."""
        return None if self._shape is None else int(np.prod(self._shape))

    def _forward(self, pixels: UInt8Array) -> Float32Array:
        self._shape = self._shape or pixels.shape[1:]
        check_one_shape([np.empty(self._shape, np.uint8), pixels[0]], self.name)
        scaled: Float32Array = pixels.reshape(len(pixels), -1).astype(np.float32) / np.float32(255)
        return scaled


class PrecomputedEncoder:
    """Pass on vectors that are embeddings already.

    >>> PrecomputedEncoder().encode([[1, 2], [3, 4]])
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """

    name = "precomputed"
    kind: Kind = "rows"
    revision = None
    batch_size = 4096

    def __init__(self) -> None:
        self.dimension: int | None = None

    def prepare(self, item: object) -> Float32Array:
        """Return the row as float32, or refuse values that are not finite."""
        row = np.asarray(item, dtype=np.float32)
        if row.ndim != 1 or not np.isfinite(row).all():
            raise Unreadable("NaN or infinite values; expected finite numbers")
        return row

    def encode(self, batch: Sequence[object]) -> Float32Array:
        """Return the rows as one array."""
        rows = [self.prepare(item) for item in batch]
        if not rows:
            return np.empty((0, self.dimension or 0), dtype=np.float32)
        self.dimension = len(rows[0])
        return np.stack(rows)
