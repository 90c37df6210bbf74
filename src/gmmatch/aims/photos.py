"""Photos that are nearly the same: packed again, of another size, or cropped by up to an eighth of a side.

The embedding of a small photo moves far when it is packed again; its greys hardly change. Candidates are the
foreign photos whose coarse thumbnails correlate best, either whole or without a sixteenth of the sides at a
corner. They are then compared by finer thumbnails, under the crop of either that makes both most alike.
"""

import itertools
import warnings
from collections.abc import Iterator

import numpy as np

from ..arrays import Float32Array, IntArray, Mask, UInt8Array
from ..compute.blocks import map_in_order
from ..data import Items, Unreadable
from ..data.images import as_pixels, image_of, open_image
from ..errors import require
from ..progress import task
from .texts import Alike

_SHARE = 0.1  # of the usual distance (1 - correlation) that photos which are nearly the same may have
_FLAT = 4.0  # greys of 255: photos that vary less are not compared
_SIDE, _FINE, _COARSE = 32, 16, 8  # pixels of a thumbnail as it is kept, and as it is compared
_CANDIDATES, _LEAST_COARSE = 4, 0.7  # so many foreign photos are compared, of at least this correlation
_STEPS = 4  # in which the best crop is found: rows and columns in turn
_AT_ONCE, _PAIRS, _BLOCK = 1 << 10, 1 << 22, 1 << 9


def find_alike_photos(photos: Items, foreign: Items) -> Alike:
    """Return the photos that are nearly the same as a foreign one, and the most similar of these.

    How alike they are is the correlation of their greys, under the best crop: at least 0.97, or more where
    all are much alike, such as scanned digits. They are at most a tenth as far apart as a photo and its
    fourth candidate usually are. Photos of hardly any contrast, and those that cannot be read, are like none.

    Time: O(photos * foreign photos), and one read of both. Memory: 3 kB for each foreign photo.
    """
    read = [np.empty((0, _SIDE, _SIDE), np.uint8), *(thumbs for _, thumbs in _read(foreign))]
    numbers = np.flatnonzero((others := np.concatenate(read)).any(axis=(1, 2)))
    others = others[numbers]
    views = _coarse(others)
    found = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0))]
    for first, thumbs in _read(photos) if len(others) else ():
        varied = np.flatnonzero(thumbs.any(axis=(1, 2)))
        for rows in np.array_split(varied, 1 + len(varied) * len(others) // _PAIRS):
            candidates, close = _candidates(thumbs[rows], views)
            scores, (one, place) = np.full(candidates.shape, _LEAST_COARSE), np.nonzero(close)
            for start in range(0, len(one), _BLOCK):
                at = one[start : start + _BLOCK], place[start : start + _BLOCK]
                mine, theirs = thumbs[rows[at[0]]], others[candidates[at]]
                scores[at] = np.maximum(_correlation(mine, theirs), _correlation(theirs, mine))
            row, best = np.arange(len(rows)), scores.argmax(axis=1)
            # That of the fourth, which is seldom a copy as well.
            usual = scores.min(axis=1) if len(others) >= _CANDIDATES else np.full(len(rows), _LEAST_COARSE)
            found.append((first + rows, numbers[candidates[row, best]], scores[row, best], usual))
    train, test, correlation, usual = (np.concatenate(column) for column in zip(*found, strict=True))
    near = correlation >= 1 - _SHARE * (1 - np.median(usual)) if len(usual) else np.empty(0, bool)
    return Alike(train[near], test[near], correlation[near])


def _read(items: Items) -> Iterator[tuple[int, UInt8Array]]:
    """Yield the thumbnails of photos, and the number of the first."""
    with task("comparing photos", len(items)) as advance:
        for start in range(0, len(items), _AT_ONCE):
            contents = items.read(start, min(start + _AT_ONCE, len(items)))
            with warnings.catch_warnings():  # Pillow would only warn of images that would fill the memory
                warnings.filterwarnings("error", category=RuntimeWarning, module=r"PIL\.Image")
                thumbs = np.stack(list(map_in_order(_thumbnail, contents)))
            yield start, thumbs
            advance(len(contents))


def _thumbnail(content: object) -> UInt8Array:
    """Return the greys of a whole photo, stretched to a square; of what is none, or flat, zeros."""
    resampling, nothing = require("PIL.Image", "pillow", "photos").Resampling, np.zeros(2 * [_SIDE], np.uint8)
    try:
        if isinstance(content, Unreadable):
            raise content
        photo = content if isinstance(content, np.ndarray) else open_image(content, 2 * _SIDE)
        grey = image_of(as_pixels(photo, None)).convert("L")
    except Exception:  # whoever encodes it says why
        return nothing
    thumb = np.asarray(grey.resize((_SIDE, _SIDE), resampling.BICUBIC, reducing_gap=3.0))
    return thumb if thumb.std() >= _FLAT else nothing


def _cut(start: int, stop: int, size: int) -> Float32Array:
    """Return what makes pixels from `start` to `stop` of a thumbnail into `size` pixels: their means."""
    edges, pixels = np.linspace(start, stop, size + 1)[:, None], np.arange(_SIDE)
    shares = np.clip(np.minimum(edges[1:], pixels + 1) - np.maximum(edges[:-1], pixels), 0, None)
    return np.asarray(shares * size / (stop - start), np.float32)


_CROPS = [
    (_cut(*rows, _COARSE), _cut(*columns, _COARSE))
    for rows, columns in [((0, 32), (0, 32)), *itertools.product(((0, 30), (2, 32)), repeat=2)]
]
_SPANS = [(1, 31)] + [(a, b) for a in range(5) for b in range(a + 28, 33) if (a, b) != (1, 31)]
_FINER = np.stack([_cut(*span, _FINE) for span in _SPANS])
_WHOLE = _cut(0, _SIDE, _FINE)


def _coarse(thumbs: UInt8Array) -> list[Float32Array]:
    """Return thumbnails, whole and without what each crop leaves out, as unit vectors."""
    pictures = thumbs.astype(np.float32)
    return [_unit(np.asarray(rows @ pictures @ columns.T, np.float32)) for rows, columns in _CROPS]


def _unit(pictures: Float32Array) -> Float32Array:
    vectors = pictures.reshape(len(pictures), pictures.shape[1] * pictures.shape[2])
    vectors = vectors - vectors.mean(axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6))


