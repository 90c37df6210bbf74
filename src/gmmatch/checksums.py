"""Digests by which a file that was damaged, or changed by hand, is told from what was written."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

DIGEST_BYTES = 16


def digest_of_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """Return a digest of arrays of numbers and texts: their names, types, shapes and values.

    >>> one, other = {"rows": np.arange(3)}, {"rows": np.arange(3)[::-1].copy()}
    >>> digest_of_arrays(one) == digest_of_arrays(dict(one)), digest_of_arrays(one) == digest_of_arrays(other)
    (True, False)
    """
    found = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for name in sorted(arrays):
        values = np.ascontiguousarray(arrays[name])
        found.update(f"{name}\0{values.dtype.str}\0{arrays[name].shape}\0".encode())
        found.update(values.reshape(-1).view(np.uint8).data if values.size else b"")
    return found.hexdigest()


def digest_of_table(table: Any, *beside: bytes) -> str:
    """Return a digest of an Arrow table, the names and types of its columns, and of bytes that go with it.

    It does not depend on how the columns are divided into chunks, nor on what stands in empty cells.
    """
    found = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for name, column in zip(table.column_names, table.columns, strict=True):
        found.update(f"{name}\0{column.type}\0{len(column)}\0{column.null_count}\0".encode())
        for part in _parts_of(column):
            found.update(part)
    for content in beside:
        found.update(f"{len(content)}\0".encode() + content)
    return found.hexdigest()


def _parts_of(column: Any) -> list[Any]:
    """Return the cells of a column as bytes: which are there, how long they are, and what they hold."""
    import pyarrow as pa
    import pyarrow.compute as pc

    present = np.packbits(column.is_valid().to_numpy()).tobytes()
    kind, cells = column.type, column.drop_null()
    if pa.types.is_null(kind):
        return [present]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        values = np.ascontiguousarray(cells.to_numpy())
        return [present, values.view(np.uint8).data if values.size else b""]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        lengths = pc.binary_length(cells).to_numpy().astype("<i8")
        joined = "".join(cells.to_pylist()).encode("utf-8", "surrogatepass")
        return [present, lengths.tobytes(), joined]
    return [present, repr(column.to_pylist()).encode("utf-8", "surrogatepass")]
