"""The arithmetic of the five image corruptions, on batches of floats.

Each function takes images as floats in [0, 1] of shape (images, height, width, channels), a strength
and a Generator, and returns new floats of the same shape and type; the caller clips to [0, 1]. Work is
linear in the number of pixels (motion blur: times the logarithm of the side), memory a few times that.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import fft

from ...arrays import FloatArray

Kernel = Callable[[FloatArray, float, np.random.Generator], FloatArray]

_SHORTEST_BLUR = 2.0


def add_gaussian_noise(x: FloatArray, deviation: float, rng: np.random.Generator) -> FloatArray:
    """Add independent normal noise to every value."""
    noise: FloatArray = rng.standard_normal(x.shape, dtype=x.dtype)
    noise *= deviation
    noise += x
    return noise


def occlude(x: FloatArray, area: float, rng: np.random.Generator) -> FloatArray:
    """Cover one rectangle of random place, size and colour, about `area` of the picture.

    The colour is drawn at least a quarter of the range away from the mean of what it covers, in every
    channel, so that something is always seen to be hidden.
    """
    n, height, width, channels = x.shape
    areas = area * rng.uniform(0.75, 1.25, n)
    aspect = 2.0 ** rng.uniform(-1, 1, n)
    covered = (
        _random_interval(height, np.sqrt(areas * aspect), rng)[:, :, None]
        & _random_interval(width, np.sqrt(areas / aspect), rng)[:, None, :]
    )
    weights = covered.reshape(n, 1, -1).astype(x.dtype)
    mean = weights @ x.reshape(n, -1, channels) / weights.sum(axis=2, keepdims=True)
    colour = (mean + rng.uniform(0.25, 0.75, mean.shape)) % 1.0
    return np.where(covered[..., None], colour[:, :, None].astype(x.dtype), x)


def reduce_resolution(x: FloatArray, scale: float, rng: np.random.Generator) -> FloatArray:
    """Shrink to `scale` of the side by averaging areas, and enlarge again linearly."""
    n, height, width, channels = x.shape
    rows = _down_and_up(height, scale).astype(x.dtype)
    columns = _down_and_up(width, scale).astype(x.dtype)
    along_rows = (rows @ x.reshape(n, height, width * channels)).reshape(x.shape)
    # One large product instead of one per line and image: the pixels of a line must lie side by side.
    lines = along_rows.transpose(0, 1, 3, 2).reshape(-1, width) @ columns.T
    return lines.reshape(n, height, channels, width).transpose(0, 1, 3, 2)


def add_fog(x: FloatArray, thickness: float, rng: np.random.Generator) -> FloatArray:
    """Blend towards a light grey, through clouds of uneven thickness.

    The usual model of haze: what arrives is the picture dimmed by the fog plus the fog's own light.
    """
    n, height, width, _ = x.shape
    opacity = thickness * (0.7 + 0.6 * _clouds(n, height, width, rng).astype(x.dtype))
    light = rng.uniform(0.8, 0.95, (n, 1, 1, 1)).astype(x.dtype)
    return x + opacity[..., None] * (light - x)


def blur_along_line(x: FloatArray, length: float, rng: np.random.Generator) -> FloatArray:
    """Average along a line of random angle; `length` is in units of the smaller side, plus two pixels.

    Outside the picture its edge goes on, so nothing comes in from the opposite side.
    """
    n, height, width, _ = x.shape
    pixels = _SHORTEST_BLUR + length * min(height, width)
    angles = rng.uniform(0, np.pi, size=(n,))
    kernels = _line_kernels(pixels, angles).astype(x.dtype)
    margin = kernels.shape[1] // 2
    padded = np.pad(x, ((0, 0), (margin, margin), (margin, margin), (0, 0)), mode="edge")
    shape = [fft.next_fast_len(side, real=True) for side in padded.shape[1:3]]
    spectrum = fft.rfft2(padded, shape, axes=(1, 2))
    spectrum *= fft.rfft2(kernels, shape)[..., None]
    full: FloatArray = fft.irfft2(spectrum, shape, axes=(1, 2), overwrite_x=True)
    # Where the whole kernel lay inside the padded picture: the transform's own wrap-around ends before.
    first = 2 * margin
    return full[:, first : first + height, first : first + width]


KERNELS: dict[str, Kernel] = {
    "gaussian_noise": add_gaussian_noise,
    "occlusion": occlude,
    "resolution": reduce_resolution,
    "fog": add_fog,
    "motion_blur": blur_along_line,
}

# The strength at severity 1 to 5: standard deviation of the noise; mean share of the area covered; side
# after shrinking; mean opacity of the fog; length of the blur (smaller sides, plus two pixels).
STRENGTHS: dict[str, tuple[float, float, float, float, float]] = {
    "gaussian_noise": (0.08, 0.12, 0.18, 0.26, 0.38),
    "occlusion": (0.06, 0.12, 0.20, 0.30, 0.42),
    "resolution": (0.6, 0.5, 0.4, 0.3, 0.2),
    "fog": (0.25, 0.37, 0.49, 0.61, 0.73),
    "motion_blur": (0.05, 0.10, 0.15, 0.20, 0.25),
}


def _random_interval(
    side: int, fraction: npt.NDArray[np.float64], rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Mark, for each image, a run of pixels of the given fraction at a random place inside the side."""
    length = np.clip(np.rint(fraction * side), 1, side)
    start = np.floor(rng.random(length.size) * (side - length + 1))
    pixel = np.arange(side)
    inside: npt.NDArray[np.bool_] = (pixel >= start[:, None]) & (pixel < (start + length)[:, None])
    return inside


