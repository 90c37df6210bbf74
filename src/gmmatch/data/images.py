"""Images of any kind, made into upright RGB bytes of one size."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import UInt8Array
from ..errors import InvalidInput, first_line, require
from ..progress import task
from .dataset import Items, Unreadable
from .request import first_reasons

if TYPE_CHECKING:
    from PIL.Image import Image


# Part of every image encoder's revision: raise it when the pixels below change.
PIXELS_VERSION = 1

# Three bytes each: a quarter of a gigabyte. Pillow warns at the same number.
MOST_PIXELS = 89_478_485

_ENDINGS = "avif bmp gif j2k jfif jp2 jpe jpeg jpg pbm pgm png pnm ppm tga tif tiff webp"
SUFFIXES = frozenset(f".{ending}" for ending in _ENDINGS.split())

_AS_THEY_ARE = 256  # pixels of a side: the most that is stacked as it is
_ORIENTATION, _LYING = 0x0112, 5  # the EXIF tag, and the first of its values that turns width into height


def as_pixels(item: object, size: int | None) -> UInt8Array:
    """Return an image as uint8 of shape (height, width, channels).

    `item`: the bytes of an image file, a path, a Pillow image, or a uint8 array of shape (height, width) or
    (height, width, 1, 3 or 4). `size`: side of the result: the centre square is cut out, resampled and made
    RGB. With None, the image keeps its shape, and stays grey if it is.

    The first frame of an animation is taken. EXIF orientation is applied, transparency is laid on
    white, 16-bit grey is scaled to 8 bits.
    """
    if isinstance(item, np.ndarray):
        _check_array(item)
        if size is None and (item.ndim == 2 or item.shape[2] != 4):
            return item[..., None] if item.ndim == 2 else item
        if item.shape == (size, size, 3):
            return item
        item = _from_array(item)
    try:
        return _square(_open(item, size), size)
    except Unreadable:
        raise
    except FileNotFoundError as error:
        raise Unreadable(f"no such file: {error.filename}") from error
    except Exception as error:  # decoders fail on hostile files in every way there is
        raise Unreadable(f"the image cannot be decoded: {first_line(error)}") from error


def stack_images(
    items: Items, name: str, size: int | None = None, drop: bool = False, square: int = 64
) -> tuple[UInt8Array, dict[int, str], str | None]:
    """Return images as one array of shape (rows, height, width, channels).

    Images of one shape, and no larger than 256 pixels, stay as they are. Of others the centre squares are
    resampled, as RGB, to `square` pixels; with `size`, all are, to that many.

    `items`: the images; an array of them is not copied where they stay as they are. `drop`: whether images
    that cannot be read are left black and returned with the reason; otherwise they are refused.

    Returns the array, the rows that cannot be read with the reasons, and a note where images were resampled.
    """
    if items.array is not None and size is None and (items.array.ndim == 3 or items.array.shape[3] != 4):
        return items.array if items.array.ndim == 4 else items.array[..., None], {}, None
    bad: dict[int, str] = {}
    shapes = [_shape_of(item, bad, row) for row, item in _each(items)]
    known = {shape for shape in shapes if shape is not None}
    if not known or (bad and not drop):
        raise _unreadable(items, name, bad)
    note = None
    if size is None and (len(known) > 1 or max(max(shape[:2]) for shape in known) > _AS_THEY_ARE):
        size = square
        why = "differ in shape" if len(known) > 1 else f"are larger than {_AS_THEY_ARE} pixels"
        note = f"the images of {name} {why}: each is cut to a square of {size} pixels, as RGB"
    images: UInt8Array | None = None
    with task("decoding images", len(items)) as advance:
        for row, item in _each(items):
            try:
                pixels = None if row in bad else as_pixels(item, size)
            except Unreadable as error:
                bad[row], pixels = str(error), None
            if images is None and pixels is not None:
                images = np.zeros((len(items), *pixels.shape), dtype=np.uint8)
            if images is not None and pixels is not None:
                images[row] = pixels
            advance(1)
    if images is None or (bad and not drop):
        raise _unreadable(items, name, bad)
    return images, bad, note


def _each(items: Items) -> Iterator[tuple[int, object]]:
    for row in range(len(items)):
        yield row, items.read(row, row + 1)[0]


def _shape_of(item: object, bad: dict[int, str], row: int) -> tuple[int, int, int] | None:
    """Return height, width and channels, by the head of the file; None, and why, where there is none."""
    try:
        if isinstance(item, Unreadable):
            raise item
        if isinstance(item, np.ndarray):
            _check_array(item)
            return item.shape[0], item.shape[1], 1 if item.ndim == 2 or item.shape[2] == 1 else 3
        with _open(item, None) as image:
            width, height = image.size
            if image.getexif().get(_ORIENTATION, 1) >= _LYING:
                width, height = height, width
            grey = image.mode in ("1", "L") or image.mode.startswith("I")
            return height, width, 1 if grey and not image.has_transparency_data else 3
    except Unreadable as error:
        bad[row] = str(error)
    except Exception as error:  # decoders fail on hostile files in every way there is
        bad[row] = f"the image cannot be decoded: {first_line(error)}"
    return None


def _unreadable(items: Items, name: str, bad: dict[int, str]) -> InvalidInput:
    """Return the sentence that names the images that cannot be read, and the way out."""
    called = "image {}".format if items.paths is None else items.paths.__getitem__
    advice = "" if len(bad) == len(items) else "; on_bad_rows='drop' leaves them out"
    reasons = first_reasons(bad, called)
    return InvalidInput(f"{len(bad)} of {len(items)} images of {name} cannot be used{reasons}{advice}")


def _open(item: Any, size: int | None) -> Image:
    pil = require("PIL.Image", "pillow", "photos")
    if isinstance(item, pil.Image):
        return _checked(item)
    content = Path(item).read_bytes() if isinstance(item, (str, os.PathLike)) else item
    try:
        image: Image = pil.open(io.BytesIO(content))
    except pil.UnidentifiedImageError:
        first = bytes(content[:12])
        raise Unreadable(f"not an image (it begins with {first!r})" if first else "an empty file") from None
    except (pil.DecompressionBombError, pil.DecompressionBombWarning):
        raise Unreadable(f"more than the {MOST_PIXELS:,} pixels that are read at most") from None
    _checked(image)
    if size is not None:
        # JPEG can be decoded at a half, a quarter or an eighth; twice the size leaves enough to resample.
        image.draft(None, (2 * size, 2 * size))
    return image


def _checked(image: Image) -> Image:
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise Unreadable(f"{width} x {height} pixels; at most {MOST_PIXELS:,} are read")
    return image


def _square(image: Image, size: int | None) -> UInt8Array:
    """Turn upright, make RGB, cut the centre square and resample it."""
    pil = require("PIL.Image", "pillow", "photos")
    ops = require("PIL.ImageOps", "pillow", "photos")
    image.load()
    upright = _eight_bits(ops.exif_transpose(image))
    if size is None:
        pixels = np.asarray(upright)
        return pixels[..., None] if pixels.ndim == 2 else pixels
    rgb = upright.convert("RGB")
    width, height = rgb.size
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    if (width, height) != (size, size):
        box = (left, top, left + side, top + side)
        rgb = rgb.resize((size, size), pil.Resampling.BICUBIC, box=box, reducing_gap=3.0)
    return np.asarray(rgb)


def _eight_bits(image: Image) -> Image:
    """Return the image as RGB, or as grey where it is grey, on white where it is transparent."""
    pil = require("PIL.Image", "pillow", "photos")
    if image.mode.startswith("I"):  # 16 bits per pixel, which convert() would clip instead of scale
        deep = np.asarray(image)
        if deep.min() < 0 or deep.max() > 65535:
            raise Unreadable("32-bit pixels, whose range is not known; expected 8 or 16 bits")
        grey: Image = pil.fromarray(np.rint(deep / 257).astype(np.uint8))
        return grey
    if image.mode == "F":
        raise Unreadable("floating-point pixels, whose range is not known; expected 8 or 16 bits")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        white = pil.new("RGBA", layer.size, "white")
        rgb: Image = pil.alpha_composite(white, layer).convert("RGB")
        return rgb
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _from_array(array: UInt8Array) -> Image:
    pil = require("PIL.Image", "pillow", "photos")
    flat = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
    image: Image = pil.fromarray(np.ascontiguousarray(flat))
    return image


def _check_array(array: Any) -> None:
    good = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))
    if array.dtype != np.uint8 or not good or 0 in array.shape:
        raise Unreadable(
            "expected uint8 pixels of shape (height, width) or (height, width, 1, 3 or 4);"
            f" got {array.dtype} of shape {array.shape}"
        )


def save_png(item: object, path: Path) -> None:
    """Write an image as a PNG file, pixel by pixel."""
    pixels = as_pixels(item, None)
    _from_array(pixels).save(path, "PNG")
