"""A part of an input encoded by a process of its own, into the store that all share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..arrays import UInt8Array
from ..data import open_dataset
from ..progress import task
from .registry import encoder as find_encoder
from .run import Run
from .store import VectorStore

Spread = Callable[[Callable[[slice], Any], Sequence[slice]], Iterator[Any]]
"""Yields the results of a function of slices of the input, in order, wherever they are made."""

_BATCHES = 8


@dataclass(frozen=True, eq=False)
class Encoded:
    """What became of a part of the input."""

    keys: UInt8Array  # what each row's vector is kept under
    reasons: dict[int, str]  # why rows could not be encoded, by row number
    encoded: int  # how many contents were encoded; the others were known


@dataclass(frozen=True, eq=False)
class EncodeShard:
    """The function that encodes a slice of an input; it opens everything by name, once per process."""

    source: Path  # path of the input
    options: Mapping[str, Any]  # of `gmmatch.data.open_dataset`
    # Spec string and parameters of the encoder.
    encoder: str
    params: Mapping[str, Any]
    store: Path  # folder of the vectors
    batch_size: int  # how many rows to encode together

    @cached_property
    def run(self) -> Run:
        """The input, the encoder and the store, opened."""
        made = find_encoder(self.encoder, **self.params)
        found = open_dataset(self.source, holds=made.kind, **self.options)
        return Run(found, made, VectorStore(self.store))

    def __call__(self, part: slice) -> Encoded:
        """Encode the rows of a slice that the store does not have yet."""
        run, before = self.run, self.run.encoded
        keys = run.encode(part.start, part.stop, self.batch_size)
        reasons = {row: reason for row, reason in run.reasons.items() if part.start <= row < part.stop}
        return Encoded(keys, reasons, run.encoded - before)


def encode_spread(function: EncodeShard, run: Run, spread: Spread) -> Run:
    """Encode a whole input in shards, and return a run that knows where the vectors are.

    Shards are whole batches, so that contents are encoded together as they would be on one machine.

    `function`: what encodes a shard. `spread`: what runs the function.
    """
    step = function.batch_size * _BATCHES
    n_rows = len(run.found)
    parts = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
    run.store.close()
    found: list[Encoded] = []
    with task(f"encoding with {run.encoder.name}", n_rows) as advance:
        for part, encoded in zip(parts, spread(function, parts), strict=True):
            found.append(encoded)
            advance(part.stop - part.start)
    after = Run(run.found, run.encoder, VectorStore(function.store))
    for part, encoded in zip(parts, found, strict=True):
        after.positions[part] = after.store.find(encoded.keys)
        after.reasons |= encoded.reasons
        after.encoded += encoded.encoded
    for row in after.reasons:
        after.positions[row] = -1
    return after
