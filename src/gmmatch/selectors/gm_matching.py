"""GM Matching: rows whose mean matches a robust centre of their class."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..arrays import FloatArray, IntArray, Mask
from ..compute.blocks import core_count, map_in_order
from ..compute.counting import count_matched
from ..compute.passes import engine_for
from ..compute.reading import announced
from ..data import MappedRows
from ..errors import InvalidInput, InvalidInputType
from ..location.centers import CENTERS, center_reads, find_center
from ..matching.advice import STRATEGIES, Advice, ask_students
from ..matching.budgets import Weights, split
from ..matching.bundled import MatchBundle, bundles, median_of_two, name_of
from ..matching.candidates import GRAM_BYTES
from ..matching.cells import cell_count, find_cells
from ..matching.features import AUTO_LIFT, MatchedRows, check_lift, unit_rows
from ..matching.greedy import Matching, Step, match, match_in_parts
from ..matching.groups import Center, Group, Picks, Shares, group_codes, known_means
from ..matching.stream import Stream
from ..matching.students import LEARNERS
from ..matching.targets import median_reads, sampled_medians, saved_centers, stream_centers
from ..matching.taught import teach_groups, with_first
from ..matching.teaching import MOST_CLASSES
from ..progress import task
from ..trust import FEWEST_ROWS, TRUSTED, Verdict
from ..validation import check_choice, check_keep, check_positive_int, check_vector
from .base import Selector
from .groups import Outline

AUTO_BATCH = 256
WHOLE_ROWS = 1 << 13  # of a class that is matched whole at most: its Gram matrix, in float32, has 256 MB

_AUTO_STREAM_ROWS = 1 << 20
_SIDE_BY_SIDE_BYTES = 1 << 30  # of all groups that are matched at the same time
# These keep random starts, parts and samples apart from whatever else is drawn with a group's seed.
_START_SEED, _PARTS_SEED, _SAMPLE_SEED = 1, 2, 3
STEPS = ("teaching", "residual", "projection")
STARTS = ("center", "zero", "random")
NORMALIZE = ("none", "unit")


class GMMatching(Selector):
    """Keep rows whose mean matches a robust centre of the data, class by class.

    The centre is the geometric median of a class or, without labels, of each group that is found. Where the
    guard has judged rows and labels, wrong rows are out already, and the mean of the trusted rows of a class
    is the better target: the geometric median would leave out its rarer kinds of rows.

    Parameters
    ----------
    step
        `residual` picks the row that leaves the smallest accumulated error; `projection` is the
        paper's text: the row with the largest inner product with it. `teaching` is the residual step, and
        where labels were judged the first picks of each class are those that a linear learner learns most
        from, too: the mean of the picks still matches; see `gmmatch.matching.teaching`.
    center
        `geometric-median`, `mean`, `huber`, `concentrated`, `coordinate-median`, a point, or a mapping
        from class to point. `auto` is the mean of the trusted rows of a class where its labels were judged,
        or Fourier features are matched, and the class has the 8 rows that the gate needs; elsewhere it is
        the geometric median.
    start
        theta before the first pick: `center`, `zero`, `random` (a vector of length one, its direction drawn
        with the seed) or a vector. None means `zero` for the residual step, which works relative to the
        centre, and `center` for the projection step, which works in the given coordinates.
    normalize
        `unit` scales every row to length one first; `none` takes rows as they are.
    batch_size
        None: all rows of a class compete for every pick. A number: seeded random batches of that many
        rows, the accumulated error carried from one to the next: one pass, rows may be larger than
        memory. `auto`: batches of 256 for classes of more than 8,192 rows, all rows at once for others.
    streams
        With batches: into how many independent chains of batches each class is split, so that they can
        run side by side on several machines. `auto` is one, and one more for each further 1,048,576 rows
        of the class. The result depends on it, never on the machine.
    lift
        With the guard: how many random Fourier features of the rows are appended to what is matched, so
        that picks are diverse also where rows spread in few directions; or `off`. `auto`: 512 where the
        trusted rows of a class spread in fewer than 16 directions.
    cells
        With the guard and without labels: into how many groups the rows are divided by k-means, each to be
        matched as a class would be; `off`: all rows are one cloud. `auto`: 1.8 times as many as picks, at
        most a third of the rows, or 4,096 where rows are more than 65,536. The heaviest cells come first, and
        rows far from their neighbours last.
    sample
        Fraction or count of the rows of each class that its geometric median is found on, where that is the
        target, in memory and in batches alike; one more read certifies it on all rows. None: all rows.
    refine
        Ignored, with a warning; it goes with version 0.4.
    strategy
        Where labels were judged: `teaching`, `rows` (matching alone), or either beside Fourier features,
        `teaching+fourier` and `fourier`, whatever `step` and `lift` say. Rows that are hardly doubted compete
        for teaching picks; behind `+lenient` all believed rows do. `auto`: the one of those that `step` and
        `lift` allow from whose picks, on a sample, two small learners learn most.
    learner
        Whose learning decides: `linear`, `neighbours`, or `any` of both.

    Attributes
    ----------
    sample_indices_, scores_, distances_, objective_, selection_
        The picks in order; see `gmmatch.Selection`.
    centers_, classes_
        One centre per class, in the order of the classes.

    Notes
    -----
    Time: O(n^2 d) per class of n rows in BLAS, O(n d * batch_size) with batches. Memory: the rows of
    one class and at most 1 GB for a Gram matrix; larger classes take O(n d) per pick.

    References
    ----------
    Acharya, Dhillon, Sanghavi: Geometric Median (GM) Matching for Robust Data Pruning, 2024.

    Examples
    --------
    >>> import numpy as np, gmmatch
    >>> rows = np.random.default_rng(0).normal(size=(200, 8))
    >>> rows[:40] += 1000.0
    >>> estimator = gmmatch.GMMatching(keep=20).fit(rows)
    >>> bool((estimator.sample_indices_ >= 40).all())
    True
    """

    name = "gm-matching"
    scores_are_objectives = True
    goes_on = True
    centers = ("auto", *CENTERS)

    step: str = "teaching"
    center: Any = "auto"
    start: Any = None
    normalize: str = "none"
    batch_size: int | Literal["auto"] | None = "auto"
    streams: int | Literal["auto"] = "auto"
    lift: int | Literal["auto", "off"] = "auto"
    cells: int | Literal["auto", "off"] = "auto"
    sample: float | int | None = None
    refine: int | None = None
    strategy: str = "auto"
    learner: str = "any"
    guard: str = "auto"

    def _check(self) -> None:
        check_choice(self.step, STEPS, "step")
        check_choice(self.normalize, NORMALIZE, "normalize")
        check_choice(self.strategy, ("auto", *STRATEGIES), "strategy")
        check_choice(self.learner, LEARNERS, "learner")
        if isinstance(self.start, str):
            check_choice(self.start, STARTS, "start")
        for name in ("batch_size", "streams", "lift", "cells"):
            allowed = ("auto", "off") if name in ("lift", "cells") else ("auto",)
            value = getattr(self, name)
            if isinstance(value, str):
                check_choice(value, allowed, name)
            elif value is not None or name != "batch_size":
                check_positive_int(value, name)
        check_lift(self.lift)
        if self.sample is not None:
            check_keep(self.sample, "sample")
        if self.refine is not None:
            warnings.warn(
                "refine is ignored: swaps did not pay; leave it out", DeprecationWarning, stacklevel=2
            )

    @property
    def greedy_step(self) -> Step:
        """The step of the greedy loop."""
        return "projection" if self.step == "projection" else "residual"

    def _begin(self, groups: list[Group], shares: Shares, verdict: Verdict) -> list[Group]:
        """Make the teaching picks, where labels were judged and classes are matched by their means."""
        if self._advice is None or not self._advice.teaches:
            return groups
        taught = [isinstance(target, str) and target == "mean" for target in map(self._target, groups)]
        # Batches of a size that was asked for have one target for all classes.
        enough = any if self.batch_size in (None, "auto") else all
        if not enough(taught):
            return groups
        return teach_groups(groups, shares, verdict, taught, self._advice.strict, self._theta)

    def _wants_features(self) -> bool:
        # A centre or a start that is a vector is one in the rows' own coordinates, and so is unit length.
        given = not isinstance(self.center, str) or not (self.start is None or isinstance(self.start, str))
        return not given and self.normalize == "none"

    def _pick(
        self, groups: list[Group], shares: Shares, verdict: Verdict | None
    ) -> tuple[list[IntArray], list[Picks]]:
        if self.keep != "auto":  # else it was what the budget follows from
            self._advice = None if verdict is None else self._ask(groups, shares.weights, verdict)
        return super()._pick(groups, shares, verdict)

    def _budget(self, groups: list[Group], n_rows: int, verdict: Verdict | None) -> int:
        """Return how many rows to keep; with `auto` as many as teach students nearly all that there is."""
        if self.keep != "auto":
            return super()._budget(groups, n_rows, verdict)
        self._advice = None if verdict is None else self._ask(groups, self._weigh(groups, n_rows)[0], verdict)
        if verdict is None or self._advice is None:
            raise InvalidInput(
                'keep="auto" needs labels of two classes or more that the guard judges; pass a share or a'
                " count, such as 10%"
            )
        members = np.concatenate([group.members for group in groups])
        believed = np.count_nonzero(verdict.tiers[members] == TRUSTED)
        return max(len(groups), int(np.ceil(self._advice.share * believed)))

    def _ask(self, groups: list[Group], weights: Weights, verdict: Verdict) -> Advice | None:
        """Return the strategy to pick by; None where labels were not judged."""
        judged = verdict.labels is not None and groups[0].label is not None and self._wanted.parts is None
        if not (judged and self._wants_features() and 1 < len(groups) <= MOST_CLASSES):
            return None
        curve = self.keep == "auto"
        if self.strategy != "auto" and not curve:
            return Advice(self.strategy, {"strategy": self.strategy, "reason": "asked for"})
        teaches = self.step == "teaching" and self.center in ("auto", "mean")
        return ask_students(groups, weights, verdict, teaches, self.lift, self.learner, self.strategy, curve)

    def _strategy(self) -> Mapping[str, Any] | None:
        return None if self._advice is None else self._advice.told

    def _lift(self) -> str | int:
        if self._advice is None:
            return self.lift
        if not self._advice.fourier:
            return "off"
        return AUTO_LIFT if isinstance(self.lift, str) else self.lift

    def _finds_cells(self, groups: list[Group]) -> bool:
        return groups[0].label is None and self.cells != "off" and self._wants_features()

    def _one_cloud(self, groups: list[Group]) -> bool:
        return not self._finds_cells(groups)

    def _divide(self, groups: list[Group], k: int, verdict: Verdict) -> tuple[list[Group], Verdict]:
        """Divide rows without labels into cells; rows far from their neighbours are left to the last tier."""
        if not self._finds_cells(groups):
            return groups, verdict
        whole = groups[0]
        trusted = np.zeros(len(verdict.tiers), dtype=bool)
        trusted[whole.members] = verdict.tiers[whole.members] == TRUSTED
        count = cell_count(self.cells, k, int(trusted.sum()))
        codes = find_cells(whole.source, trusted, verdict.keys, count, whole.seed[0])
        outside = whole.members[codes[whole.members] < 0]
        numbers = np.flatnonzero(codes >= 0)
        parts = split(codes[numbers], int(codes.max()) + 1)
        cells = [
            replace(whole, members=numbers[part], seed=(*whole.seed, code), n_classes=len(parts))
            for code, part in enumerate(parts)
        ]
        if len(outside):
            cells.append(
                replace(whole, members=outside, seed=(*whole.seed, len(parts)), n_classes=len(parts))
            )
        return cells, verdict.with_light(trusted & (codes < 0))

    def _picking_reads(self, outline: Outline) -> int:
        cells = self.cells != "off" and self._wants_features() and outline.guarded and not outline.labelled
        whole = self.batch_size is None or (self.batch_size == "auto" and outline.sizes.max() <= WHOLE_ROWS)
        target = self.center
        if isinstance(target, str) and target == "auto":
            judged = outline.guarded and outline.labelled and self._wants_features()
            target = "mean" if judged else "geometric-median"
        name = name_of(target)
        is_median = name == "geometric-median"
        if cells:  # one to find them; they are small
            return 2 + (is_median and self.sample is not None)
        if is_median and self.sample is not None:  # one to certify it
            return 2
        if is_median and not whole:
            return 1 + median_reads(int(outline.sizes.sum()), outline.n_features)
        is_known = name == "mean" and outline.means_known and self.lift in ("auto", "off")
        return 1 if whole or is_known else 1 + center_reads(target, outline.labelled)

    def _as_matched(self, source: FloatArray) -> FloatArray:
        if self.normalize == "unit":
            return cast(FloatArray, MappedRows(source, unit_rows))
        return source

    def _target(self, group: Group) -> Any:
        """Return the centre of a group to match, by name or as given."""
        target = self.center
        if isinstance(target, str) and target == "auto":
            # A view is what judged rows are compared by: their labels, or a class of theirs lifted.
            judged = isinstance(group.source, MatchedRows) and group.label is not None
            target = "mean" if judged and len(group.members) >= FEWEST_ROWS else "geometric-median"
        return target

    def _select(self, group: Group, k: int) -> Picks:
        return self._match(group, k, self._target(group))

    def _match(
        self, group: Group, k: int, target: Any, found: Center | None = None, gram_bytes: int = GRAM_BYTES
    ) -> Picks:
        """Match the centre of a group, which may have been found already, all its rows at once."""
        rows = unit_rows(group.rows) if self.normalize == "unit" else group.rows
        center, epsilon = median_of_two(rows, target) or found or find_center(target, rows, group.label)
        state = Matching.begin(center, self._theta(center, group))
        parts = self._parts(group)
        if len(parts) > 1:
            order, scores, distances = match_in_parts(rows, k, state, self.greedy_step, parts)
        else:
            order, scores, distances = match(rows, k, state, self.greedy_step, gram_bytes)
        return Picks(order, scores, distances, center, float(scores[-1]), epsilon, name_of(target))

    def _parts(self, group: Group) -> list[IntArray]:
        """Divide the rows of a large cell into parts at random; small cells and classes stay whole."""
        size = len(group.members)
        number = size // AUTO_BATCH if group.label is None and group.n_classes > 1 else 1
        order = np.random.default_rng([*group.seed, _PARTS_SEED]).permutation(size) if number > 1 else None
        return [] if order is None else [np.sort(part) for part in np.array_split(order, number)]

    def _select_all(self, groups: list[Group], budgets: IntArray) -> list[Picks]:
        small = np.array([len(group.members) <= WHOLE_ROWS for group in groups])
        if self.batch_size != "auto":
            small[:] = self.batch_size is None
        targets = [self._target(group) for group in groups]
        groups = self._with_centers(groups, targets, small)
        given = np.array([group.center is not None for group in groups])
        few = np.array([target is not targets[0] for target in targets])
        left = budgets - np.array([len(group.first) for group in groups])
        picks: list[Picks | None] = [None] * len(groups)
        for chosen in (small & ~few & ~given, small & few & ~given, small & given, ~small):
            places = np.flatnonzero(chosen & (left > 0))
            if len(places):
                some, shares = [groups[place].others() for place in places], left[places]
                way = self._side_by_side if small[places[0]] else self._stream
                # What is matched in batches has one target, that of the smallest class.
                least = min(places, key=lambda place: len(groups[place].members))
                for place, found in zip(places, way(some, shares, targets[least]), strict=True):
                    picks[place] = found
        return [with_first(group, found) for group, found in zip(groups, picks, strict=True)]

    def _with_centers(self, groups: list[Group], targets: list[Any], small: Mask) -> list[Group]:
        """Return groups with their centres where rows are in already: those of all their rows."""
        lacking = np.array(
            [
                len(group.first) > 0
                and group.center is None
                and (group.mean is None or not (isinstance(target, str) and target == "mean"))
                for group, target in zip(groups, targets, strict=True)
            ]
        )
        if not lacking.any():
            return groups
        if (lacking & ~small).any():  # what is matched in batches has one way to its centres
            lacking |= ~small
        found = list(groups)
        for place in np.flatnonzero(lacking):
            rows = unit_rows(groups[place].rows) if self.normalize == "unit" else groups[place].rows
            center = find_center(targets[place], rows, groups[place].label)
            found[place] = replace(groups[place], center=center)
        return found

    def _side_by_side(self, groups: list[Group], budgets: IntArray, target: Any) -> list[Picks]:
        """Match several groups at a time, as many as fit in memory, the cores shared among them."""
        rows = groups[0].source
        known = self._sampled(groups, target) or known_means(target, groups)
        work = list(bundles(groups, budgets, known))
        # A copy without what `fit` found: only the parameters are needed elsewhere.
        gram_bytes = GRAM_BYTES if self._memory is None else min(GRAM_BYTES, self._memory // 2)
        match = MatchBundle(type(self)(**self.get_params(deep=False)), rows, target, gram_bytes)
        engine = engine_for(rows)
        count_matched(rows, sum(map(len, work)))
        largest = max(len(group.members) for group in groups)
        needed = rows.dtype.itemsize * (2 * rows.shape[1] * max(map(len, work)) + largest**2)
        cores = core_count()
        fitting = min(_SIDE_BY_SIDE_BYTES, self._memory or _SIDE_BY_SIDE_BYTES) // needed
        threads = max(1, min(len(work), cores, fitting))
        read = announced(rows, work, self._memory)
        done = map_in_order(match, read, threads) if threads > 1 else map(match, read)
        found = []
        with task("picking rows", int(budgets.sum())) as advance, threadpool_limits(max(1, cores // threads)):
            for several in done if engine is None else engine.map(match, work):
                found += several
                advance(sum(len(picks.order) for picks in several))
        return found

    def _stream(self, groups: list[Group], budgets: IntArray, target: Any) -> list[Picks]:
        """Match all groups in batches, in one pass."""
        codes = group_codes(groups)
        if codes is None:
            codes = np.zeros(len(groups[0].source), np.int64)
        rows = self._as_matched(groups[0].source)
        seed, seeds = groups[0].seed[0], [group.seed for group in groups]
        checkpoint = self._checkpoint
        saved = checkpoint.load() if checkpoint else None
        labels = [group.label for group in groups]
        known = self._sampled(groups, target) or known_means(target, groups)
        centers = saved_centers(saved, rows) or stream_centers(target, rows, codes, labels, seed, known)
        if checkpoint and saved is None:
            checkpoint.save(centers.arrays())
        stream = Stream(
            rows=rows,
            codes=codes,
            centers=centers.points,
            starts=np.stack([self._start(*pair) for pair in zip(centers.points, seeds, strict=True)]),
            thetas=np.stack([self._theta(*pair) for pair in zip(centers.points, groups, strict=True)]),
            budgets=budgets,
            step=self.greedy_step,
            batch_size=self._rows_per_batch(),
            streams=self._streams(groups),
            seed=seed,
        )
        save = None if checkpoint is None else lambda state: checkpoint.save(state | centers.arrays())
        found = stream.run(save, saved if saved is not None and "theta" in saved else None)
        return [
            Picks(
                np.searchsorted(group.members, picked),
                scores,
                distances,
                centers.points[code],
                objective,
                centers.epsilons[code],
                name_of(target),
                batches=-(-len(group.members) // stream.batch_size),
                chains=int(stream.streams[code]),
            )
            for code, (group, (picked, scores, distances, objective)) in enumerate(
                zip(groups, found, strict=True)
            )
        ]

    def _sampled(self, groups: list[Group], target: Any) -> list[Center] | None:
        """Return the geometric medians of samples of the groups, certified on all their rows, if wanted."""
        if self.sample is None or not (isinstance(target, str) and target == "geometric-median"):
            return None
        members = [(group.members, (*group.seed, _SAMPLE_SEED)) for group in groups]
        return sampled_medians(self._as_matched(groups[0].source), members, group_codes(groups), self.sample)

    def _streams(self, groups: list[Group]) -> IntArray:
        """Return into how many chains each group is split."""
        sizes = np.array([len(group.members) for group in groups])
        if self.streams == "auto":
            return -(-sizes // _AUTO_STREAM_ROWS)
        # Chains beyond the number of batches would have none.
        batches: IntArray = -(-sizes // self._rows_per_batch())
        return batches.clip(max=self.streams)

    def _rows_per_batch(self) -> int:
        assert self.batch_size is not None
        return AUTO_BATCH if self.batch_size == "auto" else self.batch_size

    def _theta(self, center: npt.NDArray[np.float64], group: Group) -> npt.NDArray[np.float64]:
        """Return theta after the picks that a group begins with, if there are any."""
        theta = self._start(center, group.seed)
        if group.before is not None:
            theta = theta - (group.before.total - group.before.count * center)
        return theta if group.total is None else theta - (group.total - len(group.first) * center)

    def _start(self, center: npt.NDArray[np.float64], seed: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Return theta before the first pick of a group."""
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
