"""Texts that are nearly the same: most sequences of four letters of both are in both.

An embedding may move far when a letter is wrong or a word is added; the letters hardly change. Candidates
share a band of MinHash signatures (Broder 1997), and are then compared exactly: at the least overlap that
counts, a pair is missed with a probability of 0.004.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..arrays import IntArray, Keys, Vector
from ..data import Items, Unreadable

LEAST = 0.6  # shared among all sequences of two texts that are nearly the same
_LETTERS = 4
_LONGEST = 10_000  # letters that are compared: in longer texts most sequences are common ones
_BANDS, _PER_BAND = 40, 4
_AT_ONCE = 1 << 13


@dataclass(frozen=True, eq=False)
class Alike:
    """Pairs of a text or photo and the foreign one that it is most like, and how alike they are."""

    train: IntArray
    test: IntArray
    likeness: Vector


def find_alike(texts: Items, foreign: Items) -> Alike:
    """Return the texts that are nearly the same as a foreign one, and the most similar of these.

    How alike they are is the share of sequences that both have.

    Time: O(letters), and the comparison of candidates. Memory: the sequences of the foreign texts.

    >>> def items(*texts):
    ...     return Items("text", len(texts), lambda start, stop: list(texts[start:stop]))
    >>> found = find_alike(items("Call my mother!", "play some jazz"), items("please call my mother"))
    >>> found.train.tolist(), found.test.tolist(), found.likeness.round(2).tolist()
    ([0], [0], [0.65])
    """
    known = [sequences(text) for text in read_texts(foreign)]
    filled = np.array([other for other, keys in enumerate(known) if len(keys)], np.int64)
    names = np.array([_bands(known[other]) for other in filled], np.uint64).reshape(-1)
    order = np.argsort(names, kind="stable")
    names, owners = names[order], np.repeat(filled, _BANDS)[order]  # the foreign texts of each band
    found = []
    for row, text in enumerate(read_texts(texts)):
        if len(own := sequences(text)):
            bands = _bands(own)
            spans = zip(np.searchsorted(names, bands), np.searchsorted(names, bands, "right"), strict=True)
            others = np.unique(np.concatenate([owners[low:high] for low, high in spans]))
            scores = [_overlap(own, known[other]) for other in others]
            if scores and max(scores) >= LEAST:
                found.append((row, others[int(np.argmax(scores))], max(scores)))
    train, test, overlap = np.array(found, np.float64).reshape(-1, 3).T
    return Alike(train.astype(np.int64), test.astype(np.int64), overlap)


def same_texts(texts: Items) -> IntArray:
    """Return a number for each text, the same for texts that differ in signs and capitals alone; -1: empty.

    >>> texts = ["Call me!", "play jazz", "call  me", "?"]
    >>> same_texts(Items("text", 4, lambda start, stop: texts[start:stop])).tolist()
    [0, 1, 0, -1]
    """
    known: dict[bytes, int] = {}
    found = np.full(len(texts), -1)
    for row, text in enumerate(read_texts(texts)):
        if words := _words(text):
            key = hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            found[row] = known.setdefault(key, row)
    return found


def _words(text: str) -> str:
    """Return a text without what does not count."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def sequences(text: str) -> Keys:
    """Return the sequences of four letters of a text as numbers, each once; signs and capitals do not count.

    >>> len(sequences("Abba")), bool((sequences("Ab, ba!") == sequences("ab ba")).all())
    (3, True)
    """
    words = _words(text[:_LONGEST])
    letters = np.frombuffer(f" {words} ".encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    count = max(0, len(letters) - _LETTERS + 1) if words else 0
    found = np.zeros(count, np.uint64)
    for place in range(_LETTERS):
        found = _mixed(found ^ letters[place : place + count])
    return np.unique(found)


def _mixed(keys: Keys) -> Keys:
    """Return numbers that look random, the same for the same (the end of MurmurHash3)."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        keys = (keys ^ keys >> np.uint64(33)) * np.uint64(factor)
    return keys ^ keys >> np.uint64(33)


_SALTS = _mixed(np.arange(1, _BANDS * _PER_BAND + 1, dtype=np.uint64))


def _bands(keys: Keys) -> Keys:
    """Return a number for each band of the signature of a text that is not empty."""
    least = ((keys[:, None] ^ _SALTS) * np.uint64(0x9E3779B97F4A7C15)).min(axis=0)
    names = np.zeros(_BANDS, np.uint64)
    for own in least.reshape(_BANDS, _PER_BAND).T:
        names = _mixed(names ^ own)
    return names


def _overlap(one: Keys, other: Keys) -> float:
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared / (len(one) + len(other) - shared)


def read_texts(items: Items) -> Iterator[str]:
    """Yield texts, some read at a time; those that cannot be read are empty."""
    for start in range(0, len(items), _AT_ONCE):
        for text in items.read(start, min(start + _AT_ONCE, len(items))):
            yield "" if isinstance(text, Unreadable) else str(text)
