"""The door: whatever holds rows, images or texts becomes a dataset here, and nowhere else."""

import os
from pathlib import Path
from typing import Any

from ..errors import InvalidInput, first_line
from ..records import IntArray
from ..validation import check_choice
from .columns import attach
from .dataset import Dataset, stamp_of
from .formats import FORMATS, find_format
from .formats.base import write_arrays, write_images
from .items import Kind
from .memory import hand_back_memory, machine_memory
from .places import Place, find_place
from .request import Request


def open_dataset(
    x: Any,
    labels: Any = None,
    ids: Any = None,
    *,
    embedding: str | None = None,
    text: str | None = None,
    image: str | None = None,
    holds: Kind | None = None,
    split: str = "train",
    memory: int | None = None,
    mapped: bool = False,
    on_bad_rows: str = "error",
    unlabelled: str = "error",
) -> Dataset:
    """Open rows, images or texts without loading more than fits.

    Parameters
    ----------
    x
        A path, a glob or an address: `.npy`, `.npz`, Parquet, Arrow or safetensors files, one or many;
        `.csv`, `.tsv` or `.jsonl` of numbers or of texts; lines of text; a folder of images, with a folder
        per class; IDX; CIFAR batches; a folder saved by Hugging Face `datasets`. Or an object: an array, a
        torch tensor or dataset, a Hugging Face dataset, a pandas, polars or Arrow table, a list of images,
        paths or texts. Or a dataset that is open already.
    labels, ids
        A column of `x`, a file with one value per row, or the values themselves. A file may be `.npy`,
        `.npz`, IDX, `.txt`, `.csv`, `.tsv`, `.jsonl`, `.parquet` or `.arrow`; where it has a column of ids,
        labels belong to rows by id. By default those that come with `x`.
    embedding, text, image
        Column, array or tensor that holds the embeddings, the texts or the images; not needed where there
        is only one candidate.
    holds
        `rows`, `image` or `text`: what to look for, where `x` could be more than one.
    split
        `train` or `test`, where `x` has both.
    memory
        Bytes that may be used: columns of Parquet and Arrow of up to half of it, and up to 128 MB, are held
        in memory; larger ones are read where they are, whenever they are needed.
    mapped
        Read columns where they are even if they are small, so that other processes can do so as well: for
        ``engine="ray"``.
    on_bad_rows
        Rows without numbers or without a label: `error` refuses them and names them, `drop` leaves them
        out and lists them in `bad`; row numbers stay those of the input.
    unlabelled
        `class` keeps rows without a label as a class of their own.

    Returns
    -------
    Dataset
        What `gmmatch.select` takes as rows.

    Examples
    --------
    >>> import numpy as np
    >>> data = open_dataset(np.eye(3), labels=["a", None, "b"], on_bad_rows="drop")
    >>> data.shape, data.bad
    ((3, 3), {1: 'no label'})
    """
    check_choice(on_bad_rows, ("error", "drop"), "on_bad_rows")
    check_choice(unlabelled, ("error", "class"), "unlabelled")
    if isinstance(x, Dataset):
        return attach(x, labels, ids, on_bad_rows, unlabelled)
    if memory is not None:
        hand_back_memory()
    room = 0 if mapped else machine_memory() // 4 if memory is None else memory
    most, drop = machine_memory() if memory is None else memory, on_bad_rows == "drop"
    request = Request(embedding, text, image, labels, ids, holds, split, room, most, drop)
    given = find_place(x) if isinstance(x, (str, os.PathLike)) else x
    before = {file: stamp_of(file) for file in given.files} if isinstance(given, Place) else {}
    try:
        found = find_format(given, request).open(given, request)
    except UnicodeDecodeError as error:  # names of columns in damaged tables
        what = given.name if isinstance(given, Place) else type(given).__name__
        raise InvalidInput(f"{what} has names that are not UTF-8: {first_line(error)}") from None
    found = found.replace(stamps={file: before.get(file) or stamp_of(file) for file in found.files})
    return attach(found, labels, ids, on_bad_rows, unlabelled)


def write_rows(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    """Write some rows of a dataset, in the order asked for, as the kind of data that they came from.

    Images are linked or copied, in their folders; rows of tables keep all their columns; a Hugging Face
    dataset becomes a folder that `load_from_disk` opens.

    `folder`: an empty folder.

    >>> import numpy as np, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_rows(open_dataset(np.eye(3)), np.array([2, 0]), folder)
    >>> np.load(folder / "embeddings.npy").tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    known = FORMATS.get(dataset.kind)
    try:
        if known is not None:
            known.write(dataset, rows, folder)
        else:
            (write_arrays if dataset.rows is not None else write_images)(dataset, rows, folder)
    except OSError as error:
        raise InvalidInput(f"cannot write {folder}: {error.strerror or error}") from error
