"""A contact sheet: one image, the five kinds of damage, the five severities."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import AnyArray
from ...errors import InvalidParameter, require
from ...files import whole_file
from .images import IMAGE_KINDS, apply_kind, as_images

SEVERITIES = (1, 2, 3, 4, 5)
_LARGEST_SIDE, _USUAL_SIDE = 256, 96
_MARGIN, _GAP = 72, 4
_FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}


def contact_sheet(image: Any, rng: int = 0) -> AnyArray:
    """Return one image under every kind and severity, shape (kinds, severities, *image.shape).

    Every severity of a kind is drawn from the same seed, so it changes the strength alone.
    """
    single = as_images(np.asarray(image)[None])
    return np.stack(
        [
            np.stack([apply_kind(single, kind, severity, rng)[0][0] for severity in SEVERITIES])
            for kind in IMAGE_KINDS
        ]
    )


def save_contact_sheet(image: Any, path: str | os.PathLike[str], rng: int = 0) -> None:
    """Write a contact sheet with names: the original on the left, the severities growing to the right.

    `image`: one image, (height, width) or (height, width, channels), uint8 or floats in [0, 1]. Sides beyond
    256 pixels are thinned first, small images shown with larger pixels. `path`: where to write; the ending
    says the format (png, jpg, webp).
    """
    pil, draws, fonts = (
        require(f"PIL.{name}", "pillow", "photos") for name in ("Image", "ImageDraw", "ImageFont")
    )
    target = Path(path)
    form = _FORMATS.get(target.suffix.lower())
    if form is None:
        raise InvalidParameter(f"a contact sheet must end in {', '.join(_FORMATS)}; got {target.name!r}")
    original = as_images(np.asarray(image)[None])[0]
    thin = -(-max(original.shape[:2]) // _LARGEST_SIDE)
    original = original[::thin, ::thin]
    zoom = max(1, _USUAL_SIDE // max(original.shape[:2]))
    height, width = (zoom * side + _GAP for side in original.shape[:2])
    size = (_MARGIN + width * (1 + len(SEVERITIES)), _MARGIN // 4 + height * len(IMAGE_KINDS))
    page = pil.new("RGB", size, "white")
    draw, font = draws.Draw(page), fonts.load_default(11)
    for column, title in enumerate(["original", *(f"severity {level}" for level in SEVERITIES)]):
        draw.text((_MARGIN + column * width, 2), title, "black", font)
    for row, (kind, damaged) in enumerate(zip(IMAGE_KINDS, contact_sheet(original, rng), strict=True)):
        top = _MARGIN // 4 + row * height
        draw.text((4, top + height // 2 - 12), kind.replace("_", "\n"), "black", font)
        for column, pixels in enumerate([original, *damaged]):
            page.paste(pil.fromarray(_as_colour(pixels, zoom)), (_MARGIN + column * width, top))
    with whole_file(target) as partial:
        page.save(partial, format=form, optimize=True)


def _as_colour(pixels: AnyArray, zoom: int) -> AnyArray:
    """Return an image as RGB bytes, every pixel `zoom` times as large."""
    if pixels.dtype != np.uint8:
        pixels = np.rint(pixels * 255).astype(np.uint8)
    if pixels.ndim == 2 or pixels.shape[2] < 3:
        pixels = np.repeat(pixels.reshape(*pixels.shape[:2], -1)[..., :1], 3, axis=2)
    return pixels[..., :3].repeat(zoom, axis=0).repeat(zoom, axis=1)


def sample_image(side: int = 42) -> AnyArray:
    """Return a square colour photograph, uint8: the public-domain portrait that comes with matplotlib."""
    pil, matplotlib = require("PIL.Image", "pillow", "photos"), require("matplotlib", "Matplotlib", "figures")
    with pil.open(Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg")) as photograph:
        square = photograph.convert("RGB").crop((0, 0, photograph.width, photograph.width))
        return np.asarray(square.resize((side, side), pil.Resampling.BOX))
