"""Corrupt what a file or a folder holds: labels, images or embeddings, told apart by what they look like."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...data import open_dataset
from ...data.dataset import check_stamps
from ...data.formats.image_files import is_idx
from ...data.remote import stamps_of
from ...data.request import no_file
from ...errors import InvalidInput, InvalidParameter
from ...files import check_apart, check_new, remove_partials
from ...validation import nearest
from .contamination import CONTAMINATION_KINDS, contaminate
from .files import (
    ARRAY_SUFFIXES,
    TABLE_SUFFIXES,
    TEXT_SUFFIXES,
    ArrayFile,
    IdxFile,
    LabelFile,
    TableFile,
    mask_path,
    read_array,
    read_idx_labels,
    read_labels,
    read_table_labels,
)
from .folder import corrupt_folder, list_files, misplace_folder, read_image
from .images import IMAGE_KINDS, damage_images
from .labels import LABEL_KINDS, corrupt_labels
from .preview import sample_image, save_contact_sheet

Opened = ArrayFile | LabelFile | TableFile | IdxFile
Corrupted = tuple[npt.NDArray[Any], npt.NDArray[np.bool_], dict[str, int]]
_DEFAULT_SHARE = 0.2
_KINDS = {"images": IMAGE_KINDS, "labels": LABEL_KINDS, "embeddings": CONTAMINATION_KINDS}
_DEFAULTS = {"images": IMAGE_KINDS, "labels": ("symmetric",), "embeddings": ("far-cluster",)}


def corrupt_input(
    source: Path | None,
    output: Path | None = None,
    share: float | None = None,
    kind: list[str] | None = None,
    severity: int = 3,
    seed: int = 0,
    *,
    labels: str | None = None,
    features: Path | None = None,
    matrix: Path | None = None,
    distance: float | None = None,
    column: str | None = None,
    array: str | None = None,
    preview: Path | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Do what `gmmatch corrupt` does: write a corrupted copy of `source`, and a mask beside it.

    Parameters
    ----------
    source
        A folder of images, an array (.npy, .npz) of images, embeddings or labels, or a label file (.csv,
        .tsv, .txt, .jsonl, .parquet, .arrow, IDX). None: there is only a photograph to preview.
    output
        A new folder, or a file that ends as `source` does.
    share, kind, severity, seed
        How much to corrupt (a fifth by default; with the kind ``matrix`` what that implies), in which ways,
        how strongly, and the seed.
    labels, features, matrix, distance
        What some kinds need: labels for ``other-class``, an array for ``instance``, a transition matrix for
        ``matrix``, and how far embeddings go.
    column, array
        The column of a table, and the array of a .npz file, that is corrupted.
    preview
        Where to write a contact sheet of one image under all kinds and severities.
    overwrite
        Whether outputs that exist are replaced.

    Returns
    -------
    dict
        What was done, as `gmmatch corrupt --json` tells it.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "labels.npy", np.arange(50) % 3)
    >>> done = corrupt_input(folder / "labels.npy", folder / "noisy.npy", share=0.2)
    >>> done["holds"], done["corrupted"], int(np.load(folder / "noisy.mask.npy").sum())
    ('labels', 10, 10)
    """
    if output is None and preview is None:
        raise InvalidParameter("nothing to write: give an output with -o, or --preview")
    if output is not None and source is None:
        raise InvalidParameter("-o needs an INPUT to corrupt")
    if seed < 0:
        raise InvalidParameter(f"--seed must be at least 0; got {seed}")
    for name in (str(given) for given in (source, labels, features, matrix) if given is not None):
        if os.path.exists(name) and not (os.path.isfile(name) or os.path.isdir(name)):
            raise no_file(name)  # which would be waited for
    facts: dict[str, Any] = {"input": None if source is None else str(source), "seed": seed}
    if source is not None and column is None and source.suffix.lower() in TEXT_SUFFIXES + TABLE_SUFFIXES:
        column, labels = labels, None
    stamps = stamps_of([str(source)] if source is not None and source.is_file() else [])
    opened = None if source is None else _open(source, column, array)
    written = [] if output is None or not output.name else _written(opened, output)
    check_apart([*written, *filter(None, [preview])], (source, labels, features, matrix))
    for path in written[:1]:
        remove_partials(path)  # what a killed run left
    if preview is not None:
        if source is not None and opened is None:
            check_apart([preview], [source / file for files in list_files(source) for file in files])
        check_new(preview, overwrite)
        save_contact_sheet(_first_image(source, opened), preview, seed)
        facts["preview"] = str(preview)
    if output is None or source is None:
        return facts
    extras = {"labels": labels, "features": features, "matrix": matrix, "distance": distance}
    if opened is not None:
        _check_output(opened, output, overwrite)
        return facts | _file(opened, output, share, kind, severity, seed, extras, stamps)
    if output.name:
        check_new(mask_path(output, ".csv"), overwrite)
    if kind and all(_known(name, LABEL_KINDS) for name in _split(kind)):
        return facts | _misplaced(source, output, share, kind, seed, extras)
    _refuse(extras, "images")
    files, names = corrupt_folder(source, output, _or_fifth(share), _names("images", kind), severity, seed)
    return facts | _facts("images", len(files), _counts(names), output, mask_path(output, ".csv"))


