"""GM matching as one function: groups that compete, their budgets and frozen settings go in, picks come out.

Small groups are matched whole, side by side, all their rows competing for every pick; large ones in batches,
in one read. Clusters are matched one after the other, and what their errors have in common is carried on: a
row nearest to the middle of its cluster is of a denser kind than most, and many such picks would err alike.
Nothing here knows labels, evidence or files: who competes, and for how many picks, is decided before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..arrays import FloatArray, IntArray, Mask, Rows, Vector
from ..compute.blocks import core_count, limit_threads
from ..compute.runner import read_rows, runner_of, take_rows
from ..errors import InvalidInputType
from ..location.centers import center_reads, find_center, find_centers
from ..progress import task
from ..trust import FEWEST_ROWS
from ..validation import check_vector
from .features import MatchedRows
from .greedy import GRAM_BYTES, Matching, Step, match, match_groups
from .groups import Center, Group, Outline, Picks, group_codes, known_means, with_first
from .stream import Stream
from .targets import median_reads, sampled_medians, stream_centers

AUTO_BATCH = 256
WHOLE_ROWS = 1 << 13  # of a class that is matched whole at most: its Gram matrix, in float32, has 256 MB

_AUTO_STREAM_ROWS = 1 << 20
_SIDE_BY_SIDE_BYTES = 1 << 30  # of all groups that are matched at the same time
_BATCH_BYTES = 128 << 20
# Of arrays with a number per row: row numbers and classes; with the guard what it found of each. Measured on
# 2,000,000 and 10,000,000 rows.
_ROW_BYTES, _GUARDED_ROW_BYTES = 16, 140
_BUNDLE_VALUES = 1 << 20  # of the small groups that are read together: they stay in the cache
# These keep random starts, parts and samples apart from whatever else is drawn with a group's seed.
_START_SEED, _PARTS_SEED, _SAMPLE_SEED = 1, 2, 3
_BY_CHANCE = 0.5  # share of the squared errors of clusters; of 0, 1/2, 1 and all, tried on eight sets
_NO_ROWS, _NOTHING = np.empty((0, 0)), np.empty(0)


class Checkpoint(Protocol):
    """Where a long selection saves what it needs to go on after a kill."""

    def load(self) -> Mapping[str, npt.NDArray[Any]] | None:
        """Return what was saved last, or None."""

    def save(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Save plain arrays, in place of what was saved before."""


