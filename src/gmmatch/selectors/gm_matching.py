"""GM Matching: rows whose mean matches a robust centre of their class."""

from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..compute.blocks import core_count, map_in_order
from ..compute.keys import Keys
from ..compute.passes import engine_for
from ..compute.reading import announced
from ..data import MappedRows
from ..errors import InvalidInputType, InvalidParameter
from ..location.centers import CENTERS, find_center
from ..matching.budgets import split
from ..matching.candidates import GRAM_BYTES
from ..matching.cells import cell_count, find_cells, light_cells
from ..matching.features import MatchedRows, check_lift, unit_rows
from ..matching.greedy import Matching, Step, match, match_in_parts
from ..matching.objectives import running_objective
from ..matching.refine import swap
from ..matching.stream import Stream
from ..matching.targets import sampled_medians, saved_centers, stream_centers
from ..progress import task
from ..records import FloatArray, IntArray
from ..trust import FEWEST_ROWS, TRUSTED, Verdict, judge
from ..trust.guard import Recall, make_now
from ..validation import check_choice, check_keep, check_positive_int, check_vector
from .base import Selector
from .bundled import MatchBundle, median_of_two, name_of
from .groups import Center, Group, Picks, bundles, group_codes, known_means

AUTO_BATCH = 256
WHOLE_ROWS = 1 << 13  # of a class that is matched whole at most: its Gram matrix, in float32, has 256 MB