def _misplaced(
    source: Path, output: Path, share: float | None, kind: list[str], seed: int, extras: dict[str, Any]
) -> dict[str, Any]:
    """Put pictures of a folder into wrong folders, and return what to tell."""
    _refuse({key: extras[key] for key in ("labels", "distance")}, "folders of images")
    (name,) = _names("labels", kind)
    part = share if name == "matrix" else _or_fifth(share)
    own = {"matrix": _matrix(extras["matrix"]), "features": _features(extras["features"])}
    files, mask = misplace_folder(source, output, part, name, seed, **own)
    counts = {name: int(mask.sum())}
    return _facts("images by folder", len(files), counts, output, mask_path(output, ".csv"))


def _open(source: Path, column: str | None, array: str | None) -> Opened | None:
    """Return the opened file, or None for a folder of images."""
    suffix = source.suffix.lower()
    if not source.exists():
        raise InvalidInput(f"{source} does not exist")
    if column is not None and (source.is_dir() or suffix not in TEXT_SUFFIXES + TABLE_SUFFIXES):
        raise InvalidParameter(f"--column names a column of a table; got {source}")
    if array is not None and (source.is_dir() or suffix != ".npz"):
        raise InvalidParameter(f"--array names an array of a .npz file; got {source}")
    if source.is_dir():
        return None
    if suffix in ARRAY_SUFFIXES:
        return read_array(source, array)
    if suffix in TEXT_SUFFIXES:
        return read_labels(source, column)
    if suffix in TABLE_SUFFIXES:
        return read_table_labels(source, column)
    if is_idx(source):
        return read_idx_labels(source)
    raise InvalidInput(
        f"cannot tell what {source} holds; expected a folder of images or a file ending in"
        f" {', '.join(ARRAY_SUFFIXES + TEXT_SUFFIXES + TABLE_SUFFIXES)}, or IDX"
    )


def _file(
    opened: Opened,
    output: Path,
    share: float | None,
    kind: list[str] | None,
    severity: int,
    seed: int,
    extras: dict[str, Any],
    stamps: Mapping[str, str],
) -> dict[str, Any]:
    """Corrupt what the file holds, write it and its mask, and return what to tell.

    `stamps`: of the file when it was opened.
    """
    what = _content(opened, kind)
    names = _names(what, kind)
    if extras["labels"] is not None and isinstance(opened, ArrayFile):
        rows = open_dataset(opened.path, extras["labels"], holds="rows", embedding=opened.name)
        extras = extras | {"labels": rows.labels}
    try:
        corrupted, mask, counts = _corrupted(opened.values, what, names, share, severity, seed, extras)
    except InvalidInput as error:
        raise type(error)(f"{opened.path}: {error}") from error
    check_stamps(stamps)
    return _facts(what, len(mask), counts, output, opened.write(output, corrupted, mask))


def _corrupted(
    values: npt.NDArray[Any],
    what: str,
    names: tuple[str, ...],
    share: float | None,
    severity: int,
    seed: int,
    extras: dict[str, Any],
) -> Corrupted:
    if what == "images":
        _refuse(extras, what)
        changed, applied = damage_images(values, _or_fifth(share), names, severity, seed)
        return changed, applied != "", _counts(applied)
    name = names[0]
    if what == "labels":
        _refuse({key: extras[key] for key in ("labels", "distance")}, what)
        part = share if name == "matrix" else _or_fifth(share)
        own = {"matrix": _matrix(extras["matrix"]), "features": _features(extras["features"])}
        changed, mask = corrupt_labels(values, part, name, seed, **own)
    else:
        _refuse({key: extras[key] for key in ("features", "matrix")}, what)
        far = extras["distance"]
        changed, mask = contaminate(
            values, _or_fifth(share), name, seed, labels=extras["labels"], distance=far
        )
    return changed, mask, {name: int(mask.sum())}


