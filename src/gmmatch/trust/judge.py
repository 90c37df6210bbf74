"""Judging rows: which labels seem wrong, which rows lie outside their class, and which rows to believe.

A sample of the rows, drawn by their values and held in memory (all rows, where they are few), teaches what
rows are judged by: centres and limits of the classes, a classifier of the labels, a noise model. One read
then judges every row and adds up the believed ones of each class. What is kept is O(rows) numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..arrays import AnyArray, FloatArray, IntArray, Keys, Mask, Rows, Vector
from ..compute import kernels
from ..compute.blocks import map_in_order, present_groups, turns
from ..compute.keys import draw_order, draw_usable, row_keys
from ..compute.reads import EachRow
from ..compute.runner import (
    PerRow,
    count_reads,
    gather,
    hold_rows,
    run_read,
    runner_of,
    take_rows,
    with_runner,
)
from ..data import ViewOf
from ..facts import SURELY_RIGHT, WRONG, Evidence
from ..location.centers import coordinate_median
from ..location.distances import group_distances
from ..location.geometric_median import group_medians
from .classifiers import (
    Classifier,
    Reduced,
    Taught,
    choose,
    fit,
    fit_with_reference,
    left_out_loss,
    too_large,
)
from .evidence.duplicate import find_copies
from .evidence.place import SURE_REACH, Limits, find_gate
from .inputs import Inputs
from .noise import (
    MANY_CLASSES,
    STRAY,
    LabelVerdict,
    NoiseModel,
    fit_noise,
    fitted_rows,
    noise_bytes,
    outside_of_all,
    stray_share,
)

TRUSTED, UNLIKELY_LABEL, OUTSIDE = 0, 1, 2
TIERS = ("trusted", "unlikely label", "outside its class")
"""Names of the tiers, in the order in which rows are picked from them."""

_SAMPLE_ROWS, _SAMPLE_WORK = 1 << 15, 1 << 38
_ROWS_PER_FEATURE, _ROWS_PER_CLASS = 4, 128
_ORIGIN_ROWS = 4096
_OUT_OF_SIGHT = 1e3  # times the median distance: rows beyond say nothing of where the others are
_MANY_WRONG = 0.05  # share of labels of another class from which the classifier is fitted again without them
_MOST_WRONG = 0.5  # beyond which what seems wrong says more of how classes overlap
_LEAST_WEIGHT = 0.02  # of a row in the second fit, however wrong its label seems
_CATEGORIES = 0.25  # share of rows with duplicates under other labels from which duplicates are no copies
_ONE_GROUP = 0.05  # of the rows: what a group of duplicates counts at most there
_FOLDS = 5  # of rows that belong together
_ROOT_SCORE = 5.0  # of roots of probabilities; 3 to 6 are level on ten sets
_CLOSE = 1e-3  # to a probability that decides: single precision does not tell on which side
_SURE = 0.1  # probability of being wrong below which a label speaks for the place of its row
_MOST_NOISE_BYTES = 4 << 30
_FEWEST_ROWS = 5  # with labels, below which nothing can be learned
_LEAST_SAID = 0.2  # what then is left of the probability that a label is wrong
_LITTLE_KNOWN = 0.02  # gain over guessing by class size, as a share of it, below which rows say little

_DECIDING = WRONG, _SURE, SURELY_RIGHT

Recall = Callable[[str, Callable[[], Any]], Any]
"""Returns what a run before finished under a name, or what the function makes."""


def make_now(name: str, make: Callable[[], Any]) -> Any:
    """Recall nothing."""
    return make()


@dataclass(frozen=True, eq=False)
class Known:
    """What the user knows of the labels beside the rows themselves."""

    # Class probabilities of all rows by a model of the user's, in the order of the classes.
    probabilities: FloatArray | None = None
    # Rows whose labels are known to be right, and the class of each.
    reference: FloatArray | None = None
    reference_codes: IntArray | None = None
    # Number of the group of each row (patient, user, video), from 0: rows of one group are judged by
    # classifiers that learned from none of it. Beside a reference, groups are not looked at.
    groups: IntArray | None = None

    def folds(self, seed: int) -> IntArray | None:
        """Return the fold of each row, all rows of a group in one; None without two groups or more."""
        if self.groups is None or self.reference is not None:
            return None
        names, place = np.unique(self.groups, return_inverse=True)
        if len(names) < 2:
            return None
        found: IntArray = (np.random.default_rng([seed, 0x666F6C]).permutation(len(names)) % _FOLDS)[place]
        return found

    def recipe(self) -> dict[str, str]:
        """Return digests of what is known, by name: a saved state belongs to one of them."""
        return {
            name: hashlib.blake2b(np.ascontiguousarray(values).tobytes(), digest_size=8).hexdigest()
            for name, values in vars(self).items()
            if values is not None
        }


class Division(Protocol):
    """Clusters that were found in a sample of rows without labels, by place in an order of theirs."""

    @property
    def alone(self) -> Mask:
        """Rows of the sample that are in none."""

    def block_rows(self, n_features: int) -> int:
        """Return how many rows to assign at once."""

    def ready(self, kind: npt.DTypeLike) -> Callable[[FloatArray], npt.NDArray[np.int32]]:
        """Return the function that assigns blocks of rows of one type to clusters."""

    def join(self, chosen: IntArray) -> IntArray:
        """Return for each cluster the nearest of some clusters, as a place among these."""


Divide = Callable[[FloatArray, Keys, Mask, int], Division]
"""Finds clusters among rows in memory, by their hashes, which of them are usable, and a seed."""


@dataclass(frozen=True, eq=False)
class Rules:
    """What the sample taught."""

    origin: Vector  # middle of the rows, and their typical distance to it
    scale: float
    limits: Limits  # centres of the classes, and how far their rows reach
    clusters: Division | None = None  # where rows have no labels, and are not one cloud
    # The classifier and the noise model; None where labels are not judged, and no classifier where the
    # caller has class probabilities.
    classifier: Classifier | None = None
    noise: NoiseModel | None = None
    leverage: FloatArray = field(default_factory=lambda: np.empty(0, np.float32))  # of each sample row
    thin: Mask = field(default_factory=lambda: np.empty(0, bool))  # classes of a single distinct row
    losses: Mapping[str, float] = field(default_factory=dict)  # of each kind of classifier that was tried
    known: float = 1.0  # how much better than guessing the classifier is, from 0 to 1
    stray: float = STRAY  # probability that a row far outside every class belongs to none
    rounds: int = 1  # how often the classifier was fitted


@dataclass(frozen=True, eq=False)
class Verdict:
    """What was found of every row."""

    tiers: npt.NDArray[np.int8]  # 0 (trusted), 1 (unlikely label) or 2 (outside its class)
    # Distance of each row to the centre of its class, whether it is far outside, or in a dense cluster.
    distances: Vector
    far: Mask
    clumped: Mask
    labels: LabelVerdict | None  # None where labels are not judged
    rules: Rules
    leverage: FloatArray  # of each row in the classifier, if there is one
    keys: Keys  # hashes of the rows, by which samples are drawn
    reason: str | None = None  # why labels are not judged; None where they are
    notes: tuple[str, ...] = ()  # what users should know of the verdict, a sentence each
    # By class, then over all classes: rows judged, the share of wrong labels, its least and its most.
    estimate: Vector | None = None
    clusters: npt.NDArray[np.int32] | None = None  # of each row, where clusters were found; -1: none
    light: Mask | None = None  # trusted rows of no cluster, where rows without labels were divided
    sample: int | None = None  # how many rows were learned from; None: all of them
    means: Vector | None = None  # of the believed rows of each class; NaN where there are none
    reads: int = 0  # how often all rows were read

    @property
    def thresholds(self) -> Vector:
        """Distance to its centre that each class allows."""
        return self.rules.limits.thresholds

    def with_light(self, light: Mask) -> Verdict:
        """Return the verdict that trusted rows of no cluster are outside as well."""
        return replace(
            self, tiers=np.where(light & (self.tiers == TRUSTED), OUTSIDE, self.tiers), light=light
        )

    def class_probabilities(self, rows: FloatArray, codes: IntArray) -> Vector:
        """Return the class probabilities of all rows, each by a classifier that did not learn from it."""
        from scipy.special import softmax

        assert self.rules.classifier is not None
        scores = self.rules.classifier.scores(rows, codes, self.leverage)
        found: Vector = softmax(scores.astype(np.float64), axis=1).round(9)
        return found

    def evidence(self, codes: IntArray | None) -> Evidence:
        """Return what speaks against each row; `codes` are those that were judged."""
        code = np.zeros(len(self.tiers), np.int64) if codes is None else codes
        # Rows beyond what the class allows that are not far have a label that is sure.
        sure = ~(self.far | self.clumped) & (self.distances > self.thresholds[code])
        reach = self.distances + self.thresholds[code] * np.where(sure, SURE_REACH, 1.0)
        outlier = np.divide(self.distances, reach, out=np.zeros(len(code)), where=(reach > 0) & (code >= 0))
        nothing = np.zeros(len(code), np.float32)
        columns = nothing, code.astype(np.int32), nothing, nothing
        if self.labels is not None:
            columns = self.labels.wrong, self.labels.suggested, self.labels.likely, self.labels.outside
        place = outlier.astype(np.float32), self.far, self.clumped
        return Evidence(self.tiers, *columns, *place, self.labels is not None, self.light, self.estimate)

    def summary(self) -> dict[str, Any]:
        """Return what was judged and why, as plain data; rows that take no part are in no tier."""
        outside = self.far | self.clumped | (False if self.light is None else self.light)
        counts = np.bincount(self.tiers[(self.tiers != OUTSIDE) | outside], minlength=len(TIERS)).tolist()
        limits = self.thresholds[np.isfinite(self.thresholds)]
        found: dict[str, Any] = {
            "mode": "auto",
            "tiers": dict(zip(TIERS, counts, strict=True)),
            "gate": {
                "rule": "distance to the class centre at most median + 3 * 1.4826 * MAD; no clumps",
                "far": int(self.far.sum()),
                "clumped": int(self.clumped.sum()),
                "thresholds": [float(limits.min()), float(limits.max())] if limits.size else None,
                "classes_too_small": int(len(self.thresholds) - limits.size),
            },
            "sample": self.sample,
            "reads": self.reads,
            "notes": list(self.notes),
        }
        if self.labels is None or self.rules.noise is None:
            return found | {"labels": {"used": False, "reason": self.reason}}
        noise, own = self.rules.noise, self.rules.classifier
        classifier = "given" if own is None else "kernel" if own.kernel else "linear"
        judged = self.estimate[-1].tolist() if self.estimate is not None else [0.0, 0.0, 0.0, 0.0]
        return found | {
            "labels": {
                "used": True,
                "rule": f"the probability that the label is wrong is at least {WRONG}",
                "rounds": self.rules.rounds,
                "unlikely": int((self.labels.wrong >= WRONG).sum()),
                "classifier": classifier,
                "losses": dict(self.rules.losses),
                "known": round(self.rules.known, 4),
                "sharpness": {
                    str(k): round(float(w), 4) for k, w in zip(noise.sharpness, noise.weights, strict=True)
                },
                "estimate": round(judged[1], 6),
                "interval": [round(judged[2], 6), round(judged[3], 6)],
            }
        }


def sample_size(n_features: int, n_classes: int) -> int:
    """Return from how many rows is learned, where there are more.

    32,768 rows, fewer where their Gram matrix would take more than 2^38 multiply-adds. A classifier has a
    weight per feature and class: there are at least 4 rows for each feature and 128 for each class, set by
    reason.

    >>> sample_size(512, 10), sample_size(4096, 10), sample_size(512, 1000)
    (32768, 16384, 128000)
    """
    enough = min(_SAMPLE_ROWS, _SAMPLE_WORK // n_features**2)
    return max(enough, _ROWS_PER_FEATURE * n_features, _ROWS_PER_CLASS * n_classes)


def judge(
    rows: Rows,
    codes: IntArray | None,
    n_classes: int,
    seed: int,
    labelled: bool = True,
    divide: Divide | None = None,
    keys: Keys | None = None,
    recall: Recall = make_now,
    known: Known | None = None,
) -> Verdict:
    """Judge which rows to believe.

    `rows`: rows; slices and small sorted gathers are read. `codes`: given class of each row, none empty;
    None: all rows are of one class. Rows of a negative class take no part; their values may be anything.
    `n_classes`: number of classes; 1 without labels. `seed`: seed of the hashes by which samples are drawn.
    `labelled`: whether the classes are labels that may be wrong; if not, distances alone decide. `divide`:
    what finds the clusters of rows without labels, of which then only gross outliers are outside; None: the
    rows of a class are one cloud. `keys`: hashes of the rows by this seed, from `row_keys`, where they are
    known already. `recall`: what keeps `learned`, the work of seconds, across a kill. `known`: what
    the user knows of the labels.

    Deterministic, and a function of the rows' values alone: another order of the rows gives the same
    tiers in that order. Time: one read of all rows, O(rows * features * classes), beside one for hashes
    where they are not known, and O(sample * features^2) in BLAS, with the sample of `sample_size`. Memory
    beyond the input: the sample, that of the classifier, and some 50 bytes per row.
    """
    known = known or Known()
    usable = np.ones(len(rows), dtype=bool) if codes is None else codes >= 0
    reason = _too_little(rows.shape[1], codes, n_classes, known) if labelled else "no labels"
    code = np.zeros(len(rows), np.int64) if codes is None else codes
    rows = with_runner(rows)
    with count_reads(rows) as counter:
        if not usable.all():
            rows = UsableRows(rows, usable)
        hashes = row_keys(rows, seed) if keys is None else keys
        drawn = _draw_sample(hashes, codes, usable, sample_size(rows.shape[1], n_classes))
        sample = np.flatnonzero(usable) if drawn is None else drawn
        if drawn is None:
            rows = hold_rows(rows)
        else:
            runner_of(rows).count.gathered += len(drawn)

        def learned() -> Rules:
            part, own = take_rows(rows, sample), None if codes is None else codes[sample]
            every = _Sample(part, own, n_classes, hashes[sample], sample, known, seed)
            return every.learn(reason is None, divide)

        rules = recall("learned", learned)
        leverage, folds = np.zeros((len(rows), *rules.leverage.shape[1:]), np.float32), known.folds(seed)
        if rules.classifier is not None and folds is not None:
            leverage = folds.astype(np.float32)
        elif len(rules.leverage):
            leverage[sample] = rules.leverage
        read = Judge(rules, code, leverage, known, rows)
        distances, far, clumped, *rest = run_read(rows, read)
    labels = None if rules.noise is None else LabelVerdict(*rest)
    clusters = None if rules.clusters is None else rest[0]
    far, clumped = far & usable, clumped & usable
    tiers = np.where(~(far | clumped) & usable, TRUSTED, OUTSIDE).astype(np.int8)
    if labels is not None:
        tiers[(tiers == TRUSTED) & (labels.wrong >= WRONG)] = UNLIKELY_LABEL
    if rules.clusters is not None and clusters is not None:
        clusters[sample[rules.clusters.alone]] = -1
    found = Verdict(tiers, distances, far, clumped, labels, rules, leverage, hashes, reason)
    return replace(
        found,
        notes=_notes(tiers, labels, code, rules, n_classes),
        estimate=None if labels is None else _estimate(labels, code, rules),
        sample=None if drawn is None else len(drawn),
        means=read.means,
        clusters=clusters,
        reads=counter.reads,
    )


@dataclass(frozen=True, eq=False)
class _Sample:
    """Rows in memory that all is learned from."""

    rows: FloatArray
    codes: IntArray | None
    n_classes: int
    keys: Keys
    numbers: IntArray  # of the rows, ascending, among all
    known: Known
    seed: int

    def learn(self, judged: bool, divide: Divide | None) -> Rules:
        """Return limits, then clusters, or what judges labels if they are `judged`."""
        gate = partial(find_gate, self.rows, self.codes, self.n_classes, self.keys, divide is None)
        copies = self._stand_ins if judged else lambda: None
        work: list[Callable[[], Any]] = [copies, gate, partial(_origin, self.rows, self.keys)]
        with threadpool_limits(1):
            stands, limits, (origin, scale) = map_in_order(lambda do: do(), work)
        if judged and stands is None:  # in a table of few categories cells of many rows are no fault
            limits = gate(clumps=False)
        rules = Rules(origin, scale, limits)
        if divide is not None:
            inside = ~limits.judge(self.rows, np.zeros(len(self.rows), np.int64))[1]
            return replace(rules, clusters=divide(self.rows, self.keys, inside, self.seed))
        if not judged or self.codes is None:
            return rules
        stands = np.arange(len(self.rows)) if stands is None else stands
        return self._learn_labels(rules, self.codes, stands)

    def _learn_labels(self, rules: Rules, codes: IntArray, stands: IntArray) -> Rules:
        """Add the classifier and the noise model, in one round or two.

        `stands`: of near-duplicates with the same label one teaches, and all are judged as it is: however
        often a row is there, it counts once and never speaks for itself.
        """
        rows, n_classes, known, order = self.rows, self.n_classes, self.known, draw_order(self.keys)
        if known.probabilities is not None:
            some = order[: fitted_rows(n_classes)]
            noise = fit_noise(root_scores(known.probabilities[self.numbers[some]]), codes[some])
            return replace(rules, noise=noise, thin=np.zeros(n_classes, bool))
        distances, far, clumped = rules.limits.judge(rows, codes)
        # Rows in the long tail of their class teach; those that are where another class is, or no class, do
        # not.
        with threadpool_limits(1):
            strays, misplaced = rules.limits.misplaced(rows, codes, far, distances)
        first = stands == np.arange(len(codes))
        teaching, folds = first & ~(misplaced | clumped), known.folds(self.seed)
        thin = np.bincount(codes[teaching], minlength=n_classes) < 2
        own_folds = None if folds is None else folds[self.numbers]
        # The noise model sees rows outside their class too: wrong labels are among them. Rows far outside
        # every class say nothing of the labels.
        some = order[(first & ~strays)[order]][: fitted_rows(n_classes)]
        order = order[teaching[order]]
        inputs, given, reference = Inputs(rules.origin, rules.scale), codes[some], known.reference
        reduced = Reduced.of(rows, order, inputs, self.seed)
        if reduced is not None:
            rows, inputs = reduced(rows), reduced.own_inputs
            reference = None if reference is None else reduced(reference)
        taught = Taught(rows, codes, n_classes, teaching.astype(np.float64), own_folds)
        best, losses = choose(taught, order, inputs, self.seed)
        if reference is not None and known.reference_codes is not None:
            classifier, leverage, count = fit_with_reference(taught, best, reference, known.reference_codes)
            noise = fit_noise(classifier.scores(rows[some], given, leverage[some]), given, pooled=True)
            losses, thin = {"reference": round(classifier.loss, 3), "weight of a row": count}, 0 * thin > 0
            loss, rounds = classifier.loss, 1
        else:
            classifier, leverage, noise, loss, rounds = _learn_in_rounds(taught, best, order, some)
        guessing, away = float(np.log(max(2, len(np.unique(given))))), codes[strays]
        found = noise.judge(classifier.scores(rows[strays], away, leverage[strays]), away)
        return replace(
            rules,
            classifier=classifier if reduced is None else reduced.widen(classifier),
            noise=noise,
            leverage=leverage[stands],
            thin=thin,
            losses=losses,
            known=max(0.0, 1.0 - loss / guessing),
            stray=stray_share(found.evidence, noise.frequency[away]),
            rounds=rounds,
        )

    def _stand_ins(self) -> IntArray | None:
        """Return for each row the first of its near-duplicates with the same label, itself where it has none.

        None: rows that are alike are no copies of one another, but rows of a table of few categories, and
        how often each label is given to them is what there is to learn. So it is where many rows have
        duplicates under other labels, and not just a few large groups of them.
        """
        assert self.codes is not None
        codes, stands = self.codes, np.arange(len(self.rows))
        found = find_copies(self.rows, self.keys, np.ones(len(stands), bool)).groups
        members = np.flatnonzero(found >= 0)
        if len(members):
            pairs = found[members] * (int(codes.max()) + 1) + codes[members]
            _, first, place = np.unique(pairs, return_index=True, return_inverse=True)
            several = np.bincount(found[members[first]]) > 1
            sizes = np.minimum(np.bincount(found[members]), max(1.0, _ONE_GROUP * len(codes)))
            if float(sizes[several].sum()) > _CATEGORIES * len(codes):
                return None
            stands[members] = members[first][place]
        return stands


def _learn_in_rounds(
    taught: Taught, like: Classifier, order: IntArray, some: IntArray
) -> tuple[Classifier, FloatArray, NoiseModel, float, int]:
    """Fit a classifier and a noise model, and again with rows weighed by it where many labels are wrong.

    Returns the two, the leverage of each row, the loss of the first classifier on `some` rows, which the
    noise model is fitted to, and the number of rounds.
    """
    rows, codes, given = taught.rows, taught.codes, taught.codes[some]
    classifier, leverage = fit(taught, like, order)
    scores = classifier.scores(rows[some], given, leverage[some])
    noise, loss = fit_noise(scores, given), left_out_loss(scores, given, taught.n_classes)
    found = noise.judge(scores, given)
    if not _MANY_WRONG < float(np.mean(found.wrong - found.outside)) <= _MOST_WRONG:
        return classifier, leverage, noise, loss, 1
    step = classifier.block_rows

    def judged(start: int) -> FloatArray:
        own = slice(start, start + step)
        return noise.judge(classifier.scores(rows[own], codes[own], leverage[own]), codes[own]).wrong

    with threadpool_limits(1):
        wrong = np.concatenate(list(map_in_order(judged, range(0, len(rows), step))))
    weighed = replace(taught, weights=taught.weights * np.maximum(1.0 - wrong, _LEAST_WEIGHT))
    classifier, leverage = fit(weighed, classifier, order)
    noise = fit_noise(classifier.scores(rows[some], given, leverage[some]), given)
    return classifier, leverage, noise, loss, 2


class Judge(EachRow):
    """Read 2: judge every row, and add up the believed ones of each class or find its cluster.

    Sums are in float64, over blocks of a fixed size, added in the order of the rows.
    """

    def __init__(self, rules: Rules, codes: IntArray, leverage: FloatArray, known: Known, rows: Rows) -> None:
        step = None if rules.classifier is None else rules.classifier.block_rows
        if rules.clusters is not None:
            step = rules.clusters.block_rows(rows.shape[1])
        super().__init__("judging rows", self._judge, step, products=True)
        self._assign = None if rules.clusters is None else rules.clusters.ready(rows.dtype)
        self._rules, self._codes, self._leverage = rules, PerRow(codes), PerRow(leverage)
        self._given = PerRow(known.probabilities)
        self._counts = np.zeros(len(rules.limits.centers), np.int64)
        self._totals = np.zeros(rules.limits.centers.shape)

    def _judge(self, block: slice, values: FloatArray) -> tuple[AnyArray, ...]:
        rules, code = self._rules, self._codes[block]
        distances, far, clumped = place = rules.limits.judge(values, code)
        if rules.noise is None:
            return place if self._assign is None else (*place, self._assign(values))
        strays = rules.limits.strays(values, code, far, distances)
        labels = self._judge_labels(block, values, strays)
        # A label that is sure speaks for the place of its row.
        far &= (labels[0] >= _SURE) | (distances > SURE_REACH * rules.limits.thresholds[code])
        passed = ~(far | clumped) & (code >= 0)
        believed = np.where(passed & (labels[0] < WRONG), code, -1)
        present, among = present_groups(believed, len(self._counts))
        sums, counts = kernels.group_sums(values, among, len(present))
        return *place, *labels, present, counts.astype(np.int64), sums

    def _judge_labels(self, block: slice, values: FloatArray, strays: Mask) -> tuple[AnyArray, ...]:
        """Return the columns of `LabelVerdict` for a block; rows of a negative class have zeros.

        `strays`: rows far outside every class, of which a classifier knows nothing.
        """
        rules, taken, code = self._rules, self._codes[block] >= 0, np.maximum(self._codes[block], 0)
        assert rules.noise is not None
        if rules.classifier is None:  # what the user's model reads is not these numbers
            given = self._given[block]
            found, strays = rules.noise.judge(root_scores(given), code), np.zeros_like(strays)
            probability = given[np.arange(len(code)), code]
        else:
            leverage = self._leverage[block]
            scores = rules.classifier.scores(values, code, leverage)
            found = rules.noise.judge(scores, code)
            if scores.dtype == np.float32:  # where single precision may have decided, double precision does
                near = [np.abs(found.wrong - share) < _CLOSE for share in _DECIDING]
                close = np.flatnonzero(np.logical_or.reduce(near))
                exact = rules.classifier.scores(values[close], code[close], leverage[close], np.float64)
                found = found.with_rows(close, rules.noise.judge(exact, code[close]))
            probability = found.probability
        # Where the rows say little about the labels, their order stands, and they are believed.
        weight = min(1.0, max(_LEAST_SAID, rules.known / _LITTLE_KNOWN))
        away = strays * outside_of_all(rules.stray, found.evidence, rules.noise.frequency[code])
        left = weight * (1.0 - away)
        # A class of a single row has no other to compare it with: its label is believed.
        taken &= ~rules.thin[code]
        columns = away + left * found.wrong, left * found.likely, away + left * found.outside
        wrong, *others = (np.where(taken, part, 0.0).astype(np.float32) for part in columns)
        rest = probability.astype(np.float32), found.evidence.astype(np.float32)
        return wrong, found.suggested.astype(np.int32), *others, *rest

    def add(self, part: tuple[AnyArray, ...]) -> None:
        """Take what was found in the next block."""
        if self._rules.noise is not None:
            *part_columns, present, counts, sums = part
            self._counts[present] += counts
            self._totals[present] += sums
            part = tuple(part_columns)
        super().add(part)

    @property
    def means(self) -> Vector | None:
        """The mean of the believed rows of each class; None where labels were not judged."""
        with np.errstate(invalid="ignore"):
            return None if self._rules.noise is None else self._totals / self._counts[:, None]


def root_scores(probabilities: FloatArray) -> Vector:
    """Return scores of classes from their probabilities by a model of the user's.

    A model that learned from wrong labels foretells them as well as the right ones: by logarithms its own
    probabilities would explain all labels, and none would seem wrong. Roots leave that to the noise model.
    """
    scores: Vector = _ROOT_SCORE * np.sqrt(np.asarray(probabilities, np.float64))
    return scores


def _estimate(labels: LabelVerdict, codes: IntArray, rules: Rules) -> Vector:
    """Return by class, then over all: rows judged, the share of wrong labels, its least and its most."""
    assert rules.noise is not None
    n_classes = len(rules.limits.centers)
    judged = codes >= 0
    sizes = np.bincount(codes[judged], minlength=n_classes).astype(np.float64)
    wrong = np.bincount(codes[judged], labels.wrong[judged], n_classes)
    sizes, wrong = np.append(sizes, sizes.sum()), np.append(wrong, wrong.sum())
    share = wrong / np.maximum(sizes, 1.0)
    low, high = share - rules.noise.spread[:, 0], share + rules.noise.spread[:, 1]
    if rules.known < _LITTLE_KNOWN:  # whatever the share, the rows would look the same
        low, high = np.zeros_like(low), np.ones_like(high)
    return np.stack([sizes, share, np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)], axis=1)


def _notes(
    tiers: npt.NDArray[np.int8], labels: LabelVerdict | None, codes: IntArray, rules: Rules, n_classes: int
) -> tuple[str, ...]:
    """Say what of the verdict users should not overlook."""
    if labels is None:
        return ()
    notes = []
    if rules.known < _LITTLE_KNOWN:
        notes.append(
            "the rows say little about the labels (a classifier is hardly better than guessing), so wrong"
            " labels can hardly be found"
        )
    judged = codes >= 0
    sizes = np.bincount(codes[judged], minlength=n_classes)
    believed = np.bincount(codes[judged & (tiers == TRUSTED)], minlength=n_classes)
    poor = int((2 * believed < sizes).sum())
    if int(believed.sum()) * 10 < int(sizes.sum()):
        notes.append(
            f"only {int(believed.sum()):,} of {int(sizes.sum()):,} rows are believed; check the labels, or"
            " pass rows that are known to be right as a reference"
        )
    elif poor:
        notes.append(f"in {poor:,} of {n_classes:,} classes fewer than half of the rows are believed")
    return tuple(notes)


def _draw_sample(keys: Keys, codes: IntArray | None, usable: Mask, size: int) -> IntArray | None:
    """Return the rows to learn from, drawn by their values, in the order of the file; None: all of them.

    Classes of which few rows were drawn give 256 rows (128 where classes are many), or all that they have.
    """
    if int(usable.sum()) <= size:
        return None
    n_classes = 0 if codes is None else int(codes.max()) + 1
    enough = _ROWS_PER_CLASS * (1 if n_classes > MANY_CLASSES else 2)
    drawn = draw_usable(keys, usable, size)
    if codes is not None:
        missing = enough - np.bincount(codes[drawn], minlength=n_classes)
        if (missing > 0).any():
            order = draw_order(keys)
            rest = order[usable[order]][size:]
            drawn = np.r_[drawn, rest[turns(codes[rest]) < missing[codes[rest]]]]
    return np.sort(drawn)


def _too_little(n_features: int, codes: IntArray | None, n_classes: int, known: Known) -> str | None:
    """Return why labels cannot be judged, or None if they can."""
    if codes is None or n_classes < 2:
        return "one class only"
    sizes = np.bincount(codes[codes >= 0], minlength=n_classes)
    if int(sizes.sum()) < _FEWEST_ROWS or (sizes < 2).all():
        return "there are too few rows to learn from"
    if known.probabilities is None and too_large(n_features, n_classes):
        return f"a classifier of {n_features} features and {n_classes} classes would take more than 4 GB"
    if noise_bytes(n_classes) > _MOST_NOISE_BYTES:
        return f"a noise model of {n_classes} classes would take more than 4 GB"
    return None


def _origin(rows: FloatArray, keys: Keys) -> tuple[Vector, float]:
    """Return the middle of the rows and their typical distance to it, from a sample."""
    sample = gather(rows, draw_order(keys)[:_ORIGIN_ROWS])
    distances = group_distances(sample, None, coordinate_median(sample)[None])
    reach = _OUT_OF_SIGHT * float(np.median(distances))
    if 0 < reach < distances.max():  # rows that are so far off say nothing of where the others are
        sample = sample[distances <= reach]
    origin = group_medians(sample, None, 1, 1e-4)[0].point
    distances = group_distances(sample, None, origin[None])
    scale = float(np.sort(distances)[len(distances) // 2]) or float(distances.mean()) or 1.0
    return origin, scale


class UsableRows(ViewOf):
    """Rows of which some must not be looked at: those read as zeros."""

    def __init__(self, rows: Rows, usable: Mask) -> None:
        super().__init__(rows)
        self.usable = PerRow(usable)

    def __getitem__(self, chosen: Any, /) -> FloatArray:
        read: FloatArray = np.array(self.rows[chosen])
        read[~self.usable[chosen]] = 0.0
        return read
