"""``gmmatch corrupt``: make a dataset wrong on purpose, and say where."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from ..corrupt import (
    CONTAMINATION_KINDS,
    IMAGE_KINDS,
    LABEL_KINDS,
    contaminate,
    corrupt_labels,
    damage_images,
)
from ..corrupt.files import (
    ARRAY_SUFFIXES,
    TEXT_SUFFIXES,
    ArrayFile,
    LabelFile,
    mask_path,
    read_array,
    read_labels,
)
from ..corrupt.folder import corrupt_folder, list_files, read_image
from ..corrupt.preview import sample_image, save_contact_sheet
from ..data import open_dataset
from ..errors import InvalidInput, InvalidParameter
from ..files import check_new
from ..validation import nearest
from . import _options as options
from ._friendly import say
from ._options import READ, WRITE, option

Corrupted = tuple[npt.NDArray[Any], npt.NDArray[np.bool_], dict[str, int]]
_DEFAULT_SHARE = 0.2
_KINDS = {"images": IMAGE_KINDS, "labels": LABEL_KINDS, "embeddings": CONTAMINATION_KINDS}
_DEFAULTS = {"images": IMAGE_KINDS, "labels": ("symmetric",), "embeddings": ("far-cluster",)}


DAMAGE = "What is done to it"
Input = Annotated[
    Path | None,
    typer.Argument(
        metavar="INPUT",
        show_default=False,
        help="A folder of images, an array (.npy, .npz) of images, embeddings or labels, or a label file"
        " (.csv, .tsv, .txt).",
    ),
]
Kind = Annotated[
    list[str] | None,
    option(
        "What to do. Images: gaussian_noise, occlusion, resolution, fog, motion_blur (repeat for"
        " several; default all). Labels: symmetric (default), pair, matrix, instance. Embeddings:"
        " far-cluster (default), outliers, other-class, sign-flip, adversary.",
        "--kind",
        "-k",
        panel=DAMAGE,
    ),
]
Share = Annotated[
    str | None,
    option(
        "How much of the rows to corrupt, as 20% or 0.2. Default 20%; with --kind matrix what the"
        " matrix implies.",
        panel=DAMAGE,
        metavar="SHARE",
    ),
]
Output = Annotated[
    Path | None, options.output("Where to write: a new folder or file. The mask goes beside it.", "PATH")
]
Preview = Annotated[
    Path | None,
    option(
        "Write a contact sheet: one image (the first of INPUT, or a sample) under all kinds and severities.",
        panel=WRITE,
    ),
]


def corrupt(
    source: Input = None,
    kind: Kind = None,
    share: Share = None,
    output: Output = None,
    severity: Annotated[int, option("Strength of image damage, 1 to 5.", panel=DAMAGE)] = 3,
    seed: Annotated[int, option("Same seed, same output.", panel=DAMAGE)] = 0,
    labels: Annotated[
        str | None,
        options.column("Labels, for --kind other-class: a file. Of a table: as --column.", "FILE_OR_COLUMN"),
    ] = None,
    features: Annotated[Path | None, option("Array file, for --kind instance.", panel=READ)] = None,
    matrix: Annotated[
        Path | None, option("Transition matrix (.npy, .csv), for --kind matrix.", panel=READ)
    ] = None,
    distance: Annotated[
        float | None, option("How far embeddings go, in units of the data's radius.", panel=DAMAGE)
    ] = None,
    column: Annotated[str | None, options.column("Label column of a .csv or .tsv INPUT.")] = None,
    array: Annotated[str | None, options.column("Name of the array in a .npz INPUT.", "NAME")] = None,
    preview: Preview = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
    quiet: Annotated[bool, option("Print nothing but errors.", "--quiet", "-q")] = False,
) -> None:
    """Make a dataset wrong on purpose, exactly and repeatably, and write down where.

    Exactly the rounded share of the rows is changed, the others stay as they are. The mask is written
    beside the output: OUT.mask.npy for arrays, OUT.mask.csv for folders, and so on.

    Examples
    --------
        gmmatch corrupt photos/ --share 20% -o spoilt/

        gmmatch corrupt images.npy --kind fog --kind motion_blur --severity 5 -o foggy.npy

        gmmatch corrupt labels.csv --kind symmetric --share 40% -o noisy.csv

        gmmatch corrupt embeddings.npy --kind far-cluster --share 45% -o bad.npy

        gmmatch corrupt --preview sheet.png
    """
    start = time.perf_counter()
    if output is None and preview is None:
        raise InvalidParameter("nothing to write: give an output with -o, or --preview")
    if output is not None and source is None:
        raise InvalidParameter("-o needs an INPUT to corrupt")
    if seed < 0:
        raise InvalidParameter(f"--seed must be at least 0; got {seed}")
    facts: dict[str, Any] = {"input": None if source is None else str(source), "seed": seed}
    if source is not None and column is None and source.suffix.lower() in TEXT_SUFFIXES:
        column, labels = labels, None
    opened = None if source is None else _open(source, column, array)
    if preview is not None:
        check_new(preview, overwrite)
        save_contact_sheet(_first_image(source, opened), preview, seed)
        facts["preview"] = str(preview)
    if output is not None and source is not None:
        extras = {"labels": labels, "features": features, "matrix": matrix, "distance": distance}
        part = None if share is None else _share(share)
        if opened is None:
            _refuse(extras, "images")
            if output.name:
                check_new(mask_path(output, ".csv"), overwrite)
            facts |= _folder(source, output, _or_fifth(part), _names("images", kind), severity, seed)
        else:
            _check_output(opened, output, overwrite)
            facts |= _file(opened, output, part, kind, severity, seed, extras)
    facts["seconds"] = round(time.perf_counter() - start, 3)
    if as_json:
        typer.echo(json.dumps(facts))
    elif not quiet:
        for line in _told(facts):
            say(line)


def _open(source: Path, column: str | None, array: str | None) -> ArrayFile | LabelFile | None:
    """Return the opened file, or None for a folder of images."""
    suffix = source.suffix.lower()
    if not source.exists():
        raise InvalidInput(f"{source} does not exist")
    if column is not None and (source.is_dir() or suffix not in TEXT_SUFFIXES):
        raise InvalidParameter(f"--column names a column of a .csv or .tsv file; got {source}")
    if array is not None and (source.is_dir() or suffix != ".npz"):
        raise InvalidParameter(f"--array names an array of a .npz file; got {source}")
    if source.is_dir():
        return None
    if suffix in ARRAY_SUFFIXES:
        return read_array(source, array)
    if suffix in TEXT_SUFFIXES:
        return read_labels(source, column)
    raise InvalidInput(
        f"cannot tell what {source} holds; expected a folder of images or a file ending in"
        f" {', '.join(ARRAY_SUFFIXES + TEXT_SUFFIXES)}"
    )


def _folder(
    source: Path, output: Path, share: float, kinds: tuple[str, ...], severity: int, seed: int
) -> dict[str, Any]:
    files, names = corrupt_folder(source, output, share, kinds, severity, seed)
    return _facts("images", len(files), _counts(names), output, mask_path(output, ".csv"))


def _file(
    opened: ArrayFile | LabelFile,
    output: Path,
    share: float | None,
    kind: list[str] | None,
    severity: int,
    seed: int,
    extras: dict[str, Any],
) -> dict[str, Any]:
    """Corrupt what the file holds, write it and its mask, and return what to tell."""
    what = _content(opened, kind)
    names = _names(what, kind)
    if extras["labels"] is not None and isinstance(opened, ArrayFile):
        rows = open_dataset(opened.path, extras["labels"], holds="rows", embedding=opened.name)
        extras = extras | {"labels": rows.labels}
    try:
        corrupted, mask, counts = _corrupted(opened.values, what, names, share, severity, seed, extras)
    except InvalidInput as error:
        raise type(error)(f"{opened.path}: {error}") from error
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


def _content(opened: ArrayFile | LabelFile, kind: list[str] | None) -> str:
    """Return what the file is taken to hold: what the kind is for, or else what it looks like."""
    looks_like = _looks_like(opened)
    if not kind:
        return looks_like
    wanted = {what for what, known in _KINDS.items() for name in _split(kind) if _known(name, known)}
    if isinstance(opened, LabelFile) and wanted and wanted != {"labels"}:
        raise InvalidParameter(
            f"{opened.path} is a label file; --kind must be one of {', '.join(LABEL_KINDS)}"
        )
    return wanted.pop() if len(wanted) == 1 else looks_like


def _looks_like(opened: ArrayFile | LabelFile) -> str:
    values = opened.values
    if isinstance(opened, LabelFile) or values.ndim == 1:
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


def _share(text: str) -> float:
    """Return the fraction that ``20%`` or ``0.2`` stands for.

    >>> _share("20%"), _share("0.2")
    (0.2, 0.2)
    """
    try:
        share = float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise InvalidParameter(
            f"--share must be a percentage or a fraction, as 20% or 0.2; got {text!r}"
        ) from None
    if not 0 <= share <= 1:
        raise InvalidParameter(f"--share must be between 0% and 100%; got {text!r}")
    return share


def _or_fifth(share: float | None) -> float:
    return _DEFAULT_SHARE if share is None else share


def _refuse(extras: dict[str, Any], what: str) -> None:
    for name, value in extras.items():
        if value is not None:
            raise InvalidParameter(f"--{name} does not apply to {what}")


def _check_output(opened: ArrayFile | LabelFile, output: Path, overwrite: bool) -> None:
    source = opened.path
    if output.suffix.lower() != source.suffix.lower():
        raise InvalidParameter(f"the output must end in {source.suffix} like the input; got {output}")
    if output.is_dir():
        raise InvalidInput(f"the output {output} is a folder; expected a file")
    masked = mask_path(output, ".npy" if source.suffix.lower() in ARRAY_SUFFIXES else output.suffix)
    if source.resolve() in (output.resolve(), masked.resolve()):
        raise InvalidInput(f"the output {output}, or its mask, would replace the input; choose another name")
    for path in (output, masked):
        check_new(path, overwrite)


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


def _first_image(source: Path | None, opened: ArrayFile | LabelFile | None) -> npt.NDArray[Any]:
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


def _told(facts: dict[str, Any]) -> list[str]:
    """Return the summary for people."""
    lines = []
    if "output" in facts:
        kinds = ", ".join(f"{count} {name}" for name, count in facts["kinds"].items()) or "none"
        lines.append(f"corrupted {facts['corrupted']:,} of {facts['rows']:,} {facts['holds']} ({kinds})")
        lines.append(f"wrote {facts['output']} and {facts['mask']}")
    if "preview" in facts:
        lines.append(f"wrote {facts['preview']}")
    return lines