def _down_and_up(side: int, scale: float) -> npt.NDArray[np.float64]:
    """Return the matrix that averages a line of `side` pixels to fewer and interpolates them back."""
    few = max(1, round(scale * side))
    edges = np.arange(few + 1) * side / few
    pixel = np.arange(side)
    overlap = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    down = np.clip(overlap, 0, None) * few / side
    place = np.clip((pixel + 0.5) * few / side - 0.5, 0, few - 1)
    up = np.clip(1 - np.abs(place[:, None] - np.arange(few)), 0, None)
    both: npt.NDArray[np.float64] = up @ down
    return both


def _clouds(n: int, height: int, width: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Return smooth random fields from 0 to 1: octaves of ever finer and fainter splines."""
    field = np.zeros((n, height, width), dtype=np.float32)
    cells, weight = 2, np.float32(1)
    while cells <= min(height, width) // 2 and cells <= 32:
        knots = rng.random((n, cells + 3, cells + 3), dtype=np.float32)
        field += weight * (_spline(height, cells) @ knots @ _spline(width, cells).T)
        cells, weight = 2 * cells, weight / 2
    field -= field.min(axis=(1, 2), keepdims=True)
    field /= field.max(axis=(1, 2), keepdims=True)
    return field


def _spline(side: int, cells: int) -> npt.NDArray[np.float32]:
    """Return the cubic B-spline weights of `cells + 3` knots at the centres of `side` pixels."""
    place = (np.arange(side) + 0.5) * cells / side
    u = np.abs(place[:, None] - np.arange(-1, cells + 2))
    near = 2 / 3 - u**2 + u**3 / 2
    far = np.clip(2 - u, 0, None) ** 3 / 6
    return np.where(u < 1, near, far).astype(np.float32)


def _line_kernels(length: float, angles: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return one square kernel per angle that averages over a line of `length` pixels through its middle."""
    half = int(np.ceil(length / 2))
    steps = 4 * half + 1
    along = (np.arange(steps) + 0.5) / steps * length - length / 2
    grid = np.arange(-half, half + 1)
    down = np.clip(1 - np.abs(grid - (np.sin(angles)[:, None] * along)[..., None]), 0, None)
    across = np.clip(1 - np.abs(grid - (np.cos(angles)[:, None] * along)[..., None]), 0, None)
    kernels: npt.NDArray[np.float64] = down.transpose(0, 2, 1) @ across / steps
    return kernels
