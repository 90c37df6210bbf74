"""Clusters: groups of rows that are found where there are no labels, each to be matched as a class would be.

k-means from a spread-out start, in one level or two: a few coarse clusters first, then each is divided by
itself, so that the time is linear in the rows. Where rows are many, clusters are found on a sample that is
drawn by the rows' values, and all rows go to the nearest.

With nearly twice as many clusters as picks, the lightest are left without, and every other one gives a pick
before any gives a second, which is what makes the picks diverse. Rows far from their neighbours, which is
what wrong rows mostly are, found no cluster and are picked last; a small group of rows near each other is
no outlier.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..arrays import FloatArray, IntArray, Keys, Mask, Rows, Vector
from ..compute import kernels
from ..compute.blocks import block_rows, blocks, group_order, limit_threads, map_in_order
from ..compute.keys import draw_usable
from ..compute.reads import EachRow
from ..compute.runner import PerRow, cut, gather, hold_rows, run_read
from ..trust import TRUSTED, Verdict
from .budgets import split
from .groups import Group
from .kmeans import Points, Rounds, nearest, row_lengths, spread_out

CLUSTERS_PER_PICK = 1.8
"""Of 1.3 to 2.5, tried on two seeds of letters, CIFAR-10 features, and word vectors and sentence embeddings
of CLINC150, with and without planted outliers: fewer pick more outliers, more lose rare classes."""

SAMPLE_ROWS = 1 << 16
MOST_CLUSTERS = 4096
"""Clusters that are looked for where rows are more than the sample."""

_ROWS_PER_CLUSTER = 3
_FLAT_WORK = 4e9  # multiply-adds of a round in one level; beyond that, two levels
_GROUP_WORK = 4e9  # the same, of a coarse cluster
_FEWEST_FEATURES = 16  # of rows that have fewer, a comparison takes as long
_ROUNDS = 12
_COARSE_ROWS = 1 << 14  # of the sample, that coarse clusters are found on; set by reason
_BLOCKS_AT_ONCE = 8  # rows of a coarse cluster in a block are then many enough for a product of matrices
_NEIGHBOUR = 5  # whose distance says how alone a row is
_REFERENCE = 1 << 10, 1 << 12  # rows that neighbours are looked for among, at least and at most
_REFERENCE_PAIRS = 1 << 26  # pairs of rows to compare, between these limits
_ALONE = 3.5  # median absolute deviations beyond the median; of 2.5 to 3.5, tried as above
_FARTHER = 2.0  # times the median: in many directions distances hardly differ, and small groups reach farther


@dataclass(frozen=True, eq=False)
class Clusters:
    """Where the clusters are."""

    coarse: Vector  # centres of the coarse clusters, float64; one row where there is one level
    fine: list[Vector]  # for each coarse cluster the centres of its clusters

    def __len__(self) -> int:
        return sum(len(points) for points in self.fine)

    def assign(self, rows: FloatArray) -> IntArray:
        """Return the cluster of each row of a block."""
        return self.ready(rows.dtype)(rows)

    def ready(self, kind: npt.DTypeLike) -> Callable[[FloatArray], IntArray]:
        """Return what `assign` does as a function of many blocks of rows of one type."""
        first = np.cumsum([0, *(len(points) for points in self.fine)])
        coarse, *fine = (Points(points, kind) for points in (self.coarse, *self.fine))

        def assign(rows: FloatArray) -> IntArray:
            lengths = row_lengths(rows)
            order, present, starts = group_order(coarse.compare(rows, lengths)[0])
            rows, lengths = np.take(rows, order, axis=0), lengths[order]
            codes, ends = np.empty(len(rows), np.int64), [*starts[1:], len(rows)]
            for group, start, end in zip(present, starts, ends, strict=True):
                own = slice(start, end)
                codes[order[own]] = first[group] + fine[group].compare(rows[own], lengths[own])[0]
            return codes

        return assign


def cluster_count(clusters: Any, k: int, n_rows: int) -> int:
    """Return how many clusters to look for."""
    most = max(1, n_rows // _ROWS_PER_CLUSTER) if n_rows <= SAMPLE_ROWS else MOST_CLUSTERS
    wanted = int(np.ceil(CLUSTERS_PER_PICK * k)) if isinstance(clusters, str) else int(clusters)
    return max(1, min(wanted, most if isinstance(clusters, str) else n_rows))


def divide_into_clusters(
    whole: Group, clusters: int | str, k: int, verdict: Verdict
) -> tuple[list[Group], Verdict]:
    """Divide rows without labels into clusters; return these, and the verdict with light clusters noted.

    `clusters`: how many, or `auto`. `k`: how many rows to pick. Trusted rows far from their neighbours belong
    to no cluster: they are a last group with all that is not trusted.
    """
    trusted = np.zeros(len(verdict.tiers), dtype=bool)
    trusted[whole.members] = verdict.tiers[whole.members] == TRUSTED
    count = cluster_count(clusters, k, int(trusted.sum()))
    codes = find_clusters(whole.source, trusted, verdict.keys, count, whole.seed[0])
    numbers = np.flatnonzero(codes >= 0)
    found = [numbers[part] for part in split(codes[numbers], int(codes.max()) + 1)]
    n_clusters, outside = len(found), whole.members[codes[whole.members] < 0]
    groups = [
        replace(whole, members=members, seed=(*whole.seed, code), n_classes=n_clusters)
        for code, members in enumerate([*found, outside] if len(outside) else found)
    ]
    return groups, verdict.with_light(trusted & (codes < 0))


def find_clusters(rows: Rows, usable: Mask, keys: Keys, count: int, seed: int) -> IntArray:
    """Divide rows into clusters; return that of each, the heaviest cluster first, and -1 for rows of none.

    Rows of none are unusable, or far from their neighbours in the sample that clusters are found on.

    `rows`: rows; a sample is gathered, the rest is read in slices. `usable`: rows to divide. `keys`: hashes
    of the rows; clusters depend on the rows' values and not on their order. `count`: how many clusters to
    look for; rows with fewer distinct values have fewer. `seed`: seed of the start.

    Time: linear in the rows: O(sample * features * sqrt(clusters)) per round, and one read. Memory: a sample.
    """
    order = draw_usable(keys, usable, SAMPLE_ROWS)
    # One thread of BLAS per block: its order of additions is then the same on any number of cores.
    with threadpool_limits(1):
        every = len(order) == np.count_nonzero(usable)
        sample = _sample(rows, order, every)
        alone = _alone(sample)
        usable = usable.copy()
        usable[order[alone]] = False
        order, sample = order[~alone], sample[~alone]
        clusters, found = _divide(sample, count, seed)
        step = block_rows(max(rows.shape[1], len(clusters.coarse))) * _BLOCKS_AT_ONCE
        own_usable, assign = PerRow(usable), clusters.ready(rows.dtype)
        if every:
            if found is None:
                parts = cut(slice(0, len(sample)), step)
                found = np.concatenate(list(map_in_order(lambda own: assign(sample[own]), parts)))
            codes = np.full(len(rows), -1)
            codes[order] = found
            return _heaviest_first(codes, len(clusters))

        def part(block: slice, values: FloatArray) -> tuple[IntArray]:
            if not own_usable[block].all():  # what is not usable may hold anything
                values = np.where(own_usable[block][:, None], values, 0.0).astype(values.dtype)
            return (assign(values),)

        codes = run_read(rows, EachRow("assigning rows to clusters", part, step))[0]
    codes[~usable] = -1
    return _heaviest_first(codes, len(clusters))


def _sample(rows: Rows, order: IntArray, every: bool) -> FloatArray:
    """Return rows in a given order; where they are all that there are, that is a read of them."""
    if not every:
        return np.asarray(gather(rows, order))
    held = hold_rows(rows, np.sort(order))
    return np.take(held, np.argsort(np.argsort(order, kind="stable"), kind="stable"), axis=0)


def ordinary_size(sizes: IntArray) -> int:
    """Return the size of the cluster that the median row is in.

    The median cluster will not do: outliers make up many clusters of few rows, near-duplicates few of many.

    >>> ordinary_size(np.array([30, 10, 9, 8, 1, 1, 1, 1, 1]))
    10
    """
    order = np.sort(sizes)
    return int(order[np.searchsorted(np.cumsum(order), order.sum() / 2)])


def _alone(sample: FloatArray) -> Mask:
    """Return True for rows of a sample, in random order, that are far from their nearest neighbours."""
    low, high = _REFERENCE
    near = sample[: min(high, max(low, _REFERENCE_PAIRS // max(1, len(sample))))]
    if len(near) <= _NEIGHBOUR:
        return np.zeros(len(sample), dtype=bool)
    origin = np.add.reduce(near, axis=0, dtype=np.float64) / len(near)
    near = (near - origin).astype(sample.dtype)
    squares = np.einsum("ij,ij->i", near, near)

    def part(block: slice) -> Vector:
        rows = (sample[block] - origin).astype(sample.dtype)
        apart = np.einsum("ij,ij->i", rows, rows)[:, None] + squares - 2.0 * (rows @ near.T)
        own = np.arange(block.start, min(block.stop, len(near)))
        apart[own - block.start, own] = np.inf  # a row is no neighbour of its own
        reach: Vector = np.partition(apart, _NEIGHBOUR - 1, axis=1)[:, _NEIGHBOUR - 1]
        return reach

    with np.errstate(over="ignore", invalid="ignore"):  # what is not a number is not alone
        found = np.concatenate([part(block) for block in blocks(sample)]).astype(np.float64)
        reach = np.sqrt(np.maximum(found, 0.0))
        middle = float(np.median(reach))
        spread = 1.4826 * float(np.median(np.abs(reach - middle)))
        # Where half of the rows are as near to their neighbours as each other, as copies are, none is alone.
        alone: Mask = (reach > max(middle + _ALONE * spread, _FARTHER * middle)) & (spread > 0)
    return alone


def _divide(sample: FloatArray, count: int, seed: int) -> tuple[Clusters, IntArray | None]:
    """Find clusters in a sample, which is in random order; and which its rows are in, where that is known."""
    entropy = [seed, 0x63656C6C]
    if _work(sample, count) <= _FLAT_WORK:
        found = _rounds(sample, count, np.random.default_rng(entropy), _ROUNDS)
        fine = found.prototypes
        return Clusters(np.add.reduce(fine)[None] / len(fine), [fine]), found.codes()
    coarse = lloyd(sample[:_COARSE_ROWS], int(np.ceil(np.sqrt(count))), np.random.default_rng(entropy))
    own = np.concatenate(list(map_in_order(lambda block: nearest(sample[block], coarse), blocks(sample))))
    # By how many rows there are and how far they spread: copies of few rows are not divided any further.
    spread = kernels.group_distances(sample, own, coarse) ** 2
    weights = np.sqrt(np.bincount(own, minlength=len(coarse)) * np.bincount(own, spread, len(coarse)))
    shares = np.ones(len(coarse), np.int64)
    if weights.any():
        shares = np.maximum(1, np.round(count * weights / weights.sum()).astype(np.int64))

    def part(group: int) -> Vector:
        members = sample[own == group]
        if not len(members):
            return coarse[[group]]
        rng = np.random.default_rng([*entropy, group])
        # One that holds most of the rows is divided at random first, and each part by itself: else it alone
        # would take the time that two levels save.
        share = int(shares[group])
        parts = min(share, len(members), int(np.ceil(_work(members, share) / _GROUP_WORK)))
        counts = np.diff(np.arange(parts + 1) * share // parts)
        with limit_threads(1):
            found = [lloyd(members[n::parts], int(counts[n]), rng, _ROUNDS // 2) for n in range(parts)]
        return np.concatenate(found)

    return Clusters(coarse, list(map_in_order(part, range(len(coarse))))), None


def _work(rows: FloatArray, count: int) -> float:
    """Return how many multiply-adds it takes to compare rows with so many centres."""
    return float(len(rows) * max(rows.shape[1], _FEWEST_FEATURES) * count)


def lloyd(rows: FloatArray, count: int, rng: np.random.Generator, rounds: int = _ROUNDS) -> Vector:
    """Return up to `count` centres by a few rounds of k-means."""
    return _rounds(rows, count, rng, rounds).prototypes


def _rounds(rows: FloatArray, count: int, rng: np.random.Generator, rounds: int) -> Rounds:
    found = Rounds(rows, spread_out(rows, count, rng))
    for _ in range(rounds):
        if not found.go():
            break
    return found


def _heaviest_first(codes: IntArray, n_clusters: int) -> IntArray:
    """Number clusters by their size, the largest first; empty ones are left out."""
    sizes = np.bincount(codes[codes >= 0], minlength=n_clusters)
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty(n_clusters, np.int64)
    rank[order] = np.arange(n_clusters)
    return np.where(codes < 0, -1, rank[codes])
