"""The door: whatever holds rows, images or texts becomes a dataset here, and nowhere else.

The table below lists the kinds of data that can be opened. Packages add their own through the entry point
group ``gmmatch.formats``, each entry a :class:`Format`, and users with :func:`register_format`.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import IntArray
from ..errors import InvalidInput, InvalidParameter, first_line
from ..files import SHARDS, machine_memory, os_errors
from ..plugins import Registry
from ..validation import as_size, check_choice
from .columns import attach
from .dataset import Dataset, Kind
from .formats import arrays, arrow, image_files, objects, text_files
from .formats.base import Format, write_arrays, write_images
from .remote import stamps_of
from .request import Place, Request, find_place, listed, order_notes

_COMPARED = 1000  # rows by which a column is taken to hold the labels

# The first that recognises what was given opens it.
OWN: tuple[Format, ...] = (
    objects.RAY,
    objects.HUGGING_FACE,
    arrays.NPY,
    arrays.NPZ,
    arrow.PARQUET,
    arrow.ARROW,
    arrays.SAFETENSORS,
    text_files.DELIMITED,
    text_files.JSON,
    image_files.IDX,
    image_files.CIFAR,
    image_files.FOLDER,
    objects.TABLE,
    objects.TORCH,
    objects.LIST,
    objects.ARRAY,
)
KNOWN = (
    ".npy, .npz, .parquet, .arrow, .safetensors, .csv, .tsv, .jsonl, .txt, IDX, CIFAR batches, a folder of"
    " images, or a folder or glob of shards"
)


def _as_format(name: str, given: object) -> Format:
    """Check what a package, or a user, offers as a format."""
    if not isinstance(given, Format):
        raise InvalidParameter(f"a format must be a gmmatch.data.Format; got {type(given).__name__}")
    return replace(given, name=name)


FORMATS: Registry[Format] = Registry(
    "gmmatch.formats", "format", {known.name: known for known in OWN}, _as_format
)


def register_format(added: Format) -> Format:
    """Make another kind of data known; it is asked before the project's own kinds.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> from gmmatch.data import Dataset, Format
    >>> seven = Format(
    ...     "seven",
    ...     recognise=lambda x, request: x == "seven",
    ...     open=lambda x, request: Dataset(np.full((7, 7), 7.0), "seven", "seven"),
    ...     write=lambda dataset, rows, folder: None,
    ... )
    >>> gmmatch.register_format(seven) is seven
    True
    >>> del gmmatch.data.FORMATS["seven"]
    """
    FORMATS.register(added.name, _as_format(added.name, added))
    return added


def open_dataset(
    x: object,
    labels: object = None,
    ids: object = None,
    *,
    embedding: str | None = None,
    text: str | None = None,
    image: str | None = None,
    holds: Kind | None = None,
    split: str = "train",
    memory: int | str | None = None,
    mapped: bool = False,
    on_bad_rows: str = "error",
    unlabelled: str = "error",
    header: str = "auto",
) -> Dataset:
    """Open rows, images or texts without loading more than fits.

    Parameters
    ----------
    x
        A path, a glob or an address: `.npy`, `.npz`, Parquet, Arrow or safetensors files, one or many;
        `.csv`, `.tsv` or `.jsonl` of numbers or of texts; lines of text; a folder of images, with a folder
        per class; IDX; CIFAR batches; a folder saved by Hugging Face `datasets`. Or an object: an array, a
        torch tensor or dataset, a Hugging Face dataset, a pandas, polars or Arrow table, a list of images,
        paths or texts, a dictionary of columns, a list of records, or what is read like an array, by slices
        and ascending row numbers. Or a dataset that is open already.
    labels, ids
        A column of `x`, a file with one value per row, or the values themselves. A file may be `.npy`,
        `.npz`, IDX, `.txt`, `.csv`, `.tsv`, `.jsonl`, `.parquet` or `.arrow`; where it has a column of ids,
        labels belong to rows by id. A folder or a pattern names files in shards, as those of `x`. By
        default those that come with `x`.
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
        `class` keeps rows without a label as a class of their own. `pick`: they have their share of the
        picks, as clusters, and the selection says which are to be labelled (`to_label`).
    header
        Whether the first line of a `.csv` or `.tsv` names the columns: `yes`, `no`, or `auto`, which compares
        it with the lines below.

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
    check_choice(unlabelled, ("error", "class", "pick"), "unlabelled")
    check_choice(header, ("auto", "yes", "no"), "header")
    x, labels, ids = objects.as_collection(x), objects.as_list(labels), objects.as_list(ids)
    if isinstance(x, Dataset):
        drop = x.drop or on_bad_rows == "drop"
        return attach(x.replace(drop=drop), labels, ids, "drop" if drop else "error", unlabelled)
    if isinstance(x, (str, os.PathLike)):
        x, labels, ids = written_arrays(x, labels, ids)
    most = machine_memory() if memory is None else as_size(memory) if isinstance(memory, str) else memory
    room = 0 if mapped else machine_memory() // 4 if memory is None else most
    drop = on_bad_rows == "drop"
    request = Request(embedding, text, image, labels, ids, holds, split, room, most, drop, header)
    given = find_place(x, most) if isinstance(x, (str, os.PathLike)) else x
    before = stamps_of(given.files) if isinstance(given, Place) else {}
    handling = labels, ids, on_bad_rows, unlabelled
    found = attach(_opened(given, request, before), *handling)
    old = old_labels(found, labels)
    if not old:
        return found
    without = attach(_opened(given, replace(request, without=old), before), *handling)
    told = f"column {listed(old)} of {found.name} holds most of the labels as they were, and was left out"
    return without.replace(notes=(*without.notes, told))


