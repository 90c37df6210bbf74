"""How long encoding takes, found by encoding a few rows and keeping nothing."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..arrays import IntArray
from ..data import Dataset
from ..files import cache_folder
from .base import Encoder
from .embed import Run, content_key
from .registry import find_family, make_encoder
from .store import VectorStore, as_keys, folder_name

_WARM = 4  # rows that are encoded before the clock starts
_TRIALS = (16, 128, 1024)  # rows, until that took long enough to measure
_ENOUGH = 0.7  # seconds
_LOOKED_UP = 64  # rows that are looked up among the vectors that are kept


@dataclass(frozen=True)
class Trial:
    """What a trial found."""

    seconds: float  # per row that is encoded
    known: float  # share of the rows whose vectors are kept already
    dimension: int


def try_encoder(chosen: str | Encoder, found: Dataset) -> Trial | None:
    """Encode some rows of a dataset; None where the encoder would be downloaded, or no row can be encoded."""
    if isinstance(chosen, str) and find_family(chosen)[0].extra == "hub":
        return None
    order = np.random.default_rng(0).permutation(len(found))
    with tempfile.TemporaryDirectory(prefix="gmmatch-") as passing:
        folder = Path(passing)
        made = make_encoder(chosen, folder, {})
        for size in (_WARM, *_TRIALS):
            some, started = found.chosen(np.sort(order[:size])), time.perf_counter()
            with VectorStore(folder / str(size)) as store:
                run = Run(some, made, store)
                run.encode(0, len(some), made.batch_size)
                took, good = time.perf_counter() - started, run.positions[run.positions >= 0]
                if not len(good):
                    return None
                dimension = store.gather(good[:1]).shape[1]
            if size > _WARM and (took >= _ENOUGH or size >= len(found)):
                break
        return Trial(took / len(some), _share_known(made, found, order[:_LOOKED_UP]), dimension)


def _share_known(made: Encoder, found: Dataset, rows: IntArray) -> float:
    """Return the share of rows whose vectors are kept already."""
    if made.revision is None or found.content is None:
        return 0.0
    folder = cache_folder() / "vectors" / folder_name(made.name, made.revision)
    if not folder.is_dir():
        return 0.0
    keys = as_keys(content_key(found.content.read(row, row + 1)[0]) for row in rows.tolist())
    with VectorStore(folder) as store:
        places = store.find(keys)
    return float((places >= 0).mean())
