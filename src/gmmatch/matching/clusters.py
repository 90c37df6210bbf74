"""Clusters: groups of rows that are found where there are no labels, each to be matched as a class would be.

A sample of the rows is divided into many small clusters by k-means from a spread-out start, in one level or
two: a few coarse clusters first, then each is divided by itself, so that the time is linear in the rows. All
rows go to the nearest while they are judged.

The small clusters are put in one order, greedily: next comes the one nearest to the most rows that no earlier
one is near to (facility location, with distances capped). A group that is small but apart is covered by
nothing else and comes early, long before the second part of a large one. What counts is density, not size: a
row farther from its neighbours than others counts for less, and one that is alone, as wrong rows mostly are,
belongs to no cluster and is picked last. Where rows are many, so is one that is far from every cluster, and a
row of the sample that is by itself makes none. As many clusters as there are picks come first; the others
join the nearest of these.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappushpop

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..arrays import FloatArray, IntArray, Keys, Mask, Vector
from ..compute import kernels
from ..compute.blocks import block_rows, blocks, by_group, group_order, limit_threads, map_in_order
from ..compute.keys import draw_order
from ..compute.runner import cut
from ..trust import TRUSTED, Verdict
from .groups import Group
from .kmeans import Points, Rounds, nearest, row_lengths, spread_out

MOST_CLUSTERS = 2048

_ROWS_PER_CLUSTER = 3
_FLAT_WORK = 1.5e10  # multiply-adds of a round in one level; beyond that, two levels
_GROUP_WORK = 4e9  # the same, of a coarse cluster
_FEWEST_FEATURES = 16  # of rows that have fewer, a comparison takes as long
_ROUNDS = 12
_MOST_ROWS = 1 << 14  # of the sample, that clusters are found on; set by reason
_BLOCKS_AT_ONCE = 4  # rows of a coarse cluster in a block are then many enough for a product of matrices
_NEIGHBOUR = 5  # whose distance, the reach of a row, says how alone it is
_REFERENCE = 1 << 10, 1 << 13  # rows that neighbours are looked for among, at least and at most
_REFERENCE_PAIRS = 1 << 25  # pairs of rows to compare, between these limits
_ALONE = 3.5  # median absolute deviations beyond the median reach
_MOST_DENSE = 0.8  # share of the rows, the densest, beside which others may be outliers
_PAIRS_AT_ONCE = 1 << 20  # whose distances stay in the cache
_RUN = 64  # values of which the least is found at once
_FARTHER = 2.0  # times the median: in many directions distances hardly differ, and small groups reach farther
# A row is near up to the cap, in median reaches; one that reaches farther than the median counts less, by a
# Gaussian of so many deviations. Of caps of 1 to 2 and fadings of 1 to 3 and none, tried on one seed of
# CLINC150, letters and digits with outliers, caps of 1.2 and 1.5 and a fading of 2 were best.
_CAP, _FADING = 1.25, 2.0
_STEPS, _WEIGHT_STEPS = 1 << 20, 1 << 8  # of nearness and weights, so that sums of products are exact


@dataclass(frozen=True, eq=False)
class Clusters:
    """Where the clusters are."""

    coarse: Vector  # centres of the coarse clusters, float64; one row where there is one level
    fine: list[Vector]  # for each coarse cluster the centres of its clusters
    order: IntArray  # the place of each of these, one after the other, in the order of coverage
    alone: Mask  # rows of the sample that are in none
    limit: float = np.inf  # distance to the nearest centre beyond which others are in none either

    def __len__(self) -> int:
        return sum(len(points) for points in self.fine)

    def block_rows(self, n_features: int) -> int:
        """Return how many rows to assign at once."""
        return block_rows(max(n_features, len(self.coarse))) * _BLOCKS_AT_ONCE

    def join(self, chosen: IntArray) -> IntArray:
        """Return for each cluster the nearest of some clusters, as a place among these."""
        points = np.empty((len(self), self.coarse.shape[1]))
        points[self.order] = np.concatenate(self.fine)
        with threadpool_limits(1):
            found = nearest(points, points[chosen])
        found[chosen] = np.arange(len(chosen))
        return found

    def ready(self, kind: npt.DTypeLike) -> Callable[[FloatArray], npt.NDArray[np.int32]]:
        """Return the function that assigns blocks of rows of one type to clusters, by place in the order.

        Rows beyond the limit are of none: -1.
        """
        first = np.cumsum([0, *(len(points) for points in self.fine)])
        coarse, *fine = (Points(points, kind) for points in (self.coarse, *self.fine))

        def assign(rows: FloatArray) -> npt.NDArray[np.int32]:
            lengths = row_lengths(rows)
            order, present, starts = group_order(coarse.compare(rows, lengths)[0])
            codes = np.empty(len(rows), np.int32)
            for group, own in zip(present, np.split(order, starts[1:]), strict=True):
                found, least = fine[group].compare(np.take(rows, own, axis=0), lengths[own])
                beyond = least + lengths[own] ** 2 > self.limit**2
                codes[own] = np.where(beyond, -1, self.order[first[group] + found])
            return codes

        return assign


def find_clusters(
    rows: FloatArray, keys: Keys, usable: Mask, seed: int, wanted: int | str = "auto"
) -> Clusters:
    """Find small clusters among rows in memory, and the order in which they cover the rows.

    `keys`: hashes of the rows; clusters depend on the rows' values and not on their order. `usable`: rows to
    look at. `seed`: seed of the start. `wanted`: how many clusters are asked for at least; `auto`: a third as
    many as rows, at most 2,048. Rows with fewer distinct values have fewer.

    Time: O(rows * features * sqrt(clusters)) per round, and O(clusters^2 * features). Memory: a copy of the
    rows, and 4 bytes for each pair of clusters.
    """
    order = draw_order(keys)
    order = order[usable[order]][:_MOST_ROWS]
    # One thread of BLAS per block: its order of additions is then the same on any number of cores.
    with threadpool_limits(1):
        sample = np.take(rows, order, axis=0)
        reach, weights, alone = _density(sample)
        count = min(MOST_CLUSTERS, len(sample) // _ROWS_PER_CLUSTER)
        count = max(1, count if isinstance(wanted, str) else min(max(wanted, count), len(sample)))
        sample = sample[~alone] if alone.any() else sample
        many = len(sample) >= 2 * _ROWS_PER_CLUSTER * count
        coarse, fine = _divide(sample, count, seed, 2 if many else 0)
        found = Clusters(coarse, fine, np.arange(sum(map(len, fine))), np.zeros(len(rows), bool))
        found.alone[order[alone]] = True
        assign = found.ready(sample.dtype)
        step = found.block_rows(sample.shape[1])
        parts = [sample[start : start + step] for start in range(0, len(sample), step)]
        codes = np.concatenate(list(map_in_order(assign, parts)))
        sizes: Vector = np.bincount(codes, weights[~alone], len(found)).astype(np.float64)
        place, points = np.empty(len(found), np.int64), np.concatenate(fine)
        place[_coverage(points, sizes, _CAP * reach)] = np.arange(len(found))
        limit = _limit(kernels.group_distances(sample, codes, points)) if many else np.inf
    return replace(found, order=place, limit=limit)


def divide_into_clusters(
    whole: Group, clusters: int | str, k: int, verdict: Verdict
) -> tuple[list[Group], Verdict]:
    """Divide rows without labels into clusters; return these, and the verdict with lone rows noted.

    `clusters`: how many, or `auto`: as many as picks. `k`: how many rows to pick. Trusted rows far from their
    neighbours belong to no cluster: they are a last group with all that is not trusted.
    """
    found = verdict.rules.clusters
    assert found is not None
    assert verdict.clusters is not None
    codes = np.full(len(verdict.tiers), -1)
    trusted = whole.members[verdict.tiers[whole.members] == TRUSTED]
    codes[trusted] = verdict.clusters[trusted]
    chosen = np.unique(codes[codes >= 0])[: k if isinstance(clusters, str) else clusters]
    if len(chosen):
        codes = np.where(codes < 0, -1, found.join(chosen)[codes])
    order = whole.members[by_group(codes[whole.members])]
    outside, *members = np.split(order, np.searchsorted(codes[order], np.arange(len(chosen))))
    groups = [
        replace(whole, members=own, seed=(*whole.seed, code), n_classes=len(members))
        for code, own in enumerate([*members, outside] if len(outside) else members)
    ]
    light = np.zeros(len(codes), bool)
    light[trusted] = codes[trusted] < 0
    return groups, verdict.with_light(light)


def ordinary_size(sizes: IntArray) -> int:
    """Return the size of the cluster that the median row is in.

    The median cluster will not do: outliers make up many clusters of few rows, near-duplicates few of many.

    >>> ordinary_size(np.array([30, 10, 9, 8, 1, 1, 1, 1, 1]))
    10
    """
    order = np.sort(sizes)
    return int(order[np.searchsorted(np.cumsum(order), order.sum() / 2)])


def _density(sample: FloatArray) -> tuple[float, Vector, Mask]:
    """Return the usual reach of rows in random order, how much each counts, and which are alone.

    The reach of a row is its distance to its fifth neighbour.
    """
    low, high = _REFERENCE
    near = sample[: min(high, max(low, _REFERENCE_PAIRS // max(1, len(sample))))]
    if len(near) <= _NEIGHBOUR:
        return 0.0, np.ones(len(sample)), np.zeros(len(sample), dtype=bool)
    origin = np.add.reduce(near, axis=0, dtype=np.float64) / len(near)
    near = (near - origin).astype(sample.dtype)
    squares, doubled = np.einsum("ij,ij->i", near, near), -2.0 * near

    def part(block: slice) -> FloatArray:
        rows = (sample[block] - origin).astype(sample.dtype)
        apart = rows @ doubled.T
        apart += squares
        own = np.arange(block.start, min(block.stop, len(near)))
        apart[own - block.start, own] = np.inf  # a row is no neighbour of its own
        found: FloatArray = _smallest(apart, _NEIGHBOUR) + np.einsum("ij,ij->i", rows, rows)
        return found

    with np.errstate(over="ignore", invalid="ignore"):  # what is not a number is not alone
        parts = cut(slice(0, len(sample)), max(64, _PAIRS_AT_ONCE // len(near)))
        found = np.concatenate(list(map_in_order(part, parts))).astype(np.float64)
        reach = np.sqrt(np.maximum(found, 0.0))
        middle, spread, thin = _usual(reach)
        if not spread > 0:
            return middle, np.ones(len(sample)), np.zeros(len(sample), dtype=bool)
        fading = np.exp(-0.5 * np.square(np.maximum(reach - middle, 0.0) / spread / _FADING))
        return max(middle, thin / _FARTHER), fading, reach > _limit(reach)


def _usual(distances: Vector) -> tuple[float, float, float]:
    """Return the median of distances, how far beyond it is usual, and what a fifth of them exceed.

    A fifth of the rows or more are no outliers: they are a class that is thin beside a dense one. Where half
    of the rows are as far as each other, as copies are, nothing is unusual: zero.
    """
    middle, thin = float(np.median(distances)), float(np.quantile(distances, _MOST_DENSE))
    spread = 1.4826 * float(np.median(np.abs(distances - middle)))
    return middle, max(spread, thin - middle) if spread > 0 else 0.0, thin


def _limit(distances: Vector) -> float:
    """Return the distance from which on a row is alone."""
    middle, spread, _ = _usual(distances)
    return max(middle + _ALONE * spread, _FARTHER * middle) if spread > 0 else np.inf


def _smallest(values: FloatArray, k: int) -> FloatArray:
    """Return the k-th smallest value of each row: among the k runs of values that have the smallest minima.

    >>> _smallest(np.arange(2000.0)[None, ::-1], 5).tolist()
    [4.0]
    """
    whole = values.shape[1] // _RUN
    if whole > k:
        runs = values[:, : whole * _RUN].reshape(len(values), whole, _RUN)
        chosen = np.argpartition(runs.min(axis=2), k - 1, axis=1)[:, :k]
        near = np.take_along_axis(runs, chosen[:, :, None], axis=1).reshape(len(values), k * _RUN)
        values = np.concatenate([near, values[:, whole * _RUN :]], axis=1)
    found: FloatArray = np.partition(values, k - 1, axis=1)[:, k - 1]
    return found


def _coverage(points: Vector, weights: Vector, cap: float) -> IntArray:
    """Return the order in which points cover weighted points best: greedy facility location.

    A point covers another by one less their squared distance, in caps. Nearness and weights are rounded, so
    that gains are exact sums, the same on every machine.
    """
    n_points, gains = len(points), np.empty(len(points))
    points = points - np.add.reduce(points) / n_points
    squares = np.einsum("ij,ij->i", points, points)
    weights = np.round(_WEIGHT_STEPS * weights)
    near = np.empty((n_points, n_points), np.float32)

    def part(block: slice) -> None:
        apart = squares[block, None] + squares - 2.0 * (points[block] @ points.T)
        scaled = np.divide(apart, cap * cap, out=np.ones_like(apart), where=cap > 0)
        near[block] = np.round(_STEPS * np.clip(1.0 - scaled, 0.0, 1.0))
        own = np.arange(n_points)[block]
        near[own, own] = _STEPS
        gains[block] = near[block].astype(np.float64) @ weights

    list(map_in_order(part, blocks(near)))
    covered, order = np.zeros(n_points, np.float32), []
    waiting = [(-gain, point) for point, gain in enumerate(gains.tolist())]
    heapify(waiting)
    while waiting:
        entry = heappop(waiting)
        while True:  # gains only fall: the first that is still the largest is the best
            own = near[entry[1]]
            latest = (-float(np.maximum(own - covered, 0.0).astype(np.float64) @ weights), entry[1])
            if not waiting or latest <= waiting[0]:
                break
            entry = heappushpop(waiting, latest)
        order.append(entry[1])
        np.maximum(covered, own, out=covered)
    return np.array(order)


def _divide(sample: FloatArray, count: int, seed: int, fewest: int) -> tuple[Vector, list[Vector]]:
    """Return the centres of coarse clusters in a sample, which is in random order, and of the fine ones.

    `fewest`: rows of a cluster. Where rows are many, one that is by itself attracts hardly any other.
    """
    entropy = [seed, 0x63656C6C]
    if _work(sample, count) <= _FLAT_WORK:
        fine = lloyd(sample, count, np.random.default_rng(entropy), fewest=fewest)
        return np.add.reduce(fine)[None] / len(fine), [fine]
    coarse = lloyd(sample, int(np.ceil(np.sqrt(count))), np.random.default_rng(entropy), fewest=fewest)
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
            found = [
                lloyd(members[n::parts], int(counts[n]), rng, _ROUNDS // 2, fewest) for n in range(parts)
            ]
        return np.concatenate(found)

    return coarse, list(map_in_order(part, range(len(coarse))))


def _work(rows: FloatArray, count: int) -> float:
    """Return how many multiply-adds it takes to compare rows with so many centres."""
    return float(len(rows) * max(rows.shape[1], _FEWEST_FEATURES) * count)


def lloyd(
    rows: FloatArray, count: int, rng: np.random.Generator, rounds: int = _ROUNDS, fewest: int = 0
) -> Vector:
    """Return up to `count` centres by a few rounds of k-means, without those of fewer rows than `fewest`."""
    found = Rounds(rows, spread_out(rows, count, rng))
    for _ in range(rounds):
        if not found.go():
            break
    full = found.sizes >= fewest
    return found.prototypes[full] if full.any() else found.prototypes[:1]
