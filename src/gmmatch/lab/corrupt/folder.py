"""Damage a folder of image files: a copy of the folder in which a share of the pictures is spoilt."""

from __future__ import annotations

import csv
import io
import os
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...arrays import AnyArray
from ...data import Unreadable, open_dataset
from ...data.images import scaled_grey
from ...errors import InvalidInput, first_line, require
from ...files import whole_files
from ...outputs import as_cell
from ...progress import task
from ._draw import as_generator, check_share, count_of, draw_rows
from .files import mask_path
from .images import IMAGE_KINDS, as_kinds, check_severity, damage_images
from .labels import corrupt_labels

if TYPE_CHECKING:
    from PIL import Image

_LOSSY = {"JPEG": {"quality": 95, "subsampling": 0}, "WEBP": {"quality": 95}}
# What decoders raise on files that are not what they should be.
_DAMAGED = (OSError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, EOFError, MemoryError)
_MOST_PIXELS = 5000 * 5000  # while one is damaged, its pixels are held as floats, some 80 bytes each
# Pillow's modes that hold no more than eight bits per channel, and the one to damage them in.
_MODES = dict.fromkeys(("1", "L", "LA"), "L")
_MODES |= dict.fromkeys(("P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"), "RGB")


def corrupt_folder(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    share: float = 0.2,
    kinds: str | Sequence[str] | None = None,
    severity: int = 3,
    rng: int | np.random.Generator | None = 0,
) -> tuple[list[str], npt.NDArray[np.str_]]:
    """Copy a folder, and damage a random share of its pictures as :func:`corrupt_images` does.

    Untouched pictures and all other files are copied byte for byte. Damaged ones keep their name and
    format; an alpha channel is kept, palettes and CMYK become RGB, grey of 16 bits becomes 8 bits, JPEG and
    WebP are written at quality 95. The mask goes beside the target, as ``TARGET.mask.csv`` with the columns
    ``file``, ``corrupted`` and ``kind``. Each picture's damage depends on the seed and its place among the
    sorted paths alone. One picture is in memory at a time.

    Parameters
    ----------
    source
        A folder; pictures in folders below it count too.
    target
        The new folder: must not exist, or be empty, and lie outside `source`. It appears whole or not
        at all.
    share, kinds, severity
        As for :func:`corrupt_images`.
    rng
        A seed or a Generator.

    Returns
    -------
    files
        The pictures' paths inside the folder, sorted.
    names
        The kind that damaged each; empty where it is untouched.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> here = Path(tempfile.mkdtemp())
    >>> (here / "pictures").mkdir()
    >>> for number in range(4):
    ...     Image.effect_noise((16, 16), 50).save(here / "pictures" / f"{number}.png")
    >>> files, names = corrupt_folder(here / "pictures", here / "spoilt", share=0.5, kinds="fog")
    >>> files, sorted(names.tolist())
    (['0.png', '1.png', '2.png', '3.png'], ['', '', 'fog', 'fog'])
    """
    chosen = as_kinds(kinds)
    level = check_severity(severity)
    root, out = Path(source), Path(target)
    files, others = list_files(root)
    _check_target(root, out)
    generator = as_generator(rng)
    rows = draw_rows(len(files), count_of(check_share(share), len(files)), generator)
    seed = int(generator.integers(2**63))
    planned = {
        int(row): chosen[part:] + chosen[:part]
        for part, rows_of_kind in enumerate(np.array_split(rows, len(chosen)))
        for row in rows_of_kind
    }
    names = np.full(len(files), "", dtype=f"U{max(map(len, chosen))}")
    mask_file = mask_path(out, ".csv")
    with whole_files(out, mask_file) as (folder, mask), task("corrupting images", len(files)) as advance:
        for file in others:
            _copy(root / file, folder / file)
        for row, file in enumerate(files):
            if row in planned:
                names[row] = _damage_file(root / file, folder / file, planned[row], level, (seed, row))
            else:
                _copy(root / file, folder / file)
            advance(1)
        folder.mkdir(exist_ok=True)
        with mask.open("w", newline="", encoding="utf-8") as table:
            writer = csv.writer(table, lineterminator="\n")
            writer.writerow(["file", "corrupted", "kind"])
            pairs = zip(map(as_cell, files), names, strict=True)
            writer.writerows([file, int(name != ""), name] for file, name in pairs)
    return files, names


