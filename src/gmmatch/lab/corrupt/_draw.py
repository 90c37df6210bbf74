"""Which rows go wrong: seeds, shares and draws, the same for every kind of damage."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...errors import InvalidInput, InvalidParameter
from ...validation import check_choice, is_number, is_whole


def as_generator(rng: Any) -> np.random.Generator:
    """Return the Generator itself, or a fresh one made from a seed (None: from the system)."""
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    if is_whole(rng) and rng >= 0:
        return np.random.default_rng(int(rng))
    raise InvalidParameter(
        f"rng must be a whole number of at least 0, a numpy.random.Generator or None; got {rng!r}"
    )


def check_share(share: Any, below_half: bool = False) -> float:
    """Return `share` as a float in [0, 1], or in [0, 1/2) where only a minority may be wrong."""
    if not (is_number(share) and 0 <= share <= 1 and (share < 0.5 or not below_half)):
        allowed = (
            "a fraction in [0, 0.5): corrupted rows are a minority" if below_half else "a fraction in [0, 1]"
        )
        raise InvalidParameter(f"share must be {allowed}; got {share!r}")
    return float(share)


def count_of(share: float, n_rows: int) -> int:
    """Return the rounded number of rows that a share of `n_rows` stands for (halves go up).

    >>> count_of(0.2, 12), count_of(0.25, 10)
    (2, 3)
    """
    return int(np.floor(share * n_rows + 0.5))


def check_kind(kind: Any, known: Iterable[str], name: str = "kind") -> str:
    """Return the known name that `kind` means; hyphens and underscores are the same."""
    names = list(known)
    joint = "_" if any("_" in word for word in names) else "-"
    written = kind.replace("-", joint).replace("_", joint) if isinstance(kind, str) else kind
    return check_choice(written if written in names else kind, names, name)


def draw_rows(n_rows: int, count: int, rng: np.random.Generator) -> IntArray:
    """Return `count` different row numbers in random order."""
    return rng.permutation(n_rows)[:count].astype(np.int64)


def draw_weighted(weights: npt.NDArray[np.float64], count: int, rng: np.random.Generator) -> IntArray:
    """Return exactly `count` different rows, each with a chance in proportion to its weight.

    Systematic sampling down the weights, ties in random order: the inclusion probabilities are exactly
    proportional to the weights, but for rows whose share would exceed one, which are taken for certain;
    and rows of one weight are taken as often as their weight says, to within one.

    Raises `InvalidInput`: fewer than `count` rows have a weight.
    """
    possible = np.flatnonzero(weights > 0)
    if possible.size < count:
        raise InvalidInput(f"share asks for {count} wrong rows, but only {possible.size} can be made wrong")
    if count == 0:
        return np.empty(0, dtype=np.int64)
    order = rng.permutation(possible)
    order = order[np.argsort(-weights[order], kind="stable")]
    weight = weights[order]
    remaining = np.cumsum(weight[::-1])[::-1]
    # The first rank at which a proportional share no longer exceeds one: all before it are certain.
    certain = int(np.argmax(weight * (count - np.arange(weight.size)) <= remaining))
    taken, rest, wanted = order[:certain], order[certain:], count - certain
    if wanted:
        edges = np.cumsum(weights[rest] / weights[rest[0]])
        edges *= wanted / edges[-1]
        edges[-1] = wanted
        ticks = np.arange(wanted) + rng.random()
        taken = np.concatenate([taken, rest[np.searchsorted(edges, ticks, side="right")]])
    return taken.astype(np.int64)