def _candidates(thumbs: UInt8Array, views: list[Float32Array]) -> tuple[IntArray, Mask]:
    """Return the foreign thumbnails that each is most like, whole or cropped, and which are worth a look."""
    own, best = _coarse(thumbs), np.zeros((len(thumbs), len(views[0])), np.float32)
    pairs = [(own[0], view) for view in views] + [(view, views[0]) for view in own[1:]]
    for start in range(0, best.shape[1], _BLOCK):
        block = best[:, start : start + _BLOCK]
        for one, other in pairs:
            np.maximum(block, one @ other[start : start + _BLOCK].T, out=block)
    few = min(_CANDIDATES, best.shape[1])
    nearest = np.sort(np.argpartition(-best, few - 1, axis=1)[:, :few], axis=1)
    return nearest, np.take_along_axis(best, nearest, axis=1) >= _LEAST_COARSE


def _correlation(whole: UInt8Array, cut: UInt8Array) -> Float32Array:
    """Return the correlation of pairs of thumbnails, the second of each under the crop that makes it largest.

    The best rows are found, then the best columns of these, and so on.
    """
    target = _unit(_WHOLE @ whole.astype(np.float32) @ _WHOLE.T).reshape(-1, _FINE, _FINE)
    rest, columns = cut.astype(np.float32), np.zeros(len(cut), np.int64)
    for _ in range(_STEPS):
        strips = rest @ _FINER[columns].transpose(0, 2, 1)
        views = (_FINER.reshape(-1, _SIDE) @ strips).reshape(len(cut), len(_SPANS), -1)
        views -= views.mean(axis=2, keepdims=True)
        along = (views @ target.reshape(len(cut), -1, 1))[..., 0]
        scores = along / np.maximum(np.sqrt(np.square(views).sum(axis=2)), 1e-6)
        columns, correlation = scores.argmax(axis=1), scores.max(axis=1)
        rest, target = rest.transpose(0, 2, 1), target.transpose(0, 2, 1)
    return np.asarray(correlation)