def misplace_folder(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    share: float | None = 0.2,
    kind: str = "symmetric",
    rng: int | np.random.Generator | None = 0,
    **options: Any,
) -> tuple[list[str], npt.NDArray[np.bool_]]:
    """Copy a folder of pictures with a folder per class, and put a share of them into wrong folders.

    All files are copied byte for byte. The mask goes beside the target, as ``TARGET.mask.csv`` with the
    columns ``file`` (in the new folder), ``corrupted``, ``kind`` and ``label`` (where it was).

    Parameters
    ----------
    source, target
        As for :func:`corrupt_folder`.
    share, kind, rng, **options
        As for :func:`corrupt_labels`.

    Returns
    -------
    files
        The pictures' paths inside the new folder, in the order of their old ones.
    mask
        True where a picture is in a wrong folder.
    """
    root, out = Path(source), Path(target)
    files, others = list_files(root)
    given = open_dataset(root, holds="image").labels
    if given is None:
        raise InvalidInput(
            f"{root} has no folder per class, so that no folder is wrong; --kind must be one of"
            f" {', '.join(IMAGE_KINDS)}"
        )
    _check_target(root, out)
    labels, mask = corrupt_labels(given, share, kind, rng, **options)
    taken = {*files, *others}
    placed = []
    for file, label, wrong in zip(files, labels.tolist(), mask.tolist(), strict=True):
        place = f"{label}/{file.partition('/')[2]}" if wrong else file
        while wrong and place in taken:
            head, dot, ending = place.rpartition(".")
            place = f"{head}-moved{dot}{ending}"
        taken.add(place)
        placed.append(place)
    mask_file = mask_path(out, ".csv")
    with whole_files(out, mask_file) as (folder, marks), task("copying images", len(files)) as advance:
        for file in others:
            _copy(root / file, folder / file)
        for file, place in zip(files, placed, strict=True):
            _copy(root / file, folder / place)
            advance(1)
        folder.mkdir(exist_ok=True)
        with marks.open("w", newline="", encoding="utf-8") as table:
            writer = csv.writer(table, lineterminator="\n")
            writer.writerow(["file", "corrupted", "kind", "label"])
            columns = zip(map(as_cell, placed), mask.tolist(), map(as_cell, given.tolist()), strict=True)
            writer.writerows([place, int(wrong), kind if wrong else "", own] for place, wrong, own in columns)
    return placed, mask


def list_files(root: Path) -> tuple[list[str], list[str]]:
    """Return the pictures and the other files below a folder, as sorted paths with forward slashes."""
    found = open_dataset(root, holds="image")
    images = [] if found.ids is None else found.ids.tolist()
    known, others = set(images), []
    for folder, below, files in os.walk(root):
        linked = [name for name in below if os.path.islink(os.path.join(folder, name))]
        if linked:
            raise InvalidInput(
                f"{os.path.join(folder, linked[0])} is a link to a folder; give the folder itself"
            )
        for file in files:
            path = Path(folder, file)
            if not path.is_file():  # a pipe would be read for ever
                raise InvalidInput(f"{path} is no file but a pipe, a device or a link to nothing; remove it")
            others.append(path.relative_to(root).as_posix())
    return images, sorted(set(others) - known)


def read_image(path: Path) -> AnyArray:
    """Return the colour or grey values of a picture as uint8, (height, width) or (height, width, 3)."""
    with _open(path) as image:
        return _eight_bits(image, path)


def _eight_bits(image: Image.Image, path: Path) -> AnyArray:
    try:
        return np.asarray(image.convert(_MODES[image.mode]) if image.mode in _MODES else scaled_grey(image))
    except Unreadable as error:
        raise InvalidInput(f"{path} has {error}") from error


def _damage_file(source: Path, target: Path, kinds: Sequence[str], severity: int, seed: Sequence[int]) -> str:
    """Write the damaged picture, and return the kind that changed it."""
    with _open(source) as image:
        pixels = _eight_bits(image, source)
        # One image, several kinds: the first is applied, the others stand by for blank pictures.
        try:
            damaged, names = damage_images(pixels[None], 1.0, kinds, severity, np.random.default_rng(seed))
        except InvalidInput as error:
            raise InvalidInput(f"{source}: {error}") from error
        target.parent.mkdir(parents=True, exist_ok=True)
        _save(damaged[0], image, target)
    return str(names[0])


def _save(pixels: AnyArray, original: Image.Image, target: Path) -> None:
    result = require("PIL.Image", "pillow", "photos").fromarray(pixels)
    if original.mode in ("LA", "RGBA", "PA") or "transparency" in original.info:
        result.putalpha(original.convert("RGBA").getchannel("A"))
    kept: dict[str, Any] = {
        key: original.info[key] for key in ("exif", "icc_profile") if key in original.info
    }
    if original.mode == "CMYK":
        kept.pop("icc_profile", None)
    form = str(original.format)
    result.save(target, format=form, **kept, **_LOSSY.get(form, {}))


def _open(path: Path) -> Image.Image:
    pil = require("PIL.Image", "pillow", "photos")
    try:
        with warnings.catch_warnings():  # of images that are too large, which is said here
            warnings.simplefilter("ignore", pil.DecompressionBombWarning)
            image: Image.Image = pil.open(io.BytesIO(path.read_bytes()))
        width, height = image.size
        if width * height > _MOST_PIXELS:
            raise ValueError(f"it has {width} x {height} pixels; at most {_MOST_PIXELS:,} are damaged")
        image.load()
    except (*_DAMAGED, pil.DecompressionBombError) as error:
        raise InvalidInput(f"cannot read the image {path}: {first_line(error)}") from error
    if image.mode not in _MODES and not image.mode.startswith("I"):
        raise InvalidInput(
            f"{path} has pixels of mode {image.mode}; expected grey or colour of 8 bits, or grey of 16"
        )
    if getattr(image, "n_frames", 1) > 1:
        raise InvalidInput(f"{path} holds {getattr(image, 'n_frames', 1)} frames; expected a single picture")
    return image


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError as error:
        raise InvalidInput(f"cannot read {source}: {error.strerror}") from error
    except PermissionError as error:
        raise InvalidInput(f"cannot copy {source}: {error.strerror}") from error


def _check_target(root: Path, out: Path) -> None:
    if out.name in ("", ".."):
        raise InvalidInput(f"the output {out} is not a new folder; give it a name")
    inside = out.resolve()
    if root.resolve() in (inside, *inside.parents):
        raise InvalidInput(f"the output {out} lies inside the input {root}; choose a folder outside it")
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise InvalidInput(f"the output {out} exists already; choose a new folder")
