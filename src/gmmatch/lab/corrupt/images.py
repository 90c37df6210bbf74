"""Damage images on purpose: the five corruptions of the paper, each in five severities."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import AnyArray, IntArray, Mask
from ...errors import InvalidInput, InvalidInputType, InvalidParameter
from ...progress import task
from ...validation import is_whole
from ._draw import as_generator, check_kind, check_share, count_of, draw_rows
from ._kinds import KERNELS, STRENGTHS

IMAGE_KINDS: tuple[str, ...] = tuple(KERNELS)
SMALLEST_SIDE = 5
# Values per batch: enough to keep NumPy busy, small enough for the cache. Random draws follow the
# batches, so another number would be another (equally valid) result for the same seed.
_BATCH_VALUES = 1 << 17


def corrupt_images(
    images: Any,
    share: float = 0.2,
    kinds: str | Sequence[str] | None = None,
    severity: int = 3,
    rng: int | np.random.Generator | None = 0,
) -> tuple[AnyArray, Mask]:
    """Damage a random share of the images, an equal part of it with each kind.

    Exactly the rounded share is damaged, and every damaged image differs from its original: where a
    kind cannot change a picture (a blank one has nothing to blur), the next kind takes its place.

    Parameters
    ----------
    images
        uint8, or floats in [0, 1], of shape (images, height, width) or (images, height, width,
        channels); at least 5 pixels on each side. Never modified.
    share
        Fraction of the images to damage, in [0, 1].
    kinds
        Names out of ``IMAGE_KINDS``; None means all five. If the count does not divide evenly, the
        first kinds get one image more.
    severity
        1 (slight) to 5 (heavy).
    rng
        A seed or a Generator.

    Returns
    -------
    corrupted
        A copy of the same shape and type, with values in the same range.
    mask
        True where the image was damaged; all others are bit-identical.

    Raises
    ------
    InvalidInput
        The images have another shape or range, or no given kind can change a drawn one.
    InvalidParameter
        Unknown kind, share or severity.

    Examples
    --------
    >>> import numpy as np
    >>> images = np.random.default_rng(0).integers(0, 256, (50, 32, 32, 3), dtype=np.uint8)
    >>> corrupted, mask = corrupt_images(images, share=0.2, severity=3, rng=0)
    >>> corrupted.dtype, int(mask.sum()), bool((corrupted[~mask] == images[~mask]).all())
    (dtype('uint8'), 10, True)
    """
    corrupted, names = damage_images(images, share, kinds, severity, rng)
    return corrupted, names != ""


def damage_images(
    images: Any,
    share: float = 0.2,
    kinds: str | Sequence[str] | None = None,
    severity: int = 3,
    rng: int | np.random.Generator | None = 0,
) -> tuple[AnyArray, npt.NDArray[np.str_]]:
    """Do what :func:`corrupt_images` does, and name the kind of each image's damage.

    Returns
    -------
    corrupted
        As from :func:`corrupt_images`.
    names
        The kind that damaged each image; empty where it is untouched.

    Examples
    --------
    >>> import numpy as np
    >>> images = np.random.default_rng(0).random((10, 8, 8))
    >>> _, names = damage_images(images, share=0.4, kinds=["fog", "occlusion"])
    >>> sorted(str(name) for name in names if name)
    ['fog', 'fog', 'occlusion', 'occlusion']
    """
    array = as_images(images)
    chosen = as_kinds(kinds)
    level = check_severity(severity)
    count = count_of(check_share(share), len(array))
    generator = as_generator(rng)
    rows = draw_rows(len(array), count, generator)
    corrupted = array.copy()
    names = np.full(len(array), "", dtype=f"U{max(map(len, IMAGE_KINDS))}")
    with task("corrupting images", total=count) as advance:
        for first, part in enumerate(np.array_split(rows, len(chosen))):
            left = np.sort(part)
            for kind in chosen[first:] + chosen[:first]:
                changed = _damage(array, corrupted, left, kind, level, generator)
                names[left[changed]] = kind
                left = left[~changed]
                advance(int(changed.sum()))
                if not left.size:
                    break
            else:
                raise InvalidInput(
                    f"image {left[0]} looks the same after {' and '.join(chosen)} (is it blank?);"
                    " add a kind that changes it, such as gaussian_noise"
                )
    return corrupted, names


def gaussian_noise(
    images: Any, severity: int = 3, rng: int | np.random.Generator | None = 0
) -> tuple[AnyArray, Mask]:
    """Add independent normal noise to every value of every image, and clip.

    Standard deviation 0.08, 0.12, 0.18, 0.26, 0.38 of the full range at severity 1 to 5.

    Parameters
    ----------
    images
        As for :func:`corrupt_images`.
    severity
        1 (slight) to 5 (heavy).
    rng
        A seed or a Generator.

    Returns
    -------
    corrupted, mask
        The damaged copy, and True for each image that differs from its original.

    Examples
    --------
    >>> import numpy as np
    >>> noisy, mask = gaussian_noise(np.full((1, 64, 64), 0.5), severity=1)
    >>> f"{noisy.std():.2f}", mask
    ('0.08', array([ True]))
    """
    return apply_kind(images, "gaussian_noise", severity, rng)


def occlusion(
    images: Any, severity: int = 3, rng: int | np.random.Generator | None = 0
) -> tuple[AnyArray, Mask]:
    """Cover one rectangle of every image, of random place, size, shape and colour.

    It covers 6, 12, 20, 30, 42 % of the area on average at severity 1 to 5, give or take a quarter of
    that, is at most about twice as long as wide, and lies wholly inside the image. Parameters and
    results as for :func:`gaussian_noise`.

    Examples
    --------
    >>> import numpy as np
    >>> hidden, _ = occlusion(np.zeros((200, 32, 32), dtype=np.uint8), severity=3)
    >>> f"{(hidden > 0).mean():.1f}"
    '0.2'
    """
    return apply_kind(images, "occlusion", severity, rng)


def resolution(
    images: Any, severity: int = 3, rng: int | np.random.Generator | None = 0
) -> tuple[AnyArray, Mask]:
    """Shrink every image by averaging areas, and enlarge it again linearly.

    It keeps 0.6, 0.5, 0.4, 0.3, 0.2 of the pixels along each side at severity 1 to 5. Nothing about it
    is random. Parameters and results as for :func:`gaussian_noise`; an image that is blank stays as it
    is, and the mask says so.

    Examples
    --------
    >>> import numpy as np
    >>> coarse, mask = resolution(np.stack([np.eye(32), np.zeros((32, 32))]), severity=5)
    >>> mask
    array([ True, False])
    """
    return apply_kind(images, "resolution", severity, rng)


def fog(images: Any, severity: int = 3, rng: int | np.random.Generator | None = 0) -> tuple[AnyArray, Mask]:
    """Blend every image towards a light grey, through clouds of uneven thickness.

    The mean opacity is about 0.25, 0.37, 0.49, 0.61, 0.73 at severity 1 to 5, and varies by 30 % of
    that over the image; the grey is 0.80 to 0.95 of white. Parameters and results as for
    :func:`gaussian_noise`.

    Examples
    --------
    >>> import numpy as np
    >>> foggy, _ = fog(np.zeros((1, 64, 64, 3), dtype=np.uint8), severity=5)
    >>> foggy.min() > 100 and foggy.max() < 250
    np.True_
    """
    return apply_kind(images, "fog", severity, rng)


def motion_blur(
    images: Any, severity: int = 3, rng: int | np.random.Generator | None = 0
) -> tuple[AnyArray, Mask]:
    """Average every image along a line of random angle, as if the camera had moved.

    The line is 2 pixels plus 0.05, 0.10, 0.15, 0.20, 0.25 of the smaller side long at severity 1 to 5.
    Beyond the border the edge pixel goes on. Parameters and results as for :func:`gaussian_noise`; an
    image that is blank stays as it is, and the mask says so.

    Examples
    --------
    >>> import numpy as np
    >>> dot = np.zeros((1, 33, 33))
    >>> dot[0, 16, 16] = 1
    >>> blurred, _ = motion_blur(dot, severity=3)
    >>> f"{blurred.sum():.3f}", bool(blurred.max() < 0.3)
    ('1.000', True)
    """
    return apply_kind(images, "motion_blur", severity, rng)


def as_images(images: Any) -> AnyArray:
    """Return `images` as an array of uint8, or of floats in [0, 1], with three or four dimensions."""
    if hasattr(images, "detach"):
        images = images.detach().cpu()
    array: AnyArray = np.asarray(images)
    if array.dtype != np.uint8 and not (array.dtype.kind == "f" and array.dtype.itemsize <= 8):
        raise InvalidInputType(f"images must be uint8, or floats in [0, 1]; got values of type {array.dtype}")
    if array.ndim not in (3, 4) or not array.shape[0] or not array.shape[-1]:
        raise InvalidInput(
            "images must have the shape (images, height, width) or (images, height, width, channels),"
            f" with at least one image (a single one: image[None]); got {array.shape}"
        )
    if min(array.shape[1:3]) < SMALLEST_SIDE:
        raise InvalidInput(
            f"images must be at least {SMALLEST_SIDE} pixels high and wide, with the channels last"
            f" (a single colour image: image[None]); got shape {array.shape}"
        )
    if array.dtype.kind == "f":
        low, high = float(array.min()), float(array.max())
        if not (low >= 0 and high <= 1):
            raise InvalidInput(f"images of floats must lie in [0, 1]; got values from {low:g} to {high:g}")
    return array


def as_kinds(kinds: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of image corruptions, checked, each once."""
    if kinds is None:
        return IMAGE_KINDS
    given = [kinds] if isinstance(kinds, str) else list(kinds)
    names = tuple(check_kind(kind, IMAGE_KINDS, "kinds") for kind in given)
    if not names or len(set(names)) < len(names):
        raise InvalidParameter(f"kinds must name at least one corruption, each once; got {given}")
    return names