def _opened(given: Any, request: Request, before: dict[str, str]) -> Dataset:
    """Return what the format that recognises it opens; formats that were added are asked first.

    `before`: what the files looked like before that.
    """
    what, own = given.name if isinstance(given, Place) else type(given).__name__, {one.name for one in OWN}
    known = sorted(FORMATS.values(), key=lambda one: one.name in own)
    chosen = next((one for one in known if one.recognise(given, request)), None)
    if chosen is None:
        raise InvalidInput(f"{what} is of a kind that is not known; expected {KNOWN}")
    try:
        found = chosen.open(given, request)
    except UnicodeDecodeError as error:  # names of columns in damaged tables
        raise InvalidInput(f"{what} has names that are not UTF-8: {first_line(error)}") from None
    if request.header != "auto" and found.kind != "csv":
        raise InvalidParameter(f"header is for .csv and .tsv files; {found.name} has no lines")
    notes = (*found.notes, *order_notes(found.files)) if found.kind in SHARDS.values() else found.notes
    stamps = before if set(found.files) <= before.keys() else stamps_of(found.files) | before
    stamps = {file: stamps[file] for file in found.files}
    return found.replace(stamps=stamps, notes=notes, drop=request.drop)


def old_labels(found: Dataset, labels: object) -> tuple[str, ...]:
    """Return the columns of a table that hold most of the labels, where these are given apart from it.

    Rows are not to be compared by labels that were corrected in another file. Columns of two numbers may
    agree with labels for other reasons, and stay.
    """
    read, known = found.read_column, found.labels
    apart = labels is not None and not (isinstance(labels, str) and labels in found.columns)
    compared = found.rows is not None and found.scalars == found.columns != ()  # no column of embeddings
    if not apart or not compared or read is None or known is None:
        return ()
    given = list(map(_spelled, known[:_COMPARED].tolist()))
    classes = set(map(_spelled, np.unique(known).tolist()))
    if len(classes) < 2 or (len(classes) == 2 and np.issubdtype(known.dtype, np.number)):
        return ()

    def agrees(name: str) -> bool:
        values = list(map(_spelled, read(name, 0, len(given))))
        same = sum(value == label for value, label in zip(values, given, strict=True))
        return set(values) - {""} <= classes and 2 * same > len(given)

    return tuple(filter(agrees, found.columns))


def _spelled(value: Any) -> str:
    """Return a label as text; a whole number without a point, and nothing where there is none."""
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def written_arrays(
    path: str | os.PathLike[str], labels: object, ids: object
) -> tuple[str | os.PathLike[str], object, object]:
    """Return the array of a folder that `write_rows` wrote, its labels and ids; else what was given."""
    folder = Path(path)
    try:
        names = set(os.listdir(folder)) if folder.is_dir() else set()
    except OSError:  # whoever opens it says so
        return path, labels, ids
    main = next((name for name in ("images.npy", "embeddings.npy") if name in names), None)
    if main is None or len(names) < 2 or not names <= {main, "labels.npy", "ids.npy"}:
        return path, labels, ids
    if labels is None and "labels.npy" in names:
        labels = str(folder / "labels.npy")
    if ids is None and "ids.npy" in names:
        ids = str(folder / "ids.npy")
    return folder / main, labels, ids


def write_rows(dataset: Dataset, rows: IntArray, folder: Path) -> None:
    """Write some rows of a dataset, in the order requested, as the kind of data that they came from.

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
    plain = write_images if dataset.rows is None else write_arrays
    with os_errors(f"cannot write {folder}"):
        (plain if known is None else known.write)(dataset, rows, folder)
