"""What an encoder is: a name, a dimension, and a function from a batch to vectors; and the two simplest."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..arrays import Float32Array, UInt8Array
from ..data import Kind, Unreadable
from ..data.images import as_pixels
from ..errors import InvalidInput, InvalidParameter, brief
from ..validation import is_whole


@runtime_checkable
class Encoder(Protocol):
    """Turns images, texts or rows into vectors.

    Any object with these members can be passed to :func:`gmmatch.encoders.embed_input`.
    """

    @property
    def name(self) -> str:
        """The spec string that makes this encoder."""

    @property
    def kind(self) -> Kind:
        """What it takes: ``image``, ``text`` or ``rows``."""

    @property
    def dimension(self) -> int | None:
        """Length of the vectors; None until the first batch where the data decides."""

    @property
    def revision(self) -> str | None:
        """Changes whenever the vectors would; None where encoding costs less than a cache."""

    @property
    def batch_size(self) -> int:
        """How many items are best encoded together."""

    def prepare(self, item: Any) -> Any:
        """Decode one item, on any thread; raise :class:`Unreadable` where that is impossible."""

    def encode(self, batch: Sequence[Any]) -> Float32Array:
        """Return one vector per item, prepared or not, shape (items, dimension)."""


def check_size(size: object) -> int:
    """Return the side of the encoder's input in pixels."""
    if not is_whole(size) or not 1 <= size <= 4096:
        raise InvalidParameter(f"size must be a whole number of pixels from 1 to 4096; got {brief(size)}")
    return int(size)


def check_one_shape(pixels: Sequence[UInt8Array], name: str) -> None:
    """Refuse images of several shapes where no size was requested."""
    shapes = sorted({image.shape for image in pixels})
    if len(shapes) > 1:
        expected = "expected one shape, or a size that they are resampled to (size=...)"
        raise InvalidInput(f"{name} got images of the shapes {shapes[0]} and {shapes[1]}; {expected}")


class ImageEncoder(ABC):
    """Common part of the image encoders; a family adds its names and ``_forward``."""

    name: str
    dimension: int | None
    revision: str | None
    kind: Kind = "image"
    batch_size = 64
    size: int | None = None

    def prepare(self, item: object) -> UInt8Array:
        """Return an image as the bytes the network reads."""
        return as_pixels(item, self.size)

    def encode(self, batch: Sequence[object]) -> Float32Array:
        """Return one vector per image; images as :func:`as_pixels` takes them."""
        pixels = [self.prepare(item) for item in batch]
        if not pixels:
            return np.empty((0, self.dimension or 0), dtype=np.float32)
        check_one_shape(pixels, self.name)
        return self._forward(np.stack(pixels))

    @abstractmethod
    def _forward(self, pixels: UInt8Array) -> Float32Array:
        """Return one vector per image of a stack of pixels."""


class TextEncoder:
    """Common part of the text encoders; a family adds its names and `encode`."""

    name: str
    dimension: int | None
    revision: str | None
    kind: Kind = "text"
    batch_size = 256

    def prepare(self, item: object) -> str:
        """Return the text, or refuse what is empty or no text."""
        if not isinstance(item, str):
            raise Unreadable(f"expected text; got {type(item).__name__}")
        if not item.strip():
            raise Unreadable("an empty text")
        return item


# ---- encoders that only copy: pixels as they are, and vectors that exist already ----


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
        return pixels.reshape(len(pixels), -1).astype(np.float32) / np.float32(255)


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
