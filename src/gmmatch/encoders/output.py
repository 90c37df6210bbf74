"""An embedding on disk: a ``.npy`` of vectors and a ``.parquet`` of ids, labels and paths."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray
from ..errors import InvalidParameter
from ..files import check_apart, check_folder, check_new, remove_partials
from ..progress import task
from ..records import METADATA_KEY
from .files import PathLike
from .store import VectorStore

_CHUNK_BYTES = 32 << 20


def check_output(output: PathLike, inputs: Iterable[Any], overwrite: bool = True) -> Path:
    """Return the path of the ``.npy`` file, in a folder that can be written to, apart from the inputs."""
    target = Path(output)
    if target.suffix != ".npy":
        raise InvalidParameter(f"the output must end in .npy; got {target}")
    check_folder(target)
    remove_partials(target)
    check_apart(written(target), inputs)
    for path in written(target):
        check_new(path, overwrite)
    return target


def written(target: Path) -> list[Path]:
    """Return the files of an embedding: its vectors, and what belongs to them."""
    return [target, target.with_suffix(".parquet")]


def write_rows(
    partial: Path,
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
    with partial.open("wb") as stream:
        pq.write_table(table, stream)


def write_vectors(partial: Path, store: VectorStore, positions: IntArray) -> None:
    """Write vectors of a store, in the order of `positions`."""
    dimension = store.dimension or 0
    step = max(1, _CHUNK_BYTES // (4 * max(dimension, 1)))
    head = {"descr": "<f4", "fortran_order": False, "shape": (len(positions), dimension)}
    with partial.open("wb") as stream, task("writing", len(positions)) as advance:
        np.lib.format.write_array_header_1_0(stream, head)
        for start in range(0, len(positions), step):
            rows = store.gather(positions[start : start + step])
            stream.write(rows.astype("<f4", copy=False).tobytes())
            advance(len(rows))
