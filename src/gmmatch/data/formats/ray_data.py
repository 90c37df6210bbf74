"""Datasets of Ray Data: their blocks are read where Ray keeps them, by this process or by a worker."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...arrays import IntArray
from ...errors import InvalidInput
from ...handover import in_order
from ..arrow import Columns, arrow_table, take_table
from ..dataset import Dataset
from ..request import Request
from ..tables import table_dataset
from .base import Format


@dataclass(frozen=True)
class RayBlock:
    """A block of a dataset, in Ray's store of objects."""

    name: str
    n_rows: int
    reference: Any
    begins = (0,)
    travels = True

    def check(self) -> None:
        """Nothing could have changed: objects of Ray do not."""

    def table(self) -> pa.Table:
        """Return the block."""
        return sys.modules["ray"].get(self.reference)

    def batches(self, names: list[str], start: int, stop: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns between two rows."""
        chosen = self.table().select(names).slice(start, stop - start).combine_chunks()
        for batch in chosen.to_batches(max_chunksize=rows):
            batch.validate(full=True)
            yield batch


def _recognise(x: Any, request: Request) -> bool:
    return type(x).__module__.startswith("ray.data.") and hasattr(x, "to_arrow_refs")


def _open(x: Any, request: Request) -> Dataset:
    ray = sys.modules["ray"]
    held = in_order(x)
    references = held.to_arrow_refs()
    count = ray.remote(lambda block: (block.num_rows, block.schema))
    facts = ray.get([count.remote(reference) for reference in references])
    blocks = [
        RayBlock("the dataset", n_rows, reference)
        for (n_rows, _), reference in zip(facts, references, strict=True)
        if n_rows
    ]
    if not blocks:
        raise InvalidInput("the dataset has no rows")
    schema = next(schema for n_rows, schema in facts if n_rows)
    columns = Columns("the dataset", schema, blocks)
    found = table_dataset(arrow_table(columns), request, "ray", ())
    return found.replace(original=(held, blocks))


def _write(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    blocks = dataset.original[1]
    pq.write_table(take_table((block.table() for block in blocks), np.asarray(rows)), folder / "kept.parquet")


FORMAT = Format("ray", _recognise, _open, _write)