_AUTO_STREAM_ROWS = 1 << 20
_SIDE_BY_SIDE_BYTES = 1 << 30  # of all groups that are matched at the same time
# These keep random starts, parts and samples apart from whatever else is drawn with a group's seed.
_START_SEED, _PARTS_SEED, _SAMPLE_SEED = 1, 2, 3
STEPS = ("residual", "projection")
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
        paper's text: the row with the largest inner product with it.
    center
        `geometric-median`, `mean`, `huber`, `concentrated`, `coordinate-median`, a point, or a mapping
        from class to point. `auto` is the mean of the trusted rows of a class where rows are compared by
        label-aware or lifted features, which needs labels and the guard, and the class has the 8 rows that
        the gate needs; elsewhere it is the geometric median.
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
        trusted rows spread in fewer than 16 directions, or the lifted head judges labels better than the
        linear one.
    cells
        With the guard and without labels: into how many groups the rows are divided by k-means, each to be
        matched as a class would be; `off`: all rows are one cloud. `auto`: 2.5 times as many as picks, at
        most a third of the rows, or 4,096 where rows are more than 65,536. The heaviest cells come first, and
        rows of cells lighter than a tenth of the ordinary one last.
    sample
        Fraction or count of the rows of each class that its geometric median is found on, where that is the
        target, in memory and in batches alike; one more read certifies it on all rows. None: all rows.
    refine
        How many swaps follow the picks of a class, each of one pick for the row that brings their mean
        closest to the centre. The first k are then not a budget of k; classes in batches cannot have it.

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
    centers = ("auto", *CENTERS)

    step: Step = "residual"
    center: Any = "auto"
    start: Any = None
    normalize: str = "none"
    batch_size: int | Literal["auto"] | None = "auto"
    streams: int | Literal["auto"] = "auto"
    lift: int | Literal["auto", "off"] = "auto"
    cells: int | Literal["auto", "off"] = "auto"
    sample: float | int | None = None
    refine: int = 0
    guard: str = "auto"

    def _check(self) -> None:
        check_choice(self.step, STEPS, "step")
        check_choice(self.normalize, NORMALIZE, "normalize")
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
        if isinstance(self.refine, bool) or not isinstance(self.refine, int) or self.refine < 0:
            raise InvalidParameter(f"refine must be a count of swaps, 0 for none; got {self.refine!r}")

    def _wants_features(self) -> bool:
        # A centre or a start that is a vector is one in the rows' own coordinates, and so is unit length.
        given = not isinstance(self.center, str) or not (self.start is None or isinstance(self.start, str))
        return not given and self.normalize == "none"

    def _lift(self) -> str | int:
        return self.lift

    def _finds_cells(self, groups: list[Group]) -> bool:
        return groups[0].label is None and self.cells != "off" and self._wants_features()

    def _judge(self, groups: list[Group], seed: int, keys: Keys | None, recall: Recall = make_now) -> Verdict:
        if not self._finds_cells(groups):
            return super()._judge(groups, seed, keys, recall)
        codes, source = group_codes(groups), groups[0].source
        return judge(source, codes, 1, seed, labelled=False, one_cloud=False, keys=keys, recall=recall)

    def _divide(self, groups: list[Group], k: int, verdict: Verdict) -> tuple[list[Group], Verdict]:
        """Divide rows without labels into cells; rows of light cells are left to the last tier."""
        if not self._finds_cells(groups):
            return groups, verdict
        whole = groups[0]
        trusted = np.zeros(len(verdict.tiers), dtype=bool)
        trusted[whole.members] = verdict.tiers[whole.members] == TRUSTED
        count = cell_count(self.cells, k, int(trusted.sum()))
        codes = find_cells(whole.source, trusted, verdict.keys, count, whole.seed[0])
        outside = whole.members[codes[whole.members] < 0]
        parts = split(codes[trusted], int(codes.max()) + 1)
        numbers = np.flatnonzero(trusted)
        cells = [
            replace(whole, members=numbers[part], seed=(*whole.seed, code), n_classes=len(parts))
            for code, part in enumerate(parts)
        ]
        if len(outside):
            cells.append(
                replace(whole, members=outside, seed=(*whole.seed, len(parts)), n_classes=len(parts))
            )
        return cells, verdict.with_light(light_cells(codes))

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
        state = Matching.begin(center, self._theta(center, group.seed))
        parts = self._parts(group)
        if len(parts) > 1:
            order, scores, distances = match_in_parts(rows, k, state, self.step, parts)
        else:
            order, scores, distances = match(rows, k, state, self.step, gram_bytes)
        if self.refine:
            order, _ = swap(rows, center, order, self.refine)
            scores, distances = running_objective(rows, order, center)
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
        few = np.array([target is not targets[0] for target in targets])
        picks: list[Picks | None] = [None] * len(groups)
        for chosen in (small & ~few, small & few, ~small):
            places = np.flatnonzero(chosen)
            if len(places):
                some, shares = [groups[place] for place in places], budgets[places]
                way = self._side_by_side if small[places[0]] else self._stream
                # What is matched in batches has one target, that of the smallest class.
                least = min(places, key=lambda place: len(groups[place].members))
                for place, found in zip(places, way(some, shares, targets[least]), strict=True):
                    picks[place] = found
        return [found for found in picks if found is not None]

    def _side_by_side(self, groups: list[Group], budgets: IntArray, target: Any) -> list[Picks]:
        """Match several groups at a time, as many as fit in memory, the cores shared among them."""
        rows = groups[0].source
        known = self._sampled(groups, target) or known_means(target, groups)
        work = list(bundles(groups, budgets, known))
        # A copy without what `fit` found: only the parameters are needed elsewhere.
        gram_bytes = GRAM_BYTES if self._memory is None else min(GRAM_BYTES, self._memory // 2)
        match = MatchBundle(type(self)(**self.get_params(deep=False)), rows, target, gram_bytes)
        engine = engine_for(rows)
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
        if self.refine:
            raise InvalidParameter("refine needs all rows of a class at once; these are matched in batches")
        codes = group_codes(groups)
        if codes is None:
            codes = np.zeros(len(groups[0].source), np.int64)
        rows = self._as_matched(groups[0].source)
        seed = groups[0].seed[0]
        checkpoint = self._checkpoint
        saved = checkpoint.load() if checkpoint else None
        labels, seeds = [group.label for group in groups], [group.seed for group in groups]
        known = self._sampled(groups, target) or known_means(target, groups)
        centers = saved_centers(saved) or stream_centers(target, rows, codes, labels, seed, known)
        if checkpoint and saved is None:
            checkpoint.save(centers.arrays())
        stream = Stream(
            rows=rows,
            codes=codes,
            centers=centers.points,
            starts=np.stack([self._theta(*pair) for pair in zip(centers.points, seeds, strict=True)]),
            budgets=budgets,
            step=self.step,
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
                reads=centers.passes + 1,
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

    def _theta(self, center: npt.NDArray[np.float64], seed: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Return theta before the first pick of a group."""
        start = self.start
        if start is None:
            start = "zero" if self.step == "residual" else "center"
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
