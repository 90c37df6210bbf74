"""What an encoder is: a name, a dimension, and a function from a batch to vectors."""

import os
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from ..arrays import Float32Array, UInt8Array
from ..data.items import Kind, Unreadable
from ..errors import require

__all__ = ["Encoder", "Float32Array", "Kind", "UInt8Array", "Unreadable", "cores", "require"]


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


def cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