@dataclass(frozen=True, eq=False)
class Settings:
    """How groups are matched; `GMMatching` describes the parameters of the same names."""

    step: Step
    center: Any
    start: Any
    batch_size: Any
    streams: Any
    sample: float | int | None = None
    memory: int | None = None  # bytes to use where less memory takes longer; the picks are the same

    @property
    def rows_per_batch(self) -> int:
        """How many rows compete for a pick where a group is matched in batches."""
        return AUTO_BATCH if self.batch_size == "auto" else int(self.batch_size)

    def whole(self, sizes: IntArray) -> Mask:
        """Return True for groups of these sizes whose rows all compete for every pick."""
        if self.batch_size == "auto":
            return sizes <= WHOLE_ROWS
        return np.full(len(sizes), self.batch_size is None)

    def target(self, group: Group) -> Any:
        """Return the centre of a group to match, by name or as given."""
        if not (isinstance(self.center, str) and self.center == "auto"):
            return self.center
        # Judged rows are compared by a view of them. Rows far from all others are in no cluster.
        judged = isinstance(group.source, MatchedRows) and group.label is not None
        judged &= len(group.members) >= FEWEST_ROWS
        return "mean" if judged or group.is_cluster else "geometric-median"

    def theta(self, center: Vector, group: Group) -> Vector:
        """Return the accumulated error after the picks that a group begins with, if there are any."""
        theta = self.first_theta(center, group.seed)
        if group.before is not None:
            theta = theta - (group.before.total - group.before.count * center)
        return theta if group.total is None else theta - (group.total - len(group.first) * center)

    def first_theta(self, center: Vector, seed: tuple[int, ...]) -> Vector:
        """Return the accumulated error before the first pick of a group."""
        start = self.start
        if start is None:
            start = "center" if self.step == "projection" else "zero"
        if isinstance(start, str) and start == "random":
            direction = np.random.default_rng([*seed, _START_SEED]).normal(size=center.shape)
            return direction / np.sqrt(np.add.reduce(direction * direction))  # type: ignore[no-any-return]
        if isinstance(start, str):
            return center.copy() if start == "center" else np.zeros_like(center)
        try:
            theta = np.array(start, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInputType(
                f"start must be 'center', 'zero', 'random' or a vector; got {type(start).__name__}"
            ) from None
        return check_vector(theta, center.shape, "start")

    def reads(self, outline: Outline, judged: bool, clusters: bool, means_known: bool) -> int:
        """Return how often `pick` reads all rows.

        `judged`: whether rows are compared by a view of judged rows. `clusters`: whether they are divided
        into clusters first. `means_known`: whether the means of the groups come with the verdict.
        """
        target = self.center
        if isinstance(target, str) and target == "auto":
            target = "mean" if clusters or (judged and outline.labelled) else "geometric-median"
        is_median = name_of(target) == "geometric-median"
        whole = bool(self.whole(outline.sizes).all())
        if clusters:  # they are small
            return 1 + (is_median and self.sample is not None)
        if is_median and self.sample is not None:  # one to certify it
            return 2
        if is_median and not whole:
            return 1 + median_reads(int(outline.sizes.sum()), outline.n_features)
        is_known = name_of(target) == "mean" and means_known
        return 1 if whole or is_known else 1 + center_reads(target, outline.labelled)

    def costs(self, outline: Outline) -> tuple[int, int, float]:
        """Return the bytes that `pick` cannot do without, those that it uses, and its multiply-adds."""
        whole = self.whole(outline.sizes)
        row_bytes = outline.n_features * outline.itemsize
        least = 2 * int(outline.sizes[whole].max(initial=0)) * row_bytes
        if whole.all():
            return least, *whole_costs(outline)
        per_row = _GUARDED_ROW_BYTES if outline.guarded else _ROW_BYTES
        most = _BATCH_BYTES + outline.n_rows * per_row + 3 * len(outline.sizes) * outline.n_features * 8
        return least, max(least, most), float(outline.n_rows) * self.rows_per_batch * outline.n_features


def whole_costs(outline: Outline) -> tuple[int, float]:
    """Return the bytes and multiply-adds of comparing all rows of a group with each other."""
    largest = int(outline.sizes.max())
    gram = min(largest**2 * outline.itemsize, GRAM_BYTES)
    held = 2 * largest * outline.n_features * outline.itemsize
    return held + gram, float((outline.sizes.astype(float) ** 2).sum()) * outline.n_features


def name_of(target: Any) -> str:
    """Return what the target of a matching is called."""
    return target if isinstance(target, str) else "given"


def pick(
    groups: list[Group], budgets: IntArray, settings: Settings, checkpoint: Checkpoint | None = None
) -> list[Picks]:
    """Pick the budget of each group so that the mean of its picks matches its centre.

    `checkpoint`: where matching in batches saves its state, and goes on from what it finds. Rows that a group
    begins with come first and count.

    Time: O(n^2 d) in BLAS for a group of n rows that is matched whole, O(n d batch_size) in batches. Memory:
    the rows of one group and its Gram matrix, 1 GB at most; a few batches.
    """
    small = settings.whole(np.array([len(group.members) for group in groups]))
    small |= [group.is_cluster for group in groups]
    targets = [settings.target(group) for group in groups]
    groups = _with_centers(groups, targets, small)
    given = np.array([group.center is not None for group in groups])
    few = np.array([target is not targets[0] for target in targets])
    left = budgets - np.array([len(group.first) for group in groups])
    found: dict[int, Picks] = {}
    for chosen in (small & ~few & ~given, small & few & ~given, small & given, ~small):
        places = np.flatnonzero(chosen & (left > 0)).tolist()
        if not places:
            continue
        some, quotas = [groups[place].others() for place in places], left[places]
        # What is matched in batches has one target, that of the smallest class.
        target = targets[min(places, key=lambda place: len(groups[place].members))]
        if small[places[0]]:
            picks = _side_by_side(some, quotas, target, settings)
        else:
            picks = _stream(some, quotas, target, settings, checkpoint)
        found |= zip(places, picks, strict=True)
    every = []
    for place, group in enumerate(groups):
        if place not in found:  # nothing beyond what the group begins with
            center, epsilon = group.center or (group.mean, 0.0)
            found[place] = Picks(np.empty(0, np.int64), _NOTHING, _NOTHING, center, 0.0, epsilon, "mean")
        every.append(with_first(group, found[place]))
    return every


def _with_centers(groups: list[Group], targets: list[Any], small: Mask) -> list[Group]:
    """Return groups with their centres where rows are in already: those of all their rows."""
    lacking = np.array(
        [
            len(group.first) > 0
            and group.center is None
            and (group.mean is None or name_of(target) != "mean")
            for group, target in zip(groups, targets, strict=True)
        ]
    )
    if (lacking & ~small).any():  # what is matched in batches has one way to its centres
        lacking |= ~small
    return [
        replace(group, center=find_center(target, group.rows, group.label)) if lacks else group
        for group, target, lacks in zip(groups, targets, lacking.tolist(), strict=True)
    ]


def _side_by_side(groups: list[Group], budgets: IntArray, target: Any, settings: Settings) -> list[Picks]:
    """Match several groups at a time, as many as fit in memory, the cores shared among them."""
    rows, memory = groups[0].source, settings.memory
    known = _sampled(groups, target, settings.sample)
    if known is not None:
        groups = [replace(group, center=center) for group, center in zip(groups, known, strict=True)]
    cuts = [_cut(group, k) for group, k in zip(groups, budgets.tolist(), strict=True)]
    pieces = [piece for own in cuts for _, piece, _ in own]
    quotas = np.array([quota for own in cuts for *_, quota in own])
    work = list(_bundles(pieces, quotas, known_means(target, pieces)))
    gram_bytes = GRAM_BYTES if memory is None else min(GRAM_BYTES, memory // 2)
    match_bundle = MatchBundle(settings, rows, target, gram_bytes)
    runner = runner_of(rows)
    runner.count.matched += sum(map(len, work))
    largest = max(len(piece.members) for piece in pieces)
    needed = rows.dtype.itemsize * (2 * rows.shape[1] * max(map(len, work)) + largest**2)
    cores = core_count()
    fitting = min(_SIDE_BY_SIDE_BYTES, memory or _SIDE_BY_SIDE_BYTES) // needed
    threads = max(1, min(len(work), cores, fitting))
    found: list[Picks] = []
    with task("picking rows", int(budgets.sum())) as advance, threadpool_limits(max(1, cores // threads)):
        for several in runner.map(match_bundle, work, threads, memory):
            found += several
            advance(sum(len(picks.order) for picks in several))
    each = iter(found)
    return [_joined([(places, next(each)) for places, *_ in own]) for own in cuts]


def _cut(group: Group, k: int) -> list[tuple[Any, Group, int]]:
    """Divide a large cluster at random; return places in it, the piece and its share of `k` picks for each.

    Pieces without a pick are left out. Small clusters and classes stay whole: their places are None.
    """
    size = len(group.members)
    number = max(-(-size // WHOLE_ROWS), min(-(-size // AUTO_BATCH), k)) if group.is_cluster else 1
    if number == 1:
        return [(None, group, k)]
    order = np.random.default_rng([*group.seed, _PARTS_SEED]).permutation(size)
    parts = [np.sort(part) for part in np.array_split(order, number)]
    quotas = np.diff(np.cumsum([len(part) for part in parts]) * k // size, prepend=0).tolist()
    totals = [group.total, *[None] * number]
    return [
        (part, replace(group, members=group.members[part], total=totals[at]), quota)
        for at, (part, quota) in enumerate(zip(parts, quotas, strict=True))
        if quota
    ]


def _joined(pieces: list[tuple[Any, Picks]]) -> Picks:
    """Return the picks of the pieces of a group as those of the group."""
    every = [picks for _, picks in pieces]
    if pieces[0][0] is None:
        return every[0]
    return replace(
        every[-1],
        order=np.concatenate([places[picks.order] for places, picks in pieces]),
        scores=np.concatenate([picks.scores for picks in every]),
        distances=np.concatenate([picks.distances for picks in every]),
    )


class Bundle:
    """Groups that are read and matched together: how many rows to pick of each, and known centres."""

    def __init__(self, groups: list[Group], budgets: IntArray, centers: list[Center] | None) -> None:
        self.groups = [replace(group, source=_NO_ROWS) for group in groups]  # whoever matches reads the rows
        self.budgets, self.centers = budgets.tolist(), centers
        members = [group.members for group in groups]
        self.rows = members[0] if len(groups) == 1 else np.sort(np.concatenate(members))

    def __len__(self) -> int:
        return len(self.rows)


def _bundles(groups: list[Group], budgets: IntArray, centers: list[Center] | None) -> Iterator[Bundle]:
    """Put small groups together, so that they are read, and their centres found, in a few calls."""
    sizes = np.array([len(group.members) for group in groups]) * groups[0].source.shape[1]
    start = 0
    for stop in range(1, len(groups) + 1):
        if stop == len(groups) or sizes[start : stop + 1].sum() > _BUNDLE_VALUES:
            part = slice(start, stop)
            yield Bundle(groups[part], budgets[part], None if centers is None else centers[part])
            start = stop


@dataclass(frozen=True, eq=False)
class MatchBundle:
    """Match the groups of a bundle, wherever the rows can be read."""

    settings: Settings
    source: Rows
    target: Any
    gram_bytes: int

    def __call__(self, work: Bundle) -> list[Picks]:
        """Return the picks of each group; whoever hands out the work counts what is read for it."""
        groups, centers = work.groups, work.centers
        members = [group.members for group in groups]
        alone = len(groups) == 1 and not groups[0].is_cluster
        if alone:
            values = np.ascontiguousarray(read_rows(self.source, work.rows))
        else:
            place = np.searchsorted(work.rows, np.concatenate(members))
            values = np.take(take_rows(self.source, work.rows), place, axis=0)
        sizes = np.array([len(rows) for rows in members])
        if centers is None:
            codes = None if alone else np.repeat(np.arange(len(groups)), sizes)
            # There is a thread for each bundle; a class that makes up one has all cores.
            with nullcontext() if alone else limit_threads(1):
                centers = find_centers(self.target, values, codes, [group.label for group in groups])
        parts = np.split(values, np.cumsum(sizes)[:-1])
        points = [_median_of_two(*both, self.target) for both in zip(parts, centers, strict=True)]
        if groups[0].is_cluster:
            found = self._match_in_turn(groups, work.budgets, [point for point, _ in points], values)
        else:
            starts = np.stack(
                [self.settings.theta(point, group) for (point, _), group in zip(points, groups, strict=True)]
            )
            targets, step = np.stack([point for point, _ in points]), self.settings.step
            quotas = np.array(work.budgets)
            found = match_groups(values, sizes, quotas, targets, starts, step, self.gram_bytes)
        name = name_of(self.target)
        return [
            Picks(order, scores, distances, point, float(scores[-1]), epsilon, name)
            for (order, scores, distances), (point, epsilon) in zip(found, points, strict=True)
        ]

    def _match_in_turn(
        self, groups: list[Group], budgets: list[int], centers: list[Vector], rows: FloatArray
    ) -> list[tuple[IntArray, Vector, Vector]]:
        """Match clusters one after the other, each beginning with what errors before it have in common.

        Errors that have nothing in common add up as well, to the root of the sum of their squares: of what is
        carried, the part that half of these squares explain is taken off.
        """
        found, error, squares = [], np.zeros(rows.shape[1]), 0.0
        ends = np.cumsum([len(group.members) for group in groups])
        for center, group, k, own in zip(centers, groups, budgets, np.split(rows, ends[:-1]), strict=True):
            own -= center.astype(own.dtype)
            size = float(error @ error)
            carried = error * max(0.0, 1.0 - _BY_CHANCE * squares / size) if size > 0 else error
            start = self.settings.theta(center, group) + carried
            state = Matching.begin(np.zeros_like(center), start)
            found.append(match(own, k, state, self.settings.step, self.gram_bytes))
            error = error + state.theta - start
            squares += float(np.add.reduce(found[-1][2] ** 2))
        return found


def _median_of_two(rows: FloatArray, center: Center, target: Any) -> Center:
    """Return the geometric median that two rows match; of other rows, or another target, the centre.

    Every point between two rows is a geometric median of them. One that is a row, chosen by the values,
    leaves no tie for the order of the rows to decide.
    """
    if len(rows) != 2 or name_of(target) != "geometric-median":
        return center
    return np.array(min(rows[:].tolist())), 0.0


def _stream(
    groups: list[Group], budgets: IntArray, target: Any, settings: Settings, checkpoint: Checkpoint | None
) -> list[Picks]:
    """Match all groups in batches, in one read."""
    rows, codes = groups[0].source, group_codes(groups)
    if codes is None:
        codes = np.zeros(len(rows), np.int64)
    seed, labels = groups[0].seed[0], [group.label for group in groups]
    saved = checkpoint.load() if checkpoint else None
    known = _sampled(groups, target, settings.sample) or known_means(target, groups)
    if saved is None:
        found = stream_centers(target, rows, codes, labels, seed, known)
        if checkpoint:
            checkpoint.save(found)
    else:  # what was read of the rows for the centres counts again
        found = {name: saved[name] for name in ("centers", "epsilons", "reads")}
        runner_of(rows).count.passes += int(found["reads"])
    save = None if checkpoint is None else lambda state: checkpoint.save(state | found)
    centers, epsilons = found["centers"], found["epsilons"].tolist()
    pairs = list(zip(centers, groups, strict=True))
    sizes = np.array([len(group.members) for group in groups])
    streams = -(-sizes // _AUTO_STREAM_ROWS)
    if settings.streams != "auto":  # chains beyond the number of batches would have none
        streams = np.minimum(-(-sizes // settings.rows_per_batch), settings.streams)
    stream = Stream(
        rows=rows,
        codes=codes,
        centers=centers,
        starts=np.stack([settings.first_theta(center, group.seed) for center, group in pairs]),
        thetas=np.stack([settings.theta(center, group) for center, group in pairs]),
        budgets=budgets,
        step=settings.step,
        batch_size=settings.rows_per_batch,
        streams=streams,
        seed=seed,
    )
    results = stream.run(save, saved if saved is not None and "theta" in saved else None)
    return [
        Picks(
            np.searchsorted(group.members, picked),
            scores,
            distances,
            centers[code],
            objective,
            None if np.isnan(epsilons[code]) else epsilons[code],
            name_of(target),
            batches=-(-len(group.members) // stream.batch_size),
            chains=int(stream.streams[code]),
        )
        for code, (group, (picked, scores, distances, objective)) in enumerate(
            zip(groups, results, strict=True)
        )
    ]


def _sampled(groups: list[Group], target: Any, sample: float | int | None) -> list[Center] | None:
    """Return the geometric medians of samples of the groups, certified on all their rows, if wanted."""
    if sample is None or name_of(target) != "geometric-median":
        return None
    members = [(group.members, (*group.seed, _SAMPLE_SEED)) for group in groups]
    return sampled_medians(groups[0].source, members, group_codes(groups), sample)