def _content(opened: Opened, kind: list[str] | None) -> str:
    """Return `labels`, `images` or `embeddings`: what the kinds are for, or what it looks like."""
    looks_like = _looks_like(opened)
    if not kind:
        return looks_like
    wanted = {what for what, known in _KINDS.items() for name in _split(kind) if _known(name, known)}
    if not isinstance(opened, ArrayFile) and wanted and wanted != {"labels"}:
        raise InvalidParameter(
            f"{opened.path} is a label file; --kind must be one of {', '.join(LABEL_KINDS)}"
        )
    return wanted.pop() if len(wanted) == 1 else looks_like


def _looks_like(opened: Opened) -> str:
    values = opened.values
    if not isinstance(opened, ArrayFile) or values.ndim == 1:
        return "labels"
    if values.ndim == 2:
        return "embeddings"
    if values.ndim in (3, 4):
        return "images"
    raise InvalidInput(
        f"{opened.path} has shape {values.shape}; expected labels (one dimension), embeddings (two) or"
        " images (three or four)"
    )


def _names(what: str, kind: list[str] | None) -> tuple[str, ...]:
    """Return the kinds to apply, checked against what the input holds."""
    if not kind:
        return _DEFAULTS[what]
    known = _KINDS[what]
    names = []
    for given in _split(kind):
        name = _known(given, known)
        if name is None:
            raise InvalidParameter(
                f"--kind {given!r} is not for {what}{nearest(given, known)}; known: {', '.join(known)}"
            )
        names.append(name)
    if what != "images" and len(names) > 1:
        raise InvalidParameter(f"{what} take one --kind at a time; got {', '.join(names)}")
    return tuple(names)


def _split(kind: list[str]) -> list[str]:
    return [name.strip() for entry in kind for name in entry.split(",")]


def _known(name: str, known: tuple[str, ...]) -> str | None:
    return next((word for word in known if word.replace("_", "-") == name.replace("_", "-")), None)


def _or_fifth(share: float | None) -> float:
    return _DEFAULT_SHARE if share is None else share


def _refuse(extras: dict[str, Any], what: str) -> None:
    for name, value in extras.items():
        if value is not None:
            raise InvalidParameter(f"--{name} does not apply to {what}")


def _check_output(opened: Opened, output: Path, overwrite: bool) -> None:
    source = opened.path
    if output.suffix.lower() != source.suffix.lower():
        raise InvalidParameter(f"the output must end in {source.suffix} like the input; got {output}")
    if output.is_dir():
        raise InvalidInput(f"the output {output} is a folder; expected a file")
    for path in _written(opened, output):
        check_new(path, overwrite)


def _written(opened: Opened | None, output: Path) -> list[Path]:
    """Return what is written: the output, and its mask."""
    if opened is None or isinstance(opened, TableFile):
        return [output, mask_path(output, ".csv")]
    suffix = ".npy" if isinstance(opened, ArrayFile | IdxFile) else output.suffix
    return [output, mask_path(output, suffix)]


def _matrix(path: Path | None) -> npt.NDArray[Any] | None:
    if path is None:
        return None
    if path.suffix.lower() == ".npy":
        return read_array(path).values
    try:
        return np.loadtxt(path, delimiter=",", ndmin=2)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot read the matrix {path}: {error}") from error


def _features(path: Path | None) -> npt.NDArray[Any] | None:
    return None if path is None else np.asarray(open_dataset(path, holds="rows").rows)


def _first_image(source: Path | None, opened: Opened | None) -> npt.NDArray[Any]:
    """Return the image to preview: the first of the input, or a photograph that is always there."""
    if source is None:
        return sample_image()
    if opened is None:
        return read_image(source / list_files(source)[0][0])
    if _looks_like(opened) != "images":
        raise InvalidInput(f"--preview shows images, but {source} holds {_looks_like(opened)}")
    return np.asarray(opened.values[0])


def _counts(names: npt.NDArray[np.str_]) -> dict[str, int]:
    return {kind: count for kind in IMAGE_KINDS if (count := int((names == kind).sum()))}


def _facts(what: str, rows: int, counts: dict[str, int], output: Path, mask: Path) -> dict[str, Any]:
    total = sum(counts.values())
    facts = {"holds": what, "rows": rows, "corrupted": total, "kinds": counts}
    return {**facts, "output": str(output), "mask": str(mask)}
