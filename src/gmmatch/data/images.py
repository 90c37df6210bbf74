"""Images of any kind, made into upright RGB bytes of one size."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import AnyArray, UInt8Array
from ..errors import first_line, require
from .dataset import Unreadable

if TYPE_CHECKING:
    from PIL.Image import Image


# Part of every image encoder's revision: raise it when the pixels below change.
PIXELS_VERSION = 1

# Three bytes each: a quarter of a gigabyte. Pillow warns at the same number.
MOST_PIXELS = 89_478_485

_ENDINGS = "avif bmp gif j2k jfif jp2 jpe jpeg jpg pbm pgm png pnm ppm tga tif tiff webp"
SUFFIXES = frozenset(f".{ending}" for ending in _ENDINGS.split())


def as_pixels(item: object, size: int | None) -> UInt8Array:
    """Return an image as uint8 of shape (height, width, channels).

    `item`: the bytes of an image file, a path, a Pillow image, or a uint8 array of shape (height, width) or
    (height, width, 1, 3 or 4). `size`: side of the result: the centre square is cut out, resampled and made
    RGB. With None, the image keeps its shape, and stays grey if it is.

    The first frame of an animation is taken. EXIF orientation is applied, transparency is laid on
    white, 16-bit grey is scaled to 8 bits.
    """
    if isinstance(item, np.ndarray):
        check_pixels(item)
        if size is None and (item.ndim == 2 or item.shape[2] != 4):
            return item[..., None] if item.ndim == 2 else item
        if item.shape == (size, size, 3):
            return item
        item = image_of(item)
    try:
        return _upright(open_image(item, size), size)
    except Unreadable:
        raise
    except FileNotFoundError as error:
        raise Unreadable(f"no such file: {error.filename}") from error
    except Exception as error:  # decoders fail on hostile files in every way there is
        raise Unreadable(f"the image cannot be decoded: {first_line(error)}") from error


def open_image(item: Any, size: int | None) -> Image:
    """Open an image of no more than `MOST_PIXELS`; a JPEG is decoded no larger than twice `size`."""
    pil = require("PIL.Image", "pillow", "photos")
    content = Path(item).read_bytes() if isinstance(item, (str, os.PathLike)) else item
    try:
        image: Image = content if isinstance(content, pil.Image) else pil.open(io.BytesIO(content))
    except pil.UnidentifiedImageError:
        first = bytes(content[:12])
        raise Unreadable(f"not an image (it begins with {first!r})" if first else "an empty file") from None
    except (pil.DecompressionBombError, pil.DecompressionBombWarning):
        raise Unreadable(f"more than the {MOST_PIXELS:,} pixels that are read at most") from None
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise Unreadable(f"{width} x {height} pixels; at most {MOST_PIXELS:,} are read")
    if size is not None and image is not item:
        # JPEG can be decoded at a half, a quarter or an eighth; twice the size leaves enough to resample.
        image.draft(None, (2 * size, 2 * size))
    return image


def _upright(image: Image, size: int | None) -> UInt8Array:
    """Turn upright, make RGB, or grey where it is grey, on white; cut the centre square and resample it."""
    pil = require("PIL.Image", "pillow", "photos")
    image.load()
    image = require("PIL.ImageOps", "pillow", "photos").exif_transpose(image)
    if image.mode.startswith("I"):
        image = scaled_grey(image)
    elif image.mode == "F":
        raise Unreadable("floating-point pixels, whose range is not known; expected 8 or 16 bits")
    elif image.has_transparency_data:
        layer = image.convert("RGBA")
        image = pil.alpha_composite(pil.new("RGBA", layer.size, "white"), layer).convert("RGB")
    else:
        image = image.convert("L" if image.mode in ("1", "L") else "RGB")
    if size is None:
        return np.atleast_3d(np.asarray(image))
    image, (width, height) = image.convert("RGB"), image.size
    if (width, height) != (size, size):
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        box = (left, top, left + side, top + side)
        image = image.resize((size, size), pil.Resampling.BICUBIC, box=box, reducing_gap=3.0)
    return np.asarray(image)


def scaled_grey(image: Image) -> Image:
    """Return grey of 16 bits, which `convert` would clip, scaled to 8 bits."""
    deep = np.asarray(image)
    if deep.min() < 0 or deep.max() > 65535:
        raise Unreadable("32-bit pixels, whose range is not known; expected 8 or 16 bits")
    return image_of(np.rint(deep / 257).astype(np.uint8))


def image_of(array: UInt8Array) -> Image:
    """Return pixels as an image of Pillow."""
    pil = require("PIL.Image", "pillow", "photos")
    flat = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
    image: Image = pil.fromarray(np.ascontiguousarray(flat))
    return image


def check_pixels(array: AnyArray) -> None:
    """Refuse an array that is no image."""
    good = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))
    if array.dtype != np.uint8 or not good or 0 in array.shape:
        raise Unreadable(
            "expected uint8 pixels of shape (height, width) or (height, width, 1, 3 or 4);"
            f" got {array.dtype} of shape {array.shape}"
        )
