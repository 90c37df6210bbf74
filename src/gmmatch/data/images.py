"""Images of any kind, made into upright RGB bytes of one size."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, first_line, require
from ..progress import task
from .items import Items, Unreadable

if TYPE_CHECKING:
    from PIL.Image import Image

UInt8Array = npt.NDArray[np.uint8]

# Part of every image encoder's revision: raise it when the pixels below change.
PIXELS_VERSION = 1

# Three bytes each: a quarter of a gigabyte. Pillow warns at the same number.
MOST_PIXELS = 89_478_485

_ENDINGS = "avif bmp gif j2k jfif jp2 jpe jpeg jpg pbm pgm png pnm ppm tga tif tiff webp"
SUFFIXES = frozenset(f".{ending}" for ending in _ENDINGS.split())


def as_pixels(item: Any, size: int | None) -> UInt8Array:
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


def stack_images(items: Items, name: str) -> UInt8Array:
    """Return images of one size as an array of shape (rows, height, width, channels).

    `items`: the images; an array of them is not copied.
    """
    if items.array is not None:
        return items.array if items.array.ndim == 4 else items.array[..., None]
    images: UInt8Array | None = None
    with task("decoding images", len(items)) as advance:
        for row in range(len(items)):
            (item,) = items.read(row, row + 1)
            try:
                if isinstance(item, Unreadable):
                    raise item
                pixels = as_pixels(item, None)
            except Unreadable as error:
                raise InvalidInput(f"image {row} of {name} cannot be used: {error}") from error
            if images is None:
                images = np.empty((len(items), *pixels.shape), dtype=np.uint8)
            if pixels.shape != images.shape[1:]:
                raise InvalidInput(
                    f"image {row} of {name} has the shape {pixels.shape}; expected one shape,"
                    f" {images.shape[1:]} like image 0"
                )
            images[row] = pixels
            advance(1)
    return np.empty((0, 0, 0, 1), np.uint8) if images is None else images


def _open(item: Any, size: int | None) -> Image:
    pil = require("PIL.Image", "pillow", "images")
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
    if size is not None and hasattr(image, "draft"):
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
    pil = require("PIL.Image", "pillow", "images")
    ops = require("PIL.ImageOps", "pillow", "images")
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
    pil = require("PIL.Image", "pillow", "images")
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
    pil = require("PIL.Image", "pillow", "images")
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


def save_png(item: Any, path: Path) -> None:
    """Write an image as a PNG file, pixel by pixel."""
    pixels = as_pixels(item, None)
    _from_array(pixels).save(path, "PNG")
