"""Tables in memory: pandas, polars, Arrow. None of them is imported to be recognised."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ...arrays import IntArray
from ...errors import InvalidInput
from ..arrow import Columns, InMemory, arrow_table, take_table
from ..dataset import Dataset
from ..request import Request
from ..tables import table_dataset
from .base import Format


def _recognise(x: Any, request: Request) -> bool:
    library = type(x).__module__.partition(".")[0]
    return (library, type(x).__name__) in (
        ("pandas", "DataFrame"),
        ("polars", "DataFrame"),
        ("polars", "LazyFrame"),
        ("pyarrow", "Table"),
        ("pyarrow", "RecordBatch"),
    )


def _as_arrow(x: Any) -> pa.Table:
    """Return a table as Arrow; numbers are shared where that is possible."""
    if isinstance(x, pa.Table):
        return x
    if isinstance(x, pa.RecordBatch):
        return pa.Table.from_batches([x])
    if hasattr(x, "to_arrow") or hasattr(x, "collect"):
        return (x.collect() if hasattr(x, "collect") else x).to_arrow()
    try:
        return pa.Table.from_pandas(x, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInput(f"the table cannot be read: {str(error).splitlines()[0]}") from error


def _open(x: Any, request: Request) -> Dataset:
    table = _as_arrow(x)

    def read(names: list[str], start: int, stop: int) -> pa.Table:
        return table.select(names).slice(start, stop - start)

    held = InMemory("the table", table.num_rows, read)
    columns = Columns("the table", table.schema, [held])
    found = table_dataset(arrow_table(columns), request, "table", ()).replace(original=x)
    return found.replace(ids=_index(x)) if found.ids is None else found


def _index(x: Any) -> npt.NDArray[Any] | None:
    """Return the index of a pandas table where it names the rows: no count, every value once."""
    index = getattr(x, "index", None)
    if index is None or type(x).__module__.partition(".")[0] != "pandas":
        return None
    counts = type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)
    if counts or index.nlevels > 1 or not index.is_unique or index.hasnans:
        return None
    values = index.to_numpy()
    if values.dtype.kind in "iu" and (values == np.arange(len(values))).all():
        return None
    return values if values.dtype.kind in "iuU" else np.array([str(value) for value in values])


def _write(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    with (folder / "kept.parquet").open("wb") as file:
        pq.write_table(take_table([_as_arrow(dataset.original)], rows), file)


FORMAT = Format("table", _recognise, _open, _write)
