"""A contact sheet: one image, the five kinds of damage, the five severities."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidParameter
from ._kinds import KERNELS
from ._write import whole_or_nothing
from .images import ImageArray, as_images, corrupt_images

SEVERITIES = (1, 2, 3, 4, 5)
_LARGEST_SIDE = 256
_SUFFIXES = (".png", ".jpg", ".jpeg", ".pdf", ".svg")


def contact_sheet(image: Any, rng: int = 0) -> ImageArray:
    """Return one image under every kind and severity, shape (kinds, severities, *image.shape).

    Every severity of a kind is drawn from the same seed, so it changes the strength alone.

    Examples
    --------
    >>> import numpy as np
    >>> contact_sheet(np.eye(32)).shape
    (5, 5, 32, 32)
    """
    single = as_images(np.asarray(image)[None])
    return np.stack(
        [
            np.stack([corrupt_images(single, 1.0, kind, severity, rng)[0][0] for severity in SEVERITIES])
            for kind in KERNELS
        ]
    )


def save_contact_sheet(image: Any, path: str | os.PathLike[str], rng: int = 0) -> None:
    """Write a contact sheet with names: the original on the left, the severities growing to the right.

    Parameters
    ----------
    image
        One image, (height, width) or (height, width, channels), uint8 or floats in [0, 1]; larger ones
        than 256 pixels are thinned first.
    path
        Where to write; the ending says the format (png, jpg, pdf, svg).
    rng
        A seed.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "sheet.png"
    >>> save_contact_sheet(sample_image(64), file)
    >>> file.stat().st_size > 1000
    True
    """
    from matplotlib.figure import Figure

    target = Path(path)
    if target.suffix.lower() not in _SUFFIXES:
        raise InvalidParameter(f"a contact sheet ends in {', '.join(_SUFFIXES)}; got {target.name!r}")
    array = np.asarray(image)
    thin = max(1, -(-max(array.shape[:2]) // _LARGEST_SIDE))
    array = array[::thin, ::thin]
    sheet = contact_sheet(array, rng)
    height, width = array.shape[:2]
    figure = Figure(figsize=(6.6, 5.7 * height / width), layout="constrained")
    axes = figure.subplots(len(KERNELS), 1 + len(SEVERITIES))
    for row, (kind, damaged) in enumerate(zip(KERNELS, sheet, strict=True)):
        axes[row, 0].set_ylabel(kind.replace("_", " "), fontsize=7)
        for axis, shown in zip(axes[row], [array, *damaged], strict=True):
            pixels = shown[..., 0] if shown.ndim == 3 and shown.shape[2] == 1 else shown
            axis.imshow(pixels, cmap="gray", vmin=0, vmax=255 if pixels.dtype == np.uint8 else 1)
            axis.set(xticks=[], yticks=[])
    for axis, title in zip(
        axes[0], ["original", *(f"severity {level}" for level in SEVERITIES)], strict=True
    ):
        axis.set_title(title, fontsize=7)
    with whole_or_nothing(target) as (partial,):
        figure.savefig(partial, dpi=120, format=target.suffix[1:].lower())


def sample_image(side: int = 128) -> ImageArray:
    """Return a square colour photograph, uint8: the public-domain portrait that comes with matplotlib.

    Examples
    --------
    >>> sample_image(64).shape
    (64, 64, 3)
    """
    from matplotlib.cbook import get_sample_data
    from PIL import Image

    with get_sample_data("grace_hopper.jpg") as file, Image.open(file) as photograph:
        width = photograph.width
        square = photograph.convert("RGB").crop((0, 0, width, width))
        return np.asarray(square.resize((side, side), Image.Resampling.BOX))
