"""Which rows go on the map: all of them, or a seeded sample that is balanced over the classes."""

import numpy as np

from ..arrays import IntArray

MOST_ROWS = 20_000
_FIRST_PICKS = 1_000


def balanced_quota(sizes: IntArray, total: int) -> IntArray:
    """Share `total` places among classes as evenly as their sizes allow."""
    total = min(total, int(sizes.sum()))
    order = np.argsort(sizes, kind="stable")
    quota = np.zeros(len(sizes), np.int64)
    for place, code in enumerate(order):
        quota[code] = min(int(sizes[code]), total // (len(order) - place))
        total -= int(quota[code])
    return quota


def balanced_sample(rows: IntArray, codes: IntArray, total: int, rng: np.random.Generator) -> IntArray:
    """Draw up to `total` of `rows` at random, as evenly over their classes as possible; sorted.

    `rows`, `codes`: row numbers and the class of each.
    """
    if total >= len(rows):
        return np.sort(rows)
    order = rng.permutation(len(rows))
    order = order[np.argsort(codes[order], kind="stable")]
    sizes = np.bincount(codes)
    turn = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(rows[order[turn < np.repeat(balanced_quota(sizes, total), sizes)]])


def choose_rows(
    usable: IntArray, codes: IntArray, picked: IntArray, always: IntArray, seed: int, total: int = MOST_ROWS
) -> IntArray:
    """Choose the rows of the map, in the order in which they are drawn: dropped ones, then late picks first.

    Where there are more rows than places, the map has the rows of `always`, the first thousand picks, and
    a balanced sample of kept and one of dropped rows that share the other places evenly.

    `usable`: numbers of the rows that may be shown. `codes`: class of each row of the input. `picked`: the
    picks, in pick order. `always`: rows that must be there.
    """
    chosen = usable
    if len(usable) > total:
        rng = np.random.default_rng([seed, 0x6D6170])
        must = np.unique(np.concatenate([always, picked[:_FIRST_PICKS]]))
        dropped = np.setdiff1d(usable, picked, assume_unique=True)
        kept_left, dropped_left = np.setdiff1d(picked, must), np.setdiff1d(dropped, must)
        places = total - len(must)
        half = max(places // 2, places - len(dropped_left))
        some = balanced_sample(kept_left, codes[kept_left], half, rng)
        rest = balanced_sample(dropped_left, codes[dropped_left], places - len(some), rng)
        chosen = np.concatenate([must, some, rest])
    rank = np.full(len(codes), -1, np.int64)
    rank[picked] = np.arange(len(picked))
    ranks = rank[chosen]
    return chosen[np.lexsort((chosen, -ranks, ranks >= 0))]
