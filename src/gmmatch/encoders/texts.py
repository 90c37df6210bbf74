"""The common part of text encoders, and WordLlama."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Float32Array
from .base import Kind, Unreadable, require
from .files import digest

_LONGEST = 100_000
_BLOCK = 200_000


class TextEncoder:
    """Common part of the text encoders; a family adds its names and `encode`."""

    name: str
    dimension: int | None
    revision: str | None
    kind: Kind = "text"
    batch_size = 256

    def prepare(self, item: Any) -> str:
        """Return the text, or refuse what is empty or no text."""
        if not isinstance(item, str):
            raise Unreadable(f"expected text; got {type(item).__name__}")
        if not item.strip():
            raise Unreadable("an empty text")
        return item


class WordLlamaEncoder(TextEncoder):
    """Average of token vectors taken from a large language model: 256 features, no torch.

    Of a text beyond 100,000 characters, the beginning counts.
    """

    name = "wordllama"
    batch_size = 2048

    def __init__(self) -> None:
        library = require("wordllama", "wordllama", "texts")
        folder = Path(library.__file__).parent
        self._model = library.WordLlama.load(cache_dir=folder, disable_download=True)
        table = self._model.embedding
        self.dimension: int = table.shape[1]
        self.revision = f"{digest(np.ascontiguousarray(table).tobytes())} {library.__version__} {_LONGEST}"

    def encode(self, batch: Sequence[Any]) -> Float32Array:
        """Return one vector per text.

        The library pads a block to its longest text and holds a vector per token, so texts go through
        in order of their length, in blocks of a bounded number of characters.
        """
        texts = [self.prepare(item)[:_LONGEST] for item in batch]
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        while order:
            count = min(64, max(1, _BLOCK // len(texts[order[-1]])))
            block = order[-count:]
            del order[-count:]
            vectors[block] = self._model.embed([texts[row] for row in block], batch_size=count)
        return vectors