def check_severity(severity: Any) -> int:
    """Return the severity as an int from 1 to 5."""
    if not (is_whole(severity) and 1 <= severity <= 5):
        raise InvalidParameter(f"severity must be a whole number from 1 to 5; got {severity!r}")
    return int(severity)


def apply_kind(
    images: Any, kind: str, severity: int, rng: int | np.random.Generator | None
) -> tuple[AnyArray, Mask]:
    """Damage every image with one kind; the mask is True for those that differ from their original."""
    array = as_images(images)
    level = check_severity(severity)
    corrupted = np.empty_like(array, order="C", subok=False)
    return corrupted, _damage(array, corrupted, np.arange(len(array)), kind, level, as_generator(rng))


def _damage(
    source: AnyArray, target: AnyArray, rows: IntArray, kind: str, severity: int, rng: np.random.Generator
) -> Mask:
    """Write the damaged `rows` of `source` into `target`; return which of them changed."""
    if source.ndim == 3:
        source, target = source[..., None], target[..., None]
    kernel, strength = KERNELS[kind], STRENGTHS[kind][severity - 1]
    top = 255 if source.dtype == np.uint8 else 1
    # Wide enough to hold every value of the source, so what a kind leaves alone stays bit-identical.
    working = np.result_type(source.dtype, np.float32) if top == 1 else np.dtype(np.float32)
    step = max(1, _BATCH_VALUES // source[0].size)
    changed = np.zeros(len(rows), dtype=bool)
    for start in range(0, len(rows), step):
        batch = rows[start : start + step]
        before = source[batch]
        after = kernel(before.astype(working) / working.type(top), strength, rng)
        after = np.clip(after, 0, 1)
        if top == 255:
            after *= top
            np.rint(after, out=after)
        target[batch] = after
        changed[start : start + step] = (target[batch] != before).any(axis=(1, 2, 3))
    return changed
