"""An embedding on disk: a ``.npy`` of vectors and a ``.parquet`` of ids, labels and paths."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidParameter
from ..files import check_folder, check_new, whole_file
from ..progress import task
from ..records import METADATA_KEY, IntArray
from .base import Float32Array
from .files import PathLike
from .store import VectorStore

_CHUNK_BYTES = 32 << 20


def check_output(output: PathLike, source: Any, overwrite: bool = True) -> Path:
    """Return the path of the ``.npy`` file, in a folder that can be written to, apart from the input."""
    target = Path(output)
    if target.suffix != ".npy":
        raise InvalidParameter(f"the output must end in .npy; got {target}")
    check_folder(target)
    beside = target.with_suffix(".parquet")
    if isinstance(source, (str, os.PathLike)):
        for written in (target, beside):
            if written.exists() and Path(source).exists() and written.samefile(source):
                raise InvalidParameter(f"the output would replace the input {written}; choose another name")
    check_new(target, overwrite)
    if not _is_ours(beside):  # as one is that a killed run left
        check_new(beside, overwrite)
    return target


def _is_ours(path: Path) -> bool:
    """Tell whether a table was written beside vectors."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return METADATA_KEY in (pq.read_schema(path).metadata or {})
    except (OSError, pa.ArrowException):
        return False


def write_rows(
    target: Path,
    ids: npt.NDArray[Any],
    labels: npt.NDArray[Any] | None,
    paths: Sequence[str] | None,
    facts: Mapping[str, Any],
) -> None:
    """Write ids, labels and paths beside the vectors, with facts about them in the metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "id": pa.array(ids),
        "label": pa.nulls(len(ids)) if labels is None else pa.array(labels),
        "path": pa.nulls(len(ids)) if paths is None else pa.array(paths),
    }
    table = pa.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(dict(facts))})
    with whole_file(target.with_suffix(".parquet")) as partial, partial.open("wb") as stream:
        pq.write_table(table, stream)


def write_vectors(target: Path, store: VectorStore, positions: IntArray) -> Float32Array:
    """Write vectors of a store, in the order of `positions`; return them as a memory map."""
    dimension = store.dimension or 0
    step = max(1, _CHUNK_BYTES // (4 * max(dimension, 1)))
    head = {"descr": "<f4", "fortran_order": False, "shape": (len(positions), dimension)}
    with (
        whole_file(target) as partial,
        partial.open("wb") as stream,
        task("writing", len(positions)) as advance,
    ):
        np.lib.format.write_array_header_1_0(stream, head)
        for start in range(0, len(positions), step):
            rows = store.gather(positions[start : start + step])
            stream.write(rows.astype("<f4", copy=False).tobytes())
            advance(len(rows))
    vectors: Float32Array = np.load(target, mmap_mode="r")
    return vectors
