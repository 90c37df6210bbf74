"""Hand the kept rows over to whatever holds the data: tables, datasets, lists, a loader's sampler."""

import sys
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from .arrays import AnyArray, IntArray, Labels, is_lazy, kinds_of
from .errors import InvalidInput, InvalidInputType, require

Taker = Callable[[Any, IntArray], Any]
_PLACE = "__place among the picks__"


def take_rows(x: object, indices: IntArray, n_rows: int, ids: Labels | None = None) -> Any:
    """Return the rows of `x` at `indices`, in that order, as the kind of thing that `x` is.

    Raises `InvalidInput`: `x` has another number of rows than the selection was made from, or an index (a
    `Dataset`: ids) by which other rows than these have the `ids`. Raises `InvalidInputType`: `x` is of no
    kind that is known.

    >>> take_rows(["a", "b", "c"], np.array([2, 0]), n_rows=3)
    ['c', 'a']
    """
    if type(x).__module__.startswith("ray.data."):
        return _take_from_ray(x, indices, n_rows)
    kinds = kinds_of(x)
    taker = next((take for kind, take in _TAKERS.items() if kind in kinds), None)
    if taker is None and isinstance(x, Sequence) and not isinstance(x, (str, bytes)):
        taker = _take_items
    if taker is None and is_lazy(x):
        taker = _take_ascending
    if taker is None or not isinstance(x, Sized) or getattr(x, "ndim", 1) == 0:
        raise InvalidInputType(
            "expected a list, an array, a pandas, polars or Arrow table, a Hugging Face or a torch dataset"
            f" with a length, or what gmmatch.open returns; got {type(x).__name__}"
        )
    length = x.shape[0] if ("scipy", "_spbase") in kinds else len(x)  # type: ignore[attr-defined]
    if length != n_rows:
        raise InvalidInput(f"the selection was made from {n_rows} rows; got {type(x).__name__} of {length}")
    check_order(x, indices, ids)
    return taker(x, indices)


def check_order(x: Any, indices: IntArray, ids: Labels | None) -> None:
    """Refuse a table of pandas, or a `Dataset`, that has the kept ids on other rows."""
    kinds = kinds_of(x)
    is_table = bool(kinds & {("pandas", "DataFrame"), ("pandas", "Series")})
    own = x.index if is_table else x.ids if ("gmmatch", "Dataset") in kinds else None
    if own is None or ids is None:
        return
    found, wanted = [[str(key) for key in keys.tolist()] for keys in (own[indices], ids)]
    if found != wanted and set(wanted) <= {str(key) for key in own.tolist()}:
        place = next(place for place, key in enumerate(found) if key != wanted[place])
        way_out = "; take them by index: x.loc[selection.ids]" if is_table else ""
        raise InvalidInput(
            f"the rows are in another order than those that the selection was made from: row {indices[place]}"
            f" was {wanted[place]!r}, and is {found[place]!r}{way_out}"
        )


def as_frame(columns: Mapping[str, AnyArray]) -> Any:
    """Return columns as a pandas DataFrame."""
    return require("pandas", "pandas", "hf").DataFrame(dict(columns))


def _take_items(items: Sequence[object], rows: IntArray) -> list[object]:
    return [items[row] for row in rows.tolist()]


def _take_ascending(rows: Any, indices: IntArray) -> AnyArray:
    """Return rows of what may be read in ascending order only, as files are."""
    order = np.argsort(indices)
    found: AnyArray = np.asarray(rows[indices[order]])
    return found[np.argsort(order)]


def _take_tensor(tensor: Any, rows: IntArray) -> Any:
    return tensor[sys.modules["torch"].as_tensor(rows, device=tensor.device)]


_TAKERS: dict[tuple[str, str], Taker] = {
    ("datasets", "Dataset"): lambda data, rows: data.select(rows),
    ("gmmatch", "Dataset"): lambda data, rows: data.chosen(rows),
    ("pandas", "DataFrame"): lambda table, rows: table.iloc[rows],
    ("pandas", "Series"): lambda column, rows: column.iloc[rows],
    ("pyarrow", "Table"): lambda table, rows: table.take(rows),
    ("pyarrow", "RecordBatch"): lambda batch, rows: batch.take(rows),
    ("pyarrow", "ChunkedArray"): lambda column, rows: column.take(rows),
    ("pyarrow", "Array"): lambda column, rows: column.take(rows),
    ("polars", "DataFrame"): lambda table, rows: table[rows],
    ("polars", "Series"): lambda column, rows: column[rows],
    ("numpy", "ndarray"): lambda array, rows: array[rows],
    ("scipy", "_spbase"): lambda matrix, rows: matrix.tocsr()[rows],
    ("torch", "Tensor"): _take_tensor,
    ("torch", "Dataset"): lambda data, rows: sys.modules["torch"].utils.data.Subset(data, rows.tolist()),
}
"""What takes rows from each class, by its library and its name."""


def in_order(data: Any) -> Any:
    """Return a dataset of Ray with its blocks computed, in the order of its rows, which Ray need not keep."""
    options = data.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        return data.materialize()
    finally:
        options.preserve_order = before


def _take_from_ray(data: object, indices: IntArray, n_rows: int) -> Any:
    """Return a dataset of Ray Data with these rows, in their order; the rows stay with the cluster."""
    ray = sys.modules["ray"]
    references = in_order(data).to_arrow_refs()
    count = ray.remote(lambda block: block.num_rows)
    lengths = ray.get([count.remote(reference) for reference in references])
    if sum(lengths) != n_rows:
        raise InvalidInput(f"the selection was made from {n_rows} rows; got a dataset of {sum(lengths)}")
    ends = np.cumsum(lengths)
    home = np.searchsorted(ends, indices, side="right")

    def take(block: Any, rows: IntArray, places: IntArray) -> Any:
        return block.take(rows).append_column(_PLACE, [places])

    taken = [
        ray.remote(take).remote(references[number], indices[own] - (ends[number] - lengths[number]), own)
        for number in np.unique(home).tolist()
        for own in [np.flatnonzero(home == number)]
    ]
    return ray.data.from_arrow_refs(taken).sort(_PLACE).drop_columns([_PLACE])
